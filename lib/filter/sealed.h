/* SPDX-License-Identifier: BSD-3-Clause */
/* sealed.h - a volume that does not trust its servers.  Its blocks of 4 KiB
 * are checked on each read (checksum=crc32c), or encrypted before they leave
 * the client (encrypt=), or both.  With integrity=on they are encrypted and
 * authenticated.
 *
 *     fp_lane_read --> sealed.c --> the lanes --> servers
 *                 plain          ciphertext
 *
 * The layers below need no key: they move, copy, compare and keep the content
 * that the servers have.
 *
 *  - A table of this process has the client's knowledge of each block
 *    (seal_table.h).  With encrypt= alone there is no table.
 *  - A write holds its blocks' range lock (range_lock.h): it seals and
 *    sends them, and changes the table after the servers have replied.  A
 *    write of a part of a block reads and writes the whole block.
 *  - A read takes no lock.  A block that fails verification is read again
 *    under its range lock, and counted if it fails again.  If there are
 *    several copies, all of them are read, and the wrong ones get the content
 *    of the right one.  If no copy is right, the read fails with -EIO.
 *  - The table does not outlive the client.  A block that was written before
 *    is not checked until it is written again.
 *  - Zeros are not sealed.  If there is a table, it knows which blocks are
 *    zeros, and the content at the servers does not matter.  Without a table,
 *    a block that is all zeros at the server reads as zeros.  (A block is
 *    encrypted to zeros only once in 2^32768.)  An attacker who can change the
 *    servers' content can forge such zeros.
 *
 * Errors:   those of volume.h.
 * Threads:  any, except for fp_sealed_new and free.
 * Memory:   only fp_sealed_new allocates.  The table, the keys and the buffers
 *           are locked.
 */

#ifndef FP_SEALED_H
#define FP_SEALED_H

#include "base/error.h"
#include "extent/volume_params.h"

struct fp_block;

static inline bool
fp_sealed_wanted (const struct fp_volume_params *p)
{
  return p->checksum != FP_CHECKSUM_NONE || p->encrypt != FP_ENCRYPT_NONE;
}

/* Create the seal on `below`, from p.  Both must outlive it. */
int fp_sealed_new (struct fp_block **out, const struct fp_volume_params *p,
                   struct fp_block *below, struct fp_error *error);
/* Return the bytes of memory that the seal needs; 0 if it is not wanted. */
uint64_t fp_sealed_memory (const struct fp_volume_params *p);

#endif /* FP_SEALED_H */
