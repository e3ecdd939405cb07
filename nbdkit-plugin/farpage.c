/* SPDX-License-Identifier: BSD-3-Clause */
/* farpage.c - the nbdkit callbacks: each becomes one call of lib/volume.
 *
 * nbdkit does right by itself where a callback is missing here.  It takes
 * .can_flush, .can_trim, .can_zero and .can_extents as true because their
 * calls exist.  A disk is not rotational unless it says so.  A write with FUA
 * is followed by .flush, and the plugin could do no more itself.  An
 * acknowledged write is in the servers' memory; flush orders it against reads
 * on other queue pairs.
 */

#include <config.h>

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
#include <nbdkit-plugin.h>

#include "age.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "front/params.h"
#include "front/start.h"
#include "say.h"
#include "volume/volume.h"

/* -v -D farpage.io=1: log every request. */
NBDKIT_DLL_PUBLIC int farpage_debug_io = 0;

/* Read-only after .after_fork. */
static struct fp_front front;

/* SIGUSR1 came: the volume that keep=true kept is no longer needed. */
static volatile sig_atomic_t done_with;

/* Convert an error of the library.  NBD carries few errors, and nbdkit turns
 * all others into EINVAL, so report EIO.  ENOTSUP must not get out, or nbdkit
 * would zero by writing.  Log nothing on the path of requests: the volume
 * counts errors and status.c reports them.
 */
static int
fail (int r)
{
  switch (r) {
  case 0:
    return 0;
  case -EINVAL:
  case -ENOSPC:
  case -ESHUTDOWN:
    errno = -r;
    return -1;
  default:
    errno = EIO;
    return -1;
  }
}

/* Report an error with its reason.  Not for the I/O path. */
static int
complain (int r, const char *why)
{
  if (r >= 0)
    return 0;
  nbdkit_error ("%s", why);
  errno = -r;
  return -1;
}

static void
farpage_load (void)
{
  fp_log_set_sink (fp_say, NULL);
  fp_log_set_level (FP_LOG_DEBUG); /* nbdkit -v decides */
  fp_front_init (&front);
}

static int
farpage_config (const char *key, const char *value)
{
  struct fp_error error = { .text = "" };

  return complain (fp_params_set (&front.params, key, value, &error),
                   error.text);
}

static int
farpage_config_complete (void)
{
  struct fp_error error = { .text = "" };

  return complain (fp_front_complete (&front, &error), error.text);
}

