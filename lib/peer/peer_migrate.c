/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "peer/peer_int.h"
#include "peer/peer_migrate.h"

struct fp_take {
  struct call call; /* first: the peer casts its call to fp_take */

  /* Under fp_extents.lock.  A take that is withdrawn is not sent any more. */
  bool withdrawn, published;
  bool sent; /* the label may have taken effect */

  /* Under the peer's lock, until the call is done. */
  bool undone;      /* the label had no effect, or was released again */
  uint64_t session; /* in which the label was sent */
  uint64_t old;
};

int
fp_take_new (struct fp_take **out)
{
  *out = calloc (1, sizeof **out);
  return *out == NULL ? -ENOMEM : 0;
}

void
fp_take_free (struct fp_take *take)
{
  free (take);
}

/* ---- the peer's thread ---- */

static bool
target_is_here (struct fp_peer *peer)
{
  struct fp_extent *t = &peer->peers->extents->target;

  return fp_extent_state (t) == FP_EXTENT_READY &&
         atomic_load (&t->server) == peer->index;
}

static void
target_gone (struct fp_peer *peer, enum fp_extent_state from)
{
  if (!fp_extent_move (peer->peers->extents, &peer->peers->extents->target,
                       from, FP_EXTENT_EMPTY))
    abort (); /* ours */
  fp_notifier_raise (&peer->peers->extents->changes);
}

void
peer_shut_target (struct fp_peer *peer)
{
  if (target_is_here (peer) &&
      !fp_extent_move (peer->peers->extents, &peer->peers->extents->target,
                       FP_EXTENT_READY, FP_EXTENT_OFFLINE))
    abort (); /* ours */
}

void
peer_forget_target (struct fp_peer *peer)
{
  struct fp_extent *t = &peer->peers->extents->target;

  if (fp_extent_state (t) != FP_EXTENT_OFFLINE ||
      atomic_load (&t->server) != peer->index)
    return;
  (void) fp_extent_drained (peer->peers->extents, t, FP_NEVER);
  fp_copy_forget (&t->copy);
  target_gone (peer, FP_EXTENT_OFFLINE);
}

static int
do_target (struct fp_peer *peer)
{
  struct fp_extent *t = &peer->peers->extents->target;
  struct fp_copy copy;
  int r;

  if (fp_peers_gets_none (peer->peers, peer->index))
    return -ENOSPC;
  if (fp_extent_state (t) != FP_EXTENT_EMPTY)
    return -EBUSY;
  if (peer->nr_spares > 0) {
    copy = peer->spares[--peer->nr_spares];
    fp_peers_unclaim (peer->peers, peer->index);
  }
  else {
    r = peer_ask_for_grants (peer, &copy, 1, false);
    if (r <= 0)
      return r < 0 ? r : -ENOSPC;
  }
  atomic_store (&t->server, peer->index);
  t->copy = copy;
  if (!fp_extent_move (peer->peers->extents, t, FP_EXTENT_EMPTY,
                       FP_EXTENT_READY))
    abort (); /* one target at a time */
  return 0;
}

static int
do_drop_target (struct fp_peer *peer)
{
  if (!target_is_here (peer))
    return 0; /* gone with its session */
  target_gone (peer, FP_EXTENT_READY);
  return peer_give_back (peer, &peer->peers->extents->target.copy, 1);
}

/* Move extent p to the target's memory; *old is its memory before.  Return
 * false if the take was withdrawn.
 */
static bool
publish (struct fp_peer *peer, struct fp_take *take, uint64_t generation,
         struct fp_copy *old)
{
  struct fp_extents *t = peer->peers->extents;
  struct fp_extent *p = take->call.extent;
  struct fp_copy copy = t->target.copy;

  copy.generation = generation;
  /* The other peer may hear just now that its donor has p. */
  FP_LOCK_SCOPE (&t->lock);
  if (take->withdrawn)
    return false;
  atomic_fetch_sub (&peer->peers->at[atomic_load (&p->server)]->extents, 1);
  atomic_fetch_add (&peer->extents, 1);
  *old = p->copy;
  take->published = true;
  peer_publish (peer, p, &copy, FP_EXTENT_BUSY);
  return true;
}

/* Return true if another copy of the take's extent is here, or will be. */
static bool
has_other (const struct fp_peer *peer, const struct fp_take *take)
{
  struct fp_extents *t = peer->peers->extents;
  uint64_t k = (uint64_t) (take->call.extent - t->p);

  for (unsigned c = 0; c < t->copies; c++) {
    uint64_t other = fp_copies_entry (t, fp_extent_of (t, k), c);

    if (other != k && fp_extent_server (&t->p[other]) == (int) peer->index)
      return true;
  }
  return false;
}

/* Return true if the label may be sent.  Since the donor was chosen, it may
 * have been closed to new extents, or have been asked for another copy.
 */
