/* SPDX-License-Identifier: BSD-3-Clause */
/* params.c - a table with one function for each parameter. */

#include <config.h>

#include "front/params_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "base/size.h"
#include "conf/duration.h"
#include "pool/pool.h"
#include "transport/transport.h"

/* Room for an address and a domain; a longer text is not valid. */
#define SERVER_MAX (FP_ADDR_MAX + FP_NAME_MAX + 16)

/* Twice this is less than the kernel's timeout, which "farpage attach" sets to
 * 30 s.  A donor that is short of processors may take more than 2 s to answer
 * (docs/SWAP.md) without being dead.
 */
#define SWAP_TIMEOUT_MS 10000u
/* Less than the 30 s after which the kernel's NBD client, as set by "farpage
 * attach", sends a request again.
 */
#define AWAIT_MS 25000u

/* Accept the words that nbdkit_parse_bool accepts. */
int
parse_bool (const char *key, const char *value, bool *out,
            struct fp_error *error)
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
  return fp_fail (error, -EINVAL, "%s=%s: must be true or false", key, value);
}

static int
parse_number (const char *key, const char *value, unsigned min, unsigned max,
              unsigned *out, struct fp_error *error)
{
  uint64_t n = 0;
  const char *s = value;

  while (*s >= '0' && *s <= '9' && n <= max)
    n = n * 10 + (uint64_t) (*s++ - '0');
  if (s == value || *s != '\0' || n < min || n > max)
    return fp_fail (error, -EINVAL, "%s=%s: must be a number from %u to %u",
                    key, value, min, max);
  *out = (unsigned) n;
  return 0;
}

/* Parse a time.  min, max and *out are in multiples of `unit` microseconds. */
static int
parse_time (const char *key, const char *value, uint64_t unit, unsigned min,
            unsigned max, unsigned *out, struct fp_error *error)
{
  char low[FP_DURATION_STR_MAX], high[FP_DURATION_STR_MAX];
  char step[FP_DURATION_STR_MAX];
  uint64_t us;

  if (fp_parse_duration (value, unit, &us) == 0 && us % unit == 0 &&
      us / unit >= min && us / unit <= max) {
    *out = (unsigned) (us / unit);
    return 0;
  }
  fp_format_duration (min * unit, low);
  fp_format_duration (max * unit, high);
  fp_format_duration (unit, step);
  return fp_fail (error, -EINVAL,
                  "%s=%s: must be a time from %s to %s, in steps of %s", key,
                  value, low, high, step);
}

static int
parse_size (const char *key, const char *value, uint64_t *out,
            struct fp_error *error)
{
  const char *reason;

  if (fp_parse_size (value, out, &reason) < 0)
    return fp_fail (error, -EINVAL, "%s=%s: %s", key, value, reason);
  return 0;
}

int
make_absolute (char *out, size_t size, const char *key, const char *path,
               struct fp_error *error)
{
  char cwd[1024] = "";
  int n;

  if (path[0] == '\0')
    return fp_fail (error, -EINVAL, "%s: the path is empty", key);
  if (path[0] != '/' && getcwd (cwd, sizeof cwd) == NULL)
    return fp_fail (error, -EINVAL, "%s=%s: no current directory: %s", key,
                    path, strerror (errno));
  n = snprintf (out, size, "%s%s%s", cwd, path[0] == '/' ? "" : "/", path);
  if (n < 0 || (size_t) n >= size)
    return fp_fail (error, -EINVAL,
                    "%s=%s: the path is too long (at most %zu bytes)", key,
                    path, size - 1);
  return 0;
}

/* Split ADDR,domain=NAME into addr and domain ("" if there is none). */
static int
split_domain (char addr[SERVER_MAX], char domain[FP_NAME_MAX + 1],
              const char *key, const char *value, struct fp_error *error)
{
  static const char mark[] = ",domain=";
  const char *at = strstr (value, mark), *name;

  domain[0] = '\0';
  if (strlen (value) >= SERVER_MAX)
    return fp_fail (error, -EINVAL, "%s=ADDR: longer than %d characters", key,
                    SERVER_MAX - 1);
  strcpy (addr, value);
  if (!at)
    return 0;
  addr[at - value] = '\0';
  name = at + sizeof mark - 1;
  if (!fp_name_ok (name))
    return fp_fail (error, -EINVAL,
                    "%s=%s,domain=NAME: a name is 1 to %d printable ASCII "
                    "characters, without blanks, '/', '\"' and '\\'",
                    key, addr, FP_NAME_MAX);
  strcpy (domain, name);
  return 0;
}

