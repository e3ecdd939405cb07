/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_place.c - memory for the extents for which the allocator chose this
 * donor.  The peer's own thread asks for it.  So a silent donor delays only
 * the extents that were left with its peer, and these can be withdrawn.
 */

#include <config.h>

#include <errno.h>

#include "base/checked.h"
#include "peer/peer_int.h"

#define DISTRUST_MS 10000

/* ---- for the allocator: never waits ---- */

static void
push (struct fp_peer *l, uint32_t i)
{
  struct fp_extent *p = l->peers->extents->p;

  p[i].next_wanted = FP_NO_EXTENT;
  if (l->want_head == FP_NO_EXTENT)
    l->want_head = i;
  else
    p[l->want_tail].next_wanted = i;
  l->want_tail = i;
  l->nr_want++;
}

static uint32_t
pop (struct fp_peer *l)
{
  uint32_t i = l->want_head;

  if (i != FP_NO_EXTENT) {
    l->want_head = l->peers->extents->p[i].next_wanted;
    l->nr_want--;
  }
  return i;
}

void
fp_peer_place (struct fp_peer *l, uint64_t i)
{
  bool open;

  {
    FP_LOCK_SCOPE (&l->lock);
    open = fp_peers_is_open (l->peers, l->index);
    if (open && l->nr_want == 0 && l->nr_batch == 0)
      l->progress_ns = fp_now_ns ();
    if (open)
      push (l, (uint32_t) i);
  }
  if (!open)
    l->peers->ops->not_placed (l->peers->v, i, l->index, -ENOTCONN);
  else
    peer_wake (l);
}

bool
fp_peer_room (struct fp_peer *l, struct fp_peer_room *room)
{
  FP_LOCK_SCOPE (&l->lock);
  room->free = l->slabs_free;
  room->wanted = l->wanted;
  room->extents = l->nr_want + l->nr_batch;
  room->held = atomic_load (&l->extents);
  room->mute = atomic_load (&l->mute);
  room->distrusted = !fp_deadline_passed (atomic_load (&l->distrust_ns));
  room->waits_ns = room->extents > 0 ? fp_now_ns () - l->progress_ns : 0;
  return l->state == FP_SERVER_UP;
}

void
fp_peer_distrust (struct fp_peer *l)
{
  atomic_store (&l->distrust_ns, fp_deadline_in_ms (DISTRUST_MS));
}

void
fp_peer_reclaimed (struct fp_peer *l)
{
  FP_LOCK_SCOPE (&l->lock);
  l->wanted -= l->wanted > 0;
}

uint32_t
fp_peer_withdraw (struct fp_peer *l,
                  bool (*may_go) (uint64_t k, const void *arg),
                  const void *arg)
{
  struct fp_extent *p = l->peers->extents->p;
  uint32_t out = FP_NO_EXTENT, n;

  FP_LOCK_SCOPE (&l->lock);
  for (n = l->nr_want; n > 0; n--) {
    uint32_t i = pop (l);

    if (!may_go (i, arg)) {
      push (l, i);
      continue;
    }
    p[i].next_wanted = out;
    out = i;
  }
  for (unsigned k = 0; k < l->nr_batch; k++) {
    uint32_t i = l->batch[k];

    if (i == FP_NO_EXTENT || !may_go (i, arg))
      continue;
    l->batch[k] = FP_NO_EXTENT;
    p[i].next_wanted = out;
    out = i;
  }
  if (out != FP_NO_EXTENT)
    atomic_store (&l->mute, true);
  return out;
}

/* ---- the peer's thread ---- */

int
peer_give_back (struct fp_peer *l, struct fp_copy *copies, unsigned n)
{
  struct fp_release q = { .count = n };

  if (n == 0)
    return 0;
  for (unsigned i = 0; i < n; i++) {
    q.slabs[i] = copies[i].slab;
    fp_copy_forget (&copies[i]);
  }
  return fp_ctl_release (l->s.ctl, &q, peer_soon (l));
}

static void
forget_copies (struct fp_copy *copies, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    fp_copy_forget (&copies[i]);
}

