/* SPDX-License-Identifier: BSD-3-Clause */
/* dirty_log.c - keep the state of each region of the dirty log. */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "engine/dirty_log_int.h"
#include "meta/meta_log.h"

int
fp_dirty_log_new (struct fp_engine *e)
{
  const struct fp_extents *t = e->extents;
  struct fp_dirty_log *d = calloc (1, sizeof *d);

  if (d == NULL)
    return -ENOMEM;
  e->dirty_log = d;
  /* A region must not be smaller than a chunk, the unit of copying. */
  d->shift = FP_MAX (t->chunk_shift,
                     t->shift - (unsigned) __builtin_ctz (FP_TAIL_SIZE));
  d->regions = 1u << (t->shift - d->shift);
  d->group = 1;
  while (d->group < d->regions &&
         t->nr * (d->regions / d->group) > FP_DIRTY_LOG_GROUPS)
    d->group *= 2;
  d->state = calloc (t->all * d->regions, sizeof *d->state);
  d->users = calloc (t->nr * d->regions, sizeof *d->users);
  d->labelled = calloc (t->all, sizeof *d->labelled);
  return d->state == NULL || d->users == NULL || d->labelled == NULL ? -ENOMEM
                                                                     : 0;
}

void
fp_dirty_log_free (struct fp_engine *e)
{
  struct fp_dirty_log *d = e->dirty_log;

  if (d == NULL)
    return;
  free ((void *) d->state);
  free ((void *) d->users);
  free ((void *) d->labelled);
  free (d);
}

static _Atomic uint8_t *
state_of (const struct fp_dirty_log *d, uint64_t k, unsigned region)
{
  return &d->state[k * d->regions + region];
}

static bool
change (_Atomic uint8_t *state, uint8_t from, uint8_t to)
{
  return atomic_compare_exchange_strong (state, &from, to);
}

void
fp_dirty_log_enter (struct fp_engine *e, uint64_t i, uint64_t in,
                    uint64_t length)
{
  const struct fp_dirty_log *d = e->dirty_log;
  _Atomic uint32_t *users = d->users + i * d->regions;

  for (uint64_t r = in >> d->shift; r <= (in + length - 1) >> d->shift; r++)
    atomic_fetch_add (&users[r], 1);
}

void
fp_dirty_log_leave (struct fp_engine *e, uint64_t i, uint64_t in,
                    uint64_t length)
{
  const struct fp_dirty_log *d = e->dirty_log;
  _Atomic uint32_t *users = d->users + i * d->regions;

  for (uint64_t r = in >> d->shift; r <= (in + length - 1) >> d->shift; r++)
    atomic_fetch_sub (&users[r], 1);
}

void
dirty_log_know (struct fp_engine *e, uint64_t k, uint64_t generation)
{
  struct fp_dirty_log *d = e->dirty_log;

  if (atomic_load (&d->labelled[k]) == generation)
    return;
  FP_LOCK_SCOPE (&e->extents->lock);
  if (atomic_load (&d->labelled[k]) == generation)
    return;
  for (unsigned r = 0; r < d->regions; r++) {
    _Atomic uint8_t *state = state_of (d, k, r);
    uint8_t s = atomic_load (state);

    while (s != FP_DIRTY_LOG_CLEARING && s != FP_DIRTY_LOG_FAILED &&
           !atomic_compare_exchange_weak (state, &s, FP_DIRTY_LOG_UNKNOWN))
      ;
  }
  atomic_store (&d->labelled[k], generation);
}

/* If the heal lane has connected again since the failed clear, the zero
 * cannot land any more: forget FAILED.  Return the state.
 */
static uint8_t
look_again (struct fp_dirty_log *d, _Atomic uint8_t *state, unsigned server)
{
  if (atomic_load (&d->opened[server]) != atomic_load (&d->failed[server]))
    (void) change (state, FP_DIRTY_LOG_FAILED, FP_DIRTY_LOG_UNKNOWN);
  return atomic_load (state);
}