static int
parse_server (struct fp_addr *addr, const char *text, const char *key,
              const char *value, struct fp_error *error)
{
  const char *reason;

  if (fp_addr_parse (addr, text, &reason) < 0)
    return fp_fail (error, -EINVAL, "%s=%s: %s", key, value, reason);
  if (addr->is_unix) {
    char path[sizeof addr->host];

    if (make_absolute (path, sizeof path, key, addr->host, error) < 0)
      return -EINVAL;
    memcpy (addr->host, path, sizeof path);
  }
  else {
    if (addr->port == 0)
      return fp_fail (error, -EINVAL, "%s=%s: port 0 cannot be connected to",
                      key, value);
    if (fp_addr_is_wildcard (addr))
      return fp_fail (error, -EINVAL, "%s=%s: not an address to connect to",
                      key, value);
  }
  return 0;
}

int
fp_params_server (struct fp_addr *addr, char domain[FP_NAME_MAX + 1],
                  const char *key, const char *value, struct fp_error *error)
{
  char text[SERVER_MAX];

  if (split_domain (text, domain, key, value, error) < 0)
    return -EINVAL;
  return parse_server (addr, text, key, value, error);
}

static int
set_server (struct fp_params *p, const char *key, const char *value,
            struct fp_error *error)
{
  struct fp_volume_params *v = &p->volume;
  struct fp_addr addr;

  if (v->nr_servers == FP_MAX_SERVERS)
    return fp_fail (error, -EINVAL, "%s=%s: more than %d servers", key, value,
                    FP_MAX_SERVERS);
  if (fp_params_server (&addr, v->domains[v->nr_servers], key, value, error) <
      0)
    return -EINVAL;
  for (unsigned i = 0; i < v->nr_servers; i++)
    if (fp_addr_eq (&v->servers[i], &addr))
      return fp_fail (error, -EINVAL, "%s=%s: given twice", key, value);
  v->servers[v->nr_servers++] = addr;
  return 0;
}

static int
set_line (void *params, const char *key, const char *value,
          struct fp_error *error)
{
  return fp_params_set (params, key, value, error);
}

static int
set_pool (struct fp_params *p, const char *key, const char *value,
          struct fp_error *error)
{
  int r;

  (void) key;
  p->varies = p->varies || !fp_pool_is_file (value);
  p->in_pool = true;
  r = fp_pool_read (value, FP_POOL_ATTACH, set_line, p, error);
  p->in_pool = false;
  return r;
}

static int
set_size (struct fp_params *p, const char *key, const char *value,
          struct fp_error *error)
{
  if (parse_size (key, value, &p->volume.size, error) < 0)
    return -EINVAL;
  if (p->volume.size == 0 || p->volume.size % 512 != 0)
    return fp_fail (error, -EINVAL,
                    "%s=%s: must be a multiple of 512 bytes, and not 0", key,
                    value);
  return 0;
}

static int
set_slab (struct fp_params *p, const char *key, const char *value,
          struct fp_error *error)
{
  uint64_t n;

  if (parse_size (key, value, &n, error) < 0)
    return -EINVAL;
  if (n < FP_SLAB_MIN || (n & (n - 1)) != 0)
    return fp_fail (error, -EINVAL,
                    "%s=%s: must be a power of two, at least %d bytes", key,
                    value, FP_SLAB_MIN);
  p->volume.slab_size = n;
  return 0;
}

static int
set_copies (struct fp_params *p, const char *key, const char *value,
            struct fp_error *error)
{
  return parse_number (key, value, 1, FP_MAX_COPIES, &p->volume.copies, error);
}

static int
set_resync_delay (struct fp_params *p, const char *key, const char *value,
                  struct fp_error *error)
{
  unsigned s;

  if (parse_time (key, value, FP_S, 0, 86400, &s, error) < 0)
    return -EINVAL;
  p->volume.resync_delay_ms = s * 1000;
  return 0;
}

static int
set_stripe (struct fp_params *p, const char *key, const char *value,
            struct fp_error *error)
{
  uint64_t n;

