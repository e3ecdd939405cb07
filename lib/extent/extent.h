/* SPDX-License-Identifier: BSD-3-Clause */
/* extent.h - where each slab-sized extent of a volume is, and how many
 * operations use it.
 *
 * An extent has one atomic word: its state and the number of operations that
 * use its memory.  An operation enters the extent before it uses the memory,
 * and leaves when the last byte has moved.  A thread that changes the extent
 * first shuts it and waits until no operation is inside.  So a look-up takes
 * no lock and costs one atomic addition.  Memory is never released, moved or
 * revoked under a transfer.
 *
 *            want          publish             shut
 *     EMPTY ------> BUSY -----------> READY --------> BUSY -> ...
 *                                       |  ^
 *                         server down   v  |  server back, still has it
 *                                     OFFLINE -----> LOST
 *
 * FROZEN is READY for the migration thread alone (migrate.h), which copies the
 * rest.  Then the extent becomes READY or BUSY, or OFFLINE if its server
 * fails.
 *
 * EMPTY has no memory: the extent was never written, or was trimmed.  While
 * this client holds the volume (lease.h), EMPTY reads as zeros.  LOST had
 * data that no server holds any more: every access fails with -EIO for good.
 * An access waits while the state is BUSY, FROZEN or OFFLINE.
 *
 * The written bits say which chunks may hold anything but zeros.  A clear bit
 * is a promise about the server's memory.  So a bit is set before the first
 * write to its chunk is sent.  It is cleared only while the extent is shut and
 * the server has zeroed the chunk.
 *
 * Units:    bytes; extents and servers are indexes from 0.
 * Threads:  enter, leave, the bits and the generations are for any thread.
 *           The rest belongs to the owner: the thread that made it BUSY, or
 *           the peer.
 * Memory:   only fp_extents_new allocates.
 */

#ifndef FP_EXTENT_H
#define FP_EXTENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <pthread.h>

#include "extent/notifier.h"
#include "extent/volume_status.h"
#include "proto/messages.h"
#include "transport/transport.h"

/* Location of a copy. */
struct fp_copy {
  unsigned server;
  uint64_t slab;                      /* number of the slab at its server */
  uint64_t generation;                /* in the slab's label: peer_learn.h */
  const struct fp_transport_ops *ops; /* transport that imported remote */
  struct fp_remote remote;
};

/* Undo the import.  The server keeps the slab.  May be called twice. */
static inline void
fp_copy_forget (struct fp_copy *c)
{
  c->ops->unimport (&c->remote);
}

struct fp_extent {
  _Atomic uint32_t word; /* state << 24 | operations inside */
  _Atomic int err;       /* why it got no memory: 0 or -errno */
  /* True if copy is memory that a server lent for this extent.  While the
   * state is BUSY or OFFLINE, only this tells whether there is data to lose.
   */
  _Atomic bool held;
  _Atomic bool doubt;     /* label counts only as peer_learn.h says */
  _Atomic bool releasing; /* release of the memory was requested */
  bool fresh;             /* memory was given while no copy was in sync */
  _Atomic bool refused;   /* no server could give memory */
  _Atomic bool diverged;  /* copy 0 only: a write failed in part, mirror.h */
  _Atomic bool bad;       /* an in-sync copy that cannot be used: mirror.h */
  _Atomic uint8_t record; /* what must be recorded of it: meta_log_int.h */
  uint8_t failures;       /* resync.c: failures in a row with this memory */
  uint32_t seen;          /* peer: the attempt that last found it listed */
  uint32_t next_wanted;   /* next entry in the queue that holds this one */
  /* While it waits for memory: index of the server asked, + 1; or 0. */
  _Atomic uint32_t asked;
  uint64_t tried;          /* servers that had no memory for it, a set */
  uint64_t full;           /* those of tried that are full */
  _Atomic uint32_t server; /* copy.server, for threads that are not inside */
  _Atomic uint32_t used;   /* fp_extents.tick when it was last entered */
  struct fp_copy copy;     /* valid for threads inside, and for the owner */
};

/* Fields that requests read come first. */
struct fp_extents {
  uint64_t size;        /* volume size, bytes */
  uint64_t extent_size; /* bytes, a power of two */
  unsigned shift;       /* log2 of extent_size */
  unsigned unit_shift;  /* log2 of the stripe unit, in bytes */
  uint64_t nr;          /* number of extents */
  unsigned copies;      /* copies of each extent: copies.h */
  uint64_t all;         /* nr * copies: number of entries of p */

