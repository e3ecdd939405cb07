/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_table.h - what the client knows of each block of 4 KiB that its servers
 * hold: a proof, which is the version and the tag of one that is sealed, or a
 * checksum.
 *
 * More than one content may be right.  A block is a set of these:
 *
 *     FP_BLOCK_ZEROS   zeros: it was never written, or was zeroed
 *     FP_BLOCK_PROOF   what the proof in the table is of
 *     FP_BLOCK_MORE    what one of some more proofs is of
 *     FP_BLOCK_ANY     anything: it was written before this table was made
 *
 * A write that is over leaves one proof, and zeros leave zeros.  One that
 * failed may be there or not: it adds its own to what was right before.  There
 * is a place for FP_TABLE_MORE proofs more; when these are used up, as many
 * failed writes come to the same blocks, such a block has no right content
 * (0): it cannot be read until it is written.
 *
 * Threads:  look and proof: any, at any time; what they say of a block that
 *           somebody changes meanwhile may be half of this and half of that,
 *           and then no proof of anything.  All else: who has the block
 *           (range_seqlock.h).
 * Memory:   one byte for each block, and 4 for a checksum or 24 for a tag;
 *           locked, and not in core dumps.  Only new allocates.
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

/* Of a checksum only tag[0] counts. */
struct fp_proof {
  uint64_t version;
  uint64_t tag[2];
};

struct fp_seal_table;

/* tags: of so many bytes; else of 4.  known: all of it is zeros; else it may
 * be anything.
 */
int fp_seal_table_new (struct fp_seal_table **out, uint64_t blocks, bool tags,
                       bool known);
void fp_seal_table_free (struct fp_seal_table *t);
/* What it needs. */
uint64_t fp_seal_table_memory (uint64_t blocks, bool tags);

unsigned fp_seal_table_look (const struct fp_seal_table *t, uint64_t block);
struct fp_proof fp_seal_table_proof (const struct fp_seal_table *t,
                                     uint64_t block);
/* The i-th of its further proofs, i = 0, 1, ...  False: there is none. */
bool fp_seal_table_more (struct fp_seal_table *t, uint64_t block, unsigned i,
                         struct fp_proof *out);

/* It is that.  failed: or what it was. */
void fp_seal_table_wrote (struct fp_seal_table *t, uint64_t block,
                          const struct fp_proof *proof, bool failed);
void fp_seal_table_zeroed (struct fp_seal_table *t, uint64_t block,
                           bool failed);

/* Blocks that may be anything: what is not checked. */
uint64_t fp_seal_table_unknown (const struct fp_seal_table *t);

#endif /* FP_SEAL_TABLE_H */