  if (parse_size (key, value, &n, error) < 0)
    return -EINVAL;
  if (n < FP_STRIPE_SIZE_MIN || (n & (n - 1)) != 0)
    return fp_fail (error, -EINVAL,
                    "%s=%s: must be a power of two, at least %d bytes", key,
                    value, FP_STRIPE_SIZE_MIN);
  p->volume.stripe.size = n;
  return 0;
}

static int
set_stripe_width (struct fp_params *p, const char *key, const char *value,
                  struct fp_error *error)
{
  return parse_number (key, value, 1, FP_STRIPE_WIDTH_MAX,
                       &p->volume.stripe.width, error);
}

static int
set_transport (struct fp_params *p, const char *key, const char *value,
               struct fp_error *error)
{
  unsigned bit;

  if (strcmp (value, "auto") == 0) {
    p->volume.transports = FP_TRANSPORT_WIRE_MASK;
    return 0;
  }
  bit = fp_transport_by_name (value) & FP_TRANSPORT_WIRE_MASK;
  if (bit == 0)
    return fp_fail (error, -EINVAL, "%s=%s: must be auto, rdma, shm or tcp",
                    key, value);
  p->volume.transports = bit;
  return 0;
}

static int
set_timeout (struct fp_params *p, const char *key, const char *value,
             struct fp_error *error)
{
  return parse_time (key, value, FP_MS, FP_TIMEOUT_MIN_MS, FP_TIMEOUT_MAX_MS,
                     &p->volume.timeout_ms, error);
}

static int
set_await (struct fp_params *p, const char *key, const char *value,
           struct fp_error *error)
{
  return parse_time (key, value, FP_MS, FP_TIMEOUT_MIN_MS, FP_TIMEOUT_MAX_MS,
                     &p->volume.await_ms, error);
}

static int
set_poll (struct fp_params *p, const char *key, const char *value,
          struct fp_error *error)
{
  return parse_time (key, value, FP_US, 0, FP_POLL_MAX_US, &p->volume.poll_us,
                     error);
}

static int
set_hedge (struct fp_params *p, const char *key, const char *value,
           struct fp_error *error)
{
  p->volume.hedge = strcmp (value, "p99") == 0;
  if (!p->volume.hedge && strcmp (value, "off") != 0)
    return fp_fail (error, -EINVAL, "%s=%s: must be p99 or off", key, value);
  return 0;
}

static int
set_connections (struct fp_params *p, const char *key, const char *value,
                 struct fp_error *error)
{
  return parse_number (key, value, 1, FP_MAX_LANES, &p->volume.lanes, error);
}

static int
set_volume (struct fp_params *p, const char *key, const char *value,
            struct fp_error *error)
{
  /* Do not repeat value: it may be unsafe to print on a terminal. */
  if (!fp_name_ok (value))
    return fp_fail (error, -EINVAL,
                    "%s=NAME: a name is 1 to %d printable ASCII characters, "
                    "without blanks, '/', '\"' and '\\'",
                    key, FP_NAME_MAX);
  snprintf (p->volume.name, sizeof p->volume.name, "%s", value);
  return 0;
}

static int
set_takeover (struct fp_params *p, const char *key, const char *value,
              struct fp_error *error)
{
  return parse_bool (key, value, &p->volume.takeover, error);
}

static int
set_degraded (struct fp_params *p, const char *key, const char *value,
              struct fp_error *error)
{
  return parse_bool (key, value, &p->volume.degraded, error);
}

static int
set_add (struct fp_params *p, const char *key, const char *value,
         struct fp_error *error)
{
  return parse_bool (key, value, &p->volume.add, error);
}

static int
set_force (struct fp_params *p, const char *key, const char *value,
           struct fp_error *error)
{
  return parse_bool (key, value, &p->volume.force, error);
}

static int
set_remove (struct fp_params *p, const char *key, const char *value,
            struct fp_error *error)
{
  struct fp_volume_params *v = &p->volume;

  if (v->nr_remove == FP_MAX_SERVERS)
    return fp_fail (error, -EINVAL, "%s=%s: more than %d servers", key, value,
                    FP_MAX_SERVERS);
  return parse_server (&v->remove[v->nr_remove++], value, key, value, error);
}

