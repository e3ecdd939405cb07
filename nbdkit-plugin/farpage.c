/* SPDX-License-Identifier: BSD-3-Clause */
/* farpage.c - the nbdkit callbacks: each becomes one call of lib/volume.
 *
 * What is not here is what nbdkit does right by itself: .can_write,
 * .can_flush, .can_trim, .can_zero and .can_extents are true because their
 * calls exist; a disk is not rotational unless it says so; and a write with
 * FUA is followed by .flush, which is all that doing it here could do (an
 * acknowledged write is in the servers' memory; flush is what orders it
 * against reads on other queue pairs).
 */

#include <config.h>

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <syslog.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
#include <nbdkit-plugin.h>

#include "base/checked.h"
#include "base/log.h"
#include "base/memlock.h"
#include "base/size.h"
#include "memory.h"
#include "params.h"
#include "status.h"
#include "transport/transport.h"
#include "volume/volume.h"

/* Memory that is locked beside what is there before the fork and the slots:
 * stacks, heap, tables, libraries of the transports.
 */
#define MEMORY_RESERVE (24u << 20)

/* -v -D farpage.io=1: log every request. */
NBDKIT_DLL_PUBLIC int farpage_debug_io = 0;

/* Read-only after .get_ready. */
static struct fp_params params;

/* Read-only after .after_fork. */
static struct fp_volume *volume;
static struct fp_status_thread *status;
static char description[256];

/* Convert what the library returned.  NBD carries few errors, and nbdkit makes
 * EINVAL of all others: EIO says what happened.  ENOTSUP must not get out,
 * or nbdkit would zero by writing.  Nothing is logged, as this is on the
 * path of requests: the volume counts errors and status.c reports them.
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

/* For callbacks that are not: say why. */
static int
complain (int r, const char *why)
{
  if (r >= 0)
    return 0;
  nbdkit_error ("%s", why);
  errno = -r;
  return -1;
}

/* nbdkit has no level between an error and what only -v shows. */
static void
note (const char *message)
{
  struct stat st;

  if (fstat (STDERR_FILENO, &st) == 0 && S_ISCHR (st.st_mode) &&
      st.st_rdev == makedev (1, 3)) /* /dev/null: in the background */
    syslog (LOG_DAEMON | LOG_INFO, "farpage: %s", message);
  else
    fprintf (stderr, "nbdkit: farpage: %s\n", message);
}

static void
log_sink (enum fp_log_level level, const char *message, void *opaque)
{
  (void) opaque;
  switch (level) {
  case FP_LOG_ERROR:
  case FP_LOG_WARN:
    nbdkit_error ("%s", message);
    return;
  case FP_LOG_INFO:
    note (message);
    return;
  case FP_LOG_DEBUG:
    nbdkit_debug ("%s", message);
    return;
  }
}

static void
farpage_load (void)
{
  fp_log_set_sink (log_sink, NULL);
  fp_log_set_level (FP_LOG_DEBUG); /* nbdkit -v decides */
  fp_params_init (&params);
}

static int
farpage_config (const char *key, const char *value)
{
  char why[FP_WHY_MAX] = "";

  return complain (fp_params_set (&params, key, value, why), why);
}

static int
farpage_config_complete (void)
{
  char why[FP_WHY_MAX] = "";

  return complain (fp_params_complete (&params, why), why);
}

