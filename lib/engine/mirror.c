/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "engine/mirror.h"
#include "extent/stripe.h"
#include "heal/migrate.h"
#include "meta/meta_log.h"
#include "peer/peer.h"

#define SOON_MS 10     /* least time between two looks that changes cause */
#define LATER_MS 500   /* longest time between two looks */
#define REFILL_MS 1000 /* between two tries to find memory */

static uint8_t
bit (unsigned copy)
{
  return (uint8_t) (1u << copy);
}

/* ---- called by lanes ---- */

void
fp_mirror_poke (struct fp_volume *v)
{
  if (!atomic_exchange (&v->mirror_due, true))
    fp_notifier_raise (&v->work);
}

void
fp_mirror_changed (struct fp_volume *v)
{
  if (atomic_load (&v->mirror_waits) &&
      !atomic_exchange (&v->mirror_changed, true))
    fp_notifier_raise (&v->work);
}

void
fp_mirror_want (struct fp_volume *v, uint64_t i)
{
  for (unsigned c = 0; c < v->extents->copies; c++) {
    fp_peer_tidy (&v->peers, fp_copies_entry (v->extents, i, c));
    fp_allocator_want (v, fp_copies_entry (v->extents, i, c));
  }
}

/* Set *set to the copies for which new extent i got memory, and *err to the
 * reason if one got none.  Return -EAGAIN if that is not decided yet.
 */
static int
fresh_copies (struct fp_extents *t, uint64_t i, uint8_t *set, int *err)
{
  bool ready = false;

  *set = 0;
  for (unsigned c = 0; c < t->copies; c++) {
    struct fp_extent *p = fp_copies_get (t, i, c);

    switch (fp_extent_state (p)) {
    case FP_EXTENT_EMPTY:
      if (!atomic_load (&p->refused))
        return -EAGAIN;
      *err = atomic_load (&p->err);
      break;
    case FP_EXTENT_BUSY:
    case FP_EXTENT_FROZEN:
      return -EAGAIN;
    case FP_EXTENT_READY:
    case FP_EXTENT_OFFLINE:
    case FP_EXTENT_LOST:
    default:
      /* If it is not fresh, it is left over from before a trim. */
      if (p->fresh)
        *set |= bit (c);
      ready |= p->fresh && fp_extent_state (p) == FP_EXTENT_READY;
    }
  }
  return ready ? 0 : -EAGAIN;
}

bool
fp_mirror_form (struct fp_volume *v, uint64_t i, int *err)
{
  struct fp_extents *t = v->extents;
  uint8_t set;

  FP_LOCK_SCOPE (&v->extents->lock);
  if (atomic_load (&t->in_sync[i]) != 0)
    return true;
  if (fresh_copies (t, i, &set, err) < 0)
    return false;
  atomic_store (&t->in_sync[i], set);
  if (set != fp_copies_all (t))
    fp_mirror_poke (v);
  return true;
}

void
fp_mirror_missed (struct fp_volume *v, uint64_t i, uint64_t in,
                  uint64_t length, uint8_t reached)
{
  struct fp_extents *t = v->extents;
  uint64_t last = (in + length - 1) >> t->chunk_shift;

  if (reached == fp_copies_all (t))
    return;
  for (unsigned c = 0; c < t->copies; c++) {
    _Atomic uint64_t *dirty = t->dirty + fp_copies_entry (t, i, c) * t->words;

    if (reached & bit (c))
      continue;
    for (uint64_t n = in >> t->chunk_shift; n <= last; n++)
      atomic_fetch_or (&dirty[n / 64], UINT64_C (1) << (n % 64));
  }
}

bool
fp_mirror_failed (struct fp_volume *v, uint64_t k)
{
  struct fp_extents *t = v->extents;
  uint64_t i = fp_extent_of (t, k);
  uint8_t in_sync = fp_copies_in_sync (t, i), it = bit (fp_copy_of (t, k));

  if (!(in_sync & it) || (in_sync & ~it & ~fp_copies_bad (t, i, in_sync)) == 0)
    return false;
  atomic_store (&t->p[k].bad, true);
  fp_mirror_poke (v);
  return true;
}