#define farpage_config_help                                                   \
  "[server=]<ADDR>    (required) Address of a farpage-memserver: HOST,\n"     \
  "                   HOST:PORT, [V6]:PORT or unix:PATH.  May be\n"           \
  "                   followed by ,domain=NAME, its failure domain, and\n"    \
  "                   be repeated.\n"                                         \
  "pool=<NAME>        Read servers from " SYSCONFDIR                          \
  "/farpage/pools.d/NAME.conf, or\n"                                          \
  "                   from the file with this path.  dns:DOMAIN and\n"        \
  "                   etcd:PREFIX get them from DNS and etcd.\n"              \
  "size=<SIZE>        (required) Size of the volume.  Not needed for a\n"     \
  "                   volume=NAME that exists.\n"                             \
  "slab=<SIZE>        Slab size (default: that of the servers).\n"            \
  "copies=<N>         Copies of each extent, on N servers (default 1).\n"     \
  "rebuild-delay=<TIME>\n"                                                    \
  "                   Rebuild the copies of a server on others if it is\n"    \
  "                   down for this long (default 30s).\n"                    \
  "checksum=crc32c|off Verify blocks when they are read (default off).\n"     \
  "encrypt=ephemeral|<FILE>|off\n"                                            \
  "                   Encrypt blocks before they leave this host, with a\n"   \
  "                   random key, or with the key in a file that farpage\n"   \
  "                   keygen --encrypt made (default off).\n"                 \
  "integrity=<BOOL>   With encrypt=ephemeral: detect blocks that a server\n"  \
  "                   has changed (default off).\n"                           \
  "stripe=<SIZE>      Bytes that each extent of a stripe takes in turn\n"     \
  "                   (default 128k).\n"                                      \
  "stripe-width=<N>   Extents of a stripe, on as many servers; 1: none\n"     \
  "                   (default: the number of servers, 16 at most).\n"        \
  "transport=auto|rdma|shm|tcp\n"                                             \
  "                   How data moves (default auto: the best available).\n"   \
  "timeout=<TIME>     Reconnect to a server that is silent for this long:\n"  \
  "                   500ms, 2s, ... (default 2s).\n"                         \
  "await=<TIME>       Fail a request after it waited this long for servers\n" \
  "                   that are down (default 25s, or twice timeout).\n"       \
  "poll=<TIME>        Poll at most this long before sleeping (100us).\n"      \
  "hedge=p99|off      Send a read that takes longer than 99 of 100 to\n"      \
  "                   another copy, too (default off).\n"                     \
  "connections=<N>    NBD connections to prepare for (default: CPUs).\n"      \
  "reserve=full|thin  Take all memory at the start, or when it is\n"          \
  "                   written (default thin).\n"                              \
  "swap=<BOOL>        Prepare the volume for swap (default false).\n"         \
  "mlock=<BOOL>       Lock this process in memory (default true).\n"          \
  "tls=off|on|require Use TLS to the servers (default: require if there is\n" \
  "                   a key or certificates, else off).\n"                    \
  "tls-psk=<FILE>     Use this key, which the servers have, too: farpage\n"   \
  "                   keygen.\n"                                              \
  "tls-username=<NAME> Use this user's key from that file (default: the\n"    \
  "                   only one).\n"                                           \
  "tls-certificates=<DIR> Use DIR/ca-cert.pem, and client-cert.pem and\n"     \
  "                   client-key.pem there if the servers require them.\n"    \
  "volume=<NAME>      Create or attach a volume that outlives nbdkit.\n"      \
  "takeover=<BOOL>    Take the volume over from another client.\n"            \
  "degraded=<BOOL>    Attach it although some of its servers are down.\n"     \
  "readonly=<BOOL>    Attach it read-only, which its servers enforce.\n"      \
  "add=<BOOL>         Add servers that are named and are not its own.\n"      \
  "remove=<ADDR>      Remove this server from it.  May be repeated.\n"        \
  "force=<BOOL>       With remove= or add=: the removed servers are\n"        \
  "                   permanently gone, even if they hold newer metadata.\n"  \
  "uuid=<UUID>        UUID of the volume (default: random).\n"                \
  "resume=<BOOL>      Resume the volume of a client that died.\n"             \
  "client=<UUID>      UUID of this client (default: random).\n"               \
  "keep=<BOOL>        Keep the volume at the end, until its lease is over.\n" \
  "members=<PATH>     Keep a list of the servers here, for resume=true.\n"    \
  "status=<PATH>      Serve a status document on this Unix socket."

static void
farpage_dump_plugin (void)
{
  char transports[FP_PARAMS_TRANSPORTS_MAX];

  fp_params_transports (transports);
  printf ("farpage_transports=%s\n", transports);
  printf ("farpage_protocol=%d\n", FP_VERSION);
  printf ("farpage_max_copies=%d\n", FP_MAX_COPIES);
  printf ("farpage_max_servers=%d\n", FP_MAX_SERVERS);
  printf ("farpage_max_connections=%d\n", FP_MAX_LANES);
  printf ("farpage_max_io=%u\n", FP_MAX_IO);
}

/* nbdkit 1.32.4 to 1.33.9 abort when a client hangs up on a connection that
 * has several worker threads and outstanding replies.  nbdkit commit 9d82aa4f
 * fixed that; nbdkit_disconnect came with the fix.
 */
static int
farpage_thread_model (void)
{
  return dlsym (RTLD_DEFAULT, "nbdkit_disconnect") != NULL
             ? NBDKIT_THREAD_MODEL_PARALLEL
             : NBDKIT_THREAD_MODEL_SERIALIZE_REQUESTS;
}

/* Check all: this is the last callback whose errors reach the user. */
static int
farpage_get_ready (void)
{
  struct fp_error error = { .text = "" };

  return complain (fp_front_prepare (&front, &error), error.text);
}

static void
farpage_cleanup (void)
{
  fp_front_stop (&front, !front.params.keep || done_with);
}

