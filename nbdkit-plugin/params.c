/* SPDX-License-Identifier: BSD-3-Clause */
/* params.c - a table with one function for each parameter. */

#include <config.h>

#include "params.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/size.h"

/* What is spelled in this version but not built yet: key, and the one value
 * that asks for nothing.
 */
static const struct {
  const char *key;
  const char *nothing;
} not_yet[] = {
  { "copies", "1" },
  { "takeover", "false" },
  { "volume", NULL },
};

static int __attribute__ ((__format__ (__printf__, 2, 3)))
refuse (char why[FP_WHY_MAX], const char *fmt, ...)
{
  va_list args;

  va_start (args, fmt);
  vsnprintf (why, FP_WHY_MAX, fmt, args);
  va_end (args);
  return -EINVAL;
}

/* The words that nbdkit_parse_bool knows. */
static int
parse_bool (const char *key, const char *value, bool *out, char *why)
{
  static const char *const words[2][6] = {
    { "0", "n", "no", "f", "false", "off" },
    { "1", "y", "yes", "t", "true", "on" },
  };

  for (unsigned b = 0; b < 2; b++)
    for (unsigned i = 0; i < 6; i++)
      if (strcasecmp (value, words[b][i]) == 0) {
        *out = b;
        return 0;
      }
  return refuse (why, "%s=%s: must be true or false", key, value);
}

static int
parse_number (const char *key, const char *value, unsigned min, unsigned max,
              unsigned *out, char *why)
{
  uint64_t n = 0;
  const char *s = value;

  while (*s >= '0' && *s <= '9' && n <= max)
    n = n * 10 + (uint64_t) (*s++ - '0');
  if (s == value || *s != '\0' || n < min || n > max)
    return refuse (why, "%s=%s: must be a number from %u to %u", key, value,
                   min, max);
  *out = (unsigned) n;
  return 0;
}

static int
parse_size (const char *key, const char *value, uint64_t *out, char *why)
{
  const char *reason;

  if (fp_parse_size (value, out, &reason) < 0)
    return refuse (why, "%s=%s: %s", key, value, reason);
  return 0;
}

/* nbdkit changes to / when it goes into the background. */
static int
make_absolute (char *out, size_t size, const char *key, const char *path,
               char *why)
{
  char cwd[1024] = "";
  int n;

  if (path[0] == '\0')
    return refuse (why, "%s: the path is empty", key);
  if (path[0] != '/' && getcwd (cwd, sizeof cwd) == NULL)
    return refuse (why, "%s=%s: no current directory: %s", key, path,
                   strerror (errno));
  n = snprintf (out, size, "%s%s%s", cwd, path[0] == '/' ? "" : "/", path);
  if (n < 0 || (size_t) n >= size)
    return refuse (why, "%s=%s: the path is too long for a socket (%zu bytes)",
                   key, path, size - 1);
  return 0;
}

static int
set_server (struct fp_params *p, const char *key, const char *value, char *why)
{
  struct fp_volume_params *v = &p->volume;
  struct fp_addr addr;
  const char *reason;

  if (v->nr_servers == FP_MAX_SERVERS)
    return refuse (why, "%s=%s: more than %d servers", key, value,
                   FP_MAX_SERVERS);
  if (fp_addr_parse (&addr, value, &reason) < 0)
    return refuse (why, "%s=%s: %s", key, value, reason);
  if (addr.is_unix) {
    char path[sizeof p->status];

    if (make_absolute (path, sizeof path, key, addr.host, why) < 0)
      return -EINVAL;
    memcpy (addr.host, path, sizeof path);
  }
  else {
    if (addr.port == 0)
      return refuse (why, "%s=%s: port 0 cannot be connected to", key, value);
    if (fp_addr_is_wildcard (&addr))
      return refuse (why, "%s=%s: not an address to connect to", key, value);
  }
  for (unsigned i = 0; i < v->nr_servers; i++)
    if (fp_addr_eq (&v->servers[i], &addr))
      return refuse (why, "%s=%s: given twice", key, value);
  v->servers[v->nr_servers++] = addr;
  return 0;
}

static int
set_size (struct fp_params *p, const char *key, const char *value, char *why)
{
  if (parse_size (key, value, &p->volume.size, why) < 0)
    return -EINVAL;
  if (p->volume.size == 0 || p->volume.size % 512 != 0)
    return refuse (why, "%s=%s: must be a multiple of 512 bytes, and not 0",
                   key, value);
  return 0;
}

static int
set_slab (struct fp_params *p, const char *key, const char *value, char *why)
{
  uint64_t n;

  if (parse_size (key, value, &n, why) < 0)
    return -EINVAL;
  if (n < FP_SLAB_MIN || (n & (n - 1)) != 0)
    return refuse (why, "%s=%s: must be a power of two, at least %d bytes",
                   key, value, FP_SLAB_MIN);
  p->volume.slab_size = n;
  return 0;
}

static int
set_transport (struct fp_params *p, const char *key, const char *value,
               char *why)
{
  unsigned bit;

  if (strcmp (value, "auto") == 0)
    return 0; /* the default */
  bit = fp_transport_by_name (value) & FP_TRANSPORT_WIRE_MASK;
  if (bit == 0)
    return refuse (why, "%s=%s: must be auto, rdma, shm or tcp", key, value);
  p->volume.transports = bit;
  return 0;
}

static int
set_timeout (struct fp_params *p, const char *key, const char *value,
             char *why)
{
  return parse_number (key, value, FP_TIMEOUT_MIN_MS, FP_TIMEOUT_MAX_MS,
                       &p->volume.timeout_ms, why);
}

