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
 *  - A write holds its blocks' range lock (range_seqlock.h): it seals and
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
 * Threads:  any, except for start and stop.
 * Memory:   only start allocates.  The table, the keys and the buffers are
 *           locked.
 */

#ifndef FP_SEALED_H
#define FP_SEALED_H

#include "volume/volume.h"

static inline bool
fp_volume_is_sealed (const struct fp_volume_params *p)
{
  return p->checksum != FP_CHECKSUM_NONE || p->encrypt != FP_ENCRYPT_NONE;
}

/* Check the parameters before anything is started.  For a volume with a name,
 * the servers must have been asked for its UUID before.  If a new volume is
 * encrypted with a key file, this draws a UUID that tells which key it has.
 */
int fp_sealed_check (struct fp_volume_params *p, char why[FP_WHY_MAX]);
int fp_sealed_start (struct fp_volume *v, char why[FP_WHY_MAX]);
void fp_sealed_stop (struct fp_volume *v);

/* Do what the functions of volume.h do, for a sealed volume. */
int fp_sealed_read (struct fp_lane *lane, void *buf, uint32_t length,
                    uint64_t offset);
int fp_sealed_write (struct fp_lane *lane, const void *buf, uint32_t length,
                     uint64_t offset, uint64_t made_ns);
int fp_sealed_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
                    bool trim, uint64_t made_ns);

/* Return true if there is a table, which tells which of several copies is
 * right.
 */
bool fp_sealed_judges (const struct fp_volume *v);
/* Give all copies the content of the right one, in [in, in + length) of extent
 * i, in whole blocks, where copies differ.  Return -EIO if no copy is right,
 * or -EAGAIN if all copies may be right.
 */
int fp_sealed_mend (struct fp_volume *v, uint64_t i, uint64_t in,
                    uint64_t length);

/* Return true if zeroing has to read and write a part of a block. */
bool fp_sealed_zero_is_slow (const struct fp_volume *v, uint64_t length,
                             uint64_t offset);
void fp_sealed_status (struct fp_volume *v, struct fp_seal_status *s);

#endif /* FP_SEALED_H */
