/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_flush.c - wait until every write that a lane completed is in the
 * servers' memory.
 *
 * An acknowledged WRITE is placed before a later READ of the same queue pair
 * is answered.  Nothing orders it against another queue pair (InfiniBand
 * Architecture Specification, 9.5, transaction ordering).  So each queue pair
 * that wrote makes one small READ, all of them at once.  With several copies
 * they are repeated until none fails.
 */

#include <config.h>

#include <errno.h>

#include "engine/lane_int.h"

#define AT_ONCE 16u /* READs in flight of one flush; they are on the stack */

/* Return true if entry k is in use on this server. */
static bool
is_on (const struct fp_engine *e, uint64_t k, unsigned server)
{
  struct fp_extents *t = e->extents;

  return fp_extent_state (&t->p[k]) == FP_EXTENT_READY &&
         atomic_load (&t->p[k].server) == server && fp_copy_counts (t, k);
}

bool
lane_place_to_read (struct fp_engine *e, unsigned server, uint64_t *at)
{
  struct fp_extents *t = e->extents;

  if (is_on (e, *at >> t->shift, server))
    return true;
  for (uint64_t k = 0; k < t->all; k++) {
    if (is_on (e, k, server)) {
      *at = k << t->shift;
      return true;
    }
  }
  return false; /* no data that counts is there, or it cannot be read now */
}

/* A READ of one byte that places the writes of a lane at a server. */
struct placing {
  struct fp_io io;
  unsigned char byte;
  struct fp_lane *lane;
  unsigned server;
  uint64_t mark; /* lane.h: fp_lane_unflushed */
};

/* Return true if the lane has writes to place at p->server, and a place to
 * read there: *at.
 */
static bool
must_read (struct fp_engine *e, struct placing *p, uint64_t *at)
{
  p->mark = fp_lane_unflushed (p->lane, p->server, at);
  return p->mark != 0 && lane_place_to_read (e, p->server, at);
}

/* Return 0, the error of a READ, or -EAGAIN: another server has answered, or
 * none, because the extent was moved or trimmed.
 */
static int
await (struct placing p[], unsigned nr)
{
  int result = 0;

  for (unsigned i = 0; i < nr; i++) {
    (void) fp_lane_sync_await (p[i].lane, &p[i].io, NULL, FP_NEVER);
    if (p[i].io.status < 0)
      result = p[i].io.status;
    else if (result == 0 &&
             !fp_lane_flushed (p[i].lane, p[i].server, p[i].mark))
      result = -EAGAIN;
  }
  return result;
}

/* Flush all queue pairs.  Return as await, after the first READs that failed.
 */
static int
flush_once (struct fp_engine *e)
{
  struct placing all[AT_ONCE], *p = all;
  int r = 0;

  for (unsigned i = 0; i < e->p->lanes; i++)
    for (unsigned s = 0; s < e->peers->nr; s++) {
      uint64_t at;

      p->lane = e->lanes[i];
      p->server = s;
      if (!must_read (e, p, &at))
        continue;
      p->io = lane_placing_io (e, &p->byte, 1, at);
      fp_lane_sync_begin (p->lane, &p->io);
      if (++p < all + AT_ONCE)
        continue;
      r = await (all, AT_ONCE);
      if (r < 0)
        return r;
      p = all;
    }
  return await (all, (unsigned) (p - all));
}

static bool
is_flushed (struct fp_engine *e)
{
  for (unsigned i = 0; i < e->p->lanes; i++)
    for (unsigned s = 0; s < e->peers->nr; s++) {
      struct placing p = { .lane = e->lanes[i], .server = s };
      uint64_t at;

      if (must_read (e, &p, &at))
        return false;
    }
  return true;
}

int
lane_flush_all (struct fp_block *b)
{
  struct fp_engine *e = fp_engine_of (b);
  uint64_t deadline = fp_deadline_in_ms (e->block.await_ms);

  if (fp_lease_is_fenced (e->lease))
    return -EIO;
  for (;;) {
    uint32_t seen = fp_notifier_count (&e->extents->changes);
    int r = flush_once (e);

    if (r == 0)
      return 0;
    if (r != -EAGAIN && !fp_copies_several (e->extents))
      return r;
    /* A server does not answer.  If it has died, other servers have the data:
     * a change follows once this client knows.
     */
    if (fp_deadline_passed (deadline))
      return is_flushed (e) ? 0 : -EIO;
    if (r != -EAGAIN)
      (void) fp_notifier_await (&e->extents->changes, seen, deadline);
  }
}