void
fp_mirror_diverged (struct fp_volume *v, uint64_t i)
{
  atomic_store (&v->extents->p[i].diverged, true);
  fp_mirror_poke (v);
}

/* ---- decisions of the allocator ---- */

/* Return true if this copy cannot be used, and will not be usable soon. */
static bool
is_dead (struct fp_volume *v, struct fp_extent *p)
{
  switch (fp_extent_state (p)) {
  case FP_EXTENT_LOST:
    return true;
  case FP_EXTENT_OFFLINE:
    return fp_peer_away_ms (v->peers.at[atomic_load (&p->server)]) >=
           fp_peer_grace_ms (&v->p);
  case FP_EXTENT_EMPTY:
  case FP_EXTENT_READY:
  case FP_EXTENT_BUSY:
  case FP_EXTENT_FROZEN:
  default:
    return false;
  }
}

/* Return a copy that is READY, in sync, and recorded so with no change
 * pending; or -1.  Callers need one, because else the last recorded copy could
 * be dropped.
 */
static int
a_ready_copy (struct fp_volume *v, uint64_t i, uint8_t in_sync)
{
  struct fp_extents *t = v->extents;

  for (unsigned c = 0; c < t->copies; c++)
    if ((in_sync & bit (c)) &&
        fp_extent_state (fp_copies_get (t, i, c)) == FP_EXTENT_READY &&
        !fp_meta_log_is_due (v, fp_copies_entry (t, i, c)) &&
        fp_recorded_may_exist (&v->recorded, fp_copies_entry (t, i, c)))
      return (int) c;
  return -1;
}

/* Drop the dead copies of extent i.  Requests go on without them as soon as
 * that is recorded.  Return true if there are any.
 */
static bool
drop_dead (struct fp_volume *v, uint64_t i, uint8_t in_sync)
{
  struct fp_extents *t = v->extents;
  bool any = false;

  for (unsigned c = 0; c < t->copies; c++) {
    uint64_t k = fp_copies_entry (t, i, c);

    if (!(in_sync & bit (c)) || !is_dead (v, &t->p[k]))
      continue;
    any = true;
    /* Another copy: this one may have become READY since is_dead. */
    if (a_ready_copy (v, i, in_sync & (uint8_t) ~bit (c)) >= 0)
      fp_meta_log_drop (v, k);
  }
  return any;
}

/* Drop these copies, and mark them so that they are filled from the others. */
static void
make_anew (struct fp_volume *v, uint64_t i, uint8_t set)
{
  struct fp_extents *t = v->extents;

  for (unsigned c = 0; c < t->copies; c++) {
    if (!(set & bit (c)))
      continue;
    fp_mirror_missed (v, i, 0, fp_extent_length (t, i), (uint8_t) ~bit (c));
    fp_meta_log_drop (v, fp_copies_entry (t, i, c));
  }
}

/* A failed write may be in some copies only: keep one, resync the others. */
static void
mend_diverged (struct fp_volume *v, uint64_t i, uint8_t in_sync)
{
  uint8_t bad = fp_copies_bad (v->extents, i, in_sync);
  int keep = a_ready_copy (v, i, in_sync & (uint8_t) ~bad);

  if (keep < 0 && in_sync == bad)
    keep = a_ready_copy (v, i, in_sync);
  if (keep < 0)
    return;
  if (in_sync == bit ((unsigned) keep))
    atomic_store (&v->extents->p[i].diverged, false);
  else
    make_anew (v, i, in_sync & (uint8_t) ~bit ((unsigned) keep));
}

/* Drop the bad copies and resync them, if another one could be used now.  If
 * all in-sync copies are bad, keep them: there is nothing else.
 */