static int
set_uuid (struct fp_params *p, const char *key, const char *value,
          struct fp_error *error)
{
  if (fp_uuid_parse (&p->volume.uuid, value) < 0 ||
      fp_uuid_is_nil (&p->volume.uuid))
    return fp_fail (error, -EINVAL, "%s=%s: not a UUID", key, value);
  return 0;
}

static int
set_client (struct fp_params *p, const char *key, const char *value,
            struct fp_error *error)
{
  if (fp_uuid_parse (&p->volume.client, value) < 0 ||
      fp_uuid_is_nil (&p->volume.client))
    return fp_fail (error, -EINVAL, "%s=%s: not a UUID", key, value);
  return 0;
}

static int
set_readonly (struct fp_params *p, const char *key, const char *value,
              struct fp_error *error)
{
  return parse_bool (key, value, &p->volume.read_only, error);
}

/* Refuse readonly=true with a parameter that changes the volume or that needs
 * to write to it.
 */
static int
check_readonly (const struct fp_params *p, struct fp_error *error)
{
  const struct fp_volume_params *v = &p->volume;
  const char *other = v->takeover        ? "takeover=true"
                      : p->swap          ? "swap=true"
                      : v->reserve_full  ? "reserve=full"
                      : v->add           ? "add=true"
                      : v->nr_remove > 0 ? "remove=ADDR"
                                         : NULL;

  if (!v->read_only)
    return 0;
  if (v->name[0] == '\0')
    return fp_fail (error, -EINVAL,
                    "readonly=true needs volume=NAME: a volume without a"
                    " name is new, and has nothing to read");
  if (other != NULL)
    return fp_fail (error, -EINVAL,
                    "readonly=true and %s contradict each other", other);
  return 0;
}

static int
set_resume (struct fp_params *p, const char *key, const char *value,
            struct fp_error *error)
{
  return parse_bool (key, value, &p->volume.resume, error);
}

static int
set_reserve (struct fp_params *p, const char *key, const char *value,
             struct fp_error *error)
{
  p->volume.reserve_full = strcmp (value, "full") == 0;
  if (!p->volume.reserve_full && strcmp (value, "thin") != 0)
    return fp_fail (error, -EINVAL, "%s=%s: must be full or thin", key, value);
  return 0;
}

static int
set_tls (struct fp_params *p, const char *key, const char *value,
         struct fp_error *error)
{
  return fp_tls_params_set (&p->tls, key, value, error);
}

static int
set_tls_file (struct fp_params *p, const char *key, const char *value,
              struct fp_error *error)
{
  char path[FP_TLS_PATH_MAX];

  if (make_absolute (path, sizeof path, key, value, error) < 0)
    return -EINVAL;
  return set_tls (p, key, path, error);
}

static int
set_swap (struct fp_params *p, const char *key, const char *value,
          struct fp_error *error)
{
  return parse_bool (key, value, &p->swap, error);
}

static int
set_mlock (struct fp_params *p, const char *key, const char *value,
           struct fp_error *error)
{
  return parse_bool (key, value, &p->mlock, error);
}

static int
set_keep (struct fp_params *p, const char *key, const char *value,
          struct fp_error *error)
{
  return parse_bool (key, value, &p->keep, error);
}

static int
set_members (struct fp_params *p, const char *key, const char *value,
             struct fp_error *error)
{
  return make_absolute (p->members, sizeof p->members, key, value, error);
}

static int
set_status (struct fp_params *p, const char *key, const char *value,
            struct fp_error *error)
{
  return make_absolute (p->status, sizeof p->status, key, value, error);
}

/* All parameters.  farpage_config_help and the man page list them, too: a test
 * compares the three.
 */
