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
push (struct fp_peer *peer, uint32_t i)
{
  struct fp_extent *p = peer->peers->extents->p;

  p[i].next_wanted = FP_NO_EXTENT;
  if (peer->want_head == FP_NO_EXTENT)
    peer->want_head = i;
  else
    p[peer->want_tail].next_wanted = i;
  peer->want_tail = i;
  peer->nr_want++;
}

static uint32_t
pop (struct fp_peer *peer)
{
  uint32_t i = peer->want_head;

  if (i != FP_NO_EXTENT) {
    peer->want_head = peer->peers->extents->p[i].next_wanted;
    peer->nr_want--;
  }
  return i;
}

void
fp_peer_place (struct fp_peer *peer, uint64_t i)
{
  bool open;

  {
    FP_LOCK_SCOPE (&peer->lock);
    open = fp_peers_is_open (peer->peers, peer->index);
    if (open && peer->nr_want == 0 && peer->nr_batch == 0)
      peer->progress_ns = fp_now_ns ();
    if (open)
      push (peer, (uint32_t) i);
  }
  if (!open)
    peer->peers->ops->not_placed (peer->peers->v, i, peer->index, -ENOTCONN);
  else
    peer_wake (peer);
}

bool
fp_peer_room (struct fp_peer *peer, struct fp_peer_room *room)
{
  FP_LOCK_SCOPE (&peer->lock);
  room->free = peer->slabs_free;
  room->wanted = peer->wanted;
  room->draining = peer->draining;
  room->extents = peer->nr_want + peer->nr_batch;
  room->held = atomic_load (&peer->extents);
  room->mute = atomic_load (&peer->mute);
  room->distrusted = !fp_deadline_passed (atomic_load (&peer->distrust_ns));
  room->waits_ns = room->extents > 0 ? fp_now_ns () - peer->progress_ns : 0;
  return peer->state == FP_SERVER_UP;
}

void
fp_peer_distrust (struct fp_peer *peer)
{
  atomic_store (&peer->distrust_ns, fp_deadline_in_ms (DISTRUST_MS));
}

void
fp_peer_reclaimed (struct fp_peer *peer)
{
  FP_LOCK_SCOPE (&peer->lock);
  peer->wanted -= peer->wanted > 0;
}

void
fp_peer_cannot_move (struct fp_peer *peer, bool stuck)
{
  atomic_store (&peer->stuck, stuck);
}

uint32_t
fp_peer_withdraw (struct fp_peer *peer,
                  bool (*may_go) (uint64_t k, const void *arg),
                  const void *arg)
{
  struct fp_extent *p = peer->peers->extents->p;
  uint32_t out = FP_NO_EXTENT, n;

  FP_LOCK_SCOPE (&peer->lock);
  for (n = peer->nr_want; n > 0; n--) {
    uint32_t i = pop (peer);

    if (!may_go (i, arg)) {
      push (peer, i);
      continue;
    }
    p[i].next_wanted = out;
    out = i;
  }
  for (unsigned k = 0; k < peer->nr_batch; k++) {
    uint32_t i = peer->batch[k];

    if (i == FP_NO_EXTENT || !may_go (i, arg))
      continue;
    peer->batch[k] = FP_NO_EXTENT;
    p[i].next_wanted = out;
    out = i;
  }
  if (out != FP_NO_EXTENT)
    atomic_store (&peer->mute, true);
  return out;
}

/* ---- the peer's thread ---- */

int
peer_give_back (struct fp_peer *peer, struct fp_copy *copies, unsigned n)
{
  struct fp_release q = { .count = n };

  if (n == 0)
    return 0;
  for (unsigned i = 0; i < n; i++) {
    q.slabs[i] = copies[i].slab;
    fp_copy_forget (&copies[i]);
  }
  return fp_ctl_release (peer->s.ctl, &q, peer_soon (peer));
}

static void
forget_copies (struct fp_copy *copies, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    fp_copy_forget (&copies[i]);
}

int
peer_ask_for_grants (struct fp_peer *peer, struct fp_copy *copies,
                     unsigned count, bool ahead)
{
  const struct fp_grant_req q = {
    .count = count,
    .ahead = ahead && (peer->s.hello.features & FP_FEATURE_AHEAD),
  };
  uint64_t asked = fp_boot_ns ();
  int r = fp_ctl_grant (peer->s.ctl, &q, &peer->grants, peer->grant_fds,
                        q.ahead ? peer_soon (peer) : peer_patient (peer));
  unsigned n = 0;

  peer_answered (peer);
  if (r < 0) {
    FP_LOCK_SCOPE (&peer->lock);
    peer->slabs_free = 0; /* until the donor reports again */
    return r;
  }
  peer_renewed (peer, asked);
  if (peer->grants.count > count)
    r = -EPROTO;
  while (r == 0 && n < peer->grants.count) {
    r = peer_import (peer, n, &copies[n]);
    if (r == 0)
      n++;
  }
  peer_close_grant_fds (peer);
  if (r < 0) {
    struct fp_release back = { .count = peer->grants.count };

    forget_copies (copies, n);
    if (back.count > count)
      return r;
    for (unsigned i = 0; i < back.count; i++)
      back.slabs[i] = peer->grants.grants[i].slab;
    return fp_ctl_release (peer->s.ctl, &back, peer_soon (peer)) < 0
               ? -ECONNRESET
               : r;
  }
  FP_LOCK_SCOPE (&peer->lock);
  peer->slabs_free -= FP_MIN (peer->slabs_free, (uint64_t) n);
  return (int) n;
}

