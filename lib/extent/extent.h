/* SPDX-License-Identifier: BSD-3-Clause */
/* extent.h - where each slab-sized extent of a volume is, and who is using
 * it just now.
 *
 * An extent has one atomic word: its state and the number of operations that
 * use its memory.  Whoever wants to use it enters, and leaves when the last
 * byte has moved; whoever wants to change it shuts it first and waits until
 * nobody is inside.  So a look-up takes no lock and costs one atomic
 * addition, and nothing is ever released, moved or revoked under a transfer.
 *
 *            want          publish             shut
 *     EMPTY ------> BUSY -----------> READY --------> BUSY -> ...
 *                                       |  ^
 *                         server down   v  |  server back, still has it
 *                                     OFFLINE -----> LOST
 *
 * FROZEN is READY for the migration thread alone (migrate.h): it reads what is
 * left to copy.  From there it goes back, or to BUSY; or its server goes down.
 *
 * EMPTY was never written (or was trimmed): it reads as zeros, while the
 * volume is ours (volume_int.h), and has no memory.  LOST had data that no
 * server holds any more: every access is -EIO, for ever.  BUSY, FROZEN and
 * OFFLINE are waited for.
 *
 * The written bits say which chunks may hold anything but zeros.  A clear
 * bit is a promise about the server's memory, so it is set before the first
 * write to a chunk is sent, and cleared only while the extent is shut and the
 * server has zeroed it.
 *
 * Units:    bytes; extents and servers are indexes from 0.
 * Threads:  enter, leave and the bits: any.  The rest: the owner of the
 *           extent, that is who made it BUSY, or the peer.
 * Memory:   only fp_extents_new allocates.
 */

#ifndef FP_EXTENT_H
#define FP_EXTENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <pthread.h>

#include "proto/messages.h"
#include "transport/transport.h"

enum fp_extent_state {
  FP_EXTENT_EMPTY,
  FP_EXTENT_READY,
  FP_EXTENT_BUSY,
  FP_EXTENT_FROZEN,
  FP_EXTENT_OFFLINE,
  FP_EXTENT_LOST,
};

/* Where a copy is. */
struct fp_copy {
  unsigned server;
  uint64_t slab;                      /* the server's number */
  uint64_t generation;                /* of its label: see peer_learn.h */
  const struct fp_transport_ops *ops; /* what remote was imported by */
  struct fp_remote remote;
};

/* Undo the import; the slab is the server's affair.  May be called twice. */
static inline void
fp_copy_forget (struct fp_copy *c)
{
  c->ops->unimport (&c->remote);
}

struct fp_extent {
  _Atomic uint32_t word; /* state << 24 | users */
  _Atomic int err;       /* why it could not get memory, 0 or -errno */
  /* copy is memory that a server lent for this extent.  Of BUSY and OFFLINE
   * extents only this tells those that have something to lose.
   */
  _Atomic bool held;
  _Atomic bool doubt;     /* its label counts only if peer_learn.h says so */
  _Atomic bool releasing; /* its server was told to take it back */
  bool fresh;             /* its memory was given while the extent had none */
  _Atomic bool refused;   /* asked for memory in vain */
  _Atomic bool diverged;  /* of copy 0: mirror.h */
  _Atomic bool bad;       /* an in-sync copy that cannot be used: mirror.h */
  _Atomic uint8_t record; /* meta_log.c: what is to be recorded of it */
  uint8_t failures;       /* resync.c: in a row, of its memory */
  uint32_t seen;          /* peer: the last time its server listed it */
  uint32_t next_wanted;   /* allocator.c, peer_place.c: their queues */
  /* Of one that waits for memory: the server that was asked, + 1; or 0. */
  _Atomic uint32_t asked;
  uint64_t tried;          /* while it waits for memory: who had none */
  uint64_t full;           /* and who of them because it is full */
  _Atomic uint32_t server; /* copy.server, for those who only look */
  _Atomic uint32_t used;   /* fp_extents.tick when somebody last entered */
  struct fp_copy copy;     /* of who is inside, or owns it */
};

/* What every request looks at is in one line of the cache. */
struct fp_extents {
  uint64_t size;        /* of the volume */
  uint64_t extent_size; /* a power of two */
  unsigned shift;       /* log2 of extent_size */
  unsigned unit_shift;  /* log2 of the size of a stripe unit */
  uint64_t nr;          /* extents */
  unsigned copies;      /* of each; see mirror.h */
  uint64_t all;         /* nr * copies: entries of p */