static const struct {
  const char *key;
  int (*set) (struct fp_params *p, const char *key, const char *value,
              struct fp_error *error);
  bool repeats;
} table[] = {
  { "server", set_server, true },
  { "pool", set_pool, false },
  { "size", set_size, false },
  { "slab", set_slab, false },
  { "copies", set_copies, false },
  { "rebuild-delay", set_resync_delay, false },
  { "checksum", set_checksum, false },
  { "encrypt", set_encrypt, false },
  { "integrity", set_integrity, false },
  { "stripe", set_stripe, false },
  { "stripe-width", set_stripe_width, false },
  { "transport", set_transport, false },
  { "timeout", set_timeout, false },
  { "await", set_await, false },
  { "poll", set_poll, false },
  { "hedge", set_hedge, false },
  { "connections", set_connections, false },
  { "reserve", set_reserve, false },
  { "swap", set_swap, false },
  { "mlock", set_mlock, false },
  { "tls", set_tls, false },
  { "tls-psk", set_tls_file, false },
  { "tls-username", set_tls, false },
  { "tls-certificates", set_tls_file, false },
  { "volume", set_volume, false },
  { "takeover", set_takeover, false },
  { "degraded", set_degraded, false },
  { "readonly", set_readonly, false },
  { "add", set_add, false },
  { "remove", set_remove, true },
  { "force", set_force, false },
  { "uuid", set_uuid, false },
  { "resume", set_resume, false },
  { "client", set_client, false },
  { "keep", set_keep, false },
  { "members", set_members, false },
  { "status", set_status, false },
};
#define NR_PARAMS (sizeof table / sizeof table[0])
_Static_assert(NR_PARAMS <= 64, "one bit of fp_params.seen each");

/* Former names of parameters. */
static const struct {
  const char *old, *key;
} renamed[] = {
  { "rebuild_delay", "rebuild-delay" },
};

/* Return the current name of key.  Warn if key is a former name. */
static const char *
present_name (const char *key)
{
  for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++)
    if (strcmp (key, renamed[i].old) == 0) {
      fp_log (FP_LOG_WARN, "%s= is a former name: use %s=", key,
              renamed[i].key);
      return renamed[i].key;
    }
  return key;
}

/* Removed parameters.  A volume whose file still has one must start. */
static const struct {
  const char *key, *instead;
} removed[] = {
  { "metrics", "enable farpage-exporter.service" },
};

/* Return true, after a warning, if key is a removed parameter. */
static bool
was_removed (const char *key)
{
  for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++)
    if (strcmp (key, removed[i].key) == 0) {
      fp_log (FP_LOG_WARN, "%s= has no effect any more: remove it, and %s",
              key, removed[i].instead);
      return true;
    }
  return false;
}

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
  p->volume.copies = 0; /* 0: as the volume was created */
  p->volume.transports = FP_TRANSPORT_WIRE_MASK;
  p->mlock = true;
}

int
fp_params_set (struct fp_params *p, const char *key, const char *value,
               struct fp_error *error)
{
  key = present_name (key);
  for (unsigned i = 0; i < NR_PARAMS; i++) {
    uint64_t bit = UINT64_C (1) << i;

    if (strcmp (key, table[i].key) != 0)
      continue;
    /* The command line wins, wherever pool= stands in it. */
    if (!table[i].repeats && p->in_pool && p->seen & ~p->of_pool & bit)
      return 0;
    if (!table[i].repeats && p->seen & bit &&
        (p->in_pool || !(p->of_pool & bit)))
      return fp_fail (error, -EINVAL, "%s=%s: %s was given before", key, value,
                      key);
    p->seen |= bit;
    p->of_pool = p->in_pool ? p->of_pool | bit : p->of_pool & ~bit;
    return table[i].set (p, key, value, error);
  }
  return was_removed (key)
             ? 0
             : fp_fail (error, -EINVAL, "unknown parameter '%s'", key);
}

/* Return true if RDMA may be used to a server on another machine.  A server on
 * a Unix socket is on this machine and can share its memory instead.
 */
static bool
may_use_rdma (const struct fp_volume_params *v)
{
  for (unsigned i = 0; i < v->nr_servers; i++)
    if (!v->servers[i].is_unix)
      return v->transports & FP_TRANSPORT_RDMA;
  return false;
}

static bool
any_unix_server (const struct fp_volume_params *v)
{
  for (unsigned i = 0; i < v->nr_servers; i++)
    if (v->servers[i].is_unix)
      return true;
  return false;
}

