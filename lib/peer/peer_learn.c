/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "peer/peer_int.h"
#include "peer/peer_record.h"

/* More than any donor has slabs: a donor that lists more would never end. */
#define MAX_LABELS (1u << 20)

/* Time in ms, longer than it takes to register or to map one slab. */
#define LABEL_MS 1000

/* Far from where it would overflow. */
#define MAX_GENERATION (UINT64_C (1) << 62)

void
peer_close_grant_fds (struct fp_peer *peer)
{
  for (unsigned i = 0; i < peer->grants.count; i++) {
    if (peer->grant_fds[i] >= 0)
      close (peer->grant_fds[i]);
    peer->grant_fds[i] = -1;
  }
}

int
peer_import (struct fp_peer *peer, unsigned i, struct fp_copy *copy)
{
  const struct fp_grant *g = &peer->grants.grants[i];
  int r;

  if (g->length < peer->peers->p->slab_size)
    return -EPROTO;
  *copy = (struct fp_copy) {
    .server = peer->index,
    .slab = g->slab,
    .generation = g->generation,
    .ops = peer->ops,
  };
  r = peer->ops->import (&copy->remote, g, peer->grant_fds[i],
                         peer->peers->p->read_only);
  return r;
}

void
peer_assign (struct fp_peer *peer, struct fp_extent *p,
             const struct fp_copy *copy)
{
  /* Stored in this order, so that another peer that sees held looks at copy
   * only if server is its own.
   */
  atomic_store (&p->server, peer->index);
  p->copy = *copy;
  p->releasing = false;
  atomic_store (&p->doubt, false);
  p->seen = peer->attempt;
  atomic_store (&p->held, true);
}

void
peer_publish (struct fp_peer *peer, struct fp_extent *p,
              const struct fp_copy *copy, enum fp_extent_state from)
{
  peer_assign (peer, p, copy);
  if (!fp_extent_move (peer->peers->extents, p, from, FP_EXTENT_READY))
    abort (); /* the caller owns it in that state */
}

/* Return true if what we know of extent p is about this slab of this donor. */
static bool
is_about (const struct fp_peer *peer, struct fp_extent *p, uint64_t slab)
{
  return atomic_load (&p->server) == peer->index && p->copy.slab == slab;
}

static bool
is_here (const struct fp_peer *peer, struct fp_extent *p, uint64_t slab)
{
  return atomic_load (&p->held) && is_about (peer, p, slab);
}

static void
want_sweep (struct fp_peer *peer)
{
  atomic_store (&peer->sweep, true);
  peer_wake (peer);
}

/* Take extent p away from another slab: it is OFFLINE, and counts as
 * allocated.  *old is the import to undo.  No transfer is inside, as the
 * volume has not started, or p is LOST.
 */
static void
displace (struct fp_peer *peer, struct fp_extent *p, struct fp_copy *old)
{
  struct fp_peer *from = peer->peers->at[atomic_load (&p->server)];

  if (fp_extent_move (peer->peers->extents, p, FP_EXTENT_LOST,
                      FP_EXTENT_OFFLINE)) {
    atomic_fetch_sub (&peer->peers->extents->lost, 1);
    atomic_fetch_add (&peer->peers->extents->allocated, 1);
  }
  else {
    /* No effect if its peer has just done that. */
    (void) fp_extent_move (peer->peers->extents, p, FP_EXTENT_READY,
                           FP_EXTENT_OFFLINE);
    *old = p->copy;
    p->copy.remote = (struct fp_remote) { 0 };
    atomic_fetch_sub (&from->extents, 1);
  }
  assert (fp_extent_state (p) == FP_EXTENT_OFFLINE &&
          (atomic_load (&p->word) & FP_EXTENT_USERS) == 0);
  atomic_store (&p->held, false);
  atomic_store (&p->doubt, false);
  want_sweep (from);
}

/* Decide between this slab and another one, which are both said to hold p.
 * Return 1 to believe this one, 0 the other, -EPROTO neither.
 */
static int
contest (struct fp_peer *peer, struct fp_extent *p, const struct fp_grant *g)
{
  enum fp_extent_state s = fp_extent_state (p);

  /* This was decided at the start.  The slab that is believed may have been
   * written since.
   */
  if (s != FP_EXTENT_LOST && fp_recorded_is_judged (peer->peers->recorded)) {
    atomic_store (&peer->sweep, true);
    return 0;
  }
  if (s == FP_EXTENT_BUSY || g->generation == p->copy.generation)
    return -EPROTO;
  if (g->generation > p->copy.generation)
    return 1;
  atomic_store (&peer->sweep, true);
  return 0;
}

