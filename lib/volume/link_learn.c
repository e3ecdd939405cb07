/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "volume/link_int.h"

void
link_close_grant_fds (struct fp_link *l)
{
  for (unsigned i = 0; i < l->grants.count; i++) {
    if (l->grant_fds[i] >= 0)
      close (l->grant_fds[i]);
    l->grant_fds[i] = -1;
  }
}

int
link_import (struct fp_link *l, unsigned i, struct fp_copy *copy)
{
  const struct fp_grant *g = &l->grants.grants[i];
  int r;

  if (g->length != l->v->p.slab_size)
    return -EPROTO;
  *copy = (struct fp_copy) {
    .server = l->index,
    .slab = g->slab,
    .generation = g->generation,
    .ops = l->ops,
  };
  r = l->ops->import (&copy->remote, g, l->grant_fds[i]);
  return r;
}

void
link_publish (struct fp_link *l, struct fp_piece *p,
              const struct fp_copy *copy, enum fp_piece_state from)
{
  p->copy = *copy;
  p->releasing = false;
  p->seen = l->attempt;
  atomic_store (&p->held, true);
  atomic_store (&p->server, l->index);
  if (!fp_piece_move (p, from, FP_PIECE_READY))
    abort (); /* the caller owns it in that state */
}

/* The server held a piece and had to give its memory up: the piece is lost,
 * and not one that was never written.  *stray: it was to be released anyway,
 * or is somewhere else, and the mark is of no use.
 */
static int
take_lost (struct fp_link *l, unsigned i, bool *stray)
{
  const struct fp_grant *g = &l->grants.grants[i];
  struct fp_piece *p = &l->v->pieces->p[g->piece];
  bool ours = atomic_load (&p->held) && atomic_load (&p->server) == l->index &&
              p->copy.slab == g->slab;

  if (ours && fp_piece_state (p) == FP_PIECE_OFFLINE) {
    *stray = p->releasing;
    link_forget (l, p, FP_PIECE_OFFLINE);
    return 0;
  }
  if (ours && fp_piece_state (p) == FP_PIECE_BUSY) {
    /* Its owner's call will find that there is nothing any more. */
    atomic_store (&p->held, false);
    return 0;
  }
  if (l->learned) {
    *stray = fp_piece_state (p) != FP_PIECE_LOST;
    return 0;
  }
  /* As in take_label: two servers that both claim a piece. */
  if (!fp_piece_move (p, FP_PIECE_EMPTY, FP_PIECE_LOST))
    return -EPROTO;
  fp_piece_set_all_written (l->v->pieces, g->piece);
  atomic_fetch_add (&l->v->lost, 1);
  return 0;
}

/* The server says that a slab holds a piece.  Believe it where that is what
 * we know, or where we know nothing yet; else the slab is a leftover of a
 * label whose answer never came: *stray.
 */
static int
take_label (struct fp_link *l, unsigned i, bool *stray)
{
  const struct fp_grant *g = &l->grants.grants[i];
  struct fp_pieces *t = l->v->pieces;
  struct fp_piece *p;
  struct fp_copy copy;
  int r;

  *stray = false;
  if (g->piece >= t->nr || g->copy != 0)
    return -EPROTO;
  if (fp_grant_is_lost (g))
    return take_lost (l, i, stray);
  p = &t->p[g->piece];
  if (fp_piece_state (p) == FP_PIECE_OFFLINE &&
      atomic_load (&p->server) == l->index && p->copy.slab == g->slab) {
    r = link_import (l, i, &copy);
    if (r == 0)
      link_publish (l, p, &copy, FP_PIECE_OFFLINE);
    return r;
  }
  /* Somebody has shut it and is about to ask this link to change it. */
  if (fp_piece_state (p) == FP_PIECE_BUSY && atomic_load (&p->held) &&
      atomic_load (&p->server) == l->index && p->copy.slab == g->slab) {
    r = link_import (l, i, &copy);
    if (r < 0)
      return r;
    fp_volume_drain_piece (l->v, p);
    fp_copy_forget (&p->copy);
    p->copy = copy;
    p->seen = l->attempt;
    return 0;
  }
  if (l->learned) {
    *stray = true;
    return 0;
  }
  r = link_import (l, i, &copy);
  if (r < 0)
    return r;
  /* Two servers that both claim a piece: do not guess. */
  if (!fp_piece_move (p, FP_PIECE_EMPTY, FP_PIECE_BUSY)) {
    fp_copy_forget (&copy);
    return -EPROTO;
  }
  fp_piece_set_all_written (t, g->piece);
  atomic_fetch_add (&l->v->allocated, 1);
  atomic_fetch_add (&l->pieces, 1);
  link_publish (l, p, &copy, FP_PIECE_BUSY);
  return 0;
}

/* Learn what the server holds of this volume. */
int
link_take_labels (struct fp_link *l, uint64_t total)
{
  struct fp_release strays = { .count = 0 };
  uint64_t seen = 0;
  int r = 0;

  while (r == 0 && seen < total) {
    struct fp_list q = { .start = seen, .max = FP_MAX_GRANTS };
    uint64_t asked = fp_now_ns ();

    if (atomic_load (&l->stop))
      return -ECANCELED;
    /* To register a large volume takes longer than one message may. */
    r = fp_ctl_list (l->s.ctl, &q, &l->grants, l->grant_fds,
                     fp_deadline_in_ms (LINK_SLOW_MS));
    if (r < 0)
      return r;
    link_renewed (l, asked);
    if (l->grants.count == 0)
      r = -EPROTO;
    for (unsigned i = 0; r == 0 && i < l->grants.count; i++) {
      bool stray;

      r = take_label (l, i, &stray);
      if (stray && strays.count < FP_MAX_GRANTS)
        strays.slabs[strays.count++] = l->grants.grants[i].slab;
    }
    seen += l->grants.count;
    link_close_grant_fds (l);
  }
  if (r == 0)
    l->learned = true;
  if (r == 0 && strays.count > 0)
    r = fp_ctl_release (l->s.ctl, &strays, fp_deadline_in_ms (LINK_SLOW_MS));
  return r;
}

/* The memory of piece p is no more. */
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
    atomic_fetch_add (&l->v->lost, 1);
  else
    fp_piece_clear_written (t, (uint64_t) (p - t->p), 0, t->piece_size);
  if (!fp_piece_move (p, from, wanted ? FP_PIECE_LOST : FP_PIECE_EMPTY))
    abort (); /* the caller owns it in that state */
}

void
link_judge_missing (struct fp_link *l)
{
  struct fp_pieces *t = l->v->pieces;

  for (uint64_t i = 0; i < t->nr; i++) {
    struct fp_piece *p = &t->p[i];
    enum fp_piece_state s = fp_piece_state (p);

    if (!atomic_load (&p->held) || atomic_load (&p->server) != l->index)
      continue;
    if (s == FP_PIECE_OFFLINE)
      link_forget (l, p, FP_PIECE_OFFLINE);
    else if (s == FP_PIECE_BUSY && p->seen != l->attempt)
      /* Its owner's call will find that there is nothing any more. */
      atomic_store (&p->held, false);
  }
}