static unsigned
take_batch (struct fp_peer *peer)
{
  FP_LOCK_SCOPE (&peer->lock);
  peer->nr_batch = 0;
  while (peer->nr_batch < PEER_BATCH && peer->want_head != FP_NO_EXTENT)
    peer->batch[peer->nr_batch++] = pop (peer);
  if (peer->nr_batch > 0)
    peer->progress_ns = fp_now_ns ();
  return peer->nr_batch;
}

/* Make a label for each extent of the batch that was not withdrawn, as far as
 * the copies last.  Return how many.
 */
static unsigned
fill_labels (struct fp_peer *peer, unsigned copies)
{
  unsigned n = 0;

  FP_LOCK_SCOPE (&peer->lock);
  for (unsigned k = 0; k < peer->nr_batch && n < copies; k++) {
    if (peer->batch[k] == FP_NO_EXTENT)
      continue;
    peer->batch_copies[n].generation =
        fp_extents_next_generation (peer->peers->extents);
    peer->batch_slot[n] = k;
    peer->labels.labels[n] = fp_extent_label (
        peer->peers->extents, peer->batch[k], peer->batch_copies[n].slab,
        peer->batch_copies[n].generation);
    n++;
  }
  peer->labels.count = n;
  return n;
}

/* Give extent i its memory.  If the volume has a metadata log, a new extent
 * is recorded there before it is READY.
 */
static void
give (struct fp_peer *peer, uint32_t i, const struct fp_copy *copy)
{
  struct fp_extents *t = peer->peers->extents;
  struct fp_extent *p = &t->p[i];

  if (t->copies > 1)
    fp_copy_refill (t, i);
  if (p->fresh)
    fp_extent_clear_written (t, fp_extent_of (t, i), 0, t->extent_size);
  /* A copy that must be filled from others is not in sync yet. */
  if (peer->record == NULL || !p->fresh)
    peer_publish (peer, p, copy, FP_EXTENT_BUSY);
  else
    peer_assign (peer, p, copy);
}

/* Publish the copies whose labels are on the donor's record; before that no
 * write could be acknowledged.  An extent that was withdrawn meanwhile stays
 * so: it is labelled elsewhere, with a higher generation.  Return how many
 * copies are left over from those; they come first now.
 */
static unsigned
publish_batch (struct fp_peer *peer, unsigned n)
{
  struct fp_extents *t = peer->peers->extents;
  unsigned left = 0, nr = 0;
  uint32_t given[PEER_BATCH];

  pthread_mutex_lock (&peer->lock);
  for (unsigned j = 0; j < n; j++) {
    uint32_t *i = &peer->batch[peer->batch_slot[j]];

    if (*i == FP_NO_EXTENT) {
      peer->batch_copies[left++] = peer->batch_copies[j];
      continue;
    }
    atomic_fetch_add (&peer->peers->extents->allocated, 1);
    atomic_fetch_add (&peer->extents, 1);
    if (t->p[*i].fresh)
      given[nr++] = *i;
    give (peer, *i, &peer->batch_copies[j]);
    *i = FP_NO_EXTENT;
    atomic_fetch_sub (&peer->peers->extents->placing, 1);
  }
  peer->progress_ns = fp_now_ns ();
  pthread_mutex_unlock (&peer->lock);
  peer->peers->ops->placed (peer->peers->v, given,
                            peer->record != NULL ? nr : 0);
  return left;
}

static uint32_t
pop_batch (struct fp_peer *peer)
{
  FP_LOCK_SCOPE (&peer->lock);
  while (peer->nr_batch > 0) {
    uint32_t i = peer->batch[--peer->nr_batch];

    if (i != FP_NO_EXTENT)
      return i;
  }
  return FP_NO_EXTENT;
}

static void
return_batch (struct fp_peer *peer, int err)
{
  uint32_t i;

  while ((i = pop_batch (peer)) != FP_NO_EXTENT)
    peer->peers->ops->not_placed (peer->peers->v, i, peer->index, err);
}

