/* SPDX-License-Identifier: BSD-3-Clause */
/* mirror.h - the rules by which copies of an extent are in sync (copies.h).
 * restore.h acts on them.
 *
 *  - A write goes to all in-sync copies, and is done when all have it.  A read
 *    goes to one of them.  An extent with no in-sync copy was never written.
 *  - Whether a copy is in sync is recorded as a bit in the map (meta_log.h),
 *    at servers that outlive this client.  A copy leaves the set only after
 *    all of these have recorded it as stale.  Only then do writes go on
 *    without it.
 *  - A copy enters the set before that is recorded.  Until it is recorded, the
 *    next client takes the copy for stale, which is safe.
 *  - A client that attaches the volume believes the copies that the map names,
 *    and releases the others.
 *  - If the last client did not end cleanly, its last writes may have reached
 *    some copies only.  Then one copy of each extent is believed, and that is
 *    recorded before anything is read.  One more bit, behind those of the
 *    entries, says that a client is at work (fp_map_bits).
 *
 * The dirty bits of a stale copy say what it has missed.  A write sets them
 * when it is over, before it leaves the copies that it went to.  It also sets
 * those of a copy that it could not reach.  resync.c copies these chunks from
 * an in-sync copy, the last of them while that one is FROZEN.  No write is in
 * flight then, and the stale copy becomes in sync.
 *
 * `in_sync` changes under fp_extents.lock.  A write looks at it, enters all of
 * its copies, and looks again.  A copy enters the set only while another one
 * is shut.  If a copy leaves the set during a write, the write is marked as
 * missed there: by lane_copy_done, or by write_all for mapped copies.
 *
 * Threads:  any, except for fp_mirror_listen.
 * Memory:   nothing here allocates.
 */

#ifndef FP_MIRROR_H
#define FP_MIRROR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "extent/copies.h"

struct fp_engine;

/* Requests for a look at the copies.  restore.c clears `due` and `changed`,
 * and sets `waits`.
 */
struct fp_mirror {
  _Atomic bool due;            /* a look at the copies is due */
  _Atomic bool waits;          /* another one is due after the next change */
  _Atomic bool changed;        /* that change has come */
  struct fp_listener listener; /* listens to fp_extents.changes */
};

/* Listen to changes.  Call it before other threads run. */
void fp_mirror_listen (struct fp_engine *e);

/* Ask for memory for extent i, which has no in-sync copy.  Any thread. */
void fp_mirror_want (struct fp_engine *e, uint64_t i);
/* If extent i has its memory, put its copies in sync, all zeros, and return
 * true.  An only copy may be in any state but EMPTY.  Else set *err to
 * -errno if a copy was refused for good.  The caller sets it to 0 first.
 */
bool fp_mirror_form (struct fp_engine *e, uint64_t i, int *err);

/* Note that a write of extent i failed for good, perhaps not in all copies.
 * Does nothing if there is one copy.
 */
void fp_mirror_diverged (struct fp_engine *e, uint64_t i);
/* Report that a transfer to or from entry k failed although its connection is
 * up, so that it would fail again.  The copy is dropped, and resynced.  Return
 * false if it is not in sync, or there is no other copy to go on with.
 */
bool fp_mirror_failed (struct fp_engine *e, uint64_t k);
/* Make the allocator's thread look at the copies at once. */
void fp_mirror_poke (struct fp_engine *e);
/* Take entry k out of the in-sync set.  That it is stale is recorded already.
 */
void fp_mirror_dropped (struct fp_engine *e, uint64_t k);

struct fp_mirror_status {
  uint64_t allocated; /* extents with memory */
  uint64_t lost;      /* extents that no server has any more */
  /* Extents with too few in-sync copies, or with some that are not recorded
   * yet.
   */
  uint64_t degraded;
  uint64_t missing; /* bytes to copy until all are in sync */
};
void fp_mirror_status (struct fp_engine *e, struct fp_mirror_status *s);

#endif /* FP_MIRROR_H */
