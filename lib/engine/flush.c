/* SPDX-License-Identifier: BSD-3-Clause */
/* flush.c - wait until every write that a lane completed is in the servers'
 * memory.
 *
 * An acknowledged WRITE is placed before a later READ of the same queue pair
 * is answered.  Nothing orders it against another queue pair (InfiniBand
 * Architecture Specification, 9.5, transaction ordering).  So each queue pair
 * that wrote makes one small READ.
 */

#include <config.h>

#include <errno.h>

#include "engine/lane_int.h"
#include "engine/mirror.h"

/* Return true if entry k is in use on this server. */
static bool
is_on (struct fp_volume *v, uint64_t k, unsigned server)
{
  struct fp_extents *t = v->extents;

  return fp_extent_state (&t->p[k]) == FP_EXTENT_READY &&
         atomic_load (&t->p[k].server) == server && fp_copy_counts (t, k);
}

bool
flush_place_to_read (struct fp_volume *v, unsigned server, uint64_t *at)
{
  struct fp_extents *t = v->extents;

  if (is_on (v, *at >> t->shift, server))
    return true;
  for (uint64_t k = 0; k < t->all; k++) {
    if (is_on (v, k, server)) {
      *at = k << t->shift;
      return true;
    }
  }
  return false; /* the server holds no data of the volume */
}

/* Flush this lane's writes to that server.  With several copies, return 0 if
 * the server or its copy has died: other servers have the data.
 */
static int
flush_queue (struct fp_lane *lane, unsigned server, uint64_t deadline)
{
  struct fp_volume *v = fp_lane_volume (lane);
  int r = 0;

  for (;;) {
    uint32_t seen = fp_notifier_count (&v->extents->changes);
    unsigned char byte;
    uint64_t at, mark = fp_lane_unflushed (lane, server, &at);
    bool on;

    if (mark == 0 || !flush_place_to_read (v, server, &at))
      return 0;
    if (r < 0 && fp_deadline_passed (deadline))
      return r;
    r = fp_lane_sync_read (lane, &byte, 1, at);
    on = is_on (v, at >> v->extents->shift, server);
    if (r == 0 && on) {
      fp_lane_flushed (lane, server, mark);
      return 0;
    }
    if (r < 0 && !fp_copies_several (v->extents))
      return r;
    /* The extent was moved away, and another server may have answered.  Or
     * the client does not know yet that this server is gone: a change follows.
     */
    if (r < 0)
      (void) fp_notifier_await (&v->extents->changes, seen, deadline);
    r = -EIO;
  }
}

int
flush_lanes (struct fp_block *b)
{
  struct fp_volume *v = fp_engine_volume (b);
  uint64_t deadline = fp_deadline_in_ms (v->engine.await_ms);
  int result = 0;

  if (fp_lease_is_fenced (&v->lease))
    return -EIO;
  for (unsigned i = 0; i < v->p.lanes; i++) {
    for (unsigned s = 0; s < v->peers.nr; s++) {
      int r = flush_queue (v->lanes[i], s, deadline);

      if (r < 0 && fp_deadline_passed (deadline))
        return r;
      result = r < 0 ? r : result;
    }
  }
  return result;
}
