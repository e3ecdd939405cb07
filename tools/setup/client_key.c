/* SPDX-License-Identifier: BSD-3-Clause */
/* client_key.c - see client_key.h. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/memlock.h"
#include "tools/common/ask_server.h"
#include "tools/setup/client_key.h"
#include "transport/control/join.h"
#include "transport/tls/psk_file.h"
#include "transport/tls/psk_write.h"
#include "transport/tls/tls.h"

static int
fetch_from (struct client_key *k, const char *server,
            const struct fp_join_token *token, struct fp_error *error)
{
  struct fp_error reason;
  struct fp_addr addr;

  if (ask_parse (&addr, server, error) < 0)
    return -EINVAL;
  if (fp_join (&k->is, &addr, token, fp_deadline_in_ms (ASK_MS), &reason) < 0)
    return fp_fail (error, -EACCES, "%s: %s", server, reason.text);
  k->fetched = true;
  return 0;
}

static int
read_key (struct client_key *k, const char *path, struct fp_error *error)
{
  struct fp_psk_file *f;
  int r = fp_psk_file_read_tls (&f, path, error);

  if (r < 0)
    return r;
  r = fp_psk_file_only_user (f, k->is.user);
  if (r == 0 && strcmp (k->is.user, FP_PSK_ALL) == 0)
    r = -EINVAL;
  if (r == 0)
    r = fp_psk_file_key (f, k->is.user, k->is.key);
  fp_psk_file_free (f);
  if (r < 0)
    return fp_fail (error, r,
                    "%s: is not a key file with one user: give another file "
                    "with --key",
                    path);
  k->is.length = (uint16_t) r;
  return 0;
}

static int
fetch (struct client_key *k, const struct fp_join_token *token,
       const struct client_key_args *a, char *const servers[], int n,
       struct fp_error *error)
{
  int r = -EINVAL;

  if (access (a->path, F_OK) == 0) {
    r = read_key (k, a->path, error);
    if (r < 0 || strcmp (k->is.user, token->user) == 0)
      return r;
    return fp_fail (error, -EEXIST,
                    "this machine has joined already, as user %s: leave the "
                    "join token out, or give another file than %s with --key",
                    k->is.user, a->path);
  }
  for (int i = 0; i < n && !k->fetched; i++)
    r = fetch_from (k, servers[i], token, error);
  return r;
}

int
client_key_get (struct client_key **out, const struct client_key_args *a,
                char *const servers[], int n, struct fp_error *error)
{
  const bool has_token = a->token != NULL || a->token_file != NULL;
  struct fp_join_token token;
  struct client_key *k;
  void *p;
  int r;

  *out = NULL;
  if (!has_token && access (a->path, F_OK) < 0 && errno == ENOENT)
    return 0;
  r = has_token ? fp_join_read (&token, a->token, a->token_file, error) : 0;
  if (r < 0)
    return r;
  if (has_token && strcmp (token.user, FP_PSK_ALL) == 0)
    return fp_fail (error, -EINVAL,
                    "this join token is for a memory server: run "
                    "'farpage-memserver token' without --server");
  r = fp_secret_new (&p, sizeof *k);
  if (r < 0)
    return fp_fail (error, r,
                    "cannot lock memory for the key: %s: raise "
                    "RLIMIT_MEMLOCK",
                    strerror (-r));
  k = p;
  r = has_token ? fetch (k, &token, a, servers, n, error)
                : read_key (k, a->path, error);
  explicit_bzero (&token, sizeof token);
  if (r < 0)
    client_key_free (k);
  else
    *out = k;
  return r;
}

int
client_key_path (char out[PATH_MAX], const char *path, struct fp_error *error)
{
  char here[PATH_MAX] = "";
  int n;

  if (path[0] != '/' && getcwd (here, sizeof here) == NULL)
    return fp_fail (error, -errno, "%s: %s", path, strerror (errno));
  n = snprintf (out, PATH_MAX, "%s%s%s", here, path[0] != '/' ? "/" : "",
                path);
  return n < PATH_MAX ? 0
                      : fp_fail (error, -ENAMETOOLONG, "%s: %s", path,
                                 strerror (ENAMETOOLONG));
}

int
client_key_use (const struct client_key *k, struct fp_error *error)
{
  struct fp_tls *t;
  int r = fp_tls_new_key (&t, k->is.user, k->is.key, k->is.length, error);

  if (r == 0)
    fp_tls_set_client (t); /* t lives until this process ends */
  return r;
}

int
client_key_save (struct client_key *k, const char *path,
                 struct fp_error *error)
{
  int r;

  if (!k->fetched)
    return 0;
  r = fp_psk_create (path, k->is.user, k->is.key, k->is.length);
  if (r < 0)
    return fp_fail (error, r, "%s: %s", path, strerror (-r));
  k->fetched = false;
  return 0;
}

void
client_key_free (struct client_key *k)
{
  fp_secret_free (k, sizeof *k);
}