#define farpage_config_help                                                   \
  "[server=]<ADDR>    (required) A farpage-memserver: HOST, HOST:PORT,\n"     \
  "                   [V6]:PORT or unix:PATH.  May be repeated.\n"            \
  "size=<SIZE>        (required) Size of the volume.\n"                       \
  "slab=<SIZE>        Slab size (default: what the servers have).\n"          \
  "transport=auto|rdma|shm|tcp\n"                                             \
  "                   How data moves (default auto: the best there is).\n"    \
  "timeout=<MS>       A server that is silent this long is lost.\n"           \
  "poll=<US>          Poll at most this long before sleeping.\n"              \
  "connections=<N>    Connections to prepare for (default: CPUs).\n"          \
  "reserve=full|thin  Take all memory at the start, or when it is\n"          \
  "                   written (default thin).\n"                              \
  "swap=<BOOL>        This will be swap (default false).\n"                   \
  "mlock=<BOOL>       Lock this process in memory (default true).\n"          \
  "uuid=<UUID>        Who this volume is (default: drawn at random).\n"       \
  "resume=<BOOL>      Take up the volume of a client that died.\n"            \
  "keep=<BOOL>        Leave the volume to its lease at the end.\n"            \
  "status=<PATH>      Answer with a status document on this socket."

static void
farpage_dump_plugin (void)
{
  static const unsigned all[] = { FP_TRANSPORT_RDMA, FP_TRANSPORT_SHM,
                                  FP_TRANSPORT_TCP };
  const char *comma = "";

  printf ("farpage_transports=");
  for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
    if (fp_transport_get (all[i]) != NULL) {
      printf ("%s%s", comma, fp_transport_name (all[i]));
      comma = ",";
    }
  printf ("\n");
  printf ("farpage_protocol=%d\n", FP_VERSION);
  printf ("farpage_max_copies=1\n");
  printf ("farpage_max_servers=%d\n", FP_MAX_SERVERS);
  printf ("farpage_max_connections=%d\n", FP_MAX_LANES);
  printf ("farpage_max_io=%u\n", FP_MAX_IO);
}

/* nbdkit 1.32.4 to 1.33.9 abort when a client hangs up on a connection that
 * has several worker threads and replies outstanding (fixed by nbdkit commit
 * 9d82aa4f).  nbdkit_disconnect came with the fix.
 */
static int
farpage_thread_model (void)
{
  return dlsym (RTLD_DEFAULT, "nbdkit_disconnect") != NULL
             ? NBDKIT_THREAD_MODEL_PARALLEL
             : NBDKIT_THREAD_MODEL_SERIALIZE_REQUESTS;
}

/* The last place whose errors reach whoever started nbdkit, so all that can
 * fail is tried here, and nothing is kept: no thread, device or lock
 * survives the fork.
 */
static int
farpage_get_ready (void)
{
  struct fp_volume_params *v = &params.volume;
  char why[FP_WHY_MAX] = "";

  if (params.mlock) {
    size_t slots = (size_t) v->lanes * v->slots * v->slot_size;

    if (complain (fp_memory_check (slots + MEMORY_RESERVE, why), why) == -1)
      return -1;
  }
  if (params.status[0] != '\0' &&
      complain (fp_status_check (params.status, why), why) == -1)
    return -1;
  return complain (fp_volume_probe (v, why), why);
}

static void
stop (bool discard)
{
  fp_status_free (status);
  status = NULL;
  if (volume != NULL)
    fp_volume_stop (volume, discard);
  volume = NULL;
}

static void
farpage_cleanup (void)
{
  stop (!params.keep);
}

static int
start (char *why)
{
  char uuid[FP_UUID_STR_MAX], size[FP_SIZE_STR_MAX];
  bool io_flusher;
  int r;

  /* Before there are threads, as both are inherited by those to come. */
  io_flusher = fp_memory_io_flusher ();
  if (!io_flusher)
    nbdkit_debug ("PR_SET_IO_FLUSHER: %m");
  fp_raise_memlock ();
  if (params.mlock) {
    r = fp_memory_lock (why);
    if (r < 0)
      return r;
  }

  r = fp_status_new (&status, params.status, why);
  if (r < 0)
    return r;
  r = fp_volume_start (&volume, &params.volume, why);
  if (r < 0)
    return r;
  r = fp_status_start (status, volume, io_flusher);
  if (r < 0) {
    snprintf (why, FP_WHY_MAX, "status thread: %s", strerror (-r));
    return r;
  }

  fp_uuid_format (fp_volume_uuid (volume), uuid);
  fp_format_size (fp_volume_size (volume), size);
  snprintf (description, sizeof description,
            "farpage volume %s: %s of memory of %u servers", uuid, size,
            params.volume.nr_servers);
  return 0;
}

