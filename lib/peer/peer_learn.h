/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_learn.h - what a server says that it holds, and whom to believe when
 * two slabs are said to hold the same extent.
 *
 * A label's answer can be lost after the label took effect.  The client then
 * asks elsewhere, and the extent is labelled twice.  The generation in the
 * label tells which one counts:
 *
 *  - Each LABEL carries a generation that is higher than any that any slab
 *    of the volume had before (fp_volume.generation).  It starts above all
 *    that the servers list when the volume is taken up; no memory is given
 *    to an extent before all of them were asked.  A label that is in no list
 *    then never comes to be: the session that it was sent on is over.
 *  - An extent is given memory only while it has none: it was never written,
 *    or its memory was released and the server said so, or listed all that
 *    it has without it.  Until then it is OFFLINE or BUSY, and not EMPTY.
 *  - A write goes to an extent only after its label was acknowledged.
 *
 *  - Or it is moved: then the memory with the higher generation has all that
 *    the other had, before its label is asked for, and nothing is written to
 *    either until it is known which counts (migrate.h).
 *
 * So of two slabs that are labelled with one extent the one with the lower
 * generation was never written to, or is what the extent was before it was
 * moved: the lower can be dropped.  The higher may hold acknowledged writes,
 * or be an attempt itself; then both are zeros, as they were lent, and the
 * extent reads as never written.  A slab that was lost (fp_grant_is_lost)
 * counts like any other: where the highest is lost so is the extent, although
 * a lower one is there, which is not what was last written.
 *
 * The same generation twice is a server's fault, or a client's of the time
 * before this rule: the peer does not come up, rather than guess.
 *
 * All this takes that both labels are heard of.  A volume with a name can be
 * attached without one of its servers (degraded=true), and then the label with
 * the higher generation may be there.  So these are in doubt:
 *
 *  - a label that is open (FP_GENERATION_OPEN): that of an extent that is
 *    being moved, at both servers, until it is over.  The source's is open
 *    before
 * the target's is asked for, and stays so until it is released or the extent
 * has stayed there: its server may be away for all of the target's life.
 *  - any label of a server that is not current in the list of members that
 *    counts: it has missed what became of its extents.  What it was asked for,
 *    and was then made elsewhere because it was silent, is of this kind, too:
 *    it was given the map before the other was READY, or it was left out.
 *  - if so many members are missing that the list may not be the newest: one
 *    of an extent that no map has.
 *
 * Where the highest label of an extent is in doubt and any member was not
 * heard yet, the extent is LOST; it is not dropped.  It stays so until the
 * volume is attached with all of them.  Before such a server is current again
 * its labels are open.
 *
 * What is dropped goes back to its server by a sweep: list again, release
 * what we do not use.  Before its server is given the map that is
 * over, or the label is open: else it would count there as what the map names.
 *
 * Threads:  the peer's own.  While the volume starts, another peer may take an
 *           extent away from this one: that, and everything here that depends
 *           on who has an extent, is done under fp_volume.lock.
 */

#ifndef FP_PEER_LEARN_H
#define FP_PEER_LEARN_H

#include "extent/extent.h"

struct fp_peer;
struct fp_volume;

/* The next label's. */
uint64_t fp_volume_next_generation (struct fp_volume *v);

/* All later ones are higher than this one. */
void fp_volume_raise_generation (struct fp_volume *v, uint64_t seen);

/* Grant i of l->grants as a copy. */
int peer_import (struct fp_peer *l, unsigned i, struct fp_copy *copy);
void peer_close_grant_fds (struct fp_peer *l);
/* Extent p, which is ours, has its memory here. */
void peer_assign (struct fp_peer *l, struct fp_extent *p,
                  const struct fp_copy *copy);
/* Extent p, which is in that state and ours, is here now: READY. */
void peer_publish (struct fp_peer *l, struct fp_extent *p,
                   const struct fp_copy *copy, enum fp_extent_state from);
/* Learn what the server holds of this volume: total slabs, it said. */
int peer_take_labels (struct fp_peer *l, uint64_t total);
/* Release what the server holds for us, and we do not use.  Nothing is
 * done before that may be (fp_meta_log_may_release).
 */
int peer_sweep (struct fp_peer *l);
/* Label that as open, before its server is given the map, which may name it;
 * it may not be released yet.
 */
int peer_open_strays (struct fp_peer *l);
/* Return the servers of which that is known. */
uint64_t peer_with_strays (struct fp_volume *v);
/* At the start of a volume with a name its servers have said whether extent i
 * exists: then it is LOST if nobody has it.  If it does not, the next
 * peer_sweep of each server that has it releases it.  doubt: the servers whose
 * labels are in doubt, beside those that are open; missing: not all members
 * were heard.
 */
void peer_judge (struct fp_volume *v, uint64_t i, bool exists, uint64_t doubt,
                 bool missing);
/* Label what is in doubt here, and is LOST because of that, as open; or what
 * is believed as what it is, while nothing is moved yet.
 */
int peer_label_doubts (struct fp_peer *l, bool lost);
/* The servers that could settle what is in doubt are gone for good.  So it
 * does not count, and the next peer_sweep releases it.
 */
void peer_give_up_doubts (struct fp_volume *v);

/* peer_forget.c */

/* Entry k has no memory.  Other copies of its extent may still have it: then
 * whoever trims them all clears what was written.
 */
void peer_forget_written (struct fp_extents *t, uint64_t k);
/* The memory of extent p is no more: p is LOST, or EMPTY if that is what was
 * asked for.
 */
void peer_forget (struct fp_peer *l, struct fp_extent *p,
                  enum fp_extent_state from);
/* Forget what was mapped of extent p, if it is OFFLINE and ours.  While the
 * volume starts another peer may make it READY at any time; but then nobody is
 * inside, and it need not be drained.
 */
void peer_forget_offline (struct fp_peer *l, struct fp_extent *p);
/* What is still without memory here although the server listed all it has. */
void peer_judge_missing (struct fp_peer *l);

#endif /* FP_PEER_LEARN_H */
