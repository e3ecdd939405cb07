/* SPDX-License-Identifier: BSD-3-Clause */
/* sealed_int.h - the inside of a sealed volume: sealed.c reads and writes,
 * sealed_block.c deals with one block that is wrong or not all of one,
 * sealed_start.c makes and ends it, seal_key.c knows the keys of files.
 */

#ifndef FP_SEALED_INT_H
#define FP_SEALED_INT_H

#include <stdatomic.h>

#include <pthread.h>

#include "extent/range_seqlock.h"
#include "filter/seal_cipher.h"
#include "filter/seal_table.h"
#include "filter/sealed.h"
#include "volume/volume_int.h"

/* Of a write, so much is sealed before it is sent, and has a buffer: most are
 * small, and large ones have a few buffers that are.  (1 MiB by 128 KiB, one
 * after the other, took four times as long over tcp.)
 */
#define SEAL_SMALL (128u << 10)
#define SEAL_LARGE (FP_RANGE_SEQLOCK_HOLD_MAX * FP_BLOCK)
/* Of each lane: so many write at a time, and decrypt.  These are not the same,
 * as who writes has his until the servers have answered.
 */
#define SEAL_WRITERS 8u
#define SEAL_LARGE_WRITERS 2u
#define SEAL_READERS 4u

/* What a request needs that cannot be shared. */
struct seal_tool {
  struct fp_cipher *cipher; /* or NULL */
  unsigned char *buf;       /* of a writer, if it encrypts */
  struct fp_proof proofs[FP_RANGE_SEQLOCK_HOLD_MAX];
  uint64_t made_ns; /* of the request of a writer, as in fp_io */
  struct seal_tool *next;
};

struct seal_tools {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  unsigned waiting;
  struct seal_tool *free, *all;
  unsigned nr;
};

struct fp_sealed {
  struct fp_volume *v;
  enum fp_cipher_kind kind;
  bool encrypts, gcm;
  struct fp_seal_table *table; /* NULL: xts alone */
  struct fp_range_seqlock holds;
  struct seal_tools *writers, *large, *readers; /* of each lane */
  unsigned lanes;                               /* that have theirs */
  void *buffers;
  size_t buffers_size;
  _Atomic uint64_t version; /* the last one that was used */
  _Atomic uint64_t wrong, repaired, unreadable;
};

/* How long a request may wait for what others have. */
uint64_t sealed_deadline (const struct fp_sealed *k);
/* NULL: not before the deadline. */
struct seal_tool *sealed_get (struct seal_tools *t, uint64_t deadline);
void sealed_put (struct seal_tools *t, struct seal_tool *tool);

static inline uint64_t
sealed_block_size (const struct fp_sealed *k, uint64_t block)
{
  uint64_t left = k->v->p.size - block * FP_BLOCK;

  return left < FP_BLOCK ? left : FP_BLOCK;
}

/* Seal length bytes, of the blocks from first on, and send them; the blocks
 * are held.
 */
int sealed_put_blocks (struct fp_lane *lane, struct seal_tool *tool,
                       const unsigned char *buf, uint32_t length,
                       uint64_t first);

/* In place, of what was read of whole blocks, by somebody who had them or
 * nobody; blocks that are not what they should be are read again.
 */
int sealed_open_blocks (struct fp_lane *lane, unsigned char *buf,
                        uint64_t length, uint64_t first);

/* The block is held: what it is, into out, whichever copy has that.  suspect:
 * it was read before, and was wrong then: all copies are looked at.
 */
int sealed_read_held (struct fp_lane *lane, unsigned char *out, uint64_t block,
                      bool suspect);
/* The same, of one that is not held. */
int sealed_read_block (struct fp_lane *lane, unsigned char *out,
                       uint64_t block);
/* [in, in + n) of the block, which is not all of it: buf, or zeros. */
int sealed_write_part (struct fp_lane *lane, const unsigned char *buf,
                       uint64_t block, uint32_t in, uint32_t n,
                       uint64_t made_ns);

#endif /* FP_SEALED_INT_H */
