/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_learn.h - what a server says that it holds, and whom to believe when
 * two slabs are said to hold the same piece.
 *
 * A label's answer can be lost after the label took effect.  The client then
 * asks elsewhere, and the piece is labelled twice.  The generation in the
 * label tells which one counts:
 *
 *  - Each LABEL carries a generation that is higher than any that any slab
 *    of the volume had before (fp_volume.generation).  It starts above all
 *    that the servers list when the volume is taken up; no memory is given
 *    to a piece before all of them were asked.  A label that is in no list
 *    then never comes to be: the session that it was sent on is over.
 *  - A piece is given memory only while it has none: it was never written,
 *    or its memory was released and the server said so, or listed all that
 *    it has without it.  Until then it is OFFLINE or BUSY, and not EMPTY.
 *  - A write goes to a piece only after its label was acknowledged.
 *
 *  - Or it is moved: then the memory with the higher generation has all that
 *    the other had, before its label is asked for, and nothing is written to
 *    either until it is known which counts (migrate.h).
 *
 * So of two slabs that are labelled with one piece the one with the lower
 * generation was never written to, or is what the piece was before it was
 * moved: the lower can be dropped.  The higher may hold acknowledged writes,
 * or be an attempt itself; then both are zeros, as they were lent, and the
 * piece reads as never written.  A slab that was lost (fp_grant_is_lost)
 * counts like any other: where the highest is lost so is the piece, although a
 * lower one is there, which is not what was last written.
 *
 * The same generation twice is a server's fault, or a client's of the time
 * before this rule: the link does not come up, rather than guess.
 *
 * All this takes that both labels are heard of.  A volume with a name can be
 * attached without one of its servers (degraded=true), and then the label with
 * the higher generation may be there.  So these are in doubt:
 *
 *  - a label that is open (FP_GENERATION_OPEN): that of a piece that is being
 *    moved, at both servers, until it is over.  The source's is open before
 * the target's is asked for, and stays so until it is released or the piece
 * has stayed there: its server may be away for all of the target's life.
 *  - any label of a server that is not current in the list of members that
 *    counts: it has missed what became of its pieces.  What it was asked for,
 *    and was then made elsewhere because it was silent, is of this kind, too:
 *    it was given the map before the other was READY, or it was left out.
 *  - if so many members are missing that the list may not be the newest: one
 *    of a piece that no map has.
 *
 * Where the highest label of a piece is in doubt and any member was not heard
 * yet, the piece is LOST; it is not dropped.  It stays so until the volume is
 * attached with all of them.  Before such a server is current again its labels
 * are open.
 *
 * What is dropped goes back to its server by a sweep: list again, release
 * what we do not use.  Before its server is given the map that is
 * over, or the label is open: else it would count there as what the map names.
 *
 * Threads:  the link's own.  While the volume starts, another link may take a
 *           piece away from this one: that, and everything here that depends
 *           on who has a piece, is done under fp_volume.lock.
 */

#ifndef FP_PEER_LEARN_H
#define FP_PEER_LEARN_H

#include "extent/extent.h"

struct fp_link;
struct fp_volume;

/* The next label's. */
uint64_t fp_volume_next_generation (struct fp_volume *v);

/* All later ones are higher than this one. */
void fp_volume_raise_generation (struct fp_volume *v, uint64_t seen);

/* Grant i of l->grants as a copy. */
int link_import (struct fp_link *l, unsigned i, struct fp_copy *copy);
void link_close_grant_fds (struct fp_link *l);
/* Piece p, which is ours, has its memory here. */
void link_assign (struct fp_link *l, struct fp_piece *p,
                  const struct fp_copy *copy);
/* Piece p, which is in that state and ours, is here now: READY. */
void link_publish (struct fp_link *l, struct fp_piece *p,
                   const struct fp_copy *copy, enum fp_piece_state from);
/* Learn what the server holds of this volume: total slabs, it said. */
int link_take_labels (struct fp_link *l, uint64_t total);
/* Release what the server holds for us, and we do not use.  Nothing is
 * done before that may be (fp_recorder_may_release).
 */
int link_sweep (struct fp_link *l);
/* Label that as open, before its server is given the map, which may name it;
 * it may not be released yet.
 */
int link_open_strays (struct fp_link *l);
/* Return the servers of which that is known. */
uint64_t link_with_strays (struct fp_volume *v);
/* At the start of a volume with a name its servers have said whether piece i
 * exists: then it is LOST if nobody has it.  If it does not, the next
 * link_sweep of each server that has it releases it.  doubt: the servers whose
 * labels are in doubt, beside those that are open; missing: not all members
 * were heard.
 */
void link_judge (struct fp_volume *v, uint64_t i, bool exists, uint64_t doubt,
                 bool missing);
/* Label what is in doubt here, and is LOST because of that, as open; or what
 * is believed as what it is, while nothing is moved yet.
 */
int link_label_doubts (struct fp_link *l, bool lost);
/* The servers that could settle what is in doubt are gone for good.  So it
 * does not count, and the next link_sweep releases it.
 */
void link_give_up_doubts (struct fp_volume *v);

/* peer_forget.c */

/* Entry k has no memory.  Other copies of its piece may still have it: then
 * whoever trims them all clears what was written.
 */
void link_forget_written (struct fp_pieces *t, uint64_t k);
/* The memory of piece p is no more: p is LOST, or EMPTY if that is what was
 * asked for.
 */
void link_forget (struct fp_link *l, struct fp_piece *p,
                  enum fp_piece_state from);
/* Forget what was mapped of piece p, if it is OFFLINE and ours.  While the
 * volume starts another link may make it READY at any time; but then nobody is
 * inside, and it need not be drained.
 */
void link_forget_offline (struct fp_link *l, struct fp_piece *p);
/* What is still without memory here although the server listed all it has. */
void link_judge_missing (struct fp_link *l);

#endif /* FP_PEER_LEARN_H */