/* Make extent p, whose memory was taken away, LOST. */
static void
move_to_lost (struct fp_peers *peers, struct fp_extent *p)
{
  atomic_fetch_sub (&peers->extents->allocated, 1);
  atomic_fetch_add (&peers->extents->lost, 1);
  if (!fp_extent_move (peers->extents, p, FP_EXTENT_OFFLINE, FP_EXTENT_LOST))
    abort (); /* ours, under the lock */
}

/* Make the extent of this label LOST, if no higher label is known of it. */
static int
lose (struct fp_peer *peer, const struct fp_grant *g, struct fp_copy *old)
{
  struct fp_extent *p = &peer->peers->extents->p[g->extent];
  int r;

  if (fp_extent_move (peer->peers->extents, p, FP_EXTENT_EMPTY,
                      FP_EXTENT_LOST)) {
    atomic_fetch_add (&peer->peers->extents->lost, 1);
  }
  else {
    r = contest (peer, p, g);
    if (r <= 0)
      return r;
    displace (peer, p, old);
    move_to_lost (peer->peers, p);
  }
  atomic_store (&peer->lost_any, true);
  atomic_store (&p->server, peer->index);
  p->copy = (struct fp_copy) { .server = peer->index,
                               .slab = g->slab,
                               .generation = g->generation,
                               .ops = peer->ops };
  fp_extent_set_all_written (peer->peers->extents,
                             fp_extent_of (peer->peers->extents, g->extent));
  return 0;
}

/* Take a mark that the donor had to give up the memory of an extent.  The
 * extent is LOST, not as if never written.  If it was being released, or is
 * elsewhere, the mark is of no use.
 */
static int
take_lost (struct fp_peer *peer, const struct fp_grant *g, struct fp_copy *old)
{
  struct fp_extent *p = &peer->peers->extents->p[g->extent];

  FP_LOCK_SCOPE (&peer->peers->extents->lock);
  if (is_here (peer, p, g->slab) && fp_extent_state (p) == FP_EXTENT_OFFLINE) {
    if (p->releasing)
      atomic_store (&peer->sweep, true);
    peer_forget (peer, p, FP_EXTENT_OFFLINE);
    return 0;
  }
  if (is_here (peer, p, g->slab) && fp_extent_state (p) == FP_EXTENT_BUSY) {
    /* The owner's call will find that the memory is gone. */
    atomic_store (&p->held, false);
    return 0;
  }
  if (fp_extent_state (p) == FP_EXTENT_LOST && is_about (peer, p, g->slab)) {
    atomic_store (&p->doubt, false);
    return 0;
  }
  if (peer->stage == STAGE_LISTED ||
      !fp_recorded_may_exist (peer->peers->recorded, g->extent)) {
    atomic_store (&peer->sweep, true);
    return 0;
  }
  return lose (peer, g, old);
}

/* Replace the import of an extent that is shut, and here.  Its owner is about
 * to ask this peer to change it, or the migration thread is about to publish
 * it elsewhere.  peer_let_go has made sure that no transfer is inside.
 */
static bool
take_shut (struct fp_peer *peer, const struct fp_grant *g,
           const struct fp_copy *copy, struct fp_copy *old)
{
  struct fp_extent *p = &peer->peers->extents->p[g->extent];

  FP_LOCK_SCOPE (&peer->peers->extents->lock);
  if (fp_extent_state (p) != FP_EXTENT_BUSY || !is_here (peer, p, g->slab))
    return false;
  *old = p->copy;
  p->copy = *copy;
  p->seen = peer->attempt;
  return true;
}

/* Return true if a late member of a frozen volume has a newer list than any
 * that was there.  Our map is older than its labels.
 */
static bool
has_newer_list (const struct fp_peer *peer)
{
  return fp_recorded_is_judged (peer->peers->recorded) &&
         atomic_load (&peer->peers->recorded->frozen) &&
         fp_peer_said (peer)->members.version > peer_attached_version (peer);
}

/* Return true if the label of a late member for entry k cannot be believed.
 * No donor that we believe has the extent.  Other members are still to come,
 * or the volume is frozen and the map that we have does not show k.
 */
