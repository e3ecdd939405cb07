/* SPDX-License-Identifier: BSD-3-Clause */
/* link_learn.h - what a server says that it holds, and whom to believe when
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
 * So of two slabs that are labelled with one piece the one with the lower
 * generation was never written to: when the higher was asked for, the piece
 * was EMPTY, and its memory, had it been used, was released before.  The
 * lower can be dropped.  The higher may hold acknowledged writes, or be an
 * attempt itself; then both are zeros, as they were lent, and the piece reads
 * as never written.  A slab that was lost (fp_grant_is_lost) counts like any
 * other: where the highest is lost so is the piece, although a lower one is
 * there, which is not what was last written.
 *
 * The same generation twice is a server's fault, or a client's of the time
 * before this rule: the link does not come up, rather than guess.
 *
 * What is dropped goes back to its server by a sweep: list again, release
 * what we do not use.  Nothing depends on when that happens.
 *
 * Threads:  the link's own.  While the volume starts, another link may take a
 *           piece away from this one: that, and everything here that depends
 *           on who has a piece, is done under fp_volume.lock.
 */

#ifndef FP_LINK_LEARN_H
#define FP_LINK_LEARN_H

#include "volume/piece.h"

struct fp_link;
struct fp_volume;

/* The next label's. */
uint64_t fp_volume_next_generation (struct fp_volume *v);

/* Grant i of l->grants as a copy. */
int link_import (struct fp_link *l, unsigned i, struct fp_copy *copy);
void link_close_grant_fds (struct fp_link *l);
/* Piece p, which is in that state and ours, is here now: READY. */
void link_publish (struct fp_link *l, struct fp_piece *p,
                   const struct fp_copy *copy, enum fp_piece_state from);
/* Learn what the server holds of this volume: total slabs, it said. */
int link_take_labels (struct fp_link *l, uint64_t total);
/* Release what the server holds for us, and we do not use. */
int link_sweep (struct fp_link *l);
/* The memory of piece p is no more: p is LOST, or EMPTY if that is what was
 * asked for.
 */
void link_forget (struct fp_link *l, struct fp_piece *p,
                  enum fp_piece_state from);
/* What is still without memory here although the server listed all it has. */
void link_judge_missing (struct fp_link *l);

#endif /* FP_LINK_LEARN_H */
