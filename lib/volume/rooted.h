/* SPDX-License-Identifier: BSD-3-Clause */
/* rooted.h - a volume with a name whose servers are not believed, not even
 * that they have what was last written (integrity=on with root=FILE).
 *
 * What a sealed volume knows of each block (seal_table.h) has to outlive the
 * client.  It is too much to be kept here at each flush, so the servers keep
 * it behind the data, as they keep the data, and one hash of all of it is kept
 * here, in the root file (seal_root.h):
 *
 *     0                   size                                  whole
 *     | blocks, encrypted | record 0 of each | 1 | 2 | 3 | zeros |
 *
 * To everything below, what is behind the data is data: it is copied, moved
 * and made anew like that.
 *
 * A write takes a version for each block, which is also its nonce, and never
 * another's; writes the records, each into one of four that nothing needs
 * (seal_record.h); and when the servers have these, the blocks.  A client that
 * dies in between leaves the old block and the record of it, beside one of a
 * block that never came.  The other way round it would leave a block that
 * nothing is known of.  (That is one more round trip to the servers.)
 *
 * A flush
 *   1. mends what writes that failed have left: below
 *   2. shuts the gate: requests that change something wait, and those that are
 *      under way are waited for; no longer than they take.  What they have
 * left is mended, too
 *   3. closes: what has a version up to now is what the next root is of; opens
 *      the gate
 *   4. makes what was written visible (fp_lane_remote_flush), hashes what was
 *      touched, and writes the root file; who changes what is not hashed yet
 *      hashes it before (seal_tree.h).  Nobody but those who flush waits for
 *      that disk.
 * A root that could not be written is tried again, as it is, by the next
 * flush: one is never given up for a newer one, as it may be on the disk.
 *
 * A write that failed may have left a record that is newer than what the block
 * is.  Whoever attaches the volume would believe that; so before a close such
 * a block is read and written anew, with a newer version.  If it cannot be
 * read, as it was torn or is lost, it gets a record that nothing is right for:
 * it is -EIO until it is written.  If its servers are away the flush fails.
 *
 * Who attaches the volume takes of each block the newest record up to
 * `durable`, hashes all, and compares that to the root file.  If it is not the
 * same the servers have something older, or something else, and it is refused.
 * Records of later versions are of a client that died before its next flush:
 * of such a block the last flush's content is as right as any later one, as
 * after a power cut.  So each of them is read, and AES-256-GCM says which it
 * is; none: it was being written just then, or was changed since, and is -EIO
 * until it is written.  What is found is then flushed, so that it does not
 * change any more. Then nothing is in doubt.
 *
 * Versions never come twice under a key: the file says from where on none was
 * used (limit), and is written before any is; FP_ROOTED_STEP at a time.  This
 * holds only while nobody puts an older file in its place: that shows where
 * the servers have a record that is newer than `limit`, and does not where
 * they lie.  So a root file is not restored from a backup, nor copied: two
 * clients that go on from the same one jump ahead by a random number each, and
 * that is a chance, no proof.
 *
 * The key of the blocks is of the UUID, and a new file begins anew: so a
 * volume is only made under a UUID that was drawn for it here, and never under
 * one that servers say.
 *
 * Without the file, or if the servers have not what it says (reroot=true), all
 * records are of later versions than any root, and all blocks are read.
 * Versions then go on from a random number above all that is seen, as it is
 * not known which were used.  A file says that this is not over yet until what
 * was found is flushed: whoever comes next goes on with it.
 *
 * What binds a tag to its block is the code of the record, not the nonce or
 * other data of AES-GCM: a version is of one block only.  Of zeros nothing is
 * on the servers but the record, so its code alone says that they are so, of
 * 64 bits: a server may guess once for each attach, and only for what was not
 * flushed.
 *
 * Units:    bytes, and numbers of blocks.
 * Errors:   0 or -errno; -EIO as in volume.h.
 * Threads:  enter to leave: any.  A thread of its own flushes.
 * Memory:   34.3 bytes for each block, locked; only new and attach allocate.
 */

#ifndef FP_ROOTED_H
#define FP_ROOTED_H

#include "volume/volume.h"

#define FP_ROOTED_STEP (UINT64_C (1) << 36)
/* The first version is below that, at random: nobody can bring it about that
 * two volumes go on from the same one.  A client goes on from its root's limit
 * and up to so many more; without a root, from what is seen and up to so many.
 */
#define FP_ROOTED_FIRST (UINT64_C (1) << 56)
#define FP_ROOTED_JUMP (UINT64_C (1) << 44)
#define FP_ROOTED_LEAP (UINT64_C (1) << 50)
/* So many blocks are written between two flushes, 4 GiB, and what comes in a
 * second or two: then one is made that nobody asked for.
 */
#define FP_ROOTED_BEHIND (UINT64_C (1) << 20)

static inline bool
fp_volume_is_rooted (const struct fp_volume_params *p)
{
  return p->root[0] != '\0';
}

/* What the servers have of a volume of that size, a multiple of 4096; and of
 * what they have, the size: 0, if there is none that has that.
 */
uint64_t fp_rooted_whole (uint64_t size);
uint64_t fp_rooted_size (uint64_t whole);

/* Of the probe, before it asks the servers: size is what the user says, and
 * becomes what they are to have; and afterwards: it is what they have.
 */
int fp_rooted_before (struct fp_volume_params *p, char why[FP_WHY_MAX]);
int fp_rooted_after (struct fp_volume_params *p, char why[FP_WHY_MAX]);
/* Is there a root file, if and only if there is to be one, of this volume? */
int fp_rooted_check (const struct fp_volume_params *p, char why[FP_WHY_MAX]);

#endif /* FP_ROOTED_H */