static bool
is_doubtful (struct fp_peer *peer, struct fp_extent *p, uint64_t k, bool open)
{
  enum fp_extent_state s = fp_extent_state (p);

  return (s == FP_EXTENT_EMPTY || s == FP_EXTENT_LOST) &&
         (fp_recorded_doubts (peer->peers->recorded, peer->index, k, open) ||
          has_newer_list (peer));
}

/* Believe the label if it is what we know, or if we know nothing yet.  *old
 * is an import that is not used any more, to undo.
 */
static int
take_copy (struct fp_peer *peer, const struct fp_grant *g, bool open,
           const struct fp_copy *copy, struct fp_copy *old)
{
  struct fp_extent *p = &peer->peers->extents->p[g->extent];
  struct fp_copy none; /* a LOST extent has nothing mapped */
  int r;

  FP_LOCK_SCOPE (&peer->peers->extents->lock);
  if (is_here (peer, p, g->slab)) {
    if (fp_extent_state (p) != FP_EXTENT_OFFLINE)
      return -EPROTO; /* listed twice */
    if (p->releasing && peer->record != NULL) {
      /* Recorded as not existing: the sweep releases it. */
      *old = *copy;
      atomic_store (&peer->sweep, true);
      return 0;
    }
    peer_publish (peer, p, copy, FP_EXTENT_OFFLINE);
    return 0;
  }
  if (peer->stage == STAGE_LISTED ||
      !fp_recorded_may_exist (peer->peers->recorded, g->extent) ||
      fp_recorded_is_lost (peer->peers->recorded, g->extent)) {
    /* A leftover of a label whose answer never came, or of a lost extent. */
    *old = *copy;
    atomic_store (&peer->sweep, true);
    return 0;
  }
  if (atomic_load (&p->doubt) && fp_extent_state (p) == FP_EXTENT_LOST &&
      is_about (peer, p, g->slab)) {
    *old = *copy;
    return 0;
  }
  if (is_doubtful (peer, p, g->extent, open)) {
    *old = *copy;
    r = lose (peer, g, &none);
    if (r == 0 && is_about (peer, p, g->slab))
      atomic_store (&p->doubt, true);
    return r;
  }
  if (fp_extent_move (peer->peers->extents, p, FP_EXTENT_EMPTY,
                      FP_EXTENT_OFFLINE)) {
    atomic_fetch_add (&peer->peers->extents->allocated, 1);
  }
  else {
    r = contest (peer, p, g);
    if (r <= 0) {
      *old = *copy;
      return r;
    }
    displace (peer, p, old);
  }
  fp_extent_set_all_written (peer->peers->extents,
                             fp_extent_of (peer->peers->extents, g->extent));
  atomic_fetch_add (&peer->extents, 1);
  peer_publish (peer, p, copy, FP_EXTENT_OFFLINE);
  atomic_store (&p->doubt, open);
  return 0;
}

/* Turn the extent of a grant into the entry of that copy.  False: there is
 * none.
 */
static bool
to_entry (const struct fp_peer *peer, struct fp_grant *g)
{
  const struct fp_extents *t = peer->peers->extents;

  if (g->extent >= t->nr || g->copy >= t->copies)
    return false;
  g->extent += g->copy * t->nr;
  return true;
}

/* Take grant i of a list: the donor says that a slab holds an extent. */
static int
take_label (struct fp_peer *peer, unsigned i)
{
  struct fp_grant *g = &peer->grants.grants[i];
  bool open = (g->generation & FP_GENERATION_OPEN) != 0;
  struct fp_copy copy, old = { .ops = NULL };
  int r;

  g->generation &= ~FP_GENERATION_OPEN;
  if (!to_entry (peer, g) || g->generation > MAX_GENERATION)
    return -EPROTO;
  fp_extents_raise_generation (peer->peers->extents, g->generation);
  if (fp_grant_is_lost (g)) {
    r = take_lost (peer, g, &old);
  }
  else {
    r = peer_import (peer, i, &copy);
    if (r < 0)
      return r;
    if (!take_shut (peer, g, &copy, &old)) {
      r = take_copy (peer, g, open, &copy, &old);
      if (r < 0 && old.ops == NULL)
        old = copy;
    }
  }
  if (old.ops != NULL)
    fp_copy_forget (&old);
  return r;
}

/* Let the start wait for the next part of a list of `total` labels, but no
 * longer than all of them may take together.  There are not many more labels
 * than the volume has extents.
 */
