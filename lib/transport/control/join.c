/* SPDX-License-Identifier: BSD-3-Clause */
/* join.c - see join.h. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "transport/control/ctl_channel.h"
#include "transport/control/join.h"
#include "transport/tls/tls.h"

static int
read_line (char text[FP_JOIN_TOKEN_MAX], const char *path,
           struct fp_error *error)
{
  FILE *f = strcmp (path, "-") == 0 ? stdin : fopen (path, "re");
  bool got;

  if (f == NULL)
    return fp_fail (error, -errno, "%s: %s", path, strerror (errno));
  got = fgets (text, FP_JOIN_TOKEN_MAX, f) != NULL;
  if (f != stdin)
    fclose (f);
  return got ? 0
             : fp_fail (error, -EINVAL, "%s: contains no join token", path);
}

int
fp_join_read (struct fp_join_token *out, const char *text, const char *path,
              struct fp_error *error)
{
  char line[FP_JOIN_TOKEN_MAX] = "";
  int r = text != NULL ? 0 : read_line (line, path, error);

  if (r < 0)
    return r;
  r = fp_join_parse (out, text != NULL ? text : line);
  explicit_bzero (line, sizeof line);
  if (r == 0)
    return 0;
  return fp_fail (error, r,
                  "this is not a join token: run 'farpage-memserver token' on "
                  "a memory server, and give the whole line");
}

int
fp_join (struct fp_join_reply *out, const struct fp_addr *addr,
         const struct fp_join_token *token, uint64_t deadline_ns,
         struct fp_error *error)
{
  struct fp_tls *before = fp_tls_client (), *tls;
  struct fp_ctl *c = NULL;
  int r;

  if (addr->is_unix)
    return fp_fail (error, -EINVAL,
                    "a join token needs TLS, which a Unix socket does not "
                    "have: give the server's HOST[:PORT]");
  r = fp_tls_new_key (&tls, token->identity, token->key, sizeof token->key,
                      error);
  if (r < 0)
    return r;
  fp_tls_set_client (tls);
  r = fp_ctl_open (&c, addr, deadline_ns);
  if (r == 0)
    r = fp_ctl_join (c, out, deadline_ns);
  if (r == 0 && strcmp (out->user, token->user) != 0)
    r = fp_fail (error, -EPROTO, "the server sent the key of another user");
  else if (r == -EACCES && time (NULL) >= (time_t) token->expiry)
    fp_fail (error, r,
             "the join token has expired: make another one with "
             "'farpage-memserver token'");
  else if (r == -EACCES)
    fp_fail (error, r,
             "the server does not accept the join token: it has another "
             "master key, or its clock is ahead, or the user's key was "
             "revoked: make another one with 'farpage-memserver token'");
  else if (r < 0)
    fp_fail (error, r, "%s", c != NULL ? fp_ctl_why (c) : strerror (-r));
  fp_ctl_free (c);
  fp_tls_set_client (before);
  fp_tls_free (tls);
  return r;
}
