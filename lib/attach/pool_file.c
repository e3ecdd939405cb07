/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/pool_file.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "conf/conf.h"
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
  int (*set) (void *arg, const char *key, const char *value,
              struct fp_error *error);
  void *arg;
  unsigned servers;
};

static bool
is_allowed (const char *key)
{
  for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
    if (strcmp (allowed[i], key) == 0)
      return true;
  return false;
}

static int
on_line (void *arg, const struct fp_conf_line *line, struct fp_error *error)
{
  struct file *f = arg;
  int r;

  if (line->section[0] != '\0' || !is_allowed (line->key))
    return fp_fail (error, -EINVAL,
                    "'%s%s%s': unknown in a pool: use server, slab, "
                    "transport, timeout or tls...",
                    line->section, line->section[0] != '\0' ? "." : "",
                    line->key);
  r = f->set (f->arg, line->key, line->value, error);
  f->servers += r == 0 && strcmp (line->key, "server") == 0;
  return r;
}

int
fp_pool_read (const char *path,
              int (*set) (void *arg, const char *key, const char *value,
                          struct fp_error *error),
              void *arg, struct fp_error *error)
{
  FP_CLEANUP (fp_fclosep) FILE *fp = fopen (path, "re");
  struct file f = { .set = set, .arg = arg };
  int r;

  if (fp == NULL)
    return fp_fail (error, -errno, "pool: %s: %s", path, strerror (errno));
  r = fp_conf_read_stream (fp, path, on_line, &f, error);
  if (r < 0)
    return fp_fail_in (error, r, "pool");
  if (f.servers == 0)
    return fp_fail (error, -EINVAL, "pool: %s: names no server", path);
  return 0;
}