static void
extend_start (struct fp_peer *peer, uint64_t total)
{
  uint64_t now = fp_now_ns ();

  total = FP_MIN (total, 2 * peer->peers->extents->all + FP_MAX_GRANTS);
  if (peer->learn_end_ns == 0)
    peer->learn_end_ns =
        now + (fp_volume_start_ms (peer->peers->p) + total * LABEL_MS) *
                  FP_NS_PER_MS;
  atomic_store (
      &peer->learn_until_ns,
      FP_MIN (now + PEER_SLOW_MS * FP_NS_PER_MS, peer->learn_end_ns));
}

int
peer_take_labels (struct fp_peer *peer, uint64_t total)
{
  uint64_t seen = 0;
  int r = total > MAX_LABELS ? -EPROTO : 0;

  while (r == 0 && seen < total) {
    struct fp_list q = { .start = seen, .max = FP_MAX_GRANTS };
    uint64_t asked = fp_boot_ns ();

    if (atomic_load (&peer->stop))
      return -ECANCELED;
    extend_start (peer, total);
    /* Registering a large volume takes longer than one message may. */
    r = fp_ctl_list (peer->s.ctl, &q, &peer->grants, peer->grant_fds,
                     peer_slow (peer));
    if (r < 0)
      return r;
    peer_renewed (peer, asked);
    if (peer->grants.count == 0)
      r = -EPROTO;
    for (unsigned i = 0; r == 0 && i < peer->grants.count; i++)
      r = take_label (peer, i);
    seen += peer->grants.count;
    peer_close_grant_fds (peer);
    fp_notifier_raise (&peer->peers->extents->changes);
  }
  if (r < 0)
    return r;
  peer_reach (peer, STAGE_LISTED);
  fp_recorded_heard (peer->peers->recorded, peer->index);
  return atomic_load (&peer->sweep) ? peer_sweep (peer) : 0;
}

/* If the donor that has p, which exists, cannot be believed, make p LOST. */
static void
judge_label (struct fp_peers *peers, struct fp_extent *p, uint64_t doubt,
             bool missing, struct fp_copy *old)
{
  unsigned server = atomic_load (&p->server);

  if (!missing || !(atomic_load (&p->doubt) || (doubt >> server & 1)))
    return;
  displace (peers->at[server], p, old);
  move_to_lost (peers, p);
  atomic_store (&p->doubt, true);
  atomic_store (&peers->at[server]->lost_any, true);
}

void
peer_judge (struct fp_peers *peers, uint64_t i, bool exists, uint64_t doubt,
            bool missing)
{
  struct fp_extent *p = &peers->extents->p[i];
  struct fp_copy old = { .ops = NULL };

  FP_LOCK_SCOPE (&peers->extents->lock);
  if (exists) {
    if (fp_extent_state (p) != FP_EXTENT_EMPTY &&
        fp_extent_state (p) != FP_EXTENT_LOST)
      judge_label (peers, p, doubt, missing, &old);
    if (old.ops != NULL)
      fp_copy_forget (&old);
    if (!fp_extent_move (peers->extents, p, FP_EXTENT_EMPTY, FP_EXTENT_LOST))
      return;
    atomic_fetch_add (&peers->extents->lost, 1);
    /* With generation 0, any label that is heard of later is higher. */
    p->copy = (struct fp_copy) { .slab = UINT64_MAX };
    fp_extent_set_all_written (peers->extents,
                               fp_extent_of (peers->extents, i));
    return;
  }
  if (fp_extent_state (p) == FP_EXTENT_EMPTY)
    return;
  displace (peers->at[atomic_load (&p->server)], p, &old);
  if (old.ops != NULL)
    fp_copy_forget (&old);
  peer_forget_written (peers->extents, i);
  atomic_fetch_sub (&peers->extents->allocated, 1);
  if (!fp_extent_move (peers->extents, p, FP_EXTENT_OFFLINE, FP_EXTENT_EMPTY))
    abort (); /* ours, under the lock */
}

/* ---- strays: slabs that are not used ---- */

static bool
is_unused (struct fp_peer *peer, struct fp_extent *p, const struct fp_grant *g)
{
  if (is_here (peer, p, g->slab))
    return p->releasing && peer->record != NULL &&
           fp_extent_state (p) == FP_EXTENT_OFFLINE;
  if (!fp_grant_is_lost (g) && !atomic_load (&p->doubt))
    return true;
  /* Keep this: the next client must know of it, too. */
  return !(is_about (peer, p, g->slab) &&
           (fp_extent_state (p) == FP_EXTENT_LOST ||
            fp_extent_state (p) == FP_EXTENT_BUSY));
}