int
peer_ask_for_grants (struct fp_peer *l, struct fp_copy *copies, unsigned count,
                     bool ahead)
{
  const struct fp_grant_req q = {
    .count = count,
    .ahead = ahead && (l->s.hello.features & FP_FEATURE_AHEAD),
  };
  uint64_t asked = fp_boot_ns ();
  int r = fp_ctl_grant (l->s.ctl, &q, &l->grants, l->grant_fds,
                        q.ahead ? peer_soon (l) : peer_slow (l));
  unsigned n = 0;

  if (r < 0) {
    FP_LOCK_SCOPE (&l->lock);
    l->slabs_free = 0; /* until the donor reports again */
    return r;
  }
  peer_renewed (l, asked);
  if (l->grants.count > count)
    r = -EPROTO;
  while (r == 0 && n < l->grants.count) {
    r = peer_import (l, n, &copies[n]);
    if (r == 0)
      n++;
  }
  peer_close_grant_fds (l);
  if (r < 0) {
    struct fp_release back = { .count = l->grants.count };

    forget_copies (copies, n);
    if (back.count > count)
      return r;
    for (unsigned i = 0; i < back.count; i++)
      back.slabs[i] = l->grants.grants[i].slab;
    return fp_ctl_release (l->s.ctl, &back, peer_soon (l)) < 0 ? -ECONNRESET
                                                               : r;
  }
  FP_LOCK_SCOPE (&l->lock);
  l->slabs_free -= FP_MIN (l->slabs_free, (uint64_t) n);
  return (int) n;
}

static unsigned
take_batch (struct fp_peer *l)
{
  FP_LOCK_SCOPE (&l->lock);
  l->nr_batch = 0;
  while (l->nr_batch < PEER_BATCH && l->want_head != FP_NO_EXTENT)
    l->batch[l->nr_batch++] = pop (l);
  if (l->nr_batch > 0)
    l->progress_ns = fp_now_ns ();
  return l->nr_batch;
}

/* Make a label for each extent of the batch that was not withdrawn, as far as
 * the copies last.  Return how many.
 */
static unsigned
fill_labels (struct fp_peer *l, unsigned copies)
{
  unsigned n = 0;

  FP_LOCK_SCOPE (&l->lock);
  for (unsigned k = 0; k < l->nr_batch && n < copies; k++) {
    if (l->batch[k] == FP_NO_EXTENT)
      continue;
    l->batch_copies[n].generation =
        fp_extents_next_generation (l->peers->extents);
    l->batch_slot[n] = k;
    l->labels.labels[n] = fp_extent_label (l->peers->extents, l->batch[k],
                                           l->batch_copies[n].slab,
                                           l->batch_copies[n].generation);
    n++;
  }
  l->labels.count = n;
  return n;
}

/* Give extent i its memory.  If the volume has a metadata log, a new extent
 * is recorded there before it is READY.
 */
static void
give (struct fp_peer *l, uint32_t i, const struct fp_copy *copy)
{
  struct fp_extents *t = l->peers->extents;
  struct fp_extent *p = &t->p[i];

  if (t->copies > 1)
    fp_copy_refill (t, i);
  if (p->fresh)
    fp_extent_clear_written (t, fp_extent_of (t, i), 0, t->extent_size);
  /* A copy that must be filled from others is not in sync yet. */
  if (l->record == NULL || !p->fresh)
    peer_publish (l, p, copy, FP_EXTENT_BUSY);
  else
    peer_assign (l, p, copy);
}

/* Publish the copies whose labels are on the donor's record; before that no
 * write could be acknowledged.  An extent that was withdrawn meanwhile stays
 * so: it is labelled elsewhere, with a higher generation.  Return how many
 * copies are left over from those; they come first now.
 */
static unsigned
publish_batch (struct fp_peer *l, unsigned n)
{
  struct fp_extents *t = l->peers->extents;
  unsigned left = 0, nr = 0;
  uint32_t given[PEER_BATCH];

  pthread_mutex_lock (&l->lock);
  for (unsigned j = 0; j < n; j++) {
    uint32_t *i = &l->batch[l->batch_slot[j]];

    if (*i == FP_NO_EXTENT) {
      l->batch_copies[left++] = l->batch_copies[j];
      continue;
    }
    atomic_fetch_add (&l->peers->extents->allocated, 1);
    atomic_fetch_add (&l->extents, 1);
    if (t->p[*i].fresh)
      given[nr++] = *i;
    give (l, *i, &l->batch_copies[j]);
    *i = FP_NO_EXTENT;
    atomic_fetch_sub (&l->peers->extents->placing, 1);
  }
  l->progress_ns = fp_now_ns ();
  pthread_mutex_unlock (&l->lock);
  l->peers->ops->placed (l->peers->v, given, l->record != NULL ? nr : 0);
  return left;
}

static uint32_t
pop_batch (struct fp_peer *l)
{
  FP_LOCK_SCOPE (&l->lock);
  while (l->nr_batch > 0) {
    uint32_t i = l->batch[--l->nr_batch];

    if (i != FP_NO_EXTENT)
      return i;
  }
  return FP_NO_EXTENT;
}

static void
return_batch (struct fp_peer *l, int err)
{
  uint32_t i;

  while ((i = pop_batch (l)) != FP_NO_EXTENT)
    l->peers->ops->not_placed (l->peers->v, i, l->index, err);
}

