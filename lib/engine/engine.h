/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - the lowest layer of a volume (block.h): lanes, copies, dirty log.
 *
 * lane_wait.c takes requests, and lane_progress.c does them.  lane_flush.c
 * flushes.  zero.c and zero_copies.c zero, and zero.c finds holes.  lock.c
 * locks ranges.  dirty_log.c and marks.c keep the dirty log.
 *
 * Lock order: a lane's lock comes before fp_extents.lock, under which no other
 * is taken but that of a notifier.
 *
 * Errors:   0 or -errno.
 * Threads:  init, alloc and destroy belong to the one that starts and stops
 *           the volume.
 * Memory:   only fp_engine_alloc allocates.
 */

#ifndef FP_ENGINE_H
#define FP_ENGINE_H

#include <stddef.h>

#include "engine/mirror.h"
#include "extent/block.h"
#include "peer/peers.h"
#include "place/allocator.h"

struct fp_dirty_log;
struct fp_lane;
struct fp_meta_log;
struct fp_range_lock;

#define FP_HEAL_LANE_SLOTS 8u /* most transfers of the heal lane */

struct fp_engine {
  struct fp_block block; /* first: fp_engine_of */
  const struct fp_volume_params *p;
  struct fp_extents *extents;
  struct fp_peers *peers;
  struct fp_lease *lease;
  struct fp_meta_log *meta_log; /* NULL = not recorded */
  struct fp_allocator *allocator;
  /* p->lanes for front ends, and one for the migration and check threads. */
  unsigned nr_lanes;
  struct fp_lane **lanes;

  struct fp_range_lock *range_lock; /* NULL with one copy */
  struct fp_dirty_log *dirty_log;   /* NULL with one copy */
  struct fp_mirror mirror;
  /* Number of writes that failed in part and are being retried, and of zeros
   * under way.  Until they are over, copies may differ.
   */
  _Atomic uint64_t unsettled;
  _Atomic uint64_t waits; /* fp_volume_waits */
};

/* Initialise e for peers->p, which the probe has completed.  The caller sets
 * meta_log.  e must not move: it listens to extents->changes.
 */
void fp_engine_init (struct fp_engine *e, struct fp_peers *peers,
                     struct fp_allocator *allocator);
/* Create the lanes, give them to peers->lanes, and create what several copies
 * need.  Call it before fp_peer_start.  -ENOMEM, or an error of eventfd(2).
 */
int fp_engine_alloc (struct fp_engine *e);
void fp_engine_destroy (struct fp_engine *e); /* no connections or io left */

/* Return the engine whose first member is b. */
static inline struct fp_engine *
fp_engine_of (struct fp_block *b)
{
  _Static_assert(offsetof (struct fp_engine, block) == 0,
                 "fp_engine_of casts");
  return (struct fp_engine *) b;
}

/* Return the lane of the migration and check threads. */
static inline struct fp_lane *
fp_engine_heal_lane (const struct fp_engine *e)
{
  return e->lanes[e->nr_lanes - 1];
}

/* Lock [in, in + length) of extent i, so that writes and checks of the same
 * bytes do not overlap.  The volume has several copies.  length: at most
 * FP_ENGINE_LOCK_MAX.  Return false if a part may be locked: try again when
 * fp_extents.changes is raised, or after a while.
 */
#define FP_ENGINE_LOCK_MAX (1u << 20) /* bytes */
bool fp_engine_lock (struct fp_engine *e, uint64_t i, uint64_t in,
                     uint64_t length);
void fp_engine_unlock (struct fp_engine *e, uint64_t i, uint64_t in,
                       uint64_t length);

#endif /* FP_ENGINE_H */
