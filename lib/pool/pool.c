/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c - see pool.h. */

#include <config.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "conf/conf.h"
#include "pool/choose.h"
#include "pool/pool.h"
#include "pool/registry.h"
#include "proto/messages.h"

#define PATH_SIZE 256

/* Make the path of the file of a pool. */
static int
make_path (char out[PATH_SIZE], const char *name, struct fp_error *error)
{
  const char *dir = getenv ("FARPAGE_POOLS_DIR");
  int n;

  if (strchr (name, '/') != NULL)
    n = snprintf (out, PATH_SIZE, "%s", name);
  else if (!fp_name_ok (name))
    n = -1;
  else
    n = snprintf (out, PATH_SIZE, "%s/%s.conf",
                  dir != NULL ? dir : FP_POOLS_DIR, name);
  if (n >= 0 && n < PATH_SIZE)
    return 0;
  return fp_fail (error, -EINVAL,
                  "pool=%s: neither the name of a pool nor a path", name);
}

static const char *const allowed[] = {
  "server", "slab",    "transport",    "timeout",
  "tls",    "tls-psk", "tls-username", "tls-certificates",
};

struct file {
  fp_pool_set *set;
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

static int
read_file (const char *name, fp_pool_set *set, void *arg,
           struct fp_error *error)
{
  FP_CLEANUP (fp_fclosep) FILE *fp = NULL;
  struct file f = { .set = set, .arg = arg };
  char path[PATH_SIZE];
  int r = make_path (path, name, error);

  if (r < 0)
    return r;
  fp = fopen (path, "re");
  if (fp == NULL)
    return fp_fail (error, -errno, "pool: %s: %s", path, strerror (errno));
  r = fp_conf_read_stream (fp, path, on_line, &f, error);
  if (r < 0)
    return fp_fail_in (error, r, "pool");
  if (f.servers == 0)
    return fp_fail (error, -EINVAL, "pool: %s: names no server", path);
  return 0;
}

/* Return the part of pool after scheme, or NULL. */
static const char *
after (const char *pool, const char *scheme)
{
  size_t n = strlen (scheme);

  return strncmp (pool, scheme, n) == 0 ? pool + n : NULL;
}

static int
set_donor (const struct fp_donor *d, fp_pool_set *set, void *arg,
           struct fp_error *error)
{
  char value[sizeof d->addr + sizeof d->domain + 10];

  snprintf (value, sizeof value, "%s%s%s", d->addr,
            d->domain[0] != '\0' ? ",domain=" : "", d->domain);
  return set (arg, "server", value, error);
}

/* Call set for each donor below prefix, or for those that suit a new volume.
 */
static int
read_registry (const char *prefix, enum fp_pool_for what, fp_pool_set *set,
               void *arg, struct fp_error *error)
{
  const struct fp_choose_rules rules = { .n = FP_MAX_MEMBERS };
  size_t chosen[FP_MAX_MEMBERS];
  struct fp_registry registry;
  int r = fp_registry_read (&registry, prefix, FP_REGISTRY_OLD_TOO, error);

  if (r == 0 && what == FP_POOL_ATTACH) {
    int n = fp_choose_donors (&registry, &rules, chosen);

    if (n <= 0)
      r = fp_fail (error, n == 0 ? -ENOSPC : n,
                   n == 0 ? "no donor lends now: see 'farpage cluster list'"
                          : "out of memory");
    for (int i = 0; r == 0 && i < n; i++)
      r = set_donor (&registry.donors[chosen[i]], set, arg, error);
  }
  for (size_t i = 0; r == 0 && what == FP_POOL_LOOK && i < registry.nr; i++)
    r = set_donor (&registry.donors[i], set, arg, error);
  fp_registry_free (&registry);
  return r;
}

/* A set that counts the servers. */
struct counted {
  fp_pool_set *set;
  void *arg;
  unsigned servers;
};

static int
count (void *arg, const char *key, const char *value, struct fp_error *error)
{
  struct counted *c = arg;

  c->servers += strcmp (key, "server") == 0;
  return c->set (c->arg, key, value, error);
}

int
fp_pool_read (const char *pool, enum fp_pool_for what, fp_pool_set *set,
              void *arg, struct fp_error *error)
{
  const char *domain = after (pool, "dns:");
  const char *prefix = after (pool, "etcd:");
  struct counted c = { .set = set, .arg = arg };
  int r;

  if (domain == NULL && prefix == NULL)
    return read_file (pool, set, arg, error);
  r = domain != NULL ? fp_pool_read_dns (domain, count, &c, error)
                     : read_registry (prefix, what, count, &c, error);
  if (r == 0 && c.servers == 0)
    r = fp_fail (error, -ENOENT, "names no server");
  return r < 0 ? fp_fail_in (error, r, "pool=%s", pool) : 0;
}

bool
fp_pool_is_file (const char *pool)
{
  return after (pool, "dns:") == NULL && after (pool, "etcd:") == NULL;
}