/* nbdkit that is stopped waits for the next request of each connection and
 * answers it with an error.  With keep=true another nbdkit will continue the
 * volume, and the client will repeat unanswered requests.  So exit at once and
 * send no error.
 */
static void
on_end (int sig)
{
  (void) sig;
  if (!done_with)
    _exit (EXIT_FAILURE);
}

/* Use one signal, because two may be handled in any order. */
static void
on_done_with (int sig)
{
  (void) sig;
  done_with = 1;
  nbdkit_shutdown (); /* like nbdkit's own SIGTERM handler */
}

static int
catch_end (void)
{
  static const struct {
    int signal;
    void (*handler) (int sig);
  } table[] = {
    { SIGTERM, on_end }, { SIGINT, on_end },        { SIGQUIT, on_end },
    { SIGHUP, on_end },  { SIGUSR1, on_done_with },
  };

  for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
    const struct sigaction sa = { .sa_handler = table[i].handler,
                                  .sa_flags = SA_RESTART };

    if (sigaction (table[i].signal, &sa, NULL) == -1)
      return -errno;
  }
  return 0;
}

/* If this fails, nbdkit exits with status 1.  In the background that goes
 * unseen.
 */
static int
farpage_after_fork (void)
{
  struct fp_error error = { .text = "" };
  int r = front.params.keep ? catch_end () : 0;

  if (r < 0)
    return complain (r, "cannot set signal handlers");
  r = fp_front_start (&front, &error);
  /* A resumed volume holds data: keep it, as the next attempt may succeed. */
  if (r < 0)
    fp_front_stop (&front, !front.params.keep && !front.params.volume.resume);
  return complain (r, error.text);
}

/* One NBD connection. */
struct conn {
  struct fp_lane *lane;
  struct fp_age age;
};

static void *
farpage_open (int readonly)
{
  struct conn *c = malloc (sizeof *c);

  (void) readonly; /* nbdkit -r refuses writes before they come here */
  if (c == NULL) {
    nbdkit_error ("out of memory");
    return NULL;
  }
  fp_thread_fill_stack ();
  c->lane = fp_volume_lane_get (front.volume);
  fp_age_init (&c->age);
  return c;
}

static void
farpage_close (void *handle)
{
  struct conn *c = handle;

  fp_volume_lane_put (c->lane);
  fp_age_destroy (&c->age);
  free (c);
}

/* There is one volume, whatever export name a client asks for. */
static int
farpage_list_exports (int readonly, int is_tls, struct nbdkit_exports *exports)
{
  (void) readonly;
  (void) is_tls;
  return nbdkit_add_export (exports, front.params.volume.name,
                            front.description);
}

static const char *
farpage_export_description (void *handle)
{
  (void) handle;
  return front.description;
}

static int64_t
farpage_get_size (void *handle)
{
  (void) handle;
  return (int64_t) fp_volume_size (front.volume);
}

static int
farpage_block_size (void *handle, uint32_t *minimum, uint32_t *preferred,
                    uint32_t *maximum)
{
  (void) handle;
  *minimum = 1;
  *preferred = 4096;
  *maximum = FP_MAX_IO;
  return 0;
}

/* nbdkit -r is unknown until there is a client, and by then the volume is
 * attached.  So the volume has the right to write, and nbdkit does not use it.
 */
static int
farpage_can_write (void *handle)
{
  (void) handle;
  return !front.params.volume.read_only;
}

/* All connections see the same bytes at once. */
static int
farpage_can_multi_conn (void *handle)
{
  (void) handle;
  return 1;
}

/* A fast-zero request that would be slow is refused at once. */
static int
farpage_can_fast_zero (void *handle)
{
  (void) handle;
  return 1;
}

/* No cache is nearer than the servers' memory.  Without .cache, nbdkit answers
 * at once that it is done.
 */
static int
farpage_can_cache (void *handle)
{
  (void) handle;
  return NBDKIT_CACHE_NATIVE;
}

struct request {
  struct conn *conn;
  uint64_t made_ns; /* earliest time: age.h */
  uint64_t start_ns, waits;
};

static struct request
begin (void *handle)
{
  struct conn *c = handle;

  return (struct request) {
    .conn = c,
    .made_ns = fp_age_begin (&c->age),
    .start_ns = fp_now_ns (),
    .waits = fp_volume_waits (front.volume),
  };
}

