/* SPDX-License-Identifier: BSD-3-Clause */
/* check.h - are the copies of each extent alike?
 *
 * A thread that is there while a check is under way goes through what was ever
 * written of the volume in blocks of 64 KiB, and compares those that all
 * in-sync copies of an extent have.  For one block it
 *
 *   enters    all in-sync copies, so that none of them is moved, zeroed, made
 *             anew or left behind meanwhile
 *   holds     its bytes (range_lock.h): no write to them is under way, nor
 *             begins
 *   reads     it from each copy, over the migration lane
 *   compares  and if they differ makes each queue pair that has written to one
 *             of their servers read a byte there, and reads once more: over
 *             rdma a write that was acknowledged need not be seen by others
 *   mends     if it was asked to: the other copies get what the first in-sync
 *             one has, and all of them are read again
 *   lets go
 *
 * A write that reached some copies and is tried again for the others would
 * look like a difference.  fp_volume.unsettled says that there is one; then
 * the block is looked at again later.  So a difference that is counted is one.
 *
 * Others wait for what is held: for a few transfers as a rule.  After
 * `timeout`/8 (10 to 250 ms) it is let go, as it is at once when one of the
 * copies is not READY any more, and the block is tried again; only a write
 * that mends has to come to its end, which takes it the 3/8 of `timeout` more
 * that any transfer may take.
 *
 * An extent with fewer in-sync copies than it should have is counted as
 * degraded; if it has one it is passed over.  So is a block that could not be
 * had for four times `timeout`, or whose server is given up.
 *
 * Errors:   0 or -errno.
 * Threads:  start, cancel and status: any.  Stop: who ends the volume.
 * Memory:   a block for each copy, while a check is under way.
 */

#ifndef FP_CHECK_H
#define FP_CHECK_H

#include "volume/volume.h"

#define FP_CHECK_BLOCK (64u * 1024)

struct fp_check;

int fp_check_new (struct fp_check **out, struct fp_volume *v);
void fp_check_stop (struct fp_check *c); /* and wait for its end */
void fp_check_free (struct fp_check *c);
void fp_check_status (struct fp_check *c, struct fp_check_status *s);

#endif /* FP_CHECK_H */
