/* SPDX-License-Identifier: BSD-3-Clause */
/* volume_int.h - what the folders of libvolume.la share, and front ends do
 * not see.
 *
 * Locks: a lane's lock before fp_volume.lock and fp_extents.lock, under which
 * no other is taken; fp_peer.lock is never held together with these, but taken
 * under count_lock.  The
 * migration thread's comes before all of them.  None is held while waiting for
 * a peer.
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
#include "volume/volume.h"

struct fp_check;
struct fp_dirty_log;
struct fp_peer;
struct fp_migrate;
struct fp_range_lock;
struct fp_meta_log;
struct fp_sealed;

#define FP_NO_EXTENT UINT32_MAX
#define FP_NOT_IN_ORDER_WHY                                                   \
  "readonly: volume %s was not left in order, and its copies may differ: "    \
  "attach it once to write, so that they are made alike"
#define FP_TOO_FEW_LISTS_WHY                                                  \
  "volume %s: its last client died while it changed the list of its "         \
  "servers, and those that answer cannot tell which list counts: start more " \
  "of them"
#define FP_READ_ONLY_WHY "the volume is attached to be read (readonly=true): "
/* Grants ahead of need: of one peer, and of all. */
#define FP_PEER_SPARES 2
#define FP_MAX_SPARES 4

struct fp_volume {
  struct fp_volume_params p;
  struct fp_extents *extents;
  unsigned nr_lanes; /* the front ends' (p.lanes), then one to migrate */
  struct fp_lane **lanes;
  /* A place for each server that there was or will be, FP_MAX_SERVERS of them.
   * What is there stays until the end, so that nobody needs a lock to look at
   * it: nr_peers is raised when the peer is complete, and of a server that has
   * left the place is `gone`, until another one gets it (servers.c).
   */
  _Atomic unsigned nr_peers;
  struct fp_peer **peers;
  _Atomic uint64_t gone;   /* no servers (yet, any more): sets of places */
  _Atomic uint64_t closed; /* they get nothing: joining, leaving, gone */
  _Atomic uint64_t fresh;  /* joining, and never current yet */
  /* If recorded: perhaps in no list that whoever attaches it next will find,
   * as who they are now; they get nothing either (meta_log_change.c).
   */
  _Atomic uint64_t unlisted;
  _Atomic unsigned servers; /* how many OPEN says that there are */
  /* Closed, until the others know how many there are: servers_count.c. */
  _Atomic uint64_t uncounted;
  pthread_mutex_t count_lock;   /* who changes that */
  struct fp_meta_log *meta_log; /* NULL: it is not recorded */
  char title[FP_NAME_MAX + 1];  /* its name, or its UUID */
  _Atomic bool started, fenced; /* by another client */
  _Atomic unsigned next_lane;
  _Atomic uint64_t zeros, trims, flushes;
  _Atomic uint64_t waits;           /* fp_volume_waits */
  _Atomic uint64_t allocated, lost; /* extents */
  _Atomic uint64_t placing;         /* extents that wait for memory */
  _Atomic uint64_t current;         /* members, of the last list; or none */
  _Atomic uint64_t generation;      /* the highest so far: peer_learn.h */

  struct fp_range_lock *range_lock; /* NULL: one copy */
  struct fp_dirty_log *dirty_log;   /* likewise */
  /* Of the start: volume.h. */
  _Atomic bool unclean;
  _Atomic uint64_t resync_bytes, resync_of;
  /* Writes and zeros that failed in part and are tried again: until they are
   * over what they wrote may be in some copies only.
   */
  _Atomic uint64_t unsettled;
  struct fp_check *check;
  struct fp_sealed *sealed;      /* NULL: neither encrypted nor checked */
  _Atomic bool mirror_due;       /* mirror.h: something is to be decided */
  uint64_t mirror_ns, refill_ns; /* the allocator's: when to look again */
  struct fp_migrate *migrate;
  _Atomic uint64_t moving;  /* the extent that is being copied: migrate.h */
  _Atomic uint64_t *dirty;  /* its chunks that are to be copied, again */
  _Atomic uint64_t drained; /* a set of servers that get no extents */
  struct fp_extent target;  /* memory without a label: its peer's, READY */

