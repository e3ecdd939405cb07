/* SPDX-License-Identifier: BSD-3-Clause */
/* check.h - compare the copies of each extent.
 *
 * A thread, which exists only while a check is running, goes through all that
 * was ever written to the volume, in blocks of 64 KiB.  It compares each block
 * in all in-sync copies of its extent.  For one block it takes these steps.
 *
 *   enter     all in-sync copies, so that none of them is moved, zeroed,
 *             resynced or dropped meanwhile.
 *   lock      the block (fp_engine_lock): no write to it is under way, nor
 *             begins.
 *   read      the block from each copy, over the heal lane.
 *   compare   If they differ, make each queue pair that has written to one of
 *             their servers read a byte there.  Then read the block again:
 *             over rdma, an acknowledged write need not be visible to other
 *             queue pairs.
 *   repair    if asked to: the other copies get the data of the first in-sync
 *             one.  Then read all of them again.
 *   unlock    the block, and leave the copies.
 *
 * A write that reached some copies and is being retried for the others would
 * look like a difference.  fp_engine.unsettled counts these writes; the block
 * is then checked again later.  So every difference that is counted is real.
 *
 * Requests wait for the locked block, normally for a few transfers.  It is
 * unlocked after `timeout`/8 (10 to 250 ms), or at once if one of the copies
 * is not READY any more.  Then the block is tried again.  Only a write that
 * repairs runs to its end, which takes at most another 3/8 of `timeout`.
 *
 * An extent with fewer in-sync copies than it should have counts as degraded;
 * with one it is skipped.  A block is skipped if it could not be had for four
 * times `timeout`, or if its server is given up.
 *
 * Errors:   0 or -errno.
 * Threads:  any for start, cancel and status; for stop, the one that ends the
 *           volume.
 * Memory:   a block for each copy, while a check is running.
 */

#ifndef FP_CHECK_H
#define FP_CHECK_H

#include "base/error.h"
#include "extent/volume_status.h"

#define FP_CHECK_BLOCK (64u * 1024)

struct fp_block;
struct fp_engine;
struct fp_check;

int fp_check_new (struct fp_check **out, struct fp_engine *e);
/* As fp_volume_check and fp_volume_check_cancel (volume.h).  top: the layer
 * from which downwards a `repair` is looked for.  It outlives the check.
 */
int fp_check_start (struct fp_check *c, struct fp_block *top, bool repair,
                    uint64_t rate, struct fp_error *error);
int fp_check_cancel (struct fp_check *c, struct fp_error *error);
void fp_check_stop (struct fp_check *c); /* and wait for its end */
void fp_check_free (struct fp_check *c);
void fp_check_status (struct fp_check *c, struct fp_check_status *s);

#endif /* FP_CHECK_H */