  uint32_t width;       /* extents in a stripe: stripe.h */
  uint32_t chunk_shift; /* log2 of the bytes that one written bit covers */
  uint32_t chunks;      /* chunks in an extent */
  uint32_t words;       /* 64-bit words of written bits in an extent */
  _Atomic uint64_t *written;

  struct fp_extent *p;      /* ordered by copy: all extents of copy 0 first */
  _Atomic uint8_t *in_sync; /* per extent: set of in-sync copies, copies.h */
  _Atomic uint64_t *dirty;  /* per entry, like written: mirror.h; or NULL */
  _Atomic uint64_t moving;  /* entry that is being moved, or FP_NOT_MOVING */
  _Atomic uint64_t
      *moving_dirty;     /* chunks of it that must be copied (again) */
  _Atomic uint32_t tick; /* seconds, about; set by the migration thread */

  _Atomic uint64_t allocated, lost; /* entries with memory; LOST entries */
  _Atomic uint64_t placing;         /* entries that wait for memory */
  _Atomic uint64_t generation;      /* the highest so far: peer_learn.h */

  struct fp_extent target; /* where an entry is moved to: peer_migrate.h */

  /* Held to change in_sync, or which server has an entry.  Also guards what
   * the comments of other objects say (allocator.h, peers.h, recorded.h,
   * peer_migrate.h).
   */
  pthread_mutex_t lock;

  /* Raised when something changed that a request, or a thread of the client,
   * may wait for (fp_extent_move, lane.h).
   */
  struct fp_notifier changes;
};

/* Allocate the table.  Return -EINVAL in one of these cases:
 *  - extent_size is not a power of two of at least 64 KiB
 *  - there would be more than FP_MAX_EXTENTS entries
 *  - the stripe does not fit the extent size
 */
#define FP_MAX_EXTENTS (1u << 20)
#define FP_NO_EXTENT UINT32_MAX /* the end of a list of entries */
#define FP_NOT_MOVING UINT64_MAX
int fp_extents_new (struct fp_extents **out, uint64_t size,
                    uint64_t extent_size, const struct fp_stripe *stripe,
                    unsigned copies);
void fp_extents_free (struct fp_extents *t);

/* Return the generation of the next label. */
uint64_t fp_extents_next_generation (struct fp_extents *t);
/* Make all later generations higher than `seen`. */
void fp_extents_raise_generation (struct fp_extents *t, uint64_t seen);

/* Return the number of entries that have memory, had it (LOST), or wait for
 * it.
 */
static inline uint64_t
fp_extents_used (const struct fp_extents *t)
{
  return atomic_load (&t->allocated) + atomic_load (&t->lost) +
         atomic_load (&t->placing);
}

#define FP_EXTENT_USERS 0x00ffffffu

static inline enum fp_extent_state
fp_extent_state (const struct fp_extent *p)
{
  return (enum fp_extent_state) (atomic_load (&p->word) >> 24);
}

/* Return the donor where p is, or where it waits for memory; or -1. */
int fp_extent_server (const struct fp_extent *p);

void fp_extent_leave (struct fp_extents *t, struct fp_extent *p);

/* Enter the extent if it is READY.  Return its state; the caller is inside
 * only if that is READY.
 */
static inline enum fp_extent_state
fp_extent_enter (struct fp_extents *t, struct fp_extent *p)
{
  enum fp_extent_state s = fp_extent_state (p);
  uint32_t w, tick;

  if (s != FP_EXTENT_READY)
    return s;
  w = atomic_fetch_add_explicit (&p->word, 1, memory_order_acquire);
  s = (enum fp_extent_state) (w >> 24);
  if (s != FP_EXTENT_READY) {
    fp_extent_leave (t, p);
    return s;
  }
  /* The cache line is this CPU's at this moment, so one store a second is
   * cheap.
   */
  tick = atomic_load_explicit (&t->tick, memory_order_relaxed);
  if (atomic_load_explicit (&p->used, memory_order_relaxed) != tick)
    atomic_store_explicit (&p->used, tick, memory_order_relaxed);
  return s;
}

/* Enter like fp_extent_enter, but also if the extent is FROZEN.  Only for the
 * migration thread; its use does not count as use of the extent.  The state is
 * checked first: to enter and leave a shut extent would raise t->changes, and
 * wake the caller itself.
 */