static bool
may_send (struct fp_peer *peer, struct fp_take *take)
{
  {
    FP_LOCK_SCOPE (&peer->lock);
    take->session = peer->session;
  }
  FP_LOCK_SCOPE (&peer->peers->extents->lock);
  take->sent = !take->withdrawn &&
               !fp_peers_gets_none (peer->peers, peer->index) &&
               !has_other (peer, take);
  return take->sent;
}

static int
do_take (struct fp_peer *peer, struct fp_take *take)
{
  struct fp_extent *t = &peer->peers->extents->target;
  uint64_t generation = fp_extents_next_generation (peer->peers->extents);
  uint64_t asked = fp_boot_ns ();
  struct fp_copy old;
  int r;

  if (!target_is_here (peer) || !may_send (peer, take)) {
    FP_LOCK_SCOPE (&peer->lock);
    take->undone = true;
    return -ESTALE;
  }
  peer->labels.count = 1;
  peer->labels.labels[0] = fp_extent_label (
      peer->peers->extents,
      (uint64_t) (take->call.extent - peer->peers->extents->p), t->copy.slab,
      generation | (peer->record != NULL ? FP_GENERATION_OPEN : 0));
  r = fp_ctl_label (peer->s.ctl, &peer->labels, peer_soon (peer));
  if (peer_session_broken (r))
    return r;
  peer_renewed (peer, asked);
  if (r == 0 && publish (peer, take, generation, &old)) {
    target_gone (peer, FP_EXTENT_READY);
    fp_copy_forget (&old);
    take->old = old.slab;
    return 0;
  }
  /* The donor refused; or the take was withdrawn, and the label must go. */
  if (r == 0) {
    r = do_drop_target (peer);
    if (peer_session_broken (r))
      return r;
    if (r < 0) {
      atomic_store (&peer->sweep, true);
      return -ESTALE;
    }
  }
  FP_LOCK_SCOPE (&peer->lock);
  take->undone = true;
  return r < 0 ? r : -ESTALE;
}

static int
do_reopen (struct fp_peer *peer, struct call *c)
{
  struct fp_extent *p = c->extent;
  uint64_t generation;
  int r;

  if (!c->relabel || !atomic_load (&p->held))
    return 0;
  generation = fp_extents_next_generation (peer->peers->extents);
  peer->labels.count = 1;
  peer->labels.labels[0] = fp_extent_label (
      peer->peers->extents, (uint64_t) (p - peer->peers->extents->p),
      p->copy.slab, generation);
  r = fp_ctl_label (peer->s.ctl, &peer->labels, peer_soon (peer));
  if (r == 0)
    p->copy.generation = generation;
  return r;
}

int
peer_finish_reopen (struct fp_peer *peer, struct call *c, int r, bool up)
{
  struct fp_extent *p = c->extent;
  bool held = atomic_load (&p->held);

  /* peer_let_go does not unmap an extent that is shut. */
  if (!up || !held)
    fp_copy_forget (&p->copy);
  if (!held) {
    p->releasing = false;
    peer_forget (peer, p, FP_EXTENT_BUSY);
  }
  else if (c->relabel && r < 0) {
    return r; /* not known which label counts */
  }
  else if (!fp_extent_move (peer->peers->extents, p, FP_EXTENT_BUSY,
                            up ? FP_EXTENT_READY : FP_EXTENT_OFFLINE))
    abort (); /* the migration thread owns it */
  return 0;
}

static int
do_mark (struct fp_peer *peer, struct call *c)
{
  struct fp_extent *p = c->extent;
  uint64_t asked = fp_boot_ns ();
  int r;

  if (peer->record == NULL)
    return 0;
  peer->labels.count = 1;
  {
    FP_LOCK_SCOPE (&peer->peers->extents->lock);
    /* A BUSY extent may have another label, whose answer was lost. */
    if (!atomic_load (&p->held) || atomic_load (&p->server) != peer->index ||
        (!c->open && fp_extent_state (p) == FP_EXTENT_BUSY))
      return -ESTALE;
    peer->labels.labels[0] = fp_extent_label (
        peer->peers->extents, (uint64_t) (p - peer->peers->extents->p),
        p->copy.slab, p->copy.generation | (c->open ? FP_GENERATION_OPEN : 0));
  }
  r = fp_ctl_label (peer->s.ctl, &peer->labels, peer_soon (peer));
  if (!peer_session_broken (r))
    peer_renewed (peer, asked);
  return r;
}

/* Return true if the slab is in use.  It may have gone by a sweep, and have
 * been lent again for something else.
 */
static bool
is_used (struct fp_peer *peer, uint64_t slab)
{
  struct fp_extents *t = peer->peers->extents;

  for (unsigned i = 0; i < peer->nr_spares; i++)
    if (peer->spares[i].slab == slab)
      return true;
  for (uint64_t i = 0; i < t->all; i++) {
    struct fp_extent *p = &t->p[i];

    if (!atomic_load (&p->held) || atomic_load (&p->server) != peer->index)
      continue;
    FP_LOCK_SCOPE (&peer->peers->extents->lock);
    if (atomic_load (&p->server) == peer->index && p->copy.slab == slab)
      return true;
  }
  return false;
}

