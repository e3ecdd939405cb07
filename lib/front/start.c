/* SPDX-License-Identifier: BSD-3-Clause */
/* start.c - see start.h. */

#include <config.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/memlock.h"
#include "base/size.h"
#include "base/thread.h"
#include "front/members.h"
#include "front/memory.h"
#include "front/start.h"

/* Bytes that are locked besides the slots and the memory that exists before
 * the fork: stacks, heap, tables, libraries of the transports.
 */
#define MEMORY_RESERVE (24u << 20)

void
fp_front_init (struct fp_front *f)
{
  *f = (struct fp_front) { 0 };
  fp_params_init (&f->params);
}

int
fp_front_complete (struct fp_front *f, struct fp_error *error)
{
  int r = fp_members_read (&f->params, error);

  return r == 0 ? fp_params_complete (&f->params, error) : r;
}

/* Tell the user why the start takes so long. */
static void
on_waits (const struct fp_volume_params *v, const char *why, unsigned ms)
{
  fp_log (FP_LOG_INFO, "%s%s%s; retrying for %u s more at most",
          v->takeover ? "the previous client of volume " : "",
          v->takeover ? v->name : why,
          v->takeover
              ? " may not know yet of the takeover, until its lease expires"
              : "",
          (ms + 999) / 1000);
}

static void
say_takeover (const struct fp_volume_params *v)
{
  char since[32] = "?";
  time_t t = (time_t) v->held_since;
  struct tm tm;

  if (v->holder[0] == '\0')
    return;
  if (localtime_r (&t, &tm) != NULL)
    strftime (since, sizeof since, "%Y-%m-%d %H:%M:%S", &tm);
  fp_log (FP_LOG_INFO,
          "volume %s: taking it over from %s, attached since %s: if that "
          "client does not release it, this waits until its lease expires, "
          "%u s at most",
          v->name, v->holder, since, (v->lease_ms + 999) / 1000);
}

/* Return the bytes of heap that swap needs in advance; 0 without swap. */
static size_t
heap_size (const struct fp_params *p)
{
  return p->mlock && p->swap ? fp_memory_later (p->volume.lanes) : 0;
}

int
fp_front_prepare (struct fp_front *f, struct fp_error *error)
{
  struct fp_params *p = &f->params;
  struct fp_volume_params *v = &p->volume;
  int r = 0;

  if (p->mlock)
    r = fp_memory_check (fp_volume_slot_memory (v) +
                             fp_volume_seal_memory (v) + heap_size (p) +
                             MEMORY_RESERVE,
                         error);
  if (r == 0 && p->status[0] != '\0')
    r = fp_status_check (p->status, error);
  if (r == 0)
    r = fp_params_read_keys (p, error);
  v->waits = on_waits;
  if (r == 0)
    r = fp_volume_probe (v, error);
  if (r == 0)
    say_takeover (v);
  return r;
}

/* Write the members file.  A named volume may have other servers than those
 * that were given.
 */
static int
keep_members (const struct fp_front *f, struct fp_error *error)
{
  struct fp_server_names names;

  if (f->params.members[0] == '\0')
    return 0;
  fp_volume_servers (f->volume, &names);
  return fp_members_write ((void *) (uintptr_t) f->params.members, &names,
                           error);
}

/* Lock memory, and keep keys out of dumps. */
static int
protect (const struct fp_params *p, struct fp_error *error)
{
  int r = 0;

  fp_raise_memlock ();
  if (p->mlock)
    r = fp_memory_lock (error);
  if (r < 0)
    return r;
  if (heap_size (p) > 0)
    fp_thread_fill_stacks ();
  if (p->volume.encrypt == FP_ENCRYPT_NONE)
    return 0;
  r = fp_memory_no_dumps ();
  if (r == 0)
    r = fp_seal_key_lock (p->volume.key);
  return r < 0
             ? fp_fail (error, r, "cannot lock encryption keys in memory: %s",
                        strerror (-r))
             : 0;
}

static void
describe (struct fp_front *f)
{
  const struct fp_volume_params *v = &f->params.volume;
  char uuid[FP_UUID_STR_MAX], size[FP_SIZE_STR_MAX];
  const char *s = v->nr_servers == 1 ? "" : "s";

  fp_uuid_format (fp_volume_uuid (f->volume), uuid);
  fp_format_size (fp_volume_size (f->volume), size);
  snprintf (f->description, sizeof f->description,
            "farpage volume %s%s%s: %s on %u server%s", v->name,
            v->name[0] != '\0' ? " " : "", uuid, size, v->nr_servers, s);
  if (v->name[0] != '\0')
    fp_log (FP_LOG_INFO, "volume %s: %s: %s on %u server%s", v->name,
            v->read_only ? "attached read-only"
            : v->resume  ? "attached"
                         : "created",
            size, v->nr_servers, s);
}

int
fp_front_start (struct fp_front *f, struct fp_error *error)
{
  struct fp_params *p = &f->params;
  bool io_flusher;
  int r;

  /* Set the flag and the limits before there are threads, which inherit them.
   */
  io_flusher = fp_memory_io_flusher ();
  if (!io_flusher)
    fp_log (FP_LOG_DEBUG, "PR_SET_IO_FLUSHER: %s", strerror (errno));
  r = protect (p, error);
  if (r == 0)
    r = fp_status_new (&f->status, p->status, error);
  if (r < 0)
    return r;
  if (p->members[0] != '\0') {
    p->volume.keep_servers = fp_members_write;
    p->volume.opaque = p->members;
  }
  r = fp_volume_start (&f->volume, &p->volume, error);
  if (r == 0)
    r = keep_members (f, error);
  if (r < 0)
    return r;
  r = fp_status_start (f->status, f->volume, io_flusher);
  if (r < 0)
    return fp_fail (error, r, "cannot start the status thread: %s",
                    strerror (-r));
  if (heap_size (p) > 0) {
    r = fp_memory_fill_heap (heap_size (p));
    if (r < 0)
      return fp_fail (error, r, "cannot preallocate memory for swap: %s",
                      strerror (-r));
  }
  describe (f);
  return 0;
}

void
fp_front_stop (struct fp_front *f, bool discard)
{
  fp_status_free (f->status);
  f->status = NULL;
  fp_volume_stop (f->volume, discard);
  f->volume = NULL;
  fp_seal_key_free (f->params.volume.key);
  f->params.volume.key = NULL;
}
