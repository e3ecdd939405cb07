/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "volume/link_int.h"

/* More than any server has slabs: one that lists more never ends. */
#define MAX_LABELS (1u << 20)

/* Far from where it would overflow. */
#define MAX_GENERATION (UINT64_C (1) << 62)

uint64_t
fp_volume_next_generation (struct fp_volume *v)
{
  return atomic_fetch_add (&v->generation, 1) + 1;
}

static void
raise_generation (struct fp_volume *v, uint64_t seen)
{
  uint64_t now = atomic_load (&v->generation);

  while (now < seen &&
         !atomic_compare_exchange_weak (&v->generation, &now, seen))
    ;
}

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
  /* In this order, so that another link that sees held looks at copy only
   * if it is its own.
   */
  atomic_store (&p->server, l->index);
  p->copy = *copy;
  p->releasing = false;
  p->seen = l->attempt;
  atomic_store (&p->held, true);
  if (!fp_piece_move (p, from, FP_PIECE_READY))
    abort (); /* the caller owns it in that state */
}

/* What we know of piece p is about this slab of this server. */
static bool
is_about (const struct fp_link *l, struct fp_piece *p, uint64_t slab)
{
  return atomic_load (&p->server) == l->index && p->copy.slab == slab;
}

static bool
is_here (const struct fp_link *l, struct fp_piece *p, uint64_t slab)
{
  return atomic_load (&p->held) && is_about (l, p, slab);
}

static void
want_sweep (struct fp_link *l)
{
  atomic_store (&l->sweep, true);
  link_wake (l);
}

/* Take piece p away from a slab of a lower generation: it is OFFLINE, and
 * counts as allocated.  What was imported is left in *old.  Before the volume
 * is started, so nobody is inside.
 */
static void
displace (struct fp_link *l, struct fp_piece *p, struct fp_copy *old)
{
  struct fp_link *from = l->v->links[atomic_load (&p->server)];

  if (fp_piece_move (p, FP_PIECE_LOST, FP_PIECE_OFFLINE)) {
    atomic_fetch_sub (&l->v->lost, 1);
    atomic_fetch_add (&l->v->allocated, 1);
  }
  else {
    /* Unless its link has just done that. */
    (void) fp_piece_move (p, FP_PIECE_READY, FP_PIECE_OFFLINE);
    *old = p->copy;
    p->copy.remote = (struct fp_remote) { 0 };
    atomic_fetch_sub (&from->pieces, 1);
  }
  assert (fp_piece_state (p) == FP_PIECE_OFFLINE &&
          (atomic_load (&p->word) & FP_PIECE_USERS) == 0);
  atomic_store (&p->held, false);
  want_sweep (from);
}

/* This slab is said to hold p, and so is another one.  1: believe this one,
 * 0: the other, -EPROTO: neither.
 */
static int
contest (struct fp_link *l, struct fp_piece *p, const struct fp_grant *g)
{
  enum fp_piece_state s = fp_piece_state (p);

  if (s == FP_PIECE_BUSY || g->generation == p->copy.generation)
    return -EPROTO;
  if (g->generation > p->copy.generation)
    return 1;
  atomic_store (&l->sweep, true);
  return 0;
}

/* The server held a piece and had to give its memory up: the piece is lost,
 * and not one that was never written; unless it was to be released anyway, or
 * is somewhere else, and the mark is of no use.
 */
static int
take_lost (struct fp_link *l, const struct fp_grant *g, struct fp_copy *old)
{
  struct fp_piece *p = &l->v->pieces->p[g->piece];
  int r;

  FP_LOCK_SCOPE (&l->v->lock);
  if (is_here (l, p, g->slab) && fp_piece_state (p) == FP_PIECE_OFFLINE) {
    if (p->releasing)
      atomic_store (&l->sweep, true);
    link_forget (l, p, FP_PIECE_OFFLINE);
    return 0;
  }
  if (is_here (l, p, g->slab) && fp_piece_state (p) == FP_PIECE_BUSY) {
    /* Its owner's call will find that there is nothing any more. */
    atomic_store (&p->held, false);
    return 0;
  }
  if (fp_piece_state (p) == FP_PIECE_LOST && is_about (l, p, g->slab))
    return 0;
  if (l->learned) {
    atomic_store (&l->sweep, true);
    return 0;
  }

  if (fp_piece_move (p, FP_PIECE_EMPTY, FP_PIECE_LOST)) {
    atomic_fetch_add (&l->v->lost, 1);
  }
  else {
    r = contest (l, p, g);
    if (r <= 0)
      return r;
    displace (l, p, old);
    atomic_fetch_sub (&l->v->allocated, 1);
    atomic_fetch_add (&l->v->lost, 1);
    if (!fp_piece_move (p, FP_PIECE_OFFLINE, FP_PIECE_LOST))
      abort (); /* ours, under the lock */
  }
  l->lost_any = true;
  atomic_store (&p->server, l->index);
  p->copy = (struct fp_copy) { .server = l->index,
                               .slab = g->slab,
                               .generation = g->generation,
                               .ops = l->ops };
  fp_piece_set_all_written (l->v->pieces, g->piece);
  return 0;
}

/* Somebody has shut piece p, which is here, and is about to ask this link to
 * change it.
 */
static bool
is_shut_here (const struct fp_link *l, struct fp_piece *p, uint64_t slab)
{
  return fp_piece_state (p) == FP_PIECE_BUSY && is_here (l, p, slab);
}

