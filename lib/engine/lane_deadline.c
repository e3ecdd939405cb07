/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_deadline.c - how long a transfer may take, and an io may wait, by
 * `timeout` and `await` of the volume.
 *
 *   a transfer, several copies          3/8 timeout.
 *   a transfer, the only in-sync copy   timeout.
 *   a front end's write, in flight      Until end_ms after it was made.
 *   a front end's write, not sent       Until send_ms after that (block.h).
 *   any other request                   await.
 *   an io with another way              timeout, or twice that.
 *
 * The connection of a transfer that takes longer is broken.  While a server
 * that is back lists its slabs, requests wait longer.  That is true for a
 * write, too, that is not sent any more.  NBD sends it again meanwhile.
 */

#include <config.h>

#include "base/checked.h"
#include "engine/lane_int.h"

/* ns; longest time between two scans while a front end's write is in flight */
#define FRONT_NS (250 * FP_NS_PER_MS)

/* Return the time by which all servers that are back must have listed their
 * slabs, by fp_now_ns.  It may have passed.
 */
static uint64_t
learns_until (const struct fp_lane *lane)
{
  uint64_t until = 0;

  for (unsigned i = 0; i < lane->e->peers->nr; i++)
    until = FP_MAX (until, fp_peer_learns_until (lane->e->peers->at[i]));
  return until;
}

/* Return true if there is another way when the server is away.  A hasty read
 * has another copy, and the migration thread tries again later.
 */
static bool
has_other_way (const struct fp_io *io)
{
  return io->target != NULL || io->migrate || io->hasty ||
         io->tail != FP_TAIL_NONE;
}

/* Return how long io waits for servers that are away.  If it has another way
 * and was in flight, it gets that time twice.  The first time was spent on
 * finding out that the server is silent.
 */
static uint64_t
wait_ns (const struct fp_lane *lane, const struct fp_io *io)
{
  if (has_other_way (io))
    return (io->tries > 0 ? 2 : 1) * lane->e->p->timeout_ms * FP_NS_PER_MS;
  return lane->e->block.await_ms * FP_NS_PER_MS;
}

bool
lane_in_vain (const struct fp_lane *lane, const struct fp_io *io)
{
  uint64_t patience = wait_ns (lane, io);

  if (fp_lease_is_fenced (lane->e->lease))
    return true;
  if (fp_now_ns () - io->start_ns < patience && !lane_is_stale (lane, io))
    return false;
  return has_other_way (io) || fp_deadline_passed (learns_until (lane));
}

/* At least a millisecond from now, because lane_in_vain reads a coarse clock.
 */
uint64_t
lane_give_up_ns (const struct fp_lane *lane, const struct fp_io *io)
{
  const struct fp_block *b = &lane->e->block;
  uint64_t now = fp_now_ns (), at = io->start_ns + wait_ns (lane, io);

  if (io->front) {
    uint64_t left = fp_block_left_ns (b, io->made_ns);
    uint64_t margin = (b->end_ms - b->send_ms) * FP_NS_PER_MS;

    at = FP_MIN (at, now + left - FP_MIN (left, margin));
  }
  if (!has_other_way (io))
    at = FP_MAX (at, learns_until (lane));
  return FP_MAX (at, now + FP_NS_PER_MS);
}

/* With several copies, the rest of the timeout is for leaving out the copy,
 * and for the other one.
 */
uint64_t
lane_transfer_ns (const struct fp_lane *lane)
{
  uint64_t timeout = (uint64_t) lane->e->p->timeout_ms * 1000000u;

  return fp_copies_several (lane->e->extents) ? timeout / 8 * 3 : timeout;
}

/* After this process was stopped, fp_now_ns goes on by less than the front
 * end's clock, but by more than FRONT_NS.  So the first look after that scans.
 */
void
lane_scan_for_front (struct fp_lane *lane, const struct fp_io *io,
                     uint64_t now)
{
  uint64_t left = fp_block_left_ns (&lane->e->block, io->made_ns);

  left = FP_MIN (left, FRONT_NS);
  lane_scan_by (lane, now + FP_MAX (left, FP_NS_PER_MS));
}

/* Return true if f may go on past its deadline.  A transfer to or from the
 * only in-sync copy of an extent has the whole timeout.
 */
static bool
is_sole (const struct fp_lane *lane, const struct frag *f, uint64_t now)
{
  struct fp_extents *t = lane->e->extents;
  uint64_t k;

  if (!fp_copies_several (lane->e->extents) ||
      (f->io != NULL && f->io->target != NULL &&
       !f->io->owner)) /* the target of a move */
    return false;
  k = (uint64_t) (f->extent - t->p);
  return now - f->sent_ns < lane->e->p->timeout_ms * FP_NS_PER_MS &&
         fp_copies_in_sync (t, fp_extent_of (t, k)) == 1u << fp_copy_of (t, k);
}

bool
lane_is_late (const struct fp_lane *lane, const struct frag *f, uint64_t now)
{
  if (f->io != NULL && f->io->front &&
      fp_block_left_ns (&lane->e->block, f->io->made_ns) == 0)
    return true;
  return f->deadline_ns <= now && !is_sole (lane, f, now);
}

uint64_t
lane_late_ns (const struct fp_lane *lane, const struct frag *f, uint64_t now)
{
  uint64_t whole = f->sent_ns + lane->e->p->timeout_ms * FP_NS_PER_MS;

  return f->deadline_ns > now ? f->deadline_ns : whole;
}
