/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <ini.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/pool_file.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "proto/messages.h"

int
fp_pool_path (char out[FP_POOL_PATH_MAX], const char *name,
              struct fp_error *error)
{
  const char *dir = getenv ("FARPAGE_POOLS_DIR");
  int n;

  if (strchr (name, '/') != NULL)
    n = snprintf (out, FP_POOL_PATH_MAX, "%s", name);
  else if (!fp_name_ok (name))
    n = -1;
  else
    n = snprintf (out, FP_POOL_PATH_MAX, "%s/%s.conf",
                  dir != NULL ? dir : FP_POOLS_DIR, name);
  if (n >= 0 && n < FP_POOL_PATH_MAX)
    return 0;
  return fp_fail (error, -EINVAL, "neither the name of a pool nor a path");
}

static const char *const allowed[] = {
  "server", "slab",    "transport",    "timeout",
  "tls",    "tls-psk", "tls-username", "tls-certificates",
};

struct file {
  FILE *fp;
  int line, err;
  int (*set) (void *arg, const char *key, const char *value,
              struct fp_error *error);
  void *arg;
  unsigned servers;
  int bad_line; /* first line that inih parsed and set refused */
  struct fp_error error;
};

/* Read a line and count it, because inih does not give its handler the line
 * number.
 */
static char *
next_line (char *buf, int size, void *stream)
{
  struct file *f = stream;
  char *s = fgets (buf, size, f->fp);

  f->line++;
  if (s == NULL && ferror (f->fp))
    f->err = errno;
  return s;
}

static bool
is_allowed (const char *key)
{
  for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
    if (strcmp (allowed[i], key) == 0)
      return true;
  return false;
}

/* Handle one line.  Return 0 on an error, as inih wants it. */
static int
on_line (void *arg, const char *section, const char *key, const char *value)
{
  struct file *f = arg;
  int r = -EINVAL;

  if (f->bad_line > 0)
    return 1;
  if (section[0] == '\0' && is_allowed (key))
    r = f->set (f->arg, key, value, &f->error);
  else if (strpbrk (key, " \t") != NULL)
    /* key ends at a colon, which inih takes like '='. */
    fp_fail (&f->error, r, "'%.64s': not NAME = VALUE: '=' is missing", key);
  else
    fp_fail (&f->error, r,
             "'%.64s%s%.64s': unknown in a pool: use server, slab, "
             "transport, timeout or tls...",
             section, section[0] != '\0' ? "." : "", key);
  if (r < 0)
    f->bad_line = f->line;
  f->servers += r == 0 && strcmp (key, "server") == 0;
  return r == 0;
}

int
fp_pool_read (const char *path,
              int (*set) (void *arg, const char *key, const char *value,
                          struct fp_error *error),
              void *arg, struct fp_error *error)
{
  FP_CLEANUP (fp_fclosep) FILE *fp = fopen (path, "re");
  struct file f = { .fp = fp, .set = set, .arg = arg };
  int line, err = errno;

  if (fp == NULL)
    return fp_fail (error, -err, "pool: %s: %s", path, strerror (err));
  line = ini_parse_stream (next_line, &f, on_line, &f);
  if (line < 0 || f.err != 0) {
    err = line < 0 ? ENOMEM : f.err;
    return fp_fail (error, -err, "pool: %s: %s", path, strerror (err));
  }
  if (line > 0)
    return fp_fail (error, -EINVAL, "pool: %s: line %d: %s", path, line,
                    line == f.bad_line ? f.error.text
                                       : "not NAME = VALUE: '=' is missing");
  if (f.servers == 0)
    return fp_fail (error, -EINVAL, "pool: %s: names no server", path);
  return 0;
}
