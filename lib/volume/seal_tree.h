/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_tree.h - one hash for what is known of all blocks of a volume, and what
 * of it has to be computed anew.
 *
 *     root
 *     nodes    SHA-256 of {1, 128 hashes}
 *     leaves   of 128 blocks each: whoever knows these says what it is
 *
 * A leaf that was touched is to be hashed after the next close, and before
 * anything in it is changed again: so a root is of all blocks as they were at
 * the close, while they are written on.
 *
 * Units:    numbers of blocks and leaves.
 * Errors:   0 or -errno.
 * Threads:  touch, and closing: any.  close: nobody touches meanwhile.  set
 * and root: one at a time. Memory:   32 bytes and 2 bits for each leaf; only
 * new allocates.
 */

#ifndef FP_SEAL_TREE_H
#define FP_SEAL_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "volume/seal_cipher.h"

#define FP_LEAF 128u /* blocks, and children of a node */

struct fp_seal_tree;

/* All of it is closing. */
int fp_seal_tree_new (struct fp_seal_tree **out, uint64_t blocks);
void fp_seal_tree_free (struct fp_seal_tree *t);
uint64_t fp_seal_tree_memory (uint64_t blocks);

void fp_seal_tree_touch (struct fp_seal_tree *t, uint64_t leaf);
void fp_seal_tree_close (struct fp_seal_tree *t);
/* It is to be hashed, as it is. */
bool fp_seal_tree_closing (const struct fp_seal_tree *t, uint64_t leaf);
/* The first one from that on, or the number of leaves. */
uint64_t fp_seal_tree_next (const struct fp_seal_tree *t, uint64_t leaf);
uint64_t fp_seal_tree_leaves (const struct fp_seal_tree *t);
void fp_seal_tree_set (struct fp_seal_tree *t, uint64_t leaf,
                       const uint8_t hash[FP_HASH]);
/* When none is closing. */
int fp_seal_tree_root (struct fp_seal_tree *t, struct fp_digest *d,
                       uint8_t root[FP_HASH]);

#endif /* FP_SEAL_TREE_H */