static int
do_drop (struct fp_peer *peer, uint64_t slab)
{
  struct fp_release q = { .count = 1, .slabs = { slab } };

  if (is_used (peer, slab))
    return 0;
  return fp_ctl_release (peer->s.ctl, &q, peer_soon (peer));
}

int
peer_do_move_call (struct fp_peer *peer, struct call *c)
{
  switch (c->kind) {
  case CALL_TARGET:
    return do_target (peer);
  case CALL_DROP_TARGET:
    return do_drop_target (peer);
  case CALL_TAKE:
    return do_take (peer, (struct fp_take *) c);
  case CALL_REOPEN:
    return do_reopen (peer, c);
  case CALL_MARK:
    return do_mark (peer, c);
  case CALL_DROP:
    return do_drop (peer, c->slab);
  case CALL_RELEASE:
  case CALL_ZERO:
  case CALL_CHECK_EMPTY:
    break;
  }
  return -EINVAL;
}

/* ---- the migration thread ---- */

int
fp_peer_target (struct fp_peer *peer)
{
  struct call c = { .kind = CALL_TARGET };

  return peer_run_call (peer, &c);
}

void
fp_peer_drop_target (struct fp_peer *peer)
{
  struct call c = { .kind = CALL_DROP_TARGET };

  /* If that fails, the target goes with the session. */
  (void) peer_run_call (peer, &c);
}

void
fp_peer_take (struct fp_peer *peer, struct fp_take *take, struct fp_extent *p)
{
  *take = (struct fp_take) { .call = { .kind = CALL_TAKE, .extent = p } };
  peer_call (peer, &take->call);
}

bool
fp_peer_take_ended (struct fp_peer *peer, struct fp_take *take, unsigned ms)
{
  struct timespec until;

  fp_timespec_after (&until, ms);
  FP_LOCK_SCOPE (&peer->lock);
  while (take->call.state != CALL_DONE)
    if (pthread_cond_timedwait (&peer->cond, &peer->lock, &until) == ETIMEDOUT)
      break;
  return take->call.state == CALL_DONE;
}

bool
fp_peer_take_withdraw (struct fp_peer *peer, struct fp_take *take)
{
  FP_LOCK_SCOPE (&peer->peers->extents->lock);
  take->withdrawn = !take->published;
  return take->withdrawn;
}

int
fp_take_result (const struct fp_take *take, uint64_t *old)
{
  *old = take->old;
  return take->call.result;
}

bool
fp_peer_take_undone (struct fp_peer *peer, const struct fp_take *take)
{
  bool sent;

  {
    FP_LOCK_SCOPE (&peer->peers->extents->lock);
    sent = take->sent;
    if (take->withdrawn && !sent)
      return true; /* the label is never sent */
  }
  FP_LOCK_SCOPE (&peer->lock);
  if (take->call.state != CALL_DONE || take->call.result == 0)
    return false;
  /* A peer that has come up since then has released what it does not know,
   * and the session of the label is over.
   */
  return !sent || take->undone || peer->session > take->session ||
         peer->state == FP_SERVER_LOST;
}

int
fp_peer_reopen (struct fp_peer *peer, struct fp_extent *p, bool relabel)
{
  struct call c = { .kind = CALL_REOPEN, .extent = p, .relabel = relabel };

  return peer_run_call (peer, &c);
}

uint64_t
fp_peer_session (struct fp_peer *peer)
{
  FP_LOCK_SCOPE (&peer->lock);
  return peer->state == FP_SERVER_UP ? peer->session : 0;
}

/* A peer that goes down changes its state before it looks for READY extents.
 */
bool
fp_peer_reopen_now (struct fp_peer *peer, struct fp_extent *p,
                    uint64_t session)
{
  FP_LOCK_SCOPE (&peer->lock);
  return session != 0 && peer->state == FP_SERVER_UP &&
         peer->session == session && atomic_load (&p->held) &&
         fp_extent_move (peer->peers->extents, p, FP_EXTENT_BUSY,
                         FP_EXTENT_READY);
}

int
fp_peer_mark (struct fp_peer *peer, struct fp_extent *p, bool open)
{
  struct call c = { .kind = CALL_MARK, .extent = p, .open = open };

  return peer_run_call (peer, &c);
}

void
fp_peer_drop (struct fp_peer *peer, uint64_t slab)
{
  struct call c = { .kind = CALL_DROP, .slab = slab };

  /* If the donor is away, it lists the slab when it is back: a leftover for
   * the sweep.
   */
  if (peer_run_call (peer, &c) < 0) {
    atomic_store (&peer->sweep, true);
    peer_wake (peer);
  }
}
