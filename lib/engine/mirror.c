/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "engine/engine.h"
#include "extent/stripe.h"
#include "meta/meta_log.h"
#include "peer/peer.h"

static uint8_t
bit (unsigned copy)
{
  return (uint8_t) (1u << copy);
}

void
fp_mirror_poke (struct fp_engine *e)
{
  if (!atomic_exchange (&e->mirror.due, true))
    fp_allocator_wake (e->allocator);
}

static void
changed (void *arg)
{
  struct fp_engine *e = arg;

  if (atomic_load (&e->mirror.waits) &&
      !atomic_exchange (&e->mirror.changed, true))
    fp_allocator_wake (e->allocator);
}

void
fp_mirror_listen (struct fp_engine *e)
{
  e->mirror.listener = (struct fp_listener) { .wake = changed, .arg = e };
  fp_notifier_listen (&e->extents->changes, &e->mirror.listener);
}

void
fp_mirror_want (struct fp_engine *e, uint64_t i)
{
  for (unsigned c = 0; c < e->extents->copies; c++) {
    /* An only copy is never left over from before a trim. */
    if (fp_copies_several (e->extents))
      fp_peer_tidy (e->peers, fp_copies_entry (e->extents, i, c));
    fp_allocator_want (e->allocator, fp_copies_entry (e->extents, i, c));
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
fp_mirror_form (struct fp_engine *e, uint64_t i, int *err)
{
  struct fp_extents *t = e->extents;
  uint8_t set;

  if (!fp_copies_several (t)) {
    *err = atomic_load (&t->p[i].err);
    return fp_copies_in_use (t, i) != 0;
  }
  FP_LOCK_SCOPE (&e->extents->lock);
  if (atomic_load (&t->in_sync[i]) != 0)
    return true;
  if (fresh_copies (t, i, &set, err) < 0)
    return false;
  atomic_store (&t->in_sync[i], set);
  if (set != fp_copies_all (t))
    fp_mirror_poke (e);
  return true;
}

bool
fp_mirror_failed (struct fp_engine *e, uint64_t k)
{
  struct fp_extents *t = e->extents;
  uint64_t i = fp_extent_of (t, k);
  uint8_t in_sync = fp_copies_in_sync (t, i), it = bit (fp_copy_of (t, k));

  if (!(in_sync & it) || (in_sync & ~it & ~fp_copies_bad (t, i, in_sync)) == 0)
    return false;
  atomic_store (&t->p[k].bad, true);
  fp_mirror_poke (e);
  return true;
}

void
fp_mirror_diverged (struct fp_engine *e, uint64_t i)
{
  if (!fp_copies_several (e->extents))
    return;
  atomic_store (&e->extents->p[i].diverged, true);
  fp_mirror_poke (e);
}

void
fp_mirror_dropped (struct fp_engine *e, uint64_t k)
{
  struct fp_extents *t = e->extents;

  {
    FP_LOCK_SCOPE (&e->extents->lock);
    atomic_fetch_and (&t->in_sync[fp_extent_of (t, k)],
                      (uint8_t) ~bit (fp_copy_of (t, k)));
    atomic_store (&t->p[k].bad, false);
  }
  fp_mirror_poke (e);
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
is_whole (struct fp_engine *e, uint64_t i, uint8_t in_sync)
{
  if (in_sync != fp_copies_all (e->extents))
    return false;
  for (unsigned c = 0; c < e->extents->copies; c++)
    if (!fp_meta_log_has_in_sync (e->meta_log,
                                  fp_copies_entry (e->extents, i, c)))
      return false;
  return true;
}

void
fp_mirror_status (struct fp_engine *e, struct fp_mirror_status *s)
{
  struct fp_extents *t = e->extents;

  *s = (struct fp_mirror_status) { .degraded = 0 };
  for (uint64_t i = 0; i < t->nr; i++) {
    uint8_t in_sync = fp_copies_in_sync (t, i);

    s->allocated += in_sync != 0 || is_reserved (t, i);
    s->lost += in_sync != 0 && fp_copies_are_lost (t, i, in_sync);
    if (in_sync == 0 || is_whole (e, i, in_sync))
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
