/* SPDX-License-Identifier: BSD-3-Clause */
/* sealed.h - a volume whose servers are not believed: blocks of 4 KiB that are
 * checked when they are read (checksum=crc32c), or encrypted before they leave
 * the client (encrypt=), or both, or encrypted and authenticated
 * (integrity=on).
 *
 *     fp_lane_read --> sealed.c --> the lanes --> servers
 *                 plain          ciphertext
 *
 * Below this nobody needs a key: what is moved, copied, compared and kept is
 * what the servers have.
 *
 *  - What is known of a block is in a table of this process (seal_table.h); of
 *    encrypt= alone there is none.
 *  - Who writes a block has it alone (range_seqlock.h): it is sealed, sent,
 *    and when the servers have it the table is changed.  A part of a block is
 *    written as all of it, after a read.
 *  - Who reads it takes nothing; if it turns out to be wrong it is read again
 *    by itself, while nobody writes it.  What is wrong then is, and is
 *    counted.  Of several copies each is read, and those that are wrong get
 *    what the right one has.  No copy is right: -EIO.
 *  - The table does not outlive the client: it begins with what nobody has
 *    written.
 *  - Zeros are zeros: where there is a table it says so, and what a server has
 *    there does not matter.  Else a block that is all zeros at the server was
 *    never written, or was zeroed (of what was encrypted one of 2^32768 is):
 *    who can change what servers hold can do that, too.
 *
 * Errors:   those of volume.h.
 * Threads:  any, but start and stop.
 * Memory:   only start allocates; the table, the keys and the buffers are
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

/* Before anything is started; of a volume with a name after its servers were
 * asked who it is.  A UUID that says that the volume is encrypted and with
 * which key is drawn for one that is to be made.
 */
int fp_sealed_check (struct fp_volume_params *p, char why[FP_WHY_MAX]);
int fp_sealed_start (struct fp_volume *v, char why[FP_WHY_MAX]);
void fp_sealed_stop (struct fp_volume *v);

/* As those of volume.h. */
int fp_sealed_read (struct fp_lane *lane, void *buf, uint32_t length,
                    uint64_t offset);
int fp_sealed_write (struct fp_lane *lane, const void *buf, uint32_t length,
                     uint64_t offset, uint64_t made_ns);
int fp_sealed_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
                    bool trim, uint64_t made_ns);

/* Is there a table, that knows which of several copies is right? */
bool fp_sealed_judges (const struct fp_volume *v);
/* Of [in, in + length) of extent i, in whole blocks, copies differ: they all
 * get what the right one has.  -EIO: there is none; -EAGAIN: all of them may
 * be.
 */
int fp_sealed_mend (struct fp_volume *v, uint64_t i, uint64_t in,
                    uint64_t length);

/* A part of a block is read and written. */
bool fp_sealed_zero_is_slow (const struct fp_volume *v, uint64_t length,
                             uint64_t offset);
void fp_sealed_status (struct fp_volume *v, struct fp_seal_status *s);

#endif /* FP_SEALED_H */
