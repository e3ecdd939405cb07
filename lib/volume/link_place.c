/* SPDX-License-Identifier: BSD-3-Clause */
/* link_place.c - memory for the pieces that the manager chose this server
 * for.  The link's own thread asks for it, so that a server that is silent
 * keeps nobody waiting but what was left with it, and that can be withdrawn.
 */

#include <config.h>

#include <errno.h>

#include "base/checked.h"
#include "volume/link_int.h"

/* ---- what the manager does, which never waits ---- */

static void
push (struct fp_link *l, uint32_t i)
{
  struct fp_piece *p = l->v->pieces->p;

  p[i].next_wanted = FP_NO_PIECE;
  if (l->want_head == FP_NO_PIECE)
    l->want_head = i;
  else
    p[l->want_tail].next_wanted = i;
  l->want_tail = i;
  l->nr_want++;
}

static uint32_t
pop (struct fp_link *l)
{
  uint32_t i = l->want_head;

  if (i != FP_NO_PIECE) {
    l->want_head = l->v->pieces->p[i].next_wanted;
    l->nr_want--;
  }
  return i;
}

void
fp_link_place (struct fp_link *l, uint64_t i)
{
  {
    FP_LOCK_SCOPE (&l->lock);
    if (l->nr_want == 0 && l->nr_batch == 0)
      l->progress_ns = fp_now_ns ();
    push (l, (uint32_t) i);
  }
  link_wake (l);
}

bool
fp_link_room (struct fp_link *l, struct fp_link_room *room)
{
  FP_LOCK_SCOPE (&l->lock);
  room->free = l->slabs_free;
  room->pieces = l->nr_want + l->nr_batch;
  room->mute = atomic_load (&l->mute);
  room->waits_ns = room->pieces > 0 ? fp_now_ns () - l->progress_ns : 0;
  return l->state == FP_SERVER_UP;
}

/* Could another server be asked for piece i? */
static bool
has_other (struct fp_link *l, uint32_t i, uint64_t servers)
{
  const struct fp_piece *p = &l->v->pieces->p[i];

  return (servers & ~p->tried & ~(UINT64_C (1) << l->index)) != 0;
}

uint32_t
fp_link_withdraw (struct fp_link *l, uint64_t servers)
{
  struct fp_piece *p = l->v->pieces->p;
  uint32_t out = FP_NO_PIECE, n;

  FP_LOCK_SCOPE (&l->lock);
  for (n = l->nr_want; n > 0; n--) {
    uint32_t i = pop (l);

    if (!has_other (l, i, servers)) {
      push (l, i);
      continue;
    }
    p[i].next_wanted = out;
    out = i;
  }
  for (unsigned k = 0; k < l->nr_batch; k++) {
    uint32_t i = l->batch[k];

    if (i == FP_NO_PIECE || !has_other (l, i, servers))
      continue;
    l->batch[k] = FP_NO_PIECE;
    p[i].next_wanted = out;
    out = i;
  }
  if (out != FP_NO_PIECE)
    atomic_store (&l->mute, true);
  return out;
}

/* ---- the link's thread ---- */

/* These slabs cannot be used here: others may want them. */
static int
give_back (struct fp_link *l, struct fp_copy *copies, unsigned n)
{
  struct fp_release q = { .count = n };

  if (n == 0)
    return 0;
  for (unsigned i = 0; i < n; i++) {
    q.slabs[i] = copies[i].slab;
    fp_copy_forget (&copies[i]);
  }
  return fp_ctl_release (l->s.ctl, &q, fp_deadline_in_ms (LINK_SLOW_MS));
}

static void
forget_copies (struct fp_copy *copies, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    fp_copy_forget (&copies[i]);
}

/* Up to count slabs, imported.  Returns how many, or -errno. */
static int
ask_for_grants (struct fp_link *l, struct fp_copy *copies, unsigned count)
{
  uint64_t asked = fp_now_ns ();
  int r = fp_ctl_grant (l->s.ctl, count, &l->grants, l->grant_fds,
                        fp_deadline_in_ms (LINK_SLOW_MS));
  unsigned n = 0;

  if (r < 0) {
    FP_LOCK_SCOPE (&l->lock);
    l->slabs_free = 0; /* until it says otherwise */
    return r;
  }
  link_renewed (l, asked);
  if (l->grants.count > count)
    r = -EPROTO;
  while (r == 0 && n < l->grants.count) {
    r = link_import (l, n, &copies[n]);
    if (r == 0)
      n++;
  }
  link_close_grant_fds (l);
  if (r < 0) {
    struct fp_release q = { .count = l->grants.count };

    forget_copies (copies, n);
    if (q.count > count)
      return r;
    for (unsigned i = 0; i < q.count; i++)
      q.slabs[i] = l->grants.grants[i].slab;
    return fp_ctl_release (l->s.ctl, &q, fp_deadline_in_ms (LINK_SLOW_MS)) < 0
               ? -ECONNRESET
               : r;
  }
  FP_LOCK_SCOPE (&l->lock);
  l->slabs_free -= FP_MIN (l->slabs_free, (uint64_t) n);
  return (int) n;
}

static unsigned
take_batch (struct fp_link *l)
{
  FP_LOCK_SCOPE (&l->lock);
  l->nr_batch = 0;
  while (l->nr_batch < LINK_BATCH && l->want_head != FP_NO_PIECE)
    l->batch[l->nr_batch++] = pop (l);
  if (l->nr_batch > 0)
    l->progress_ns = fp_now_ns ();
  return l->nr_batch;
}

/* The pieces of the batch that were not withdrawn, as many as there are
 * copies for, get a label each.  Returns how many.
 */
