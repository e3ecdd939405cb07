/* SPDX-License-Identifier: BSD-3-Clause */
/* marks.c - set, read and clear the marks of the dirty log, which are in the
 * tails of slabs.  The callers wait for the transfers.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/dirty_log_int.h"
#include "engine/lane.h"
#include "extent/stripe.h"

static int
run (struct fp_lane *lane, struct fp_io *io)
{
  io->forced = io->linear = true;
  fp_lane_sync_begin (lane, io);
  (void) fp_lane_sync_await (lane, io, NULL, FP_NEVER);
  return io->status;
}

static const unsigned char ones[FP_TAIL_SIZE] = {
  [0 ... FP_TAIL_SIZE - 1] = 1,
};
static const unsigned char zeros[FP_TAIL_SIZE];

/* Mark the range in one copy.  Errors: fp_dirty_log_say. */
static int
say_one (struct fp_lane *lane, uint64_t k, uint64_t in, uint64_t length)
{
  struct fp_engine *e = fp_lane_engine (lane);
  struct fp_extents *t = e->extents;
  struct fp_extent *p = &t->p[k];
  enum fp_dirty_log_need need;
  uint64_t generation;
  unsigned first, nr;

  for (;;) {
    if (fp_extent_enter (t, p) != FP_EXTENT_READY)
      return -EAGAIN;
    need = fp_dirty_log_look (e, k, &p->copy, in, length, &first, &nr);
    generation = p->copy.generation;
    fp_extent_leave (t, p);
    if (need != FP_DIRTY_LOG_SAY)
      return need == FP_DIRTY_LOG_READY ? 0 : -EAGAIN;
    if (run (lane, &(struct fp_io) {
                       .kind = FP_IO_WRITE,
                       .length = nr,
                       .offset = (k << t->shift) + first,
                       .buf = (void *) (uintptr_t) ones,
                       .tail = FP_TAIL_SET,
                       .generation = generation,
                   }) < 0)
      return -EIO;
  }
}

int
fp_dirty_log_say (struct fp_lane *lane, uint64_t i, uint64_t in,
                  uint64_t length)
{
  struct fp_extents *t = fp_lane_engine (lane)->extents;
  uint8_t in_sync = fp_copies_in_sync (t, i);
  int result = 0;

  for (unsigned c = 0; c < t->copies; c++)
    if (in_sync >> c & 1) {
      int r = say_one (lane, fp_copies_entry (t, i, c), in, length);

      result = result == -EIO || r == 0 ? result : r;
    }
  return result;
}

int
fp_dirty_log_say_all (struct fp_engine *e, uint64_t k, struct fp_extent *p)
{
  struct fp_dirty_log *d = e->dirty_log;
  int r = run (fp_engine_heal_lane (e), &(struct fp_io) {
                                            .kind = FP_IO_WRITE,
                                            .length = d->regions,
                                            .offset = k << e->extents->shift,
                                            .buf = (void *) (uintptr_t) ones,
                                            .migrate = true,
                                            .target = p,
                                            .tail = FP_TAIL_RAW,
                                        });

  if (r == -EOPNOTSUPP)
    return 0; /* without a tail, all of it counts as marked */
  if (r < 0)
    return -ENOTCONN;
  if (p == &e->extents->p[k])
    dirty_log_forget_clear (e, k);
  return 0;
}

/* Read the bytes of all regions of entry k. */
static bool
read_log (struct fp_engine *e, uint64_t k, unsigned char bytes[FP_TAIL_SIZE])
{
  return run (fp_engine_heal_lane (e), &(struct fp_io) {
                                           .kind = FP_IO_READ,
                                           .length = e->dirty_log->regions,
                                           .offset = k << e->extents->shift,
                                           .buf = bytes,
                                           .migrate = true,
                                           .target = &e->extents->p[k],
                                           .tail = FP_TAIL_RAW,
                                       }) == 0;
}

uint64_t
fp_dirty_log_differ (struct fp_engine *e, uint64_t i, unsigned c,
                     unsigned believed)
{
  struct fp_extents *t = e->extents;
  unsigned char a[FP_TAIL_SIZE], b[FP_TAIL_SIZE];
  uint8_t others = (uint8_t) ~(1u << c);
  uint64_t length = fp_extent_length (t, i), all = 0;
  uint64_t region = UINT64_C (1) << e->dirty_log->shift;

  if (!read_log (e, fp_copies_entry (t, i, believed), a) ||
      !read_log (e, fp_copies_entry (t, i, c), b)) {
    fp_copies_missed (t, i, 0, length, others);
    return length;
  }
  for (uint64_t in = 0, k = 0; in < length; in += region, k++) {
    uint64_t part = FP_MIN (region, length - in);

    if (a[k] == 0 && b[k] == 0)
      continue;
    fp_copies_missed (t, i, in, part, others);
    all += part;
  }
  return all;
}