static void
mend_bad (struct fp_volume *v, uint64_t i, uint8_t in_sync, uint8_t bad)
{
  struct fp_extents *t = v->extents;

  if (a_ready_copy (v, i, in_sync & (uint8_t) ~bad) >= 0)
    make_anew (v, i, bad);
  for (unsigned c = 0; in_sync == bad && c < t->copies; c++)
    atomic_store (&fp_copies_get (t, i, c)->bad, false);
  if (in_sync == bad)
    fp_notifier_raise (&t->changes); /* they are read again */
}

/* Bring back copy c of extent i, which is not in sync.  Return true if the
 * migration thread must resync it.
 */
static bool
restore (struct fp_volume *v, uint64_t i, unsigned c)
{
  uint64_t k = fp_copies_entry (v->extents, i, c);
  struct fp_extent *p = &v->extents->p[k];

  if (fp_meta_log_is_due (v, k))
    return false;
  switch (fp_extent_state (p)) {
  case FP_EXTENT_READY:
    return true;
  case FP_EXTENT_OFFLINE:
    if (fp_peer_away_ms (v->peers.at[atomic_load (&p->server)]) <
            v->p.resync_delay_ms ||
        !fp_allocator_has_room (v, k))
      return false;
    break;
  case FP_EXTENT_LOST:
  case FP_EXTENT_EMPTY:
    if (fp_now_ns () < v->refill_ns || !fp_allocator_has_room (v, k))
      return false;
    break;
  case FP_EXTENT_BUSY:
  case FP_EXTENT_FROZEN:
  default:
    return false;
  }
  if (fp_peer_abandon (&v->peers, k))
    fp_allocator_want (v, k);
  return false;
}

/* Tidy entry k of an extent that was never written.  Release the memory
 * that it has from before a trim.  With reserve=full, ask for its memory
 * again.
 */
static void
tidy (struct fp_volume *v, uint64_t k)
{
  fp_peer_tidy (&v->peers, k);
  if (v->p.reserve_full && atomic_load (&v->peers.started) &&
      fp_now_ns () >= v->refill_ns &&
      fp_extent_state (&v->extents->p[k]) == FP_EXTENT_EMPTY &&
      fp_allocator_has_room (v, k))
    fp_allocator_want (v, k);
}

/* Look at the copies of all extents.  Return true if something must be decided
 * that could not be yet.
 */
static bool
look_at_copies (struct fp_volume *v)
{
  struct fp_extents *t = v->extents;
  bool waits = false, resync = false;

  for (uint64_t i = 0; i < t->nr; i++) {
    uint8_t in_sync = fp_copies_in_sync (t, i),
            bad = fp_copies_bad (t, i, in_sync);

    for (unsigned c = 0; in_sync == 0 && c < t->copies; c++)
      tidy (v, fp_copies_entry (t, i, c));
    if (in_sync == 0)
      continue;
    if (atomic_load (&t->p[i].diverged)) {
      waits = true;
      mend_diverged (v, i, in_sync);
    }
    if (bad != 0) {
      waits = true;
      mend_bad (v, i, in_sync, bad);
    }
    if ((in_sync & (in_sync - 1)) != 0)
      waits |= drop_dead (v, i, in_sync);
    for (unsigned c = 0; c < t->copies; c++)
      if (!(in_sync & bit (c)))
        resync |= restore (v, i, c);
      /* Recording it was not possible when the copy became in sync. */
      else if (!fp_recorded_may_exist (&v->recorded,
                                       fp_copies_entry (t, i, c)))
        fp_meta_log_in_sync (v, fp_copies_entry (t, i, c));
  }
  if (resync)
    fp_migrate_wake (v->migrate);
  return waits;
}