/* Queue the rest of the batch again: there were fewer slabs than extents. */
static void
requeue_batch (struct fp_peer *peer)
{
  FP_LOCK_SCOPE (&peer->lock);
  for (unsigned k = 0; k < peer->nr_batch; k++)
    if (peer->batch[k] != FP_NO_EXTENT)
      push (peer, peer->batch[k]);
  peer->nr_batch = 0;
}

static int
place_batch (struct fp_peer *peer)
{
  struct fp_copy *copies = peer->batch_copies;
  unsigned have = 0, n, left, want = peer->nr_batch;
  uint64_t asked;
  int err = 0, r;

  while (have < want && peer->nr_spares > 0) {
    copies[have++] = peer->spares[--peer->nr_spares];
    fp_peers_unclaim (peer->peers, peer->index);
  }
  /* Use the slabs in hand first: they need not wait for others. */
  if (have == 0) {
    r = peer_ask_for_grants (peer, copies, want, false);
    if (peer_session_broken (r))
      return r;
    if (r > 0)
      have = (unsigned) r;
    else
      err = r < 0 ? r : -ENOSPC; /* asking again would not end */
  }
  n = fill_labels (peer, have);
  r = peer_give_back (peer, copies + n, have - n);
  if (r < 0) {
    forget_copies (copies, n);
    return -ECONNRESET;
  }
  if (n > 0) {
    asked = fp_boot_ns ();
    r = fp_ctl_label (peer->s.ctl, &peer->labels, peer_soon (peer));
    if (peer_session_broken (r)) {
      forget_copies (copies, n);
      return r;
    }
    peer_renewed (peer, asked);
  }
  if (r < 0) {
    return_batch (peer, r);
    return peer_give_back (peer, copies, n) < 0 ? -ECONNRESET : 0;
  }
  left = publish_batch (peer, n);
  fp_notifier_raise (&peer->peers->extents->changes);
  r = peer_give_back (peer, copies, left);
  if (err < 0)
    return_batch (peer, err);
  else
    requeue_batch (peer);
  return r < 0 ? -ECONNRESET : 0;
}

/* Do one batch: the peer has other work before the next one. */
int
peer_do_places (struct fp_peer *peer)
{
  bool more;
  int r;

  if (take_batch (peer) == 0)
    return 0;
  r = place_batch (peer);
  if (r < 0) {
    peer_set_why (peer, fp_ctl_why (peer->s.ctl));
    return r;
  }
  {
    FP_LOCK_SCOPE (&peer->lock);
    more = peer->want_head != FP_NO_EXTENT;
  }
  if (more)
    peer_wake (peer);
  return 0;
}

/* Give back the slabs that were granted ahead of need.  The donor is being
 * drained, or asks for slabs back.
 */
static int
return_spares (struct fp_peer *peer)
{
  unsigned n = peer->nr_spares;
  int r;

  peer->nr_spares = 0;
  for (unsigned i = 0; i < n; i++) {
    fp_peers_unclaim (peer->peers, peer->index);
    fp_peer_reclaimed (peer);
  }
  r = peer_give_back (peer, peer->spares, n);
  if (r < 0)
    peer_set_why (peer, fp_ctl_why (peer->s.ctl));
  return r < 0 ? -ECONNRESET : 0;
}

/* Refill only when no spare is left.  An extent that comes while this waits
 * for the donor could not use a spare in hand.
 */
int
peer_refill (struct fp_peer *peer)
{
  unsigned n = 0;
  bool wanted;
  int r;

  {
    FP_LOCK_SCOPE (&peer->lock);
    wanted = peer->wanted > 0;
  }
  if (wanted || fp_peers_gets_none (peer->peers, peer->index))
    return return_spares (peer);
  {
    FP_LOCK_SCOPE (&peer->lock);
    if (peer->slabs_free == 0 || peer->want_head != FP_NO_EXTENT ||
        peer->calls != NULL)
      return 0;
  }
  if (peer->nr_spares > 0)
    return 0;
  while (n < FP_PEER_SPARES && fp_peers_claim (peer->peers, peer->index, n))
    n++;
  if (n == 0)
    return 0;
  r = peer_ask_for_grants (peer, peer->spares, n, true);
  if (r > 0)
    peer->nr_spares = (unsigned) r;
  for (; n > peer->nr_spares; n--)
    fp_peers_unclaim (peer->peers, peer->index);
  if (peer_session_broken (r)) {
    peer_set_why (peer, fp_ctl_why (peer->s.ctl));
    return r;
  }
  return 0; /* a write asks again, and gets the reason */
}

void
peer_drop_spares (struct fp_peer *peer)
{
  while (peer->nr_spares > 0) {
    fp_copy_forget (&peer->spares[--peer->nr_spares]);
    fp_peers_unclaim (peer->peers, peer->index);
  }
}

void
peer_fail_places (struct fp_peer *peer)
{
  return_batch (peer, -ENOTCONN);
  while (take_batch (peer) > 0)
    return_batch (peer, -ENOTCONN);
}