static int
set_poll (struct fp_params *p, const char *key, const char *value, char *why)
{
  return parse_number (key, value, 0, FP_POLL_MAX_US, &p->volume.poll_us, why);
}

static int
set_connections (struct fp_params *p, const char *key, const char *value,
                 char *why)
{
  return parse_number (key, value, 1, FP_MAX_LANES, &p->volume.lanes, why);
}

static int
set_uuid (struct fp_params *p, const char *key, const char *value, char *why)
{
  if (fp_uuid_parse (&p->volume.uuid, value) < 0 ||
      fp_uuid_is_nil (&p->volume.uuid))
    return refuse (why, "%s=%s: not a UUID", key, value);
  return 0;
}

static int
set_resume (struct fp_params *p, const char *key, const char *value, char *why)
{
  return parse_bool (key, value, &p->volume.resume, why);
}

static int
set_reserve (struct fp_params *p, const char *key, const char *value,
             char *why)
{
  p->volume.reserve_full = strcmp (value, "full") == 0;
  if (!p->volume.reserve_full && strcmp (value, "thin") != 0)
    return refuse (why, "%s=%s: must be full or thin", key, value);
  return 0;
}

static int
set_swap (struct fp_params *p, const char *key, const char *value, char *why)
{
  return parse_bool (key, value, &p->swap, why);
}

static int
set_mlock (struct fp_params *p, const char *key, const char *value, char *why)
{
  return parse_bool (key, value, &p->mlock, why);
}

static int
set_keep (struct fp_params *p, const char *key, const char *value, char *why)
{
  return parse_bool (key, value, &p->keep, why);
}

static int
set_status (struct fp_params *p, const char *key, const char *value, char *why)
{
  return make_absolute (p->status, sizeof p->status, key, value, why);
}

/* All parameters.  Also in farpage_config_help and in the man page: a test
 * compares the three.
 */
static const struct {
  const char *key;
  int (*set) (struct fp_params *p, const char *key, const char *value,
              char *why);
  bool repeats;
} table[] = {
  { "server", set_server, true },
  { "size", set_size, false },
  { "slab", set_slab, false },
  { "transport", set_transport, false },
  { "timeout", set_timeout, false },
  { "poll", set_poll, false },
  { "connections", set_connections, false },
  { "reserve", set_reserve, false },
  { "swap", set_swap, false },
  { "mlock", set_mlock, false },
  { "uuid", set_uuid, false },
  { "resume", set_resume, false },
  { "keep", set_keep, false },
  { "status", set_status, false },
};
#define NR_PARAMS (sizeof table / sizeof table[0])
_Static_assert(NR_PARAMS <= 64, "one bit of fp_params.seen each");

static bool
given (const struct fp_params *p, const char *key)
{
  for (unsigned i = 0; i < NR_PARAMS; i++)
    if (strcmp (table[i].key, key) == 0)
      return p->seen >> i & 1;
  abort ();
}

void
fp_params_init (struct fp_params *p)
{
  memset (p, 0, sizeof *p);
  fp_volume_params_init (&p->volume);
  p->volume.transports = FP_TRANSPORT_WIRE_MASK;
  p->mlock = true;
}

int
fp_params_set (struct fp_params *p, const char *key, const char *value,
               char why[FP_WHY_MAX])
{
  for (unsigned i = 0; i < sizeof not_yet / sizeof not_yet[0]; i++) {
    if (strcmp (key, not_yet[i].key) != 0)
      continue;
    if (not_yet[i].nothing && strcmp (value, not_yet[i].nothing) == 0)
      return 0;
    return refuse (why, "%s=%s: not in this version", key, value);
  }
  for (unsigned i = 0; i < NR_PARAMS; i++) {
    if (strcmp (key, table[i].key) != 0)
      continue;
    if (!table[i].repeats && p->seen >> i & 1)
      return refuse (why, "%s=%s: %s was given before", key, value, key);
    p->seen |= UINT64_C (1) << i;
    return table[i].set (p, key, value, why);
  }
  return refuse (why, "unknown parameter '%s'", key);
}

/* Only a process on the same machine can be handed a server's memory. */
static bool
any_unix_server (const struct fp_volume_params *v)
{
  for (unsigned i = 0; i < v->nr_servers; i++)
    if (v->servers[i].is_unix)
      return true;
  return false;
}

int
fp_params_complete (struct fp_params *p, char why[FP_WHY_MAX])
{
  struct fp_volume_params *v = &p->volume;

  if (v->nr_servers == 0)
    return refuse (why, "server=ADDR is required: where a farpage-memserver"
                        " listens");
  if (!given (p, "size"))
    return refuse (why, "size=SIZE is required");
  if (v->transports == FP_TRANSPORT_SHM && !any_unix_server (v))
    return refuse (why, "transport=shm needs server=unix:PATH");
  if (v->resume && fp_uuid_is_nil (&v->uuid))
    return refuse (why, "resume=true needs uuid=UUID: which volume to take up"
                        " again");
  if (p->swap) {
    if (given (p, "reserve") && !v->reserve_full)
      return refuse (why, "swap=true and reserve=thin contradict: swap needs"
                          " its memory before it is short of memory");
    if (!p->mlock)
      return refuse (why, "swap=true and mlock=false contradict: what serves"
                          " swap must not be swapped out");
    v->reserve_full = true;
  }
  if (!given (p, "connections")) {
    long cpus = sysconf (_SC_NPROCESSORS_ONLN);

    v->lanes = cpus < 1              ? 1
               : cpus > FP_MAX_LANES ? FP_MAX_LANES
                                     : (unsigned) cpus;
  }
  return 0;
}