unsigned
fp_mirror_look (struct fp_volume *v)
{
  unsigned ms = LATER_MS, grace = fp_peer_grace_ms (&v->p);
  bool due = atomic_exchange (&v->mirror_due, false), waits = false;

  if (!fp_copies_several (v->extents))
    return LATER_MS;
  if (atomic_exchange (&v->mirror_changed, false))
    v->mirror_ns =
        FP_MIN (v->mirror_ns, v->looked_ns + SOON_MS * FP_NS_PER_MS);
  if (!due && !fp_deadline_passed (v->mirror_ns))
    return (unsigned) fp_deadline_left_ms (v->mirror_ns);
  /* Set this before the look: a change that the look misses causes another. */
  atomic_store (&v->mirror_waits, true);
  for (unsigned i = 0; i < v->peers.nr; i++) {
    unsigned left = fp_peer_cut (v->peers.at[i], grace);

    ms = left != 0 ? FP_MIN (ms, left) : ms;
  }
  if (!v->p.read_only) {
    bool refill = fp_deadline_passed (v->refill_ns);

    waits = look_at_copies (v);
    if (refill)
      v->refill_ns = fp_deadline_in_ms (REFILL_MS);
  }
  atomic_store (&v->mirror_waits, waits);
  v->looked_ns = fp_now_ns ();
  v->mirror_ns = v->looked_ns + ms * FP_NS_PER_MS;
  return ms;
}

/* ---- reports from other parts ---- */

void
fp_mirror_dropped (struct fp_volume *v, uint64_t k)
{
  struct fp_extents *t = v->extents;

  {
    FP_LOCK_SCOPE (&v->extents->lock);
    atomic_fetch_and (&t->in_sync[fp_extent_of (t, k)],
                      (uint8_t) ~bit (fp_copy_of (t, k)));
    atomic_store (&t->p[k].bad, false);
  }
  fp_mirror_poke (v);
}

static bool
is_lost (struct fp_extents *t, uint64_t i, uint8_t in_sync)
{
  for (unsigned c = 0; c < t->copies; c++)
    if ((in_sync & bit (c)) &&
        fp_extent_state (fp_copies_get (t, i, c)) != FP_EXTENT_LOST)
      return false;
  return true;
}

/* Return true if all copies have memory, written or not: reserve=full. */
static bool
is_reserved (struct fp_extents *t, uint64_t i)
{
  for (unsigned c = 0; c < t->copies; c++)
    if (fp_extent_state (&t->p[fp_copies_entry (t, i, c)]) == FP_EXTENT_EMPTY)
      return false;
  return true;
}

/* Return true if all copies are in sync and the next client believes it. */
static bool
is_whole (struct fp_volume *v, uint64_t i, uint8_t in_sync)
{
  if (in_sync != fp_copies_all (v->extents))
    return false;
  for (unsigned c = 0; c < v->extents->copies; c++)
    if (!fp_meta_log_has_in_sync (v, fp_copies_entry (v->extents, i, c)))
      return false;
  return true;
}

void
fp_mirror_status (struct fp_volume *v, struct fp_mirror_status *s)
{
  struct fp_extents *t = v->extents;

  *s = (struct fp_mirror_status) { .degraded = 0 };
  for (uint64_t i = 0; i < t->nr; i++) {
    uint8_t in_sync = fp_copies_in_sync (t, i);

    s->allocated += in_sync != 0 || is_reserved (t, i);
    s->lost += in_sync != 0 && is_lost (t, i, in_sync);
    if (in_sync == 0 || is_whole (v, i, in_sync))
      continue;
    s->degraded++;
    for (unsigned c = 0; c < t->copies; c++) {
      uint64_t k = fp_copies_entry (t, i, c);
      enum fp_extent_state state = fp_extent_state (&t->p[k]);

      if (in_sync & bit (c))
        continue;
      for (uint32_t w = 0; w < t->words; w++)
        s->missing +=
            (uint64_t) __builtin_popcountll (atomic_load (
                state == FP_EXTENT_READY ? &t->dirty[k * t->words + w]
                                         : &t->written[i * t->words + w]))
            << t->chunk_shift;
    }
  }
}