int
fp_params_complete (struct fp_params *p, struct fp_error *error)
{
  struct fp_volume_params *v = &p->volume;

  if (fp_tls_params_complete (&p->tls, false, error) < 0)
    return -EINVAL;
  if (v->nr_servers == 0)
    return fp_fail (error, -EINVAL,
                    "server=ADDR is required: give the address of a"
                    " farpage-memserver, or pool=NAME");
  if (!given (p, "size") && v->name[0] == '\0')
    return fp_fail (error, -EINVAL, "size=SIZE is required");
  if (v->transports == FP_TRANSPORT_SHM && !any_unix_server (v))
    return fp_fail (error, -EINVAL, "transport=shm needs server=unix:PATH");
  if (v->name[0] != '\0' && given (p, "uuid") && !v->resume)
    return fp_fail (error, -EINVAL,
                    "volume=%s and uuid=UUID contradict each other: a volume "
                    "with a name is found by its name",
                    v->name);
  /* Servers in DNS or etcd can change or be missing.  Without one of its
   * servers the volume may seem not to exist, and would be made again, empty.
   */
  if ((v->name[0] != '\0' || v->resume) && p->varies)
    return fp_fail (error, -EINVAL,
                    "%s=%s: an existing volume cannot use pool=dns: or "
                    "pool=etcd:, because the servers there change: give "
                    "server=ADDR or a pool file",
                    v->name[0] != '\0' ? "volume" : "resume",
                    v->name[0] != '\0' ? v->name : "true");
  if (complete_seal (p, error) < 0)
    return -EINVAL;
  if (check_readonly (p, error) < 0)
    return -EINVAL;
  if (v->name[0] == '\0' && (v->takeover || v->degraded))
    return fp_fail (error, -EINVAL, "%s=true needs volume=NAME",
                    v->takeover ? "takeover" : "degraded");
  if (v->name[0] == '\0' && (v->add || v->nr_remove > 0))
    return fp_fail (error, -EINVAL, "%s needs volume=NAME",
                    v->add ? "add=true" : "remove=ADDR");
  if (v->force && !v->add && v->nr_remove == 0)
    return fp_fail (error, -EINVAL,
                    "force=true needs remove=ADDR, a server that is"
                    " permanently gone, or add=true");
  if (v->resume && v->name[0] == '\0' && fp_uuid_is_nil (&v->uuid))
    return fp_fail (error, -EINVAL,
                    "resume=true needs uuid=UUID, the volume to resume");
  if (p->swap) {
    if (given (p, "reserve") && !v->reserve_full)
      return fp_fail (error, -EINVAL,
                      "swap=true and reserve=thin contradict each other:"
                      " swap needs its memory before this host runs out");
    if (!p->mlock)
      return fp_fail (error, -EINVAL,
                      "swap=true and mlock=false contradict each other: a"
                      " process that serves swap must not be swapped out");
    if (v->timeout_ms < FP_RDMA_TIMEOUT_MIN_MS && may_use_rdma (v))
      return fp_fail (error, -EINVAL,
                      "swap=true and timeout=%u contradict each other over "
                      "RDMA: resending a lost packet may take that long: give "
                      "timeout=%u or more, or transport=tcp",
                      v->timeout_ms, (unsigned) FP_RDMA_TIMEOUT_MIN_MS);
    v->reserve_full = true;
    /* A named volume may have several copies: that is not known yet. */
    if (!given (p, "timeout") && v->copies < 2 && v->name[0] == '\0')
      v->timeout_ms = SWAP_TIMEOUT_MS;
  }
  if (!given (p, "await"))
    v->await_ms = FP_MAX (AWAIT_MS, 2 * v->timeout_ms);
  if (!given (p, "connections")) {
    long cpus = sysconf (_SC_NPROCESSORS_ONLN);

    v->lanes = cpus < 1              ? 1
               : cpus > FP_MAX_LANES ? FP_MAX_LANES
                                     : (unsigned) cpus;
  }
  return 0;
}

int
fp_params_read_keys (struct fp_params *p, struct fp_error *error)
{
  struct fp_tls *tls;
  int r = fp_tls_new (&tls, &p->tls, false, error);

  if (r < 0)
    return r;
  fp_tls_set_client (tls);
  if (p->volume.encrypt == FP_ENCRYPT_FILE)
    r = fp_seal_key_read (&p->volume.key, p->encrypt_file, error);
  return r;
}

void
fp_params_transports (char out[FP_PARAMS_TRANSPORTS_MAX])
{
  static const unsigned all[] = { FP_TRANSPORT_RDMA, FP_TRANSPORT_SHM,
                                  FP_TRANSPORT_TCP };
  size_t n = 0;

  out[0] = '\0';
  for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
    if (fp_transport_get (all[i]) != NULL)
      n += (size_t) snprintf (out + n, FP_PARAMS_TRANSPORTS_MAX - n, "%s%s",
                              n == 0 ? "" : ",", fp_transport_name (all[i]));
}