/* Believe it where that is what we know, or where we know nothing yet.  What
 * was imported and is not used any more is left in *old.
 */
static int
take_copy (struct fp_link *l, const struct fp_grant *g,
           const struct fp_copy *copy, struct fp_copy *old)
{
  struct fp_piece *p = &l->v->pieces->p[g->piece];
  int r;

  FP_LOCK_SCOPE (&l->v->lock);
  if (is_here (l, p, g->slab)) {
    if (fp_piece_state (p) != FP_PIECE_OFFLINE)
      return -EPROTO; /* it was listed twice */
    link_publish (l, p, copy, FP_PIECE_OFFLINE);
    return 0;
  }
  if (l->learned) {
    /* A leftover of a label whose answer never came. */
    *old = *copy;
    atomic_store (&l->sweep, true);
    return 0;
  }
  if (fp_piece_move (p, FP_PIECE_EMPTY, FP_PIECE_OFFLINE)) {
    atomic_fetch_add (&l->v->allocated, 1);
  }
  else {
    r = contest (l, p, g);
    if (r <= 0) {
      *old = *copy;
      return r;
    }
    displace (l, p, old);
  }
  fp_piece_set_all_written (l->v->pieces, g->piece);
  atomic_fetch_add (&l->pieces, 1);
  link_publish (l, p, copy, FP_PIECE_OFFLINE);
  return 0;
}

/* The server says that a slab holds a piece. */
static int
take_label (struct fp_link *l, unsigned i)
{
  const struct fp_grant *g = &l->grants.grants[i];
  struct fp_copy copy, old = { .ops = NULL };
  struct fp_piece *p;
  int r;

  if (g->piece >= l->v->pieces->nr || g->copy != 0 ||
      g->generation > MAX_GENERATION)
    return -EPROTO;
  raise_generation (l->v, g->generation);
  p = &l->v->pieces->p[g->piece];
  if (fp_grant_is_lost (g)) {
    r = take_lost (l, g, &old);
  }
  else {
    r = link_import (l, i, &copy);
    if (r < 0)
      return r;
    if (is_shut_here (l, p, g->slab)) {
      fp_volume_drain_piece (l->v, p);
      old = p->copy;
      p->copy = copy;
      p->seen = l->attempt;
    }
    else {
      r = take_copy (l, g, &copy, &old);
      if (r < 0 && old.ops == NULL)
        old = copy;
    }
  }
  if (old.ops != NULL)
    fp_copy_forget (&old);
  return r;
}

int
link_take_labels (struct fp_link *l, uint64_t total)
{
  uint64_t seen = 0;
  int r = total > MAX_LABELS ? -EPROTO : 0;

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
    for (unsigned i = 0; r == 0 && i < l->grants.count; i++)
      r = take_label (l, i);
    seen += l->grants.count;
    link_close_grant_fds (l);
  }
  if (r < 0)
    return r;
  l->learned = true;
  return atomic_load (&l->sweep) ? link_sweep (l) : 0;
}

/* ---- what is left over ---- */

static bool
is_stray (struct fp_link *l, const struct fp_grant *g)
{
  struct fp_piece *p = &l->v->pieces->p[g->piece];

  FP_LOCK_SCOPE (&l->v->lock);
  if (is_here (l, p, g->slab))
    return false;
  if (!fp_grant_is_lost (g))
    return true;
  /* The next client is to know of this, too. */
  return !(is_about (l, p, g->slab) && (fp_piece_state (p) == FP_PIECE_LOST ||
                                        fp_piece_state (p) == FP_PIECE_BUSY));
}

/* The next strays, as many as one message takes. */
static int
find_strays (struct fp_link *l, struct fp_release *out)
{
  uint64_t seen = 0;

  out->count = 0;
  while (out->count < FP_MAX_GRANTS && seen <= MAX_LABELS) {
    struct fp_list q = { .start = seen, .max = FP_MAX_GRANTS };
    uint64_t asked = fp_now_ns ();
    int r = fp_ctl_list (l->s.ctl, &q, &l->grants, l->grant_fds,
                         fp_deadline_in_ms (LINK_SLOW_MS));

    if (r < 0)
      return r;
    link_renewed (l, asked);
    for (unsigned i = 0; i < l->grants.count; i++) {
      const struct fp_grant *g = &l->grants.grants[i];

      if (g->piece >= l->v->pieces->nr)
        r = -EPROTO;
      else if (out->count < FP_MAX_GRANTS && is_stray (l, g))
        out->slabs[out->count++] = g->slab;
    }
    link_close_grant_fds (l);
    if (r < 0)
      return r;
    if (l->grants.count == 0)
      return 0;
    seen += l->grants.count;
  }
  return seen > MAX_LABELS ? -EPROTO : 0;
}

int
link_sweep (struct fp_link *l)
{
  /* A server cannot make this last for ever. */
  for (unsigned n = 0; n <= MAX_LABELS / FP_MAX_GRANTS; n++) {
    struct fp_release strays;
    int r;

    if (atomic_load (&l->stop))
      return -ECANCELED;
    atomic_store (&l->sweep, false);
    r = find_strays (l, &strays);
    if (r == 0 && strays.count == 0)
      return 0;
    if (r == 0)
      r = fp_ctl_release (l->s.ctl, &strays, fp_deadline_in_ms (LINK_SLOW_MS));
    if (r < 0)
      return r;
  }
  return -EPROTO;
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
  l->lost_any = l->lost_any || wanted;
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