  /* The allocator: gives extents their memory. */
  struct fp_thread allocator;
  bool allocator_runs;
  pthread_mutex_t lock; /* what follows */
  pthread_cond_t cond;
  bool stopping;
  uint32_t wanted_head, wanted_tail; /* through fp_extent.next_wanted */
  unsigned nr_claims, claims[FP_MAX_SERVERS]; /* spares, or asked for */
  char fenced_by[FP_WHY_MAX]; /* what a server says of it; or "" */
};

/* allocator.c */
int fp_allocator_start (struct fp_volume *v);
void fp_allocator_stop (struct fp_volume *v);
/* Entry i, which is EMPTY, shall get memory.  Does not block. */
void fp_allocator_want (struct fp_volume *v, uint64_t i);
/* A peer could not give it any: others are to be asked. */
void fp_allocator_return (struct fp_volume *v, uint64_t i, unsigned server,
                          int err);
/* Of the servers that have room the one for entry k, or -1; changes room. */
int fp_allocator_choose (struct fp_volume *v, uint64_t k, uint64_t *room);
/* Is there a server for one more copy? */
bool fp_allocator_has_room (struct fp_volume *v, uint64_t k);
/* May that peer, which has so many, ask for one more grant ahead of need? */
bool fp_allocator_claim (struct fp_volume *v, unsigned server, unsigned has);
void fp_allocator_unclaim (struct fp_volume *v, unsigned server);
/* All extents get memory now: reserve=full. */
int fp_allocator_reserve_all (struct fp_volume *v, char why[FP_WHY_MAX]);

/* Its servers keep a list of themselves and a map of what exists (meta_log.h):
 * of one that outlives its client, and of one with several copies of each
 * extent, where it has to be known which of them count.
 */
static inline bool
fp_volume_is_recorded (const struct fp_volume_params *p)
{
  return p->name[0] != '\0' || p->copies > 1;
}

/* Its name, or its UUID if it has none. */
static inline void
fp_volume_title (const struct fp_volume_params *p, char out[FP_NAME_MAX + 1])
{
  char uuid[FP_UUID_STR_MAX];

  fp_uuid_format (&p->uuid, uuid);
  snprintf (out, FP_NAME_MAX + 1, "%s", p->name[0] != '\0' ? p->name : uuid);
}

/* Return how long a request waits for servers that are away. */
static inline unsigned
fp_volume_await_ms (const struct fp_volume *v)
{
  unsigned ms = 2 * v->p.timeout_ms;

  if (v->p.await_ms != 0)
    return v->p.await_ms;
  return v->p.copies > 1 && ms < 8000 ? 8000 : ms;
}

/* A front end without an answer may send a write again, get its answer, and
 * then write something else to the same place.  Its clock runs while this
 * process is stopped: NBD uses the kernel's.  So a write that was made at
 * made_ns, by fp_mono_ns, must have ended after await_ms.
 *
 * Return true if that time is over: break what is still in flight.
 */
static inline bool
fp_volume_is_overdue (const struct fp_volume *v, uint64_t made_ns)
{
  return fp_mono_coarse_ns () >=
         made_ns + fp_volume_await_ms (v) * FP_NS_PER_MS;
}

/* Return true if little of that time is left: do not send the write any more.
 */
static inline bool
fp_volume_is_stale (const struct fp_volume *v, uint64_t made_ns)
{
  unsigned ms = fp_volume_await_ms (v);
  unsigned margin = ms / 4 < v->p.timeout_ms ? ms / 4 : v->p.timeout_ms;

  return fp_mono_coarse_ns () >= made_ns + (ms - margin) * FP_NS_PER_MS;
}

/* How long a volume may take to start, beside the time that its servers need
 * to name what they have of it.
 */
