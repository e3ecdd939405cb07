/* SPDX-License-Identifier: BSD-3-Clause */
/* meta_log_copies.c - which copies are in sync when a volume is attached, and
 * what is recorded for the next client when it is detached (mirror.h).
 */

#include <config.h>

#include <errno.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "extent/copies.h"
#include "extent/stripe.h"
#include "meta/meta_log_int.h"

/* Choose the one copy to believe.  The last client did not detach cleanly, so
 * that its last writes may be in some copies only.  A READY copy is believed,
 * and the others are resynced.
 */
static uint8_t
believe_one (struct fp_meta_log *log, uint64_t i, uint8_t in_sync)
{
  struct fp_extents *t = log->extents;
  uint8_t one = 0;

  for (unsigned c = 0; one == 0 && c < t->copies; c++) {
    uint64_t k = fp_copies_entry (t, i, c);

    if ((in_sync >> c & 1) && fp_extent_state (&t->p[k]) == FP_EXTENT_READY)
      one = (uint8_t) (1u << c);
  }
  if (one != 0)
    return one;
  /* No copy is READY: one is chosen as soon as one is. */
  atomic_store (&t->p[i].diverged, true);
  fp_copies_missed (log->extents, i, 0, fp_extent_length (t, i), 0);
  atomic_fetch_add (&log->resync_bytes, fp_extent_length (t, i));
  return in_sync;
}

/* Mark what the copies in `others` may have missed.  They are out of sync now,
 * since one copy is believed.
 */
static void
miss_unclean (struct fp_meta_log *log, uint64_t i, uint8_t others, uint8_t one)
{
  struct fp_extents *t = log->extents;
  uint64_t most = 0;

  for (unsigned c = 0; c < t->copies; c++)
    if (others >> c & 1) {
      uint64_t length = log->ops->differ (log->peers->v, i, c,
                                          (unsigned) __builtin_ctz (one));

      most = FP_MAX (most, length);
    }
  atomic_fetch_add (&log->resync_bytes, most);
}

/* Return the in-sync copies at servers that are not believed, if a believed
 * server has an in-sync copy.  The map cannot tell them from a later copy with
 * the same entry.  A server that came back with nothing may have had that
 * copy.
 */
static uint8_t
stale_copies (struct fp_meta_log *log, uint64_t i, uint8_t in_sync)
{
  struct fp_extents *t = log->extents;
  uint8_t stale = 0, believed = 0;

  for (unsigned c = 0; c < t->copies; c++) {
    struct fp_extent *p = fp_copies_get (t, i, c);

    if (!(in_sync >> c & 1) || fp_extent_state (p) != FP_EXTENT_READY)
      continue;
    if (log->recorded->stale >> atomic_load (&p->server) & 1)
      stale |= (uint8_t) (1u << c);
    else
      believed |= (uint8_t) (1u << c);
  }
  return believed != 0 ? stale : 0;
}

static void
take_extent (struct fp_meta_log *log, uint64_t i, bool unclean)
{
  struct fp_extents *t = log->extents;
  uint8_t in_sync = 0, stale, all;

  for (unsigned c = 0; c < t->copies; c++)
    if (fp_recorded_has (log->recorded, fp_copies_entry (t, i, c)))
      in_sync |= (uint8_t) (1u << c);
  stale = stale_copies (log, i, in_sync);
  in_sync &= (uint8_t) ~stale;
  if (stale != 0) {
    fp_copies_missed (log->extents, i, 0, fp_extent_length (t, i),
                      (uint8_t) ~stale);
    atomic_fetch_add (&log->resync_bytes, fp_extent_length (t, i));
  }
  all = in_sync;
  /* A dead member may have been the only one that knew of this extent: it is
   * lost.
   */
  if (log->forced && in_sync == 0)
    all = in_sync = 1;
  if (unclean && (in_sync & (in_sync - 1)) != 0) {
    atomic_fetch_add (&log->resync_of, fp_extent_length (t, i));
    in_sync = believe_one (log, i, in_sync);
  }
  for (unsigned c = 0; c < t->copies; c++)
    fp_recorded_set (log->recorded, fp_copies_entry (t, i, c),
                     in_sync >> c & 1);
  if (in_sync == 0)
    fp_extent_clear_written (t, i, 0, t->extent_size);
  else
    fp_extent_set_all_written (t, i);
  if (all != in_sync)
    miss_unclean (log, i, all & (uint8_t) ~in_sync, in_sync);
  atomic_store (&t->in_sync[i], in_sync);
}

int
meta_log_take_copies (struct fp_meta_log *log, uint64_t deadline_ns,
                      struct fp_error *error)
{
  struct fp_extents *t = log->extents;
  uint64_t members = log->p->resume ? log->members : fp_peers_all (log->peers);
  bool unclean;

  if (!fp_copies_several (log->extents))
    return 0;
  unclean = fp_recorded_has (log->recorded, t->all);
  atomic_store (&log->unclean, unclean);
  for (uint64_t i = 0; i < t->nr; i++)
    take_extent (log, i, unclean);
  fp_recorded_set (log->recorded, t->all, true);
  if (meta_log_ask_all (log, members, RECORD_OP_MAP_WRITE, deadline_ns) !=
      members)
    return fp_fail (
        error, -EIO,
        "volume %s: some of its servers did not record in time which "
        "copies are in sync",
        log->title);
  return 0;
}

