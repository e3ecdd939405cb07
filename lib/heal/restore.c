/* SPDX-License-Identifier: BSD-3-Clause */
/* restore.c - fail over: decide which copies requests go on without. */

#include <config.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "extent/stripe.h"
#include "heal/migrate.h"
#include "heal/restore.h"
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

/* Return true if this copy cannot be used, and will not be usable soon. */
static bool
is_dead (struct fp_engine *e, struct fp_extent *p)
{
  switch (fp_extent_state (p)) {
  case FP_EXTENT_LOST:
    return true;
  case FP_EXTENT_OFFLINE:
    return fp_peer_away_ms (e->peers->at[atomic_load (&p->server)]) >=
           fp_peer_grace_ms (e->p);
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
a_ready_copy (struct fp_engine *e, uint64_t i, uint8_t in_sync)
{
  struct fp_extents *t = e->extents;

  for (unsigned c = 0; c < t->copies; c++)
    if ((in_sync & bit (c)) &&
        fp_extent_state (fp_copies_get (t, i, c)) == FP_EXTENT_READY &&
        !fp_meta_log_is_due (e->meta_log, fp_copies_entry (t, i, c)) &&
        fp_recorded_may_exist (e->peers->recorded, fp_copies_entry (t, i, c)))
      return (int) c;
  return -1;
}

/* Have it recorded that the dead copies of extent i are not in sync.  Then
 * they are dropped, and requests go on without them.  Return true if there are
 * any.
 */
static bool
ask_to_drop (struct fp_engine *e, uint64_t i, uint8_t in_sync)
{
  struct fp_extents *t = e->extents;
  bool any = false;

  for (unsigned c = 0; c < t->copies; c++) {
    uint64_t k = fp_copies_entry (t, i, c);

    if (!(in_sync & bit (c)) || !is_dead (e, &t->p[k]))
      continue;
    any = true;
    /* Another copy: this one may have become READY since is_dead. */
    if (a_ready_copy (e, i, in_sync & (uint8_t) ~bit (c)) >= 0)
      fp_meta_log_drop (e->meta_log, k);
  }
  return any;
}

/* Drop these copies, and mark them so that they are filled from the others. */
static void
make_anew (struct fp_engine *e, uint64_t i, uint8_t set)
{
  struct fp_extents *t = e->extents;

  for (unsigned c = 0; c < t->copies; c++) {
    if (!(set & bit (c)))
      continue;
    fp_copies_missed (e->extents, i, 0, fp_extent_length (t, i),
                      (uint8_t) ~bit (c));
    fp_meta_log_drop (e->meta_log, fp_copies_entry (t, i, c));
  }
}

/* A failed write may be in some copies only: keep one, resync the others. */
static void
mend_diverged (struct fp_engine *e, uint64_t i, uint8_t in_sync)
{
  uint8_t bad = fp_copies_bad (e->extents, i, in_sync);
  int keep = a_ready_copy (e, i, in_sync & (uint8_t) ~bad);

  if (keep < 0 && in_sync == bad)
    keep = a_ready_copy (e, i, in_sync);
  if (keep < 0)
    return;
  if (in_sync == bit ((unsigned) keep))
    atomic_store (&e->extents->p[i].diverged, false);
  else
    make_anew (e, i, in_sync & (uint8_t) ~bit ((unsigned) keep));
}

/* Drop the bad copies and resync them, if another one could be used now.  If
 * all in-sync copies are bad, keep them: there is nothing else.
 */
static void
mend_bad (struct fp_engine *e, uint64_t i, uint8_t in_sync, uint8_t bad)
{
  struct fp_extents *t = e->extents;

  if (a_ready_copy (e, i, in_sync & (uint8_t) ~bad) >= 0)
    make_anew (e, i, bad);
  for (unsigned c = 0; in_sync == bad && c < t->copies; c++)
    atomic_store (&fp_copies_get (t, i, c)->bad, false);
  if (in_sync == bad)
    fp_notifier_raise (&t->changes); /* they are read again */
}

/* Bring back copy c of extent i, which is not in sync.  Return true if the
 * migration thread must resync it.
 */
static bool
restore (struct fp_restore *r, uint64_t i, unsigned c)
{
  struct fp_engine *e = r->e;
  uint64_t k = fp_copies_entry (e->extents, i, c);
  struct fp_extent *p = &e->extents->p[k];

  if (fp_meta_log_is_due (e->meta_log, k))
    return false;
  switch (fp_extent_state (p)) {
  case FP_EXTENT_READY:
    return true;
  case FP_EXTENT_OFFLINE:
    if (fp_peer_away_ms (e->peers->at[atomic_load (&p->server)]) <
            e->p->resync_delay_ms ||
        !fp_allocator_has_room (e->allocator, k))
      return false;
    break;
  case FP_EXTENT_LOST:
  case FP_EXTENT_EMPTY:
    if (fp_now_ns () < r->refill_ns ||
        !fp_allocator_has_room (e->allocator, k))
      return false;
    break;
  case FP_EXTENT_BUSY:
  case FP_EXTENT_FROZEN:
  default:
    return false;
  }
  if (fp_peer_abandon (e->peers, k))
    fp_allocator_want (e->allocator, k);
  return false;
}

/* Tidy entry k of an extent that was never written.  Release the memory
 * that it has from before a trim.  With reserve=full, ask for its memory
 * again.
 */
static void
tidy (struct fp_restore *r, uint64_t k)
{
  struct fp_engine *e = r->e;

  fp_peer_tidy (e->peers, k);
  if (e->p->reserve_full && atomic_load (&e->peers->started) &&
      fp_now_ns () >= r->refill_ns &&
      fp_extent_state (&e->extents->p[k]) == FP_EXTENT_EMPTY &&
      fp_allocator_has_room (e->allocator, k))
    fp_allocator_want (e->allocator, k);
}

/* Look at the copies of all extents.  Return true if something must be decided
 * that could not be yet.
 */
static bool
look_at_copies (struct fp_restore *r)
{
  struct fp_engine *e = r->e;
  struct fp_extents *t = e->extents;
  bool waits = false, resync = false;

  for (uint64_t i = 0; i < t->nr; i++) {
    uint8_t in_sync = fp_copies_in_sync (t, i),
            bad = fp_copies_bad (t, i, in_sync);

    for (unsigned c = 0; in_sync == 0 && c < t->copies; c++)
      tidy (r, fp_copies_entry (t, i, c));
    if (in_sync == 0)
      continue;
    if (atomic_load (&t->p[i].diverged)) {
      waits = true;
      mend_diverged (e, i, in_sync);
    }
    if (bad != 0) {
      waits = true;
      mend_bad (e, i, in_sync, bad);
    }
    if ((in_sync & (in_sync - 1)) != 0)
      waits |= ask_to_drop (e, i, in_sync);
    for (unsigned c = 0; c < t->copies; c++)
      if (!(in_sync & bit (c)))
        resync |= restore (r, i, c);
      /* Recording it was not possible when the copy became in sync. */
      else if (!fp_recorded_may_exist (e->peers->recorded,
                                       fp_copies_entry (t, i, c)))
        fp_meta_log_in_sync (e->meta_log, fp_copies_entry (t, i, c));
  }
  if (resync)
    fp_migrate_wake (r->migrate);
  return waits;
}

unsigned
fp_restore_look (void *arg)
{
  struct fp_restore *r = arg;
  struct fp_engine *e = r->e;
  struct fp_mirror *m = &e->mirror;
  unsigned ms = LATER_MS, grace = fp_peer_grace_ms (e->p);
  bool due = atomic_exchange (&m->due, false), waits = false;

  if (!fp_copies_several (e->extents))
    return LATER_MS;
  if (atomic_exchange (&m->changed, false))
    r->next_ns = FP_MIN (r->next_ns, r->looked_ns + SOON_MS * FP_NS_PER_MS);
  if (!due && !fp_deadline_passed (r->next_ns))
    return (unsigned) fp_deadline_left_ms (r->next_ns);
  /* Set this before the look: a change that the look misses causes another. */
  atomic_store (&m->waits, true);
  for (unsigned i = 0; i < e->peers->nr; i++) {
    unsigned left = fp_peer_cut (e->peers->at[i], grace);

    ms = left != 0 ? FP_MIN (ms, left) : ms;
  }
  if (!e->p->read_only) {
    bool refill = fp_deadline_passed (r->refill_ns);

    waits = look_at_copies (r);
    if (refill)
      r->refill_ns = fp_deadline_in_ms (REFILL_MS);
  }
  atomic_store (&m->waits, waits);
  r->looked_ns = fp_now_ns ();
  r->next_ns = r->looked_ns + ms * FP_NS_PER_MS;
  return ms;
}
