/* SPDX-License-Identifier: BSD-3-Clause */
/* sealed_int.h - the inside of a sealed volume.  sealed.c reads and writes.
 * sealed_block.c handles one block that fails, or a part of one.
 * sealed_start.c starts and stops it, seal_key.c reads key files.
 */

#ifndef FP_SEALED_INT_H
#define FP_SEALED_INT_H

#include <stdatomic.h>
#include <stddef.h>

#include <pthread.h>

#include "extent/block.h"
#include "extent/range_lock.h"
#include "filter/seal_cipher.h"
#include "filter/seal_table.h"
#include "filter/sealed.h"

/* Bytes of a write that are sealed before they are sent, into a buffer.  Most
 * writes are small, and a few buffers serve the large ones.  (1 MiB in steps
 * of 128 KiB took four times as long over tcp.)
 */
#define SEAL_SMALL (128u << 10)
#define SEAL_LARGE (FP_RANGE_LOCK_HOLD_MAX * FP_BLOCK)
/* Writers and readers of each lane that can work at a time; readers decrypt.
 * They are separate, because a writer keeps its tool until the servers have
 * replied.
 */
#define SEAL_WRITERS 8u
#define SEAL_LARGE_WRITERS 2u
#define SEAL_READERS 4u

/* Resources of one request that cannot be shared. */
struct seal_tool {
  struct fp_cipher *cipher; /* or NULL */
  unsigned char *buf;       /* for a writer that encrypts */
  struct fp_proof proofs[FP_RANGE_LOCK_HOLD_MAX];
  uint64_t made_ns; /* time of the writer's request, as in fp_block_request */
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
  struct fp_block block; /* first: sealed_of */
  struct fp_block_ops ops;
  const struct fp_volume_params *p;
  enum fp_cipher_kind kind;
  bool encrypts, gcm;
  struct fp_seal_table *table; /* NULL: encrypt= alone */
  struct fp_range_lock holds;
  struct seal_tools *writers, *large, *readers; /* one for each lane */
  unsigned lanes;                               /* lanes that have theirs */
  void *buffers;
  size_t buffers_size;
  _Atomic uint64_t version; /* last one that was used */
  _Atomic uint64_t wrong, repaired, unreadable;
};

static inline struct fp_sealed *
sealed_of (struct fp_block *b)
{
  _Static_assert(offsetof (struct fp_sealed, block) == 0, "sealed_of casts");
  return (struct fp_sealed *) b;
}

/* The operations of block.h. */
int sealed_read (struct fp_block *b, struct fp_block_request *req);
int sealed_write (struct fp_block *b, struct fp_block_request *req);
int sealed_zero (struct fp_block *b, struct fp_block_request *req);
bool sealed_zero_is_fast (struct fp_block *b, uint64_t length, uint64_t offset,
                          bool trim);
int sealed_repair (struct fp_block *b, uint64_t length, uint64_t offset);

/* Return the deadline for a request that waits for what other requests hold.
 */
uint64_t sealed_deadline (const struct fp_sealed *k);
/* Take a tool.  Return NULL if none is free before the deadline. */
struct seal_tool *sealed_get (struct seal_tools *t, uint64_t deadline);
void sealed_put (struct seal_tools *t, struct seal_tool *tool);

static inline uint64_t
sealed_block_size (const struct fp_sealed *k, uint64_t block)
{
  uint64_t left = k->block.size - block * FP_BLOCK;

  return left < FP_BLOCK ? left : FP_BLOCK;
}

/* Seal length bytes of the blocks from first on, and send them.  Call it with
 * the range lock of the blocks held.
 */
int sealed_put_blocks (struct fp_sealed *k, unsigned lane,
                       struct seal_tool *tool, const unsigned char *buf,
                       uint32_t length, uint64_t first);

/* Open whole blocks in place, after a read with or without their range lock.
 * A block that fails is read again under its range lock, so the caller must
 * not hold that now.
 */
int sealed_open_blocks (struct fp_sealed *k, unsigned lane, unsigned char *buf,
                        uint64_t length, uint64_t first);

/* Read a block whose range lock is held into out, from any copy that is right.
 * suspect: an earlier read failed verification, so all copies are read.
 */
int sealed_read_held (struct fp_sealed *k, unsigned lane, unsigned char *out,
                      uint64_t block, bool suspect);
/* Take the range lock of a block that failed verification, and read it again.
 */
int sealed_read_block (struct fp_sealed *k, unsigned lane, unsigned char *out,
                       uint64_t block);
/* Write a part of a block, [in, in + n): buf, or zeros if buf is NULL. */
int sealed_write_part (struct fp_sealed *k, unsigned lane,
                       const unsigned char *buf, uint64_t block, uint32_t in,
                       uint32_t n, uint64_t made_ns);

#endif /* FP_SEALED_INT_H */