/* ---- clearing ---- */

/* Clear a run of CLEARING regions of entry k, which the caller has entered. */
static void
clear (struct fp_engine *e, uint64_t k, unsigned first, unsigned nr)
{
  unsigned server = e->extents->p[k].copy.server;
  unsigned char back[FP_TAIL_SIZE];
  struct fp_io io = {
    .kind = FP_IO_WRITE,
    .length = nr,
    .offset = (k << e->extents->shift) + first,
    .buf = (void *) (uintptr_t) zeros,
    .migrate = true,
    .target = &e->extents->p[k],
    .tail = FP_TAIL_CLEAR,
  };
  bool sent;

  fp_dirty_log_sent (e, server);
  sent = run (fp_engine_heal_lane (e), &io) == 0;
  if (sent) {
    /* The acknowledgement of a WRITE orders nothing on another queue pair.  A
     * later READ on the same queue pair does.  If that connection is gone, the
     * clear counts as broken in between.
     */
    io.kind = FP_IO_READ;
    io.buf = back;
    io.tail = FP_TAIL_CLEARED;
    (void) run (fp_engine_heal_lane (e), &io);
  }
  /* Still CLEARING here: the WRITE, or the READ after it, was not sent. */
  fp_dirty_log_not_cleared (e, k, first, nr, sent);
}

/* Clear the quiet regions of entry k.  Return how many bytes may still be
 * marked: all, if the entry cannot be entered or has no tail.
 */
static uint64_t
sweep_entry (struct fp_engine *e, uint64_t k)
{
  struct fp_dirty_log *d = e->dirty_log;
  struct fp_extents *t = e->extents;
  struct fp_extent *p = &t->p[k];
  uint64_t length = t->extent_size;
  unsigned first = 0, nr = 0;

  if (fp_extent_state (p) != FP_EXTENT_READY ||
      fp_extent_enter_frozen (t, p) != FP_EXTENT_READY)
    return length;
  if (fp_dirty_log_is_kept (e, &p->copy)) {
    dirty_log_know (e, k, p->copy.generation);
    for (unsigned r = 0; r <= d->regions; r++) {
      if (r < d->regions &&
          dirty_log_begin_clearing (e, k, r, p->copy.server)) {
        first = nr == 0 ? r : first;
        nr++;
        continue;
      }
      if (nr > 0)
        clear (e, k, first, nr);
      nr = 0;
    }
    length = dirty_log_marked (e, k);
  }
  fp_extent_leave (t, p);
  if (atomic_load (&d->waits) && atomic_exchange (&d->waits, false))
    fp_notifier_raise (&e->extents->changes);
  return length;
}

/* Clear the quiet regions of extent i.  Return how many bytes the next client
 * would resync if this one died now.
 */
static uint64_t
sweep_extent (struct fp_engine *e, uint64_t i)
{
  const struct fp_extents *t = e->extents;
  uint8_t in_sync = fp_copies_in_sync (t, i);
  uint64_t most = 0;

  for (unsigned c = 0; c < t->copies; c++)
    if (in_sync >> c & 1) {
      uint64_t length = sweep_entry (e, fp_copies_entry (t, i, c));

      most = FP_MAX (most, length);
    }
  return (in_sync & (in_sync - 1)) == 0
             ? 0
             : FP_MIN (most, fp_extent_length (t, i));
}

void
fp_dirty_log_sweep (struct fp_engine *e, const _Atomic bool *stop)
{
  struct fp_dirty_log *d = e->dirty_log;
  const struct fp_extents *t = e->extents;
  uint64_t length = 0;

  if (d == NULL || !fp_deadline_passed (d->sweep_ns))
    return;
  d->sweep_ns = fp_deadline_in_ms (e->p->quiet_ms);
  for (uint64_t i = 0; i < t->nr && !atomic_load (stop); i++)
    length += sweep_extent (e, i);
  atomic_store (&d->marked, length);
}
