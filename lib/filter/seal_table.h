/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_table.h - the client's knowledge of each block of 4 KiB that its
 * servers hold.  The table has a proof per block: version and tag of a sealed
 * block, or a checksum.
 *
 * More than one content may be right.  The state of a block is a set of these:
 *
 *     FP_BLOCK_ZEROS   Zeros (it was never written, or was zeroed).
 *     FP_BLOCK_PROOF   The content that the proof in the table matches.
 *     FP_BLOCK_MORE    The content that one of some further proofs matches.
 *     FP_BLOCK_ANY     Anything (it was written before this table was made).
 *
 * A write that succeeds leaves one proof, and a zeroing that succeeds leaves
 * zeros.  A write that fails may have arrived or not, so its proof is added to
 * what was right before.  There is room for FP_TABLE_MORE further proofs.  If
 * none is left when another write to a block fails, the block has no right
 * content (state 0).  Then it cannot be read until it is written.
 *
 * Threads:  any for look and proof, at any time.  If another thread changes
 *           the block meanwhile, the result may mix old and new, and then it
 *           proves nothing.  All else needs the block's range lock
 *           (range_lock.h).
 * Memory:   one byte for each block, and 4 for a checksum or 24 for a tag;
 *           locked, and not in core dumps.  Only fp_seal_table_new allocates.
 */

#ifndef FP_SEAL_TABLE_H
#define FP_SEAL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FP_BLOCK 4096u
#define FP_BLOCK_ZEROS 1u
#define FP_BLOCK_PROOF 2u
#define FP_BLOCK_MORE 4u
#define FP_BLOCK_ANY 8u

#define FP_TABLE_MORE 4096u

/* A proof.  For a checksum, only tag[0] counts. */
struct fp_proof {
  uint64_t version;
  uint64_t tag[2];
};

struct fp_seal_table;

/* Create a table.  tags: each block has a version and a tag, else a checksum.
 * known: all blocks are zeros at first, else they may be anything.
 */
int fp_seal_table_new (struct fp_seal_table **out, uint64_t blocks, bool tags,
                       bool known);
void fp_seal_table_free (struct fp_seal_table *t);
/* Return the bytes of memory that a table needs. */
uint64_t fp_seal_table_memory (uint64_t blocks, bool tags);

unsigned fp_seal_table_look (const struct fp_seal_table *t, uint64_t block);
struct fp_proof fp_seal_table_proof (const struct fp_seal_table *t,
                                     uint64_t block);
/* Get the i-th further proof of a block, i = 0, 1, ... Return false if there
 * is none.
 */
bool fp_seal_table_more (struct fp_seal_table *t, uint64_t block, unsigned i,
                         struct fp_proof *out);

/* Record a write or a zeroing of a block.  If it failed, what was right before
 * stays right, too.
 */
void fp_seal_table_wrote (struct fp_seal_table *t, uint64_t block,
                          const struct fp_proof *proof, bool failed);
void fp_seal_table_zeroed (struct fp_seal_table *t, uint64_t block,
                           bool failed);

/* Return the number of blocks that may be anything, and so are not checked. */
uint64_t fp_seal_table_unknown (const struct fp_seal_table *t);

#endif /* FP_SEAL_TABLE_H */
