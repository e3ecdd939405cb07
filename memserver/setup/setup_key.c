/* SPDX-License-Identifier: BSD-3-Clause */
/* setup_key.c - the key file of a memory server. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "memserver/setup/setup_int.h"
#include "transport/control/join.h"
#include "transport/tls/psk_file.h"
#include "transport/tls/psk_write.h"

#define JOIN_MS 10000

/* Copy the master key in the key file at path to *key.  If there is none, set
 * key->length to 0.
 */
static int
look (struct fp_join_reply *key, const char *path, struct fp_error *error)
{
  struct fp_psk_file *f;
  struct stat st;
  int r;

  *key = (struct fp_join_reply) { .user = FP_PSK_ALL };
  /* A run that failed may leave an empty file. */
  if (stat (path, &st) < 0 ? errno == ENOENT : st.st_size == 0)
    return 0;
  r = fp_psk_file_read_tls (&f, path, error);
  if (r < 0)
    return r;
  r = fp_psk_file_key (f, FP_PSK_ALL, key->key);
  fp_psk_file_free (f);
  key->length = r > 0 ? (uint16_t) r : 0;
  return 0;
}

/* Check that the master key in the file made the join token.  So a second run
 * needs no server, and no token that has not expired.
 */
static int
compare (const struct setup *s, const struct fp_join_token *token,
         struct fp_error *error)
{
  uint8_t key[FP_JOIN_KEY_SIZE];
  struct fp_psk_file *f;
  int r = fp_psk_file_read_tls (&f, s->key, error);

  if (r < 0)
    return r;
  r = fp_psk_file_derive (f, token->identity, key, sizeof key);
  fp_psk_file_free (f);
  if (r == 0 && memcmp (key, token->key, sizeof key) == 0)
    return 0;
  return fp_fail (error, -EEXIST,
                  "%s: its master key is not that of %s: if no client needs "
                  "it, remove its line, which begins with " FP_PSK_ALL,
                  s->key, s->join);
}

/* Fetch the master key of another server, unless it is in the file already. */
static int
fetch (struct fp_join_reply *key, const struct setup *s, bool there,
       struct fp_error *error)
{
  struct fp_join_token token;
  struct fp_addr addr;
  const char *why;
  int r;

  r = fp_addr_parse (&addr, s->join, &why);
  if (r < 0)
    return fp_fail (error, r, "--join %s: %s", s->join, why);
  r = fp_join_read (&token, s->token, s->token_file, error);
  if (r == 0 && strcmp (token.user, FP_PSK_ALL) != 0)
    r = fp_fail (error, -EINVAL,
                 "this join token is for a client: run 'farpage-memserver "
                 "token --server' on %s",
                 s->join);
  if (r == 0 && there)
    r = compare (s, &token, error);
  else if (r == 0 && !s->dry_run)
    r = fp_join (key, &addr, &token, fp_deadline_in_ms (JOIN_MS), error);
  explicit_bzero (&token, sizeof token);
  return r;
}

/* Let the service's user read the key file.  Change no file that belongs to
 * another user.
 */
static int
let_read (const struct setup *s, int fd, struct fp_error *error)
{
  const struct passwd *user = getpwnam (SERVICE_USER);
  struct stat st;

  if (user == NULL) /* the service is not installed */
    return 0;
  if (fstat (fd, &st) < 0)
    return fp_fail (error, -errno, "%s: %s", s->key, strerror (errno));
  if ((st.st_uid == user->pw_uid && (st.st_mode & S_IRUSR)) ||
      (st.st_gid == user->pw_gid && (st.st_mode & S_IRGRP)))
    return 0;
  if (st.st_uid != 0 || (st.st_gid != 0 && st.st_gid != user->pw_gid))
    return fp_fail (error, -EACCES,
                    "%s: user " SERVICE_USER " of the service cannot read it, "
                    "and it is of another user or group: give it to "
                    "root:" SERVICE_USER ", with mode 640",
                    s->key);
  if (fchown (fd, 0, user->pw_gid) < 0 || fchmod (fd, 0640) < 0)
    return fp_fail (error, -errno, "%s: %s", s->key, strerror (errno));
  return 0;
}

/* Append the master key to the key file: a random one if key->length is 0.  In
 * any case let the service's user read the file.
 */
static int
write_file (const struct setup *s, bool append,
            const struct fp_join_reply *key, struct fp_error *error)
{
  FP_CLEANUP (fp_closep)
  int fd = append ? open (s->key,
                          O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                          0600)
                  : open (s->key, O_RDONLY | O_CLOEXEC);
  int r = 0;

  if (fd < 0)
    return fp_fail (error, -errno, "%s: %s", s->key, strerror (errno));
  if (append && key->length > 0)
    r = fp_psk_append (fd, FP_PSK_ALL, key->key, key->length);
  else if (append)
    r = fp_psk_append_new (fd, FP_PSK_ALL);
  if (r < 0)
    return fp_fail (error, r, "%s: %s", s->key, strerror (-r));
  return let_read (s, fd, error);
}

int
setup_key (const struct setup *s, struct fp_error *error)
{
  struct fp_join_reply old, key = { .length = 0 };
  int r = look (&old, s->key, error);
  const bool there = old.length > 0;

  explicit_bzero (&old, sizeof old);
  /* A server without keys would end at SIGHUP, so do not send one. */
  if (r == 0 && !there && s->serving)
    r = fp_fail (error, -EBUSY,
                 "%s: the server runs already, without a master key: add a "
                 "line " FP_PSK_ALL ":KEY, where KEY is 'openssl rand -hex "
                 "32', and run 'systemctl kill --signal=HUP " SERVICE "'",
                 s->key);
  if (r == 0 && s->join != NULL)
    r = fetch (&key, s, there, error);
  if (r == 0 && !there)
    printf ("%s %s: %s%s\n", s->dry_run ? "would write" : "writing", s->key,
            s->join != NULL ? "the master key of " : "a new master key",
            s->join != NULL ? s->join : "");
  if (r == 0 && !s->dry_run)
    r = write_file (s, !there, &key, error);
  explicit_bzero (&key, sizeof key);
  return r;
}