/* Queue the rest of the batch again: there were fewer slabs than extents. */
static void
requeue_batch (struct fp_peer *l)
{
  FP_LOCK_SCOPE (&l->lock);
  for (unsigned k = 0; k < l->nr_batch; k++)
    if (l->batch[k] != FP_NO_EXTENT)
      push (l, l->batch[k]);
  l->nr_batch = 0;
}

static int
place_batch (struct fp_peer *l)
{
  struct fp_copy *copies = l->batch_copies;
  unsigned have = 0, n, left, want = l->nr_batch;
  uint64_t asked;
  int err = 0, r;

  while (have < want && l->nr_spares > 0) {
    copies[have++] = l->spares[--l->nr_spares];
    fp_peers_unclaim (l->peers, l->index);
  }
  /* Use the slabs in hand first: they need not wait for others. */
  if (have == 0) {
    r = peer_ask_for_grants (l, copies, want, false);
    if (peer_session_broken (r))
      return r;
    if (r > 0)
      have = (unsigned) r;
    else
      err = r < 0 ? r : -ENOSPC; /* asking again would not end */
  }
  n = fill_labels (l, have);
  r = peer_give_back (l, copies + n, have - n);
  if (r < 0) {
    forget_copies (copies, n);
    return -ECONNRESET;
  }
  if (n > 0) {
    asked = fp_boot_ns ();
    r = fp_ctl_label (l->s.ctl, &l->labels, peer_soon (l));
    if (peer_session_broken (r)) {
      forget_copies (copies, n);
      return r;
    }
    peer_renewed (l, asked);
  }
  if (r < 0) {
    return_batch (l, r);
    return peer_give_back (l, copies, n) < 0 ? -ECONNRESET : 0;
  }
  left = publish_batch (l, n);
  fp_notifier_raise (&l->peers->extents->changes);
  r = peer_give_back (l, copies, left);
  if (err < 0)
    return_batch (l, err);
  else
    requeue_batch (l);
  return r < 0 ? -ECONNRESET : 0;
}

/* Do one batch: the peer has other work before the next one. */
int
peer_do_places (struct fp_peer *l)
{
  bool more;
  int r;

  if (take_batch (l) == 0)
    return 0;
  r = place_batch (l);
  if (r < 0) {
    peer_set_why (l, fp_ctl_why (l->s.ctl));
    return r;
  }
  {
    FP_LOCK_SCOPE (&l->lock);
    more = l->want_head != FP_NO_EXTENT;
  }
  if (more)
    peer_wake (l);
  return 0;
}

/* Give back the slabs that were granted ahead of need.  The donor is being
 * drained, or asks for slabs back.
 */
static int
return_spares (struct fp_peer *l)
{
  unsigned n = l->nr_spares;
  int r;

  l->nr_spares = 0;
  for (unsigned i = 0; i < n; i++) {
    fp_peers_unclaim (l->peers, l->index);
    fp_peer_reclaimed (l);
  }
  r = peer_give_back (l, l->spares, n);
  if (r < 0)
    peer_set_why (l, fp_ctl_why (l->s.ctl));
  return r < 0 ? -ECONNRESET : 0;
}

/* Refill only when no spare is left.  An extent that comes while this waits
 * for the donor could not use a spare in hand.
 */
int
peer_refill (struct fp_peer *l)
{
  unsigned n = 0;
  bool wanted;
  int r;

  {
    FP_LOCK_SCOPE (&l->lock);
    wanted = l->wanted > 0;
  }
  if (wanted || fp_peers_gets_none (l->peers, l->index))
    return return_spares (l);
  {
    FP_LOCK_SCOPE (&l->lock);
    if (l->slabs_free == 0 || l->want_head != FP_NO_EXTENT || l->calls != NULL)
      return 0;
  }
  if (l->nr_spares > 0)
    return 0;
  while (n < FP_PEER_SPARES && fp_peers_claim (l->peers, l->index, n))
    n++;
  if (n == 0)
    return 0;
  r = peer_ask_for_grants (l, l->spares, n, true);
  if (r > 0)
    l->nr_spares = (unsigned) r;
  for (; n > l->nr_spares; n--)
    fp_peers_unclaim (l->peers, l->index);
  if (peer_session_broken (r)) {
    peer_set_why (l, fp_ctl_why (l->s.ctl));
    return r;
  }
  return 0; /* a write asks again, and gets the reason */
}

void
peer_drop_spares (struct fp_peer *l)
{
  while (l->nr_spares > 0) {
    fp_copy_forget (&l->spares[--l->nr_spares]);
    fp_peers_unclaim (l->peers, l->index);
  }
}

void
peer_fail_places (struct fp_peer *l)
{
  return_batch (l, -ENOTCONN);
  while (take_batch (l) > 0)
    return_batch (l, -ENOTCONN);
}