int
meta_log_read_copies (struct fp_meta_log *log, struct fp_error *error)
{
  struct fp_extents *t = log->extents;

  if (!fp_copies_several (log->extents))
    return 0;
  /* Writes under way when the last client died may be in one copy and not in
   * another.  The choice must be recorded before a read, and a read-only
   * client records nothing.
   */
  if (fp_recorded_has (log->recorded, t->all))
    return fp_fail (error, -EROFS, FP_NOT_IN_ORDER_WHY, log->title);
  for (uint64_t i = 0; i < t->nr; i++)
    take_extent (log, i, false);
  return 0;
}

/* ---- extents that are lost for good ---- */

/* Return true if the memory of this copy is gone, and its server is up, which
 * says so.  A copy in doubt may still be found, and so may one that has no
 * label yet.
 */
static bool
is_gone (struct fp_extent *p, uint64_t up)
{
  return fp_extent_state (p) == FP_EXTENT_LOST && !atomic_load (&p->doubt) &&
         p->copy.slab != UINT64_MAX &&
         (up >> atomic_load (&p->server) & 1) != 0;
}

/* Return true if extent i was written, and its copies are gone: those in sync,
 * and those that the map names or soon will.
 */
static bool
is_lost (struct fp_meta_log *log, uint64_t i, uint64_t up)
{
  struct fp_extents *t = log->extents;
  uint8_t in_sync = fp_copies_in_sync (t, i);

  for (unsigned c = 0; c < t->copies; c++) {
    uint64_t k = fp_copies_entry (t, i, c);

    if (((in_sync >> c & 1) || fp_recorded_has (log->recorded, k) ||
         fp_meta_log_is_due (log, k)) &&
        !is_gone (&t->p[k], up))
      return false;
  }
  return in_sync != 0;
}

/* Return true if extent i was written, and all its in-sync copies are LOST. */
static bool
is_left (struct fp_meta_log *log, uint64_t i)
{
  uint8_t in_sync = fp_copies_in_sync (log->extents, i);

  return in_sync != 0 && fp_copies_are_lost (log->extents, i, in_sync);
}

/* Have the members record the lost bits that are set.  Return those that did.
 */
static uint64_t
tell_lost (struct fp_meta_log *log)
{
  return meta_log_ask (log, log->members, RECORD_OP_MAP_WRITE, NULL,
                       fp_deadline_in_ms (log->p->timeout_ms), NULL);
}

void
meta_log_note_lost (struct fp_meta_log *log)
{
  bool any = false;
  uint64_t up;

  if (!fp_copies_several (log->extents) ||
      atomic_load (&log->extents->lost) == 0 ||
      atomic_load (&log->recorded->unheard) != 0 ||
      fp_lease_is_fenced (log->lease))
    return;
  {
    FP_LOCK_SCOPE (&log->lock);
    up = log->up;
  }
  {
    FP_LOCK_SCOPE (&log->extents->lock);
    for (uint64_t i = 0; i < log->extents->nr; i++)
      any |= is_lost (log, i, up) && fp_recorded_lose (log->recorded, i);
  }
  if (any)
    log->lost_due = log->list_due = true;
}

bool
meta_log_tell_lost (struct fp_meta_log *log)
{
  uint64_t done, next;

  /* A member that is taken in gets the whole map. */
  if (!log->lost_due || log->members == 0)
    return true;
  done = tell_lost (log);
  next = meta_log_next (log, log->members & done);
  if (next != 0)
    log->members = next;
  log->lost_due = (log->members & ~done) != 0;
  return !log->lost_due;
}

void
meta_log_lose_rest (struct fp_meta_log *log)
{
  bool any = false;

  if (!fp_copies_several (log->extents))
    return;
  for (uint64_t i = 0; i < log->extents->nr; i++)
    any |= is_left (log, i) && fp_recorded_lose (log->recorded, i);
  log->lost_due = any && tell_lost (log) != log->members;
}

void
fp_meta_log_rest (struct fp_meta_log *log)
{
  uint64_t deadline;

  if (log == NULL || !fp_copies_several (log->extents) || log->p->read_only ||
      !atomic_load (&log->peers->started) || fp_lease_is_fenced (log->lease) ||
      log->list_due || log->unsettled)
    return;
  for (uint64_t i = 0; i < log->extents->nr; i++)
    if (atomic_load (&log->extents->p[i].diverged))
      return;
  {
    FP_LOCK_SCOPE (&log->lock);
    log->stop = false; /* the thread has ended */
  }
  log->change = (struct fp_map_change) {
    .exist = false,
    .count = 1,
    .extents = { log->extents->all },
  };
  deadline = fp_deadline_in_ms (log->p->timeout_ms);
  /* A member that misses this still says that a client is at work, which is
   * safe.
   */
  (void) meta_log_ask (log, log->members, RECORD_OP_MAP, &log->change,
                       deadline, NULL);
}
