/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_migrate.h - what the migration thread (migrate.h) asks of the peers of
 * the two donors between which an extent is moved.
 *
 * The memory that an extent is moved to is fp_extents.target: an extent
 * without a number, EMPTY or READY, or OFFLINE while a session ends.  Only
 * the peer of its donor changes it.
 *
 * Threads:  the migration thread's; fp_peer_reopen, fp_peer_session and
 *           fp_peer_reopen_now also those that zero or trim.
 * Errors:   0 or -errno; each call ends, as peer.h says.
 */

#ifndef FP_PEER_MIGRATE_H
#define FP_PEER_MIGRATE_H

#include "peer/peer.h"

struct fp_take;

int fp_take_new (struct fp_take **out);
void fp_take_free (struct fp_take *take);

/* Get a slab of this donor for the target, which is EMPTY. */
int fp_peer_target (struct fp_peer *peer);
/* Give back the target, which is not needed any more. */
void fp_peer_drop_target (struct fp_peer *peer);

/* Start to label the target as extent p, which is BUSY, drained and the
 * migration thread's.  On success p is at this donor, and READY.  Does not
 * wait.  The previous take is over.
 */
void fp_peer_take (struct fp_peer *peer, struct fp_take *take,
                   struct fp_extent *p);
/* Wait for the end of the take, at most ms.  Return true if it ended. */
bool fp_peer_take_ended (struct fp_peer *peer, struct fp_take *take,
                         unsigned ms);
/* Keep p where it is, whatever the answer to the label.  Return false if it
 * is too late for that.
 */
bool fp_peer_take_withdraw (struct fp_peer *peer, struct fp_take *take);
/* Return 0 if p is moved, with its old slab in *old; otherwise the error. */
int fp_take_result (const struct fp_take *take, uint64_t *old);
/* Return true if p is not moved and the take has left no label.  It was never
 * sent, had no effect, or was released again.
 */
bool fp_peer_take_undone (struct fp_peer *peer, const struct fp_take *take);

/* Make extent p, which is BUSY and here, READY; or OFFLINE or LOST if that is
 * its state.  relabel: with the next generation.  If that fails, p stays
 * BUSY, and the migration thread's.
 */
int fp_peer_reopen (struct fp_peer *peer, struct fp_extent *p, bool relabel);
/* Return the current session of the peer, or 0 if it is in none.
 * fp_peer_reopen_now does as fp_peer_reopen, at once and without a label.  It
 * returns false if the peer has left `session`, the one before the extent was
 * BUSY.
 */
uint64_t fp_peer_session (struct fp_peer *peer);
bool fp_peer_reopen_now (struct fp_peer *peer, struct fp_extent *p,
                         uint64_t session);

/* Label extent p, which is here, with its generation.  open: say also that
 * another donor may have a label that counts instead (peer_learn.h).  Does
 * nothing if the volume has no metadata log.
 */
int fp_peer_mark (struct fp_peer *peer, struct fp_extent *p, bool open);

/* Give back a slab, unless it is in use. */
void fp_peer_drop (struct fp_peer *peer, uint64_t slab);

#endif /* FP_PEER_MIGRATE_H */
