/* SPDX-License-Identifier: BSD-3-Clause */
/* rooted_int.h - the inside of a volume with a root: rooted.c changes records,
 * rooted_flush.c makes roots, rooted_attach.c believes one, rooted_check.c is
 * asked before anything is started.
 */

#ifndef FP_ROOTED_INT_H
#define FP_ROOTED_INT_H

#include <stdatomic.h>

#include "base/thread.h"
#include "volume/rooted.h"
#include "volume/seal_record.h"
#include "volume/seal_root.h"
#include "volume/seal_tree.h"
#include "volume/sealed_int.h"

/* Beside the roles: it may have a record that is newer than what it is; and
 * what it is was not found out yet.
 */
#define ROOTED_TROUBLE 0x40u
#define ROOTED_DOUBT 0x80u

/* A flush waits for the client's disk no longer. */
#define ROOTED_STUCK_MS 20000u
/* The lock of a client that has lost the volume to this one: it looks once a
 * second.
 */
#define ROOTED_LOOK_MS 1000u
#define ROOTED_LOCK_MS 10000u

struct fp_rooted {
  struct fp_sealed *k;
  uint64_t blocks, table_at;
  struct fp_uuid uuid;

  _Atomic uint64_t *newest; /* version of the newest record */
  _Atomic uint8_t *roles;
  void *memory; /* both */
  size_t memory_size;
  struct fp_seal_tree *tree;
  struct fp_digest *digest;
  struct fp_mac *mac;     /* of who starts it, and of the thread */
  struct seal_tool *tool; /* likewise */

  struct fp_root_file *file; /* NULL: it was lost to another client */
  bool made, stays;          /* the file, by us; and is one to be kept */

  _Atomic uint64_t next, limit; /* versions */
  _Atomic uint64_t durable, closed;
  _Atomic uint64_t kept;     /* versions below it are durable, or not used */
  uint64_t behind;           /* so many that are not are flushed unasked */
  _Atomic uint64_t troubled; /* blocks */

  pthread_mutex_t hash_lock; /* tree, digest */

  pthread_mutex_t lock; /* what follows; none of the others under it */
  pthread_cond_t cond;
  bool gate; /* is shut */
  unsigned inside;
  uint64_t asked, done, failed; /* numbers of flushes */
  bool pending;                 /* `closed` is not durable */
  bool stopping, runs;
  char why[FP_WHY_MAX]; /* of the last root that could not be written */
  struct fp_thread thread;

  _Atomic uint64_t roots, doubts, torn;
  _Atomic uint64_t table_ops, table_bytes; /* writes */
};

static inline struct fp_bounds
rooted_bounds (const struct fp_rooted *r)
{
  /* In this order: durable may become what closed is. */
  uint64_t durable = atomic_load (&r->durable);

  return (struct fp_bounds) { .durable = durable,
                              .closed = atomic_load (&r->closed) };
}

static inline uint64_t
rooted_at (const struct fp_rooted *r, unsigned record, uint64_t block)
{
  return r->table_at + (record * r->blocks + block) * FP_RECORD;
}

/* ---- rooted.c ---- */

int rooted_new (struct fp_sealed *k, char why[FP_WHY_MAX]);
void rooted_free (struct fp_rooted *r);
uint64_t rooted_memory (uint64_t blocks);

/* So much longer than a request that changes something may wait for others, a
 * flush waits for those that are under way; and twice as much, they for it.
 */
static inline uint64_t
rooted_patience_ms (const struct fp_rooted *r)
{
  return r == NULL ? 0 : fp_volume_await_ms (r->k->v);
}

/* Around a request that changes something, before it has any block or tool.
 * -EIO: not before the deadline.  r NULL: nothing.
 */
int rooted_enter (struct fp_rooted *r, uint64_t deadline);
void rooted_leave (struct fp_rooted *r);

/* Versions for nr blocks: the first; 0: there are no more. */
uint64_t rooted_draw (struct fp_rooted *r, uint64_t nr);

/* These blocks, which are held, nr <= FP_HOLD_MAX, are about to be what the
 * proofs say: their records.  slots: where they are, for rooted_wrote.
 */
int rooted_put (struct fp_lane *lane, struct seal_tool *tool, uint64_t first,
                unsigned nr);
/* The blocks came, or not, or not all. */
void rooted_wrote (struct fp_rooted *r, struct seal_tool *tool, uint64_t first,
                   unsigned nr, bool failed);
/* They are zeros: any number, held. */
int rooted_zero (struct fp_lane *lane, struct seal_tool *tool, uint64_t first,
                 uint64_t end);
/* Its data is on no server any more, and none that is away may have it. */
bool rooted_is_lost (const struct fp_rooted *r, uint64_t block);
/* What a block is, which may be in trouble, is its newest record. */
int rooted_mend (struct fp_rooted *r, uint64_t block);

/* ---- rooted_flush.c ---- */

int rooted_hash_leaf (struct fp_rooted *r, uint64_t leaf);
/* By who starts it, or the thread. */
int rooted_commit (struct fp_rooted *r);
int rooted_root (struct fp_rooted *r, uint8_t hash[FP_HASH]);
int rooted_flush (struct fp_rooted *r);
int rooted_run (struct fp_rooted *r);
void rooted_status (struct fp_rooted *r, struct fp_seal_status *s);
/* Flush, and end the thread.  discard: one that was made here, and never came
 * to be, has no file then.
 */
void rooted_end (struct fp_rooted *r, bool discard);

/* ---- rooted_attach.c ---- */

int rooted_attach (struct fp_rooted *r, char why[FP_WHY_MAX]);

/* ---- rooted_check.c ---- */

int rooted_mac (struct fp_mac **out, const struct fp_volume_params *p);
int rooted_is_of (const struct fp_root *root, const struct fp_volume_params *p,
                  char why[FP_WHY_MAX]);

#endif /* FP_ROOTED_INT_H */