static inline enum fp_extent_state
fp_extent_enter_frozen (struct fp_extents *t, struct fp_extent *p)
{
  enum fp_extent_state s = fp_extent_state (p);
  uint32_t w;

  if (s != FP_EXTENT_READY && s != FP_EXTENT_FROZEN)
    return s;
  w = atomic_fetch_add_explicit (&p->word, 1, memory_order_acquire);
  s = (enum fp_extent_state) (w >> 24);
  if (s == FP_EXTENT_READY || s == FP_EXTENT_FROZEN)
    return FP_EXTENT_READY;
  fp_extent_leave (t, p);
  return s;
}

/* Enter like fp_extent_enter, for the thread that made the extent BUSY. */
static inline enum fp_extent_state
fp_extent_enter_busy (struct fp_extents *t, struct fp_extent *p)
{
  enum fp_extent_state s = fp_extent_state (p);
  uint32_t w;

  if (s != FP_EXTENT_BUSY)
    return s == FP_EXTENT_READY ? FP_EXTENT_LOST : s;
  w = atomic_fetch_add_explicit (&p->word, 1, memory_order_acquire);
  s = (enum fp_extent_state) (w >> 24);
  if (s == FP_EXTENT_BUSY)
    return FP_EXTENT_READY;
  fp_extent_leave (t, p);
  return s == FP_EXTENT_READY ? FP_EXTENT_LOST : s;
}

/* Change the state in one step.  Return false if it was not `from`.  This
 * raises t->changes if `from` is BUSY or FROZEN, or READY and `to` is not
 * OFFLINE.  After other moves that a thread may wait for, the caller does.  A
 * peer that comes up or goes down moves many extents, and raises it once.
 */
bool fp_extent_move (struct fp_extents *t, struct fp_extent *p,
                     enum fp_extent_state from, enum fp_extent_state to);

/* Wait until no operation is inside, after a move to a state that lets none
 * in.  Return false at the deadline, by fp_now_ns.
 */
bool fp_extent_drained (struct fp_extents *t, struct fp_extent *p,
                        uint64_t deadline_ns);

/* Return the extent, or the copy number, of entry k. */
static inline uint64_t
fp_extent_of (const struct fp_extents *t, uint64_t k)
{
  return k < t->nr ? k : k % t->nr;
}

static inline unsigned
fp_copy_of (const struct fp_extents *t, uint64_t k)
{
  return k < t->nr ? 0 : (unsigned) (k / t->nr);
}

/* Return the label of entry k, for the given slab. */
static inline struct fp_label
fp_extent_label (const struct fp_extents *t, uint64_t k, uint64_t slab,
                 uint64_t generation)
{
  return (struct fp_label) {
    .slab = slab,
    .extent = fp_extent_of (t, k),
    .copy = fp_copy_of (t, k),
    .generation = generation,
  };
}

/* Set the bits of all chunks of an extent that [in, in + length) touches. */
void fp_extent_mark (const struct fp_extents *t, _Atomic uint64_t *bits,
                     uint64_t in, uint64_t length);

/* Note that a write of [in, in + length) of entry k is over, however it ended.
 * If k is being moved, these chunks are copied again.  The caller is inside
 * the entry, or has it shut.
 */
static inline void
fp_extent_wrote (struct fp_extents *t, uint64_t k, uint64_t in,
                 uint64_t length)
{
  /* Relaxed will do: `moving` is set before the extent is FROZEN, and a writer
   * that enters later sees it.
   */
  if (atomic_load_explicit (&t->moving, memory_order_relaxed) == k)
    fp_extent_mark (t, t->moving_dirty, in, length);
}

/* Set the bits of all chunks that [offset, offset + length) of extent i
 * touches.
 */
void fp_extent_set_written (struct fp_extents *t, uint64_t i, uint64_t offset,
                            uint64_t length);
/* Clear the bits of the chunks that lie wholly inside the range.  If the range
 * reaches the end of the extent's part of the volume, include the last chunk.
 */
void fp_extent_clear_written (struct fp_extents *t, uint64_t i,
                              uint64_t offset, uint64_t length);
void fp_extent_set_all_written (struct fp_extents *t, uint64_t i);

/* Return true if the chunk at offset was written.  Set *run to the bytes from
 * offset to the end of the run of equal chunks in this extent, at most limit.
 */
bool fp_extent_run (struct fp_extents *t, uint64_t i, uint64_t offset,
                    uint64_t limit, uint64_t *run);

#endif /* FP_EXTENT_H */