static bool
is_stray (struct fp_peer *peer, const struct fp_grant *g)
{
  FP_LOCK_SCOPE (&peer->peers->extents->lock);
  return is_unused (peer, &peer->peers->extents->p[g->extent], g);
}

/* Find the next strays, as many as one message takes. */
static int
find_strays (struct fp_peer *peer, struct fp_release *out)
{
  uint64_t seen = 0;

  out->count = 0;
  while (out->count < FP_MAX_GRANTS && seen <= MAX_LABELS) {
    struct fp_list q = { .start = seen, .max = FP_MAX_GRANTS };
    uint64_t asked = fp_boot_ns ();
    int r;

    extend_start (peer, 0); /* the number was given before */
    r = fp_ctl_list (peer->s.ctl, &q, &peer->grants, peer->grant_fds,
                     peer_patient (peer));
    peer_answered (peer);
    if (r < 0)
      return r;
    peer_renewed (peer, asked);
    for (unsigned i = 0; i < peer->grants.count; i++) {
      const struct fp_grant *g = &peer->grants.grants[i];

      if (!to_entry (peer, &peer->grants.grants[i]))
        r = -EPROTO;
      else if (out->count < FP_MAX_GRANTS && is_stray (peer, g))
        out->slabs[out->count++] = g->slab;
    }
    peer_close_grant_fds (peer);
    if (r < 0)
      return r;
    if (peer->grants.count == 0)
      return 0;
    seen += peer->grants.count;
  }
  return seen > MAX_LABELS ? -EPROTO : 0;
}

/* Make the labels of the strays in the last list open. */
static int
open_listed (struct fp_peer *peer)
{
  peer->labels.count = 0;
  for (unsigned i = 0; i < peer->grants.count; i++) {
    struct fp_grant *g = &peer->grants.grants[i];

    if (!to_entry (peer, g))
      return -EPROTO;
    if (!fp_grant_is_lost (g) && !(g->generation & FP_GENERATION_OPEN) &&
        is_stray (peer, g))
      peer->labels.labels[peer->labels.count++] =
          fp_extent_label (peer->peers->extents, g->extent, g->slab,
                           g->generation | FP_GENERATION_OPEN);
  }
  return peer->labels.count == 0
             ? 0
             : fp_ctl_label (peer->s.ctl, &peer->labels, peer_soon (peer));
}

int
peer_open_strays (struct fp_peer *peer)
{
  uint64_t seen = 0;
  int r = 0;

  while (r == 0 && seen <= MAX_LABELS) {
    struct fp_list q = { .start = seen, .max = FP_MAX_GRANTS };
    uint64_t asked = fp_boot_ns ();

    if (atomic_load (&peer->stop))
      return -ECANCELED;
    extend_start (peer, 0);
    r = fp_ctl_list (peer->s.ctl, &q, &peer->grants, peer->grant_fds,
                     peer_slow (peer));
    if (r < 0)
      return r;
    peer_renewed (peer, asked);
    peer_close_grant_fds (peer);
    if (peer->grants.count == 0)
      return 0;
    seen += peer->grants.count;
    r = open_listed (peer);
  }
  return r < 0 ? r : -EPROTO;
}

uint64_t
peer_with_strays (struct fp_peers *peers)
{
  unsigned nr = atomic_load (&peers->nr);
  uint64_t set = 0;

  for (unsigned i = 0; i < nr; i++)
    if (atomic_load (&peers->at[i]->sweep))
      set |= UINT64_C (1) << i;
  return set;
}

int
peer_sweep (struct fp_peer *peer)
{
  if (peer->peers->p->read_only) {
    atomic_store (&peer->sweep, false);
    return 0; /* left for the next client that writes */
  }
  if (!fp_recorded_may_release (peer->peers->recorded))
    return 0; /* later: they may still be needed */
  /* A donor cannot make this last for ever. */
  for (unsigned n = 0; n <= MAX_LABELS / FP_MAX_GRANTS; n++) {
    struct fp_release strays;
    int r;

    if (atomic_load (&peer->stop))
      return -ECANCELED;
    atomic_store (&peer->sweep, false);
    r = find_strays (peer, &strays);
    if (r == 0 && strays.count == 0)
      return 0;
    if (r == 0)
      r = fp_ctl_release (peer->s.ctl, &strays, peer_patient (peer));
    peer_answered (peer);
    if (r < 0)
      return r;
  }
  return -EPROTO;
}