/* If the request took long and any request waited meanwhile, take this one to
 * have waited.
 */
static int
end (const struct request *q, int r)
{
  bool waited = fp_now_ns () - q->start_ns >= FP_WAITED_MS * FP_NS_PER_MS &&
                fp_volume_waits (front.volume) != q->waits;

  fp_age_end (&q->conn->age, q->made_ns, waited);
  return fail (r);
}

static int
farpage_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
               uint32_t flags)
{
  struct request q = begin (handle);

  (void) flags;
  if (farpage_debug_io)
    nbdkit_debug ("read %" PRIu32 " at %" PRIu64, count, offset);
  return end (&q, fp_lane_read (q.conn->lane, buf, count, offset));
}

static int
farpage_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset,
                uint32_t flags)
{
  struct request q = begin (handle);

  (void) flags;
  if (farpage_debug_io)
    nbdkit_debug ("write %" PRIu32 " at %" PRIu64, count, offset);
  return end (
      &q, fp_lane_write_made (q.conn->lane, buf, count, offset, q.made_ns));
}

static int
farpage_flush (void *handle, uint32_t flags)
{
  struct request q = begin (handle);

  (void) flags;
  if (farpage_debug_io)
    nbdkit_debug ("flush");
  return end (&q, fp_lane_flush (q.conn->lane));
}

static int
farpage_trim (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  struct request q = begin (handle);

  (void) flags;
  if (farpage_debug_io)
    nbdkit_debug ("trim %" PRIu32 " at %" PRIu64, count, offset);
  return end (
      &q, fp_lane_zero_made (q.conn->lane, count, offset, true, q.made_ns));
}

static int
farpage_zero (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  bool may_trim = flags & NBDKIT_FLAG_MAY_TRIM;
  struct request q;

  if (farpage_debug_io)
    nbdkit_debug ("zero %" PRIu32 " at %" PRIu64, count, offset);
  if ((flags & NBDKIT_FLAG_FAST_ZERO) &&
      !fp_volume_zero_is_fast (front.volume, count, offset, may_trim)) {
    errno = ENOTSUP;
    return -1;
  }
  q = begin (handle);
  return end (&q, fp_lane_zero_made (q.conn->lane, count, offset, may_trim,
                                     q.made_ns));
}

static int
farpage_extents (void *handle, uint32_t count, uint64_t offset, uint32_t flags,
                 struct nbdkit_extents *extents)
{
  uint64_t end = offset + count;

  (void) handle;
  do {
    uint64_t length;
    bool hole;

    fp_volume_extent (front.volume, offset, end - offset, &hole, &length);
    if (nbdkit_add_extent (extents, offset, length,
                           hole ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO
                                : 0) == -1)
      return -1;
    offset += length;
  } while (offset < end && !(flags & NBDKIT_FLAG_REQ_ONE));
  return 0;
}

static struct nbdkit_plugin plugin = {
  .name = "farpage",
  .longname = "nbdkit farpage plugin",
  .version = PACKAGE_VERSION,
  .description = "a block device made of other machines' memory",
  .load = farpage_load,
  .config = farpage_config,
  .config_complete = farpage_config_complete,
  .config_help = farpage_config_help,
  .magic_config_key = "server",
  .dump_plugin = farpage_dump_plugin,
  .thread_model = farpage_thread_model,
  .get_ready = farpage_get_ready,
  .after_fork = farpage_after_fork,
  .cleanup = farpage_cleanup,
  .open = farpage_open,
  .close = farpage_close,
  .list_exports = farpage_list_exports,
  .export_description = farpage_export_description,
  .get_size = farpage_get_size,
  .block_size = farpage_block_size,
  .can_write = farpage_can_write,
  .can_multi_conn = farpage_can_multi_conn,
  .can_fast_zero = farpage_can_fast_zero,
  .can_cache = farpage_can_cache,
  .pread = farpage_pread,
  .pwrite = farpage_pwrite,
  .flush = farpage_flush,
  .trim = farpage_trim,
  .zero = farpage_zero,
  .extents = farpage_extents,
  .errno_is_preserved = 1,
};

NBDKIT_REGISTER_PLUGIN (plugin)
