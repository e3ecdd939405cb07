/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_flush.c - wait until every write that a lane completed is in the
 * servers' memory.
 *
 * An acknowledged WRITE is placed before a later READ of the same queue pair
 * is answered.  Nothing orders it against another queue pair (InfiniBand
 * Architecture Specification, 9.5, transaction ordering).  So each queue pair
 * that wrote makes one small READ.
 */

#include <config.h>

#include <errno.h>

#include "engine/lane_int.h"

/* Return true if entry k is in use on this server. */
static bool
is_on (struct fp_engine *e, uint64_t k, unsigned server)
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

/* Flush this lane's writes to that server.  With several copies, return 0 if
 * the server or its copy has died: other servers have the data.
 */
static int
flush_queue (struct fp_lane *lane, unsigned server, uint64_t deadline)
{
  struct fp_engine *e = fp_lane_engine (lane);
  int r = 0;

  for (;;) {
    uint32_t seen = fp_notifier_count (&e->extents->changes);
    unsigned char byte;
    uint64_t at, mark = fp_lane_unflushed (lane, server, &at);
    bool on;

    if (mark == 0 || !lane_place_to_read (e, server, &at))
      return 0;
    if (r < 0 && fp_deadline_passed (deadline))
      return r;
    r = fp_lane_sync_read (lane, &byte, 1, at);
    on = is_on (e, at >> e->extents->shift, server);
    if (r == 0 && on) {
      fp_lane_flushed (lane, server, mark);
      return 0;
    }
    if (r < 0 && !fp_copies_several (e->extents))
      return r;
    /* The extent was moved away, and another server may have answered.  Or
     * the client does not know yet that this server is gone: a change follows.
     */
    if (r < 0)
      (void) fp_notifier_await (&e->extents->changes, seen, deadline);
    r = -EIO;
  }
}

int
lane_flush_all (struct fp_block *b)
{
  struct fp_engine *e = fp_engine_of (b);
  uint64_t deadline = fp_deadline_in_ms (e->block.await_ms);
  int result = 0;

  if (fp_lease_is_fenced (e->lease))
    return -EIO;
  for (unsigned i = 0; i < e->p->lanes; i++) {
    for (unsigned s = 0; s < e->peers->nr; s++) {
      int r = flush_queue (e->lanes[i], s, deadline);

      if (r < 0 && fp_deadline_passed (deadline))
        return r;
      result = r < 0 ? r : result;
    }
  }
  return result;
}
