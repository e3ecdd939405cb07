/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/checked.h"
#include "extent/recorded.h"
#include "proto/messages.h"

int
fp_recorded_new (struct fp_recorded *d, uint64_t extents, uint32_t copies)
{
  d->extents = extents;
  d->copies = copies;
  d->words = fp_div_round_up (fp_map_bits (extents, copies), 64);
  d->words_of_copies =
      fp_div_round_up (fp_map_bits_of_copies (extents, copies), 64);
  d->map = calloc (d->words, sizeof *d->map);
  if (d->map == NULL)
    return -ENOMEM;
  fp_recorded_advance (d, FP_RECORDED_UNKNOWN);
  return 0;
}

void
fp_recorded_free (struct fp_recorded *d)
{
  free ((void *) d->map);
  d->map = NULL;
}

void
fp_recorded_advance (struct fp_recorded *d, enum fp_recorded_stage to)
{
  unsigned from = atomic_exchange (&d->stage, to);

  assert (to == from + 1);
  (void) from;
}

void
fp_recorded_set (struct fp_recorded *d, uint64_t k, bool exists)
{
  uint64_t mask = UINT64_C (1) << (k % 64);

  if (exists)
    atomic_fetch_or (&d->map[k / 64], mask);
  else
    atomic_fetch_and (&d->map[k / 64], ~mask);
}

bool
fp_recorded_is_lost (const struct fp_recorded *d, uint64_t k)
{
  uint64_t first;

  if (atomic_load (&d->stage) == FP_RECORDED_NONE)
    return false;
  first = fp_map_lost (d->extents, d->copies);
  return first > 0 && fp_recorded_has (d, first + k % d->extents);
}

bool
fp_recorded_lose (struct fp_recorded *d, uint64_t i)
{
  uint64_t first = fp_map_lost (d->extents, d->copies);

  if (first == 0 || fp_recorded_has (d, first + i))
    return false;
  fp_recorded_set (d, first + i, true);
  return true;
}

bool
fp_recorded_may_exist (const struct fp_recorded *d, uint64_t k)
{
  return atomic_load (&d->stage) <= FP_RECORDED_UNKNOWN ||
         atomic_load (&d->frozen) || fp_recorded_has (d, k);
}

bool
fp_recorded_may_release (const struct fp_recorded *d)
{
  unsigned stage = atomic_load (&d->stage);

  return stage == FP_RECORDED_NONE || stage == FP_RECORDED_COMPLETE;
}

bool
fp_recorded_is_judged (const struct fp_recorded *d)
{
  return atomic_load (&d->stage) >= FP_RECORDED_JUDGED;
}

void
fp_recorded_heard (struct fp_recorded *d, unsigned server)
{
  atomic_fetch_and (&d->unheard, ~(UINT64_C (1) << server));
}

bool
fp_recorded_doubts (const struct fp_recorded *d, unsigned server, uint64_t k,
                    bool open)
{
  if (!fp_recorded_is_judged (d))
    return false;
  if (atomic_load (&d->frozen) && !fp_recorded_has (d, k))
    return true;
  return (open || (d->stale >> server & 1)) &&
         (atomic_load (&d->unheard) & ~(UINT64_C (1) << server)) != 0;
}
