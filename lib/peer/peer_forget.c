/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_forget.c - forget an extent whose memory is gone, or is not relied on
 * any more (peer_learn.h).
 */

#include <config.h>

#include <stdlib.h>

#include "peer/peer_int.h"

void
peer_forget_written (struct fp_extents *t, uint64_t k)
{
  if (t->copies == 1)
    fp_extent_clear_written (t, k, 0, t->extent_size);
}

/* Shut entry p, which has memory of no use; its donor is told when possible.
 * Return true if no transfer is inside or can enter.
 */
static bool
shut_unused (struct fp_extent *p)
{
  uint32_t ready = (uint32_t) FP_EXTENT_READY << 24;

  if (fp_extent_state (p) == FP_EXTENT_OFFLINE)
    return (atomic_load (&p->word) & FP_EXTENT_USERS) == 0;
  return atomic_compare_exchange_strong (&p->word, &ready,
                                         (uint32_t) FP_EXTENT_BUSY << 24);
}

/* Do as fp_peer_abandon says, also if p is READY.  Under fp_extents.lock. */
static bool
abandon (struct fp_peers *peers, struct fp_extent *p)
{
  struct fp_peer *peer = peers->at[atomic_load (&p->server)];
  enum fp_extent_state s = fp_extent_state (p);
  bool moved;

  if ((s == FP_EXTENT_OFFLINE || s == FP_EXTENT_READY) &&
      atomic_load (&p->held)) {
    if (!shut_unused (p))
      return false;
    /* The peer may be about to unmap it, too. */
    fp_copy_forget (&p->copy);
    atomic_store (&p->held, false);
    atomic_fetch_sub (&peers->extents->allocated, 1);
    atomic_fetch_sub (&peer->extents, 1);
    p->releasing = false;
    atomic_store (&peer->sweep, true);
    peer_wake (peer);
    moved = fp_extent_move (peers->extents, p,
                            s == FP_EXTENT_READY ? FP_EXTENT_BUSY : s,
                            FP_EXTENT_EMPTY);
    fp_notifier_raise (&peers->extents->changes);
    return moved;
  }
  if (s == FP_EXTENT_LOST) {
    /* A label in doubt would be believed once its server is current. */
    if (atomic_exchange (&p->doubt, false)) {
      atomic_store (&peer->sweep, true);
      peer_wake (peer);
    }
    atomic_fetch_sub (&peers->extents->lost, 1);
    p->copy = (struct fp_copy) { .slab = UINT64_MAX };
    moved =
        fp_extent_move (peers->extents, p, FP_EXTENT_LOST, FP_EXTENT_EMPTY);
    fp_notifier_raise (&peers->extents->changes);
    return moved;
  }
  return s == FP_EXTENT_EMPTY;
}

bool
fp_peer_abandon (struct fp_peers *peers, uint64_t k)
{
  struct fp_extent *p = &peers->extents->p[k];

  FP_LOCK_SCOPE (&peers->extents->lock);
  return fp_extent_state (p) != FP_EXTENT_READY && abandon (peers, p);
}

void
fp_peer_discard (struct fp_peers *peers, uint64_t k)
{
  struct fp_extents *t = peers->extents;

  FP_LOCK_SCOPE (&peers->extents->lock);
  if (!fp_copy_counts (t, k))
    (void) abandon (peers, &t->p[k]);
}

void
fp_peer_tidy (struct fp_peers *peers, uint64_t k)
{
  struct fp_extents *t = peers->extents;
  enum fp_extent_state s = fp_extent_state (&t->p[k]);

  if (s == FP_EXTENT_EMPTY || s == FP_EXTENT_BUSY || s == FP_EXTENT_FROZEN)
    return;
  FP_LOCK_SCOPE (&peers->extents->lock);
  /* Keep memory that was given for a new extent: the extent will use it.  If
   * that memory was lost before the extent was written, no data was lost.
   */
  if (fp_copies_in_sync (t, fp_extent_of (t, k)) == 0 &&
      (!t->p[k].fresh || fp_extent_state (&t->p[k]) == FP_EXTENT_LOST))
    (void) abandon (peers, &t->p[k]);
}

void
peer_forget (struct fp_peer *peer, struct fp_extent *p,
             enum fp_extent_state from)
{
  struct fp_extents *t = peer->peers->extents;
  bool wanted = !p->releasing;

  atomic_store (&p->held, false);
  p->releasing = false;
  atomic_fetch_sub (&peer->peers->extents->allocated, 1);
  atomic_fetch_sub (&peer->extents, 1);
  if (wanted)
    atomic_store (&peer->lost_any, true);
  if (wanted)
    atomic_fetch_add (&peer->peers->extents->lost, 1);
  else
    peer_forget_written (t, (uint64_t) (p - t->p));
  if (!fp_extent_move (t, p, from, wanted ? FP_EXTENT_LOST : FP_EXTENT_EMPTY))
    abort (); /* the caller owns it in that state */
}

void
peer_forget_offline (struct fp_peer *peer, struct fp_extent *p)
{
  for (;;) {
    {
      FP_LOCK_SCOPE (&peer->peers->extents->lock);
      if (fp_extent_state (p) != FP_EXTENT_OFFLINE ||
          atomic_load (&p->server) != peer->index)
        return;
      if ((atomic_load (&p->word) & FP_EXTENT_USERS) == 0) {
        fp_copy_forget (&p->copy);
        return;
      }
    }
    (void) fp_extent_drained (peer->peers->extents, p, FP_NEVER);
  }
}

void
peer_judge_missing (struct fp_peer *peer)
{
  struct fp_extents *t = peer->peers->extents;
  bool any = false;

  for (uint64_t i = 0; i < t->all; i++) {
    struct fp_extent *p = &t->p[i];
    enum fp_extent_state s;

    if (!atomic_load (&p->held) || atomic_load (&p->server) != peer->index)
      continue;
    FP_LOCK_SCOPE (&peer->peers->extents->lock);
    s = fp_extent_state (p);
    if (!atomic_load (&p->held) || atomic_load (&p->server) != peer->index)
      continue;
    if (s == FP_EXTENT_OFFLINE) {
      peer_forget (peer, p, FP_EXTENT_OFFLINE);
      any = true;
    }
    else if (s == FP_EXTENT_BUSY && p->seen != peer->attempt) {
      /* The owner's call will find that the memory is gone. */
      atomic_store (&p->held, false);
      any = true;
    }
  }
  /* Not each time: a lane that is woken pokes this peer, which comes here. */
  if (any)
    fp_notifier_raise (&t->changes);
}