/* nbdkit ends with exit status 1 when this fails, but in the background
 * nobody is left to see that.
 */
static int
farpage_after_fork (void)
{
  char why[FP_WHY_MAX] = "";
  int r = start (why);

  /* What was taken up again holds data; the next attempt may succeed. */
  if (r < 0)
    stop (!params.keep && !params.volume.resume);
  return complain (r, why);
}

static void *
farpage_open (int readonly)
{
  (void) readonly; /* nbdkit -r refuses writes before they come here */
  return fp_volume_lane_get (volume);
}

static void
farpage_close (void *handle)
{
  fp_volume_lane_put (handle);
}

static const char *
farpage_export_description (void *handle)
{
  (void) handle;
  return description;
}

static int64_t
farpage_get_size (void *handle)
{
  (void) handle;
  return (int64_t) fp_volume_size (volume);
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

/* Every connection sees the same bytes at once. */
static int
farpage_can_multi_conn (void *handle)
{
  (void) handle;
  return 1;
}

/* Whether a request is fast is answered at once. */
static int
farpage_can_fast_zero (void *handle)
{
  (void) handle;
  return 1;
}

/* There is nothing nearer than the servers' memory: without .cache nbdkit
 * answers at once that it is done.
 */
static int
farpage_can_cache (void *handle)
{
  (void) handle;
  return NBDKIT_CACHE_NATIVE;
}

static int
farpage_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
               uint32_t flags)
{
  (void) flags;
  if (farpage_debug_io)
    nbdkit_debug ("read %" PRIu32 " at %" PRIu64, count, offset);
  return fail (fp_lane_read (handle, buf, count, offset));
}

static int
farpage_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset,
                uint32_t flags)
{
  (void) flags;
  if (farpage_debug_io)
    nbdkit_debug ("write %" PRIu32 " at %" PRIu64, count, offset);
  return fail (fp_lane_write (handle, buf, count, offset));
}

static int
farpage_flush (void *handle, uint32_t flags)
{
  (void) flags;
  if (farpage_debug_io)
    nbdkit_debug ("flush");
  return fail (fp_lane_flush (handle));
}

static int
farpage_trim (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  (void) flags;
  if (farpage_debug_io)
    nbdkit_debug ("trim %" PRIu32 " at %" PRIu64, count, offset);
  return fail (fp_lane_zero (handle, count, offset, true));
}

/* Nothing goes over the wire for holes and for whole pieces that may become
 * holes.
 */
static bool
zero_is_fast (uint64_t count, uint64_t offset, bool may_trim)
{
  uint64_t end = offset + count, slab = params.volume.slab_size;

  while (offset < end) {
    uint64_t piece_end =
        FP_MIN ((offset / slab + 1) * slab, fp_volume_size (volume));
    uint64_t next = FP_MIN (end, piece_end);

    if (!may_trim || offset % slab != 0 || next != piece_end) {
      uint64_t length;
      bool hole;

      fp_volume_extent (volume, offset, &hole, &length);
      if (!hole || length < next - offset)
        return false;
    }
    offset = next;
  }
  return true;
}

static int
farpage_zero (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  bool may_trim = flags & NBDKIT_FLAG_MAY_TRIM;

  if (farpage_debug_io)
    nbdkit_debug ("zero %" PRIu32 " at %" PRIu64, count, offset);
  if ((flags & NBDKIT_FLAG_FAST_ZERO) &&
      !zero_is_fast (count, offset, may_trim)) {
    errno = ENOTSUP;
    return -1;
  }
  return fail (fp_lane_zero (handle, count, offset, may_trim));
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

    fp_volume_extent (volume, offset, &hole, &length);
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
  .export_description = farpage_export_description,
  .get_size = farpage_get_size,
  .block_size = farpage_block_size,
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