static inline unsigned
fp_volume_start_ms (const struct fp_volume_params *p)
{
  return 4 * p->timeout_ms > 8000u ? 4 * p->timeout_ms : 8000u;
}

/* How it is striped, once that is known or nobody said anything. */
static inline struct fp_stripe
fp_volume_stripe (const struct fp_volume_params *p)
{
  uint64_t size = FP_STRIPE_SIZE;

  if (size < p->slab_size / FP_STRIPE_ROWS_MAX)
    size = p->slab_size / FP_STRIPE_ROWS_MAX;
  if (size > p->slab_size)
    size = p->slab_size;
  return (struct fp_stripe) {
    .width = p->stripe.width != 0 ? p->stripe.width : 1,
    .size = p->stripe.size != 0 ? p->stripe.size : size,
  };
}

/* migrate.c */

/* A write of [offset, offset + length) of extent i is over, however it ended.
 * Whoever calls this is inside, or has the extent shut.
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
 * meanwhile.  What they wrote is copied again later.
 */
int fp_migrate_copy_while_written (void *to, const void *from, size_t length);

/* It is to hold nothing. */
static inline bool
fp_volume_is_emptied (struct fp_volume *v, unsigned server)
{
  return (atomic_load (&v->drained) | atomic_load (&v->closed)) >> server & 1;
}

/* It gets nothing: no new extents, nor any that move. */
static inline bool
fp_volume_is_drained (struct fp_volume *v, unsigned server)
{
  return fp_volume_is_emptied (v, server) ||
         (atomic_load (&v->unlisted) >> server & 1) != 0;
}

/* servers.c */

/* These have left when the volume was started: end their peers. */
void fp_volume_let_leave (struct fp_volume *v, uint64_t servers);

/* servers_count.c */

/* Of a volume without a name: there are so many servers, and all those that
 * are up, which is one at least, know that; all: all there are are up.  If not
 * by a deadline of its own (-ENOTCONN), they are told as soon as can be.
 */
int fp_volume_recount (struct fp_volume *v, unsigned nr, bool all,
                       char why[FP_WHY_MAX]);
/* The place is opened as soon as that is so; at once, if the volume has a
 * name.
 */
void fp_volume_open_counted (struct fp_volume *v, unsigned i);
/* It may be so now: another server was told. */
void fp_volume_counted (struct fp_volume *v);

/* volume.c */

static inline uint64_t
fp_volume_all_peers (const struct fp_volume *v)
{
  unsigned n = atomic_load (&v->nr_peers);

  return n == 64 ? UINT64_MAX : (UINT64_C (1) << n) - 1;
}

/* Zeros that no server is asked for are those of an extent that was never
 * written, and of what was not written of an extent.  They count only while
 * nobody can have taken the volume over from a client that was stopped for
 * longer than its lease, and written there.  Who takes it over ends our
 * session at every server first: so the lease of one of them is enough.  Who
 * takes over a volume with a name without some of its servers (degraded=true)
 * writes nothing new unless more than half of the current members are there:
 * so it takes the leases of half of them. False: nobody knows now; the peers
 * were told to ask.
 */
bool fp_volume_is_leased (struct fp_volume *v);
/* Return true if a server that was away is listing its slabs. */
bool fp_volume_is_learning (const struct fp_volume *v);
/* Another client has it now: nothing is answered any more.  by: what is known
 * of who that is, or NULL.
 */
void fp_volume_set_fenced (struct fp_volume *v, const char *by);
void fp_volume_wake_lanes (struct fp_volume *v);
/* fp_lane_help of all. */
void fp_volume_help_lanes (struct fp_volume *v);
/* The extent is in no state that lets anybody in: wait until all are out. */
void fp_volume_drain_extent (struct fp_volume *v, struct fp_extent *p);
/* Somewhere to read on that server: near *at if that extent still is there,
 * else anywhere.  False: there is nothing of the volume.
 */
bool fp_volume_place_to_read (struct fp_volume *v, unsigned server,
                              uint64_t *at);

#endif /* FP_VOLUME_INT_H */
