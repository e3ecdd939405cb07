/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_migrate.h - what the migration thread (migrate.h) asks of the peers of
 * the two servers between which an extent is moved.
 *
 * The memory that an extent is moved to is fp_volume.target: an extent without
 * a number, EMPTY or READY.  Its server's peer alone changes it.
 *
 * Threads:  the migration thread's.
 * Errors:   0 or -errno; each call ends, as peer.h says.
 */

#ifndef FP_PEER_MIGRATE_H
#define FP_PEER_MIGRATE_H

#include "peer/peer.h"

struct fp_take;

int fp_take_new (struct fp_take **out);
void fp_take_free (struct fp_take *take);

/* The target, which is EMPTY, becomes a slab of this server. */
int fp_peer_target (struct fp_peer *l);
/* It is not needed any more. */
void fp_peer_drop_target (struct fp_peer *l);

/* Label the target as extent p, which is BUSY, drained and the migration
 * thread's; then p is there, and READY.  Does not wait; the last take is over.
 */
void fp_peer_take (struct fp_peer *l, struct fp_take *take,
                   struct fp_extent *p);
/* Wait for its end, at most ms. */
bool fp_peer_take_ended (struct fp_peer *l, struct fp_take *take, unsigned ms);
/* p shall stay where it is, whatever the label's answer.  False: it comes too
 * late.
 */
bool fp_peer_take_withdraw (struct fp_peer *l, struct fp_take *take);
/* 0: p is moved, and *old was its slab; else why not. */
int fp_take_result (const struct fp_take *take, uint64_t *old);
/* It ended, p is not moved, and there is no such label: there never was, or it
 * was released again.
 */
bool fp_peer_take_undone (struct fp_peer *l, const struct fp_take *take);

/* Extent p, which is BUSY and here, becomes READY, or OFFLINE or LOST if that
 * is what it is.  relabel: with the next generation; if that fails it stays
 * BUSY, and the migration thread's.
 */
int fp_peer_reopen (struct fp_peer *l, struct fp_extent *p, bool relabel);
/* Likewise at once, without a label, if the peer is in the same session as it
 * was before the extent was BUSY; 0: it was in none.
 */
uint64_t fp_peer_session (struct fp_peer *l);
bool fp_peer_reopen_now (struct fp_peer *l, struct fp_extent *p,
                         uint64_t session);

/* Label extent p, which is here, as what it is; open: and that another server
 * may have a label that counts instead (peer_learn.h).  A volume without a
 * name has no such labels.
 */
int fp_peer_mark (struct fp_peer *l, struct fp_extent *p, bool open);

/* Give back a slab, unless it is in use. */
void fp_peer_drop (struct fp_peer *l, uint64_t slab);

#endif /* FP_PEER_MIGRATE_H */