static enum fp_dirty_log_need
look (struct fp_engine *e, uint64_t k, const struct fp_copy *copy, uint64_t in,
      uint64_t length, unsigned *first, unsigned *nr)
{
  struct fp_dirty_log *d = e->dirty_log;
  unsigned last = (unsigned) ((in + length - 1) >> d->shift);
  bool waits = false;

  *nr = 0;
  if (!fp_dirty_log_is_kept (e, copy))
    return FP_DIRTY_LOG_READY;
  dirty_log_know (e, k, copy->generation);
  for (unsigned r = (unsigned) (in >> d->shift); r <= last; r++) {
    _Atomic uint8_t *state = state_of (d, k, r);
    uint8_t s = atomic_load (state);

    if (s == FP_DIRTY_LOG_COLD)
      s = change (state, s, FP_DIRTY_LOG_SET) ? FP_DIRTY_LOG_SET
                                              : atomic_load (state);
    if (s == FP_DIRTY_LOG_FAILED)
      s = look_again (d, state, copy->server);
    if (s == FP_DIRTY_LOG_UNKNOWN || s == FP_DIRTY_LOG_CLEAR) {
      if (*nr == 0)
        *first = r;
      ++*nr;
      continue;
    }
    waits = waits || s != FP_DIRTY_LOG_SET;
    if (*nr > 0)
      break;
  }
  if (*nr > 0)
    return FP_DIRTY_LOG_SAY;
  return waits ? FP_DIRTY_LOG_WAIT : FP_DIRTY_LOG_READY;
}

enum fp_dirty_log_need
fp_dirty_log_look (struct fp_engine *e, uint64_t k, const struct fp_copy *copy,
                   uint64_t in, uint64_t length, unsigned *first, unsigned *nr)
{
  enum fp_dirty_log_need need = look (e, k, copy, in, length, first, nr);

  /* The sweep may have ended before it could see `waits`. */
  if (need == FP_DIRTY_LOG_WAIT &&
      !atomic_exchange (&e->dirty_log->waits, true))
    need = look (e, k, copy, in, length, first, nr);
  return need;
}

/* Count the region as used, then look: so no sweep begins to clear it after
 * the look.  Return true, with the count kept, if the region must be set.
 */
static bool
hold_to_set (struct fp_dirty_log *d, uint64_t i, uint64_t k, unsigned region)
{
  uint8_t s;

  atomic_fetch_add (&d->users[i * d->regions + region], 1);
  s = atomic_load (state_of (d, k, region));
  if (s == FP_DIRTY_LOG_UNKNOWN || s == FP_DIRTY_LOG_CLEAR)
    return true;
  atomic_fetch_sub (&d->users[i * d->regions + region], 1);
  return false;
}

void
fp_dirty_log_widen (struct fp_engine *e, uint64_t k, unsigned *first,
                    unsigned *nr)
{
  struct fp_dirty_log *d = e->dirty_log;
  uint64_t i = fp_extent_of (e->extents, k);
  unsigned end = *first + *nr;

  while (*first % d->group != 0 && hold_to_set (d, i, k, *first - 1))
    --*first;
  while (end % d->group != 0 && hold_to_set (d, i, k, end))
    end++;
  *nr = end - *first;
}

void
fp_dirty_log_let_go (struct fp_engine *e, uint64_t k, unsigned first,
                     unsigned nr)
{
  struct fp_dirty_log *d = e->dirty_log;
  _Atomic uint32_t *users =
      d->users + fp_extent_of (e->extents, k) * d->regions;

  for (unsigned r = first; r < first + nr; r++)
    atomic_fetch_sub (&users[r], 1);
}

void
fp_dirty_log_was_set (struct fp_engine *e, uint64_t k, unsigned first,
                      unsigned nr)
{
  for (unsigned r = first; r < first + nr; r++) {
    _Atomic uint8_t *state = state_of (e->dirty_log, k, r);

    if (!change (state, FP_DIRTY_LOG_UNKNOWN, FP_DIRTY_LOG_SET))
      (void) change (state, FP_DIRTY_LOG_CLEAR, FP_DIRTY_LOG_SET);
  }
}

static void
change_all (struct fp_engine *e, uint64_t k, unsigned first, unsigned nr,
            uint8_t from, uint8_t to)
{
  for (unsigned r = first; r < first + nr; r++)
    (void) change (state_of (e->dirty_log, k, r), from, to);
}

void
dirty_log_forget_clear (struct fp_engine *e, uint64_t k)
{
  change_all (e, k, 0, e->dirty_log->regions, FP_DIRTY_LOG_CLEAR,
              FP_DIRTY_LOG_UNKNOWN);
}