  uint32_t width;       /* of a stripe: stripe.h */
  uint32_t chunk_shift; /* log2 of the bytes that one written bit covers */
  uint32_t chunks;      /* of an extent */
  uint32_t words;       /* of 64 bits, of an extent */
  _Atomic uint64_t *written;

  struct fp_extent *p;      /* by copy: all extents of copy 0 first */
  _Atomic uint8_t *in_sync; /* of each extent, a set of copies: mirror.h */
  _Atomic uint64_t *dirty;  /* of each copy, as written: mirror.h; or NULL */
  _Atomic uint32_t tick;    /* about a second each, by the migration thread */

  pthread_mutex_t lock; /* only to sleep in fp_extent_drained */
  pthread_cond_t cond;
};

/* -EINVAL  extent_size is no power of two of at least 64 KiB, or there would
 *          be more than FP_MAX_EXTENTS; or that is no way to stripe it
 */
#define FP_MAX_EXTENTS (1u << 20)
int fp_extents_new (struct fp_extents **out, uint64_t size,
                    uint64_t extent_size, const struct fp_stripe *stripe,
                    unsigned copies);
void fp_extents_free (struct fp_extents *t);

#define FP_EXTENT_USERS 0x00ffffffu

static inline enum fp_extent_state
fp_extent_state (const struct fp_extent *p)
{
  return (enum fp_extent_state) (atomic_load (&p->word) >> 24);
}

void fp_extent_leave (struct fp_extents *t, struct fp_extent *p);

/* Use it, if it is READY; otherwise say what it is, and nobody entered. */
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
  /* In a line of memory that is ours just now: a store each second. */
  tick = atomic_load_explicit (&t->tick, memory_order_relaxed);
  if (atomic_load_explicit (&p->used, memory_order_relaxed) != tick)
    atomic_store_explicit (&p->used, tick, memory_order_relaxed);
  return s;
}

/* The same for the migration thread, which may also use what is FROZEN, and
 * whose use is none.
 */
static inline enum fp_extent_state
fp_extent_enter_frozen (struct fp_extents *t, struct fp_extent *p)
{
  uint32_t w = atomic_fetch_add_explicit (&p->word, 1, memory_order_acquire);
  enum fp_extent_state s = (enum fp_extent_state) (w >> 24);

  if (s == FP_EXTENT_READY || s == FP_EXTENT_FROZEN)
    return FP_EXTENT_READY;
  fp_extent_leave (t, p);
  return s;
}

/* The same for who has made it BUSY. */
static inline enum fp_extent_state
fp_extent_enter_busy (struct fp_extents *t, struct fp_extent *p)
{
  uint32_t w = atomic_fetch_add_explicit (&p->word, 1, memory_order_acquire);
  enum fp_extent_state s = (enum fp_extent_state) (w >> 24);

  if (s == FP_EXTENT_BUSY)
    return FP_EXTENT_READY;
  fp_extent_leave (t, p);
  return s == FP_EXTENT_READY ? FP_EXTENT_LOST : s;
}

/* One step from one state to another; false if it was not in the first. */
bool fp_extent_move (struct fp_extent *p, enum fp_extent_state from,
                     enum fp_extent_state to);

/* Wait until nobody is inside, after a move that lets nobody in; at most
 * wait_ms.  Returns true if so.
 */
bool fp_extent_drained (struct fp_extents *t, struct fp_extent *p,
                        unsigned wait_ms);

/* Entry k is of this extent, and of this copy of it. */
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

/* The label of entry k, for that slab. */
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

/* [offset, offset + length) of extent i. */
void fp_extent_set_written (struct fp_extents *t, uint64_t i, uint64_t offset,
                            uint64_t length);
/* Clear the chunks that lie wholly inside; to the end of what the volume has
 * of the extent that is the last one, too.
 */
void fp_extent_clear_written (struct fp_extents *t, uint64_t i,
                              uint64_t offset, uint64_t length);
void fp_extent_set_all_written (struct fp_extents *t, uint64_t i);

/* Whether the chunk of offset was written, and how many bytes from offset
 * to the end of the run of chunks (in this extent) that are the same, at
 * most limit.
 */
bool fp_extent_run (struct fp_extents *t, uint64_t i, uint64_t offset,
                    uint64_t limit, uint64_t *run);

#endif /* FP_EXTENT_H */
