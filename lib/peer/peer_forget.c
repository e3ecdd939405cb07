/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_forget.c - a piece whose memory is no more, or is not counted on any
 * more (peer_learn.h).
 */

#include <config.h>

#include <stdlib.h>

#include "peer/peer_int.h"

void
link_forget_written (struct fp_pieces *t, uint64_t k)
{
  if (t->copies == 1)
    fp_piece_clear_written (t, k, 0, t->piece_size);
}

/* Entry k has memory, which is nothing to anybody: its server has to be told
 * that, when it can be.  True: nobody is inside, or can get there.
 */
static bool
shut_unused (struct fp_piece *p)
{
  uint32_t ready = (uint32_t) FP_PIECE_READY << 24;

  if (fp_piece_state (p) == FP_PIECE_OFFLINE)
    return (atomic_load (&p->word) & FP_PIECE_USERS) == 0;
  return atomic_compare_exchange_strong (&p->word, &ready,
                                         (uint32_t) FP_PIECE_BUSY << 24);
}

/* Under fp_volume.lock. */
static bool
abandon (struct fp_volume *v, struct fp_piece *p)
{
  struct fp_link *l = v->links[atomic_load (&p->server)];
  enum fp_piece_state s = fp_piece_state (p);

  if ((s == FP_PIECE_OFFLINE || s == FP_PIECE_READY) &&
      atomic_load (&p->held)) {
    if (!shut_unused (p))
      return false;
    /* Its link may be about to do that. */
    fp_copy_forget (&p->copy);
    atomic_store (&p->held, false);
    atomic_fetch_sub (&v->allocated, 1);
    atomic_fetch_sub (&l->pieces, 1);
    p->releasing = false;
    atomic_store (&l->sweep, true);
    link_wake (l);
    return fp_piece_move (p, s == FP_PIECE_READY ? FP_PIECE_BUSY : s,
                          FP_PIECE_EMPTY);
  }
  if (s == FP_PIECE_LOST) {
    /* A label in doubt would be believed once its server is current. */
    if (atomic_exchange (&p->doubt, false)) {
      atomic_store (&l->sweep, true);
      link_wake (l);
    }
    atomic_fetch_sub (&v->lost, 1);
    p->copy = (struct fp_copy) { .slab = UINT64_MAX };
    return fp_piece_move (p, FP_PIECE_LOST, FP_PIECE_EMPTY);
  }
  return s == FP_PIECE_EMPTY;
}

bool
fp_link_abandon (struct fp_volume *v, uint64_t k)
{
  struct fp_piece *p = &v->pieces->p[k];

  FP_LOCK_SCOPE (&v->lock);
  return fp_piece_state (p) != FP_PIECE_READY && abandon (v, p);
}

void
fp_link_discard (struct fp_volume *v, uint64_t k)
{
  struct fp_pieces *t = v->pieces;

  FP_LOCK_SCOPE (&v->lock);
  if (!fp_mirror_counts (t, k))
    (void) abandon (v, &t->p[k]);
}

void
fp_link_tidy (struct fp_volume *v, uint64_t k)
{
  struct fp_pieces *t = v->pieces;
  enum fp_piece_state s = fp_piece_state (&t->p[k]);

  if (s == FP_PIECE_EMPTY || s == FP_PIECE_BUSY || s == FP_PIECE_FROZEN)
    return;
  FP_LOCK_SCOPE (&v->lock);
  /* One that has memory for a start is what it will be made of, unless that
   * was lost before the piece was written: then nothing was lost with it.
   */
  if (fp_mirror_live (t, fp_piece_of (t, k)) == 0 &&
      (!t->p[k].fresh || fp_piece_state (&t->p[k]) == FP_PIECE_LOST))
    (void) abandon (v, &t->p[k]);
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
