/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_learn.h - what a donor says that it holds, and which slab counts when
 * two are labelled with the same extent.
 *
 * The answer to a LABEL can be lost after the label took effect.  The client
 * then asks elsewhere, and the extent is labelled twice.  The generation in
 * the label tells which one counts:
 *
 * - Each LABEL has a higher generation than any slab of the volume had before
 *   (fp_extents.generation).  At attach it starts above all that the donors
 *   list.  No extent gets memory before all of them have listed.  A label
 *   that is in no list then never takes effect: its session is over.
 * - An extent gets memory only while it has none: it was never written, or
 *   its memory is gone.  The donor said that it was released, or listed all
 *   that it has without it.  Until then the extent is OFFLINE or BUSY, and
 *   not EMPTY.
 * - A write goes to an extent only after its label was acknowledged.
 * - An extent that is moved (migrate.h) has all its data in the new memory
 *   before the new label is sent.  No write goes to either until it is known
 *   which counts.
 *
 * So of two slabs with one extent the lower generation was never written to,
 * or is the extent before a move: it can be dropped.  The higher may hold
 * acknowledged writes.  If it is itself a label whose answer was lost, both
 * are zeros, as they were lent.  A lost slab (fp_grant_is_lost) counts like
 * any other.  If the highest is lost, so is the extent: a lower one misses
 * the last writes.
 *
 * Two equal generations are the fault of a donor, or of an older client: the
 * peer does not come up, rather than guess.
 *
 * Dropped slabs go back to their donor by a sweep: list again, and release
 * those that are not used.  The sweep is over, or their labels are open,
 * before the donor is given the map.  Otherwise a label would count there as
 * the one that the map names.
 *
 * Threads:  the peer's own.  While the volume starts, another peer may take an
 *           extent away from this one.  That, and all here that depends on
 *           which peer has an extent, is done under fp_extents.lock.
 */

#ifndef FP_PEER_LEARN_H
#define FP_PEER_LEARN_H

#include "extent/extent.h"

struct fp_peer;
struct fp_peers;

/* Labels in doubt.  The rules above need both labels of an extent to be
 * heard.  But a volume with a name can be attached without some donors
 * (degraded=true), and the higher label may be at one of those.  So these
 * labels are in doubt:
 *
 * - An open label (FP_GENERATION_OPEN): both labels of an extent that is
 *   being moved.  The source's is open before the target's is sent.  It stays
 *   open until it is released, or the extent has stayed: the source may be
 *   away for all of the target's life.
 * - Any label of a donor that is not current in the list of members that
 *   counts: it has missed what became of its extents.  This covers an extent
 *   that was made elsewhere because this donor was silent.  Before the other
 *   copy was READY, this donor was given the map or was left out of the list.
 * - A label of an extent that no map has, if so many members are missing that
 *   the list may not be the newest.
 *
 * If the highest label of an extent is in doubt, and a member was not heard
 * yet, the extent is LOST.  Its slab is not dropped.  It stays LOST until the
 * volume is attached with all members.  Before a donor that was not current
 * is current again, its labels are made open.
 */

/* Import grant i of peer->grants into *copy. */
int peer_import (struct fp_peer *peer, unsigned i, struct fp_copy *copy);
void peer_close_grant_fds (struct fp_peer *peer);
/* Give extent p, which is ours, this memory. */
void peer_assign (struct fp_peer *peer, struct fp_extent *p,
                  const struct fp_copy *copy);
/* Give extent p, which is ours in state `from`, this memory, and make it
 * READY.
 */
void peer_publish (struct fp_peer *peer, struct fp_extent *p,
                   const struct fp_copy *copy, enum fp_extent_state from);
/* Learn what the donor holds of this volume.  total: slabs, as it said in
 * OPEN.
 */
int peer_take_labels (struct fp_peer *peer, uint64_t total);
/* Release the slabs that the donor holds for us and that we do not use.  Does
 * nothing before fp_recorded_may_release allows it.
 */
int peer_sweep (struct fp_peer *peer);
/* Label those slabs as open, while they may not be released yet.  This is
 * done before the donor is given the map, which may name their extents.
 */
int peer_open_strays (struct fp_peer *peer);
/* Return the set of donors that are known to have unused slabs. */
uint64_t peer_with_strays (struct fp_peers *peers);
/* Decide about extent i at the start of a volume with a name; its donors have
 * said whether it exists.  If it does and no donor has it, it is LOST.  If it
 * does not, the next peer_sweep of each donor that has it releases it.
 * doubt: donors whose labels are all in doubt, open or not.  missing: some
 * members were not heard.
 */
void peer_judge (struct fp_peers *peers, uint64_t i, bool exists,
                 uint64_t doubt, bool missing);
/* lost: label as open the extents here that are LOST because they are in
 * doubt.  Otherwise label as not open those that are believed, while no move
 * is under way.
 */
int peer_label_doubts (struct fp_peer *peer, bool lost);
/* Let the labels in doubt not count: the donors that could settle them are
 * gone for good.  The next peer_sweep releases them.
 */
void peer_give_up_doubts (struct fp_peers *peers);

/* peer_forget.c */

/* Mark entry k, which has no memory, as unwritten.  With several copies do
 * nothing: others may still have memory, and a trim of all of them does it.
 */
void peer_forget_written (struct fp_extents *t, uint64_t k);
/* Forget extent p, whose memory is gone: p is LOST, or EMPTY if its release
 * was requested.
 */
void peer_forget (struct fp_peer *peer, struct fp_extent *p,
                  enum fp_extent_state from);
/* Unmap extent p, if it is OFFLINE and ours.  While the volume starts,
 * another peer may make it READY at any time.  But then no transfer is
 * inside, and it need not be drained.
 */
void peer_forget_offline (struct fp_peer *peer, struct fp_extent *p);
/* Forget the extents that have no memory here although the donor has listed
 * all that it holds.
 */
void peer_judge_missing (struct fp_peer *peer);

#endif /* FP_PEER_LEARN_H */
