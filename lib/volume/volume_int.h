/* SPDX-License-Identifier: BSD-3-Clause */
/* volume_int.h - what the folders of libvolume.la share, and front ends do not
 * see.
 *
 * Lock order: a lane's lock comes before fp_extents.lock, under which no other
 * is taken but that of a notifier.  fp_peer.lock is never held together with
 * these, but is taken under count_lock.  The migration thread's lock comes
 * before all of them.  The locks inside fp_lease and fp_notifier come last, in
 * this order.  No lock is held while waiting for a peer.
 */

#ifndef FP_VOLUME_INT_H
#define FP_VOLUME_INT_H

#include <stdatomic.h>
#include <stdio.h>

#include <pthread.h>

#include "base/clock.h"
#include "base/thread.h"
#include "engine/lane.h"
#include "extent/extent.h"
#include "extent/lease.h"
#include "extent/recorded.h"
#include "peer/peers.h"
#include "volume/volume.h"

struct fp_check;
struct fp_dirty_log;
struct fp_io_counts;
struct fp_migrate;
struct fp_range_lock;
struct fp_meta_log;

struct fp_volume {
  struct fp_block engine;      /* first: fp_engine_volume */
  struct fp_block *top;        /* the layer that front ends use */
  struct fp_io_counts *counts; /* one for each lane of front ends: io.c */
  struct fp_volume_params p;
  struct fp_extents *extents;
  unsigned nr_lanes; /* p.lanes for front ends, and one for migration */
  struct fp_lane **lanes;
  struct fp_peers peers;
  pthread_mutex_t count_lock; /* held to count the servers: servers_count.c */
  struct fp_meta_log *meta_log; /* NULL = not recorded */
  struct fp_recorded recorded;
  char title[FP_NAME_MAX + 1]; /* name, or UUID if it has none */
  struct fp_lease lease;
  _Atomic unsigned next_lane;
  _Atomic uint64_t waits;   /* fp_volume_waits */
  _Atomic uint64_t current; /* set of members, of the last list; 0 = none */

  struct fp_range_lock *range_lock; /* NULL with one copy */
  struct fp_dirty_log *dirty_log;   /* NULL with one copy */
  /* Found at start-up (fp_volume_status). */
  _Atomic bool unclean;
  _Atomic uint64_t resync_bytes, resync_of;
  /* Number of writes and zeros that failed in part and are being retried.
   * Until they are over, their data may be in some copies only.
   */
  _Atomic uint64_t unsettled;
  struct fp_check *check;
  _Atomic bool mirror_due;     /* the allocator must look at the copies */
  _Atomic bool mirror_waits;   /* and after the next change */
  _Atomic bool mirror_changed; /* that change has come */
  /* Times of the next look at the copies, of the next try to find memory, and
   * of the last look; allocator's thread only.
   */
  uint64_t mirror_ns, refill_ns, looked_ns;
  struct fp_migrate *migrate;
  _Atomic uint64_t moving; /* the entry that is being copied (migrate.h) */
  _Atomic uint64_t *dirty; /* chunks of it that must be copied (again) */

  /* The allocator, which gives extents their memory. */
  struct fp_thread allocator;
  bool allocator_runs;
  struct fp_notifier work;     /* raised when the allocator has some */
  struct fp_listener listener; /* tells the allocator of extents->changes */

  /* Under extents->lock. */
  bool stopping;
  uint32_t wanted_head, wanted_tail; /* linked by fp_extent.next_wanted */
};

/* allocator.c */
/* Make the allocator listen to extents->changes.  Call it before other threads
 * run.
 */
void fp_allocator_listen (struct fp_volume *v);
int fp_allocator_start (struct fp_volume *v);
void fp_allocator_stop (struct fp_volume *v);
/* Ask for memory for entry i, if it is EMPTY.  Do not block. */
void fp_allocator_want (struct fp_volume *v, uint64_t i);
/* Take entry i back from a server that gave it no memory, and ask another. */
void fp_allocator_return (struct fp_volume *v, uint64_t i, unsigned server,
                          int err);
/* Return a server with room for entry k, or -1.  Changes room. */
int fp_allocator_choose (struct fp_volume *v, uint64_t k, uint64_t *room);
/* Return true if a server has room for one more copy. */
bool fp_allocator_has_room (struct fp_volume *v, uint64_t k);
/* Give all extents memory now (reserve=full). */
int fp_allocator_reserve_all (struct fp_volume *v, char why[FP_WHY_MAX]);

/* migrate.c */

/* Mark a write of [offset, offset + length) of extent i, which is over,
 * however it ended.  The caller is inside the extent, or has it shut.
 */
void fp_migrate_mark (struct fp_volume *v, uint64_t offset, uint64_t length);
static inline void
fp_volume_wrote (struct fp_volume *v, uint64_t i, uint64_t offset,
                 uint64_t length)
{
  if (atomic_load_explicit (&v->moving, memory_order_relaxed) == i)
    fp_migrate_mark (v, offset, length);
}

/* migrate_mapped.c: fp_mapped_copy from memory that other threads write to
 * meanwhile.  Their changes are copied again later.
 */
int fp_migrate_copy_while_written (void *to, const void *from, size_t length);

/* peer_ops.c */
extern const struct fp_peer_ops fp_volume_peer_ops;

/* servers.c */

/* End the peers of servers that left when the volume was started. */
void fp_volume_let_leave (struct fp_volume *v, uint64_t servers);

/* servers_count.c */

/* Tell the servers of a volume without a name that there are nr servers.  Wait
 * until all that are up know that, at least one.  all: every server has to be
 * up.  -ENOTCONN: not by a deadline of its own; they are told as soon as
 * possible.
 */
int fp_volume_recount (struct fp_volume *v, unsigned nr, bool all,
                       char why[FP_WHY_MAX]);
/* Open place i, which is JOINING or LEAVING, as soon as the servers know the
 * number.
 */
void fp_volume_open_counted (struct fp_volume *v, unsigned i);
/* Open the places that wait for the number.  Call after a server was told. */
void fp_volume_counted (struct fp_volume *v);

/* volume.c */

/* As fp_lease_holds.  Leases of closed places do not count: a client that
 * takes the volume over may not know those servers.
 */
static inline bool
fp_volume_is_leased (struct fp_volume *v)
{
  return fp_lease_holds (&v->lease, atomic_load (&v->peers.open),
                         atomic_load (&v->current));
}
#endif /* FP_VOLUME_INT_H */
