/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_migrate.h - what the mover (migrate.h) asks of the links of the two
 * servers between which a piece is moved.
 *
 * The memory that a piece is moved to is fp_volume.target: a piece without a
 * number, EMPTY or READY.  Its server's link alone changes it.
 *
 * Threads:  the mover's.
 * Errors:   0 or -errno; each call ends, as peer.h says.
 */

#ifndef FP_PEER_MIGRATE_H
#define FP_PEER_MIGRATE_H

#include "peer/peer.h"

struct fp_take;

int fp_take_new (struct fp_take **out);
void fp_take_free (struct fp_take *take);

/* The target, which is EMPTY, becomes a slab of this server. */
int fp_link_target (struct fp_link *l);
/* It is not needed any more. */
void fp_link_drop_target (struct fp_link *l);

/* Label the target as piece p, which is BUSY, drained and the mover's; then p
 * is there, and READY.  Does not wait; the last take is over.
 */
void fp_link_take (struct fp_link *l, struct fp_take *take,
                   struct fp_piece *p);
/* Wait for its end, at most ms. */
bool fp_link_take_ended (struct fp_link *l, struct fp_take *take, unsigned ms);
/* p shall stay where it is, whatever the label's answer.  False: it comes too
 * late.
 */
bool fp_link_take_withdraw (struct fp_link *l, struct fp_take *take);
/* 0: p is moved, and *old was its slab; else why not. */
int fp_take_result (const struct fp_take *take, uint64_t *old);
/* It ended, p is not moved, and there is no such label: there never was, or it
 * was released again.
 */
bool fp_link_take_undone (struct fp_link *l, const struct fp_take *take);

/* Piece p, which is BUSY and here, becomes READY, or OFFLINE or LOST if that
 * is what it is.  relabel: with the next generation; if that fails it stays
 * BUSY, and the mover's.
 */
int fp_link_reopen (struct fp_link *l, struct fp_piece *p, bool relabel);
/* Likewise at once, without a label, if the link is in the same session as it
 * was before the piece was BUSY; 0: it was in none.
 */
uint64_t fp_link_session (struct fp_link *l);
bool fp_link_reopen_now (struct fp_link *l, struct fp_piece *p,
                         uint64_t session);

/* Label piece p, which is here, as what it is; open: and that another server
 * may have a label that counts instead (peer_learn.h).  A volume without a
 * name has no such labels.
 */
int fp_link_mark (struct fp_link *l, struct fp_piece *p, bool open);

/* Give back a slab, unless it is in use. */
void fp_link_drop (struct fp_link *l, uint64_t slab);

#endif /* FP_PEER_MIGRATE_H */