static unsigned
fill_labels (struct fp_link *l, unsigned copies)
{
  unsigned n = 0;

  FP_LOCK_SCOPE (&l->lock);
  for (unsigned k = 0; k < l->nr_batch && n < copies; k++) {
    if (l->batch[k] == FP_NO_PIECE)
      continue;
    l->batch_copies[n].generation = fp_volume_next_generation (l->v);
    l->batch_slot[n] = k;
    l->labels.labels[n] = (struct fp_label) {
      .slab = l->batch_copies[n].slab,
      .piece = l->batch[k],
      .generation = l->batch_copies[n].generation,
    };
    n++;
  }
  l->labels.count = n;
  return n;
}

/* The labels are on the server's record: now on ours, so that a write cannot
 * be acknowledged before.  What was withdrawn meanwhile stays withdrawn: it is
 * labelled elsewhere, with a higher generation.  Returns how many of the
 * copies those were, which come first now.
 */
static unsigned
publish_batch (struct fp_link *l, unsigned n)
{
  struct fp_pieces *t = l->v->pieces;
  unsigned left = 0;

  FP_LOCK_SCOPE (&l->lock);
  for (unsigned j = 0; j < n; j++) {
    uint32_t *i = &l->batch[l->batch_slot[j]];

    if (*i == FP_NO_PIECE) {
      l->batch_copies[left++] = l->batch_copies[j];
      continue;
    }
    fp_piece_clear_written (t, *i, 0, t->piece_size);
    atomic_fetch_add (&l->v->allocated, 1);
    atomic_fetch_add (&l->pieces, 1);
    link_publish (l, &t->p[*i], &l->batch_copies[j], FP_PIECE_BUSY);
    *i = FP_NO_PIECE;
    atomic_fetch_sub (&l->v->placing, 1);
  }
  l->progress_ns = fp_now_ns ();
  return left;
}

static uint32_t
pop_batch (struct fp_link *l)
{
  FP_LOCK_SCOPE (&l->lock);
  while (l->nr_batch > 0) {
    uint32_t i = l->batch[--l->nr_batch];

    if (i != FP_NO_PIECE)
      return i;
  }
  return FP_NO_PIECE;
}

static void
return_batch (struct fp_link *l, int err)
{
  uint32_t i;

  while ((i = pop_batch (l)) != FP_NO_PIECE)
    fp_manager_return (l->v, i, l->index, err);
}

/* Fewer slabs came than were asked for: the rest at the next round. */
static void
requeue_batch (struct fp_link *l)
{
  FP_LOCK_SCOPE (&l->lock);
  for (unsigned k = 0; k < l->nr_batch; k++)
    if (l->batch[k] != FP_NO_PIECE)
      push (l, l->batch[k]);
  l->nr_batch = 0;
}

static int
place_batch (struct fp_link *l)
{
  struct fp_copy *copies = l->batch_copies;
  unsigned have = 0, n, left, want = l->nr_batch;
  uint64_t asked;
  int err = 0, r;

  while (have < want && l->nr_spares > 0) {
    copies[have++] = l->spares[--l->nr_spares];
    fp_manager_unclaim (l->v, l->index);
  }
  if (have < want) {
    r = ask_for_grants (l, copies + have, want - have);
    if (link_session_broken (r)) {
      forget_copies (copies, have);
      return r;
    }
    if (r < 0)
      err = r;
    else
      have += (unsigned) r;
  }
  n = fill_labels (l, have);
  r = give_back (l, copies + n, have - n);
  if (r < 0) {
    forget_copies (copies, n);
    return -ECONNRESET;
  }
  if (n > 0) {
    asked = fp_now_ns ();
    r = fp_ctl_label (l->s.ctl, &l->labels, fp_deadline_in_ms (LINK_SLOW_MS));
    if (link_session_broken (r)) {
      forget_copies (copies, n);
      return r;
    }
    link_renewed (l, asked);
  }
  if (r < 0) {
    return_batch (l, r);
    return give_back (l, copies, n) < 0 ? -ECONNRESET : 0;
  }
  left = publish_batch (l, n);
  fp_volume_wake_lanes (l->v);
  r = give_back (l, copies, left);
  if (err < 0)
    return_batch (l, err);
  else
    requeue_batch (l);
  return r < 0 ? -ECONNRESET : 0;
}

int
link_do_places (struct fp_link *l)
{
  while (take_batch (l) > 0) {
    int r = place_batch (l);

    if (r < 0) {
      link_set_why (l, fp_ctl_why (l->s.ctl));
      return r;
    }
  }
  return 0;
}

int
link_refill (struct fp_link *l)
{
  for (;;) {
    int r;

    {
      FP_LOCK_SCOPE (&l->lock);
      if (l->slabs_free == 0 || l->want_head != FP_NO_PIECE ||
          l->calls != NULL)
        return 0;
    }
    if (l->nr_spares == FP_LINK_SPARES ||
        !fp_manager_claim (l->v, l->index, l->nr_spares))
      return 0;
    r = ask_for_grants (l, &l->spares[l->nr_spares], 1);
    if (r > 0) {
      l->nr_spares++;
      continue;
    }
    fp_manager_unclaim (l->v, l->index);
    if (link_session_broken (r)) {
      link_set_why (l, fp_ctl_why (l->s.ctl));
      return r;
    }
    return 0; /* a write will ask again, and hear why */
  }
}

void
link_drop_spares (struct fp_link *l)
{
  while (l->nr_spares > 0) {
    fp_copy_forget (&l->spares[--l->nr_spares]);
    fp_manager_unclaim (l->v, l->index);
  }
}

void
link_fail_places (struct fp_link *l)
{
  return_batch (l, -ENOTCONN);
  while (take_batch (l) > 0)
    return_batch (l, -ENOTCONN);
}