void
fp_dirty_log_was_cleared (struct fp_engine *e, uint64_t k, unsigned first,
                          unsigned nr)
{
  change_all (e, k, first, nr, FP_DIRTY_LOG_CLEARING, FP_DIRTY_LOG_CLEAR);
}

void
fp_dirty_log_not_cleared (struct fp_engine *e, uint64_t k, unsigned first,
                          unsigned nr, bool may_land)
{
  struct fp_dirty_log *d = e->dirty_log;
  bool any = false;

  for (unsigned r = first; r < first + nr; r++)
    any = any || atomic_load (state_of (d, k, r)) == FP_DIRTY_LOG_CLEARING;
  if (!any)
    return;
  /* This also makes earlier failures wait for the next connection.  The next
   * one will come, because this one is broken.
   */
  if (may_land)
    atomic_store (&d->failed[e->extents->p[k].copy.server],
                  atomic_load (&d->sent));
  change_all (e, k, first, nr, FP_DIRTY_LOG_CLEARING,
              may_land ? FP_DIRTY_LOG_FAILED : FP_DIRTY_LOG_UNKNOWN);
}

void
fp_dirty_log_opened (struct fp_engine *e, unsigned server)
{
  if (e->dirty_log != NULL)
    atomic_fetch_add (&e->dirty_log->opened[server], 1);
}

void
fp_dirty_log_sent (struct fp_engine *e, unsigned server)
{
  struct fp_dirty_log *d = e->dirty_log;

  atomic_store (&d->sent, atomic_load (&d->opened[server]));
}

bool
fp_dirty_log_is_same (struct fp_engine *e, unsigned server)
{
  struct fp_dirty_log *d = e->dirty_log;

  return atomic_load (&d->sent) == atomic_load (&d->opened[server]);
}

/* ---- clearing ---- */

/* Return true if the next client cannot take a stale copy of extent i for one
 * that is in sync.
 */
static bool
is_recorded (struct fp_engine *e, uint64_t i)
{
  const struct fp_extents *t = e->extents;
  uint8_t in_sync = fp_copies_in_sync (t, i);

  for (unsigned c = 0; c < t->copies; c++) {
    uint64_t k = fp_copies_entry (t, i, c);

    if (!(in_sync >> c & 1) && (fp_meta_log_is_due (e->meta_log, k) ||
                                fp_recorded_may_exist (e->peers->recorded, k)))
      return false;
  }
  return true;
}

/* Return true if no write to the region is in flight, and earlier ones reached
 * every copy.  Keep the order of the tests.  A failed write becomes unsettled
 * before it stops being a user, and diverged before it stops being unsettled.
 */
static bool
is_quiet (struct fp_engine *e, uint64_t i, unsigned region)
{
  const struct fp_dirty_log *d = e->dirty_log;

  return atomic_load (&d->users[i * d->regions + region]) == 0 &&
         atomic_load (&e->unsettled) == 0 &&
         !atomic_load (&e->extents->p[i].diverged) && is_recorded (e, i);
}

bool
dirty_log_begin_clearing (struct fp_engine *e, uint64_t k, unsigned region,
                          unsigned server)
{
  struct fp_dirty_log *d = e->dirty_log;
  _Atomic uint8_t *state = state_of (d, k, region);
  uint8_t s = atomic_load (state);

  if (s == FP_DIRTY_LOG_FAILED)
    s = look_again (d, state, server);
  if (s == FP_DIRTY_LOG_SET)
    (void) change (state, s, FP_DIRTY_LOG_COLD);
  if (s != FP_DIRTY_LOG_COLD && s != FP_DIRTY_LOG_UNKNOWN)
    return false;
  if (!change (state, s, FP_DIRTY_LOG_CLEARING))
    return false;
  if (is_quiet (e, fp_extent_of (e->extents, k), region))
    return true;
  (void) change (state, FP_DIRTY_LOG_CLEARING, s);
  return false;
}

uint64_t
dirty_log_marked (const struct fp_engine *e, uint64_t k)
{
  const struct fp_dirty_log *d = e->dirty_log;
  uint64_t length = 0;

  for (unsigned r = 0; r < d->regions; r++)
    if (atomic_load (state_of (d, k, r)) != FP_DIRTY_LOG_CLEAR)
      length += UINT64_C (1) << d->shift;
  return length;
}
