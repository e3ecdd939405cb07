/* SPDX-License-Identifier: BSD-3-Clause */
/* link_forget.c - a piece whose memory is no more, or is not counted on any
 * more (link_learn.h).
 */

#include <config.h>

#include <stdlib.h>

#include "volume/link_int.h"

void
link_forget_written (struct fp_pieces *t, uint64_t k)
{
  if (t->copies == 1)
    fp_piece_clear_written (t, k, 0, t->piece_size);
}

bool
fp_link_abandon (struct fp_volume *v, uint64_t k)
{
  struct fp_piece *p = &v->pieces->p[k];
  struct fp_link *l = v->links[atomic_load (&p->server)];

  FP_LOCK_SCOPE (&v->lock);
  if (fp_piece_state (p) == FP_PIECE_OFFLINE && atomic_load (&p->held)) {
    if ((atomic_load (&p->word) & FP_PIECE_USERS) != 0)
      return false;
    /* Its link may be about to do that. */
    fp_copy_forget (&p->copy);
    atomic_store (&p->held, false);
    atomic_fetch_sub (&v->allocated, 1);
    atomic_fetch_sub (&l->pieces, 1);
    atomic_store (&l->sweep, true);
    p->releasing = false;
    return fp_piece_move (p, FP_PIECE_OFFLINE, FP_PIECE_EMPTY);
  }
  if (fp_piece_state (p) == FP_PIECE_LOST) {
    atomic_store (&p->doubt, false);
    atomic_fetch_sub (&v->lost, 1);
    p->copy = (struct fp_copy) { .slab = UINT64_MAX };
    return fp_piece_move (p, FP_PIECE_LOST, FP_PIECE_EMPTY);
  }
  return fp_piece_state (p) == FP_PIECE_EMPTY;
}

void
link_forget (struct fp_link *l, struct fp_piece *p, enum fp_piece_state from)
{
  struct fp_pieces *t = l->v->pieces;
  bool wanted = !p->releasing;

  atomic_store (&p->held, false);
  p->releasing = false;
  atomic_fetch_sub (&l->v->allocated, 1);
  atomic_fetch_sub (&l->pieces, 1);
  if (wanted)
    atomic_store (&l->lost_any, true);
  if (wanted)
    atomic_fetch_add (&l->v->lost, 1);
  else
    link_forget_written (t, (uint64_t) (p - t->p));
  if (!fp_piece_move (p, from, wanted ? FP_PIECE_LOST : FP_PIECE_EMPTY))
    abort (); /* the caller owns it in that state */
}

void
link_forget_offline (struct fp_link *l, struct fp_piece *p)
{
  for (;;) {
    {
      FP_LOCK_SCOPE (&l->v->lock);
      if (fp_piece_state (p) != FP_PIECE_OFFLINE ||
          atomic_load (&p->server) != l->index)
        return;
      if ((atomic_load (&p->word) & FP_PIECE_USERS) == 0) {
        fp_copy_forget (&p->copy);
        return;
      }
    }
    fp_volume_drain_piece (l->v, p);
  }
}

void
link_judge_missing (struct fp_link *l)
{
  struct fp_pieces *t = l->v->pieces;

  for (uint64_t i = 0; i < t->all; i++) {
    struct fp_piece *p = &t->p[i];
    enum fp_piece_state s;

    if (!atomic_load (&p->held) || atomic_load (&p->server) != l->index)
      continue;
    FP_LOCK_SCOPE (&l->v->lock);
    s = fp_piece_state (p);
    if (!atomic_load (&p->held) || atomic_load (&p->server) != l->index)
      continue;
    if (s == FP_PIECE_OFFLINE)
      link_forget (l, p, FP_PIECE_OFFLINE);
    else if (s == FP_PIECE_BUSY && p->seen != l->attempt)
      /* Its owner's call will find that there is nothing any more. */
      atomic_store (&p->held, false);
  }
}
