/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include "extent/copies.h"

uint8_t
fp_copies_bad (struct fp_extents *t, uint64_t i, uint8_t in_sync)
{
  uint8_t bad = 0;

  for (unsigned c = 0; c < t->copies; c++)
    if ((in_sync >> c & 1) && atomic_load (&fp_copies_get (t, i, c)->bad))
      bad |= (uint8_t) (1u << c);
  return bad;
}

bool
fp_copies_are_lost (struct fp_extents *t, uint64_t i, uint8_t set)
{
  for (unsigned c = 0; c < t->copies; c++)
    if ((set >> c & 1) &&
        fp_extent_state (fp_copies_get (t, i, c)) != FP_EXTENT_LOST)
      return false;
  return true;
}

void
fp_copies_missed (struct fp_extents *t, uint64_t i, uint64_t in,
                  uint64_t length, uint8_t reached)
{
  if (t->dirty == NULL || reached == fp_copies_all (t))
    return;
  for (unsigned c = 0; c < t->copies; c++)
    if (!(reached >> c & 1))
      fp_extent_mark (t, t->dirty + fp_copies_entry (t, i, c) * t->words, in,
                      length);
}

void
fp_copy_refill (struct fp_extents *t, uint64_t k)
{
  _Atomic uint64_t *dirty = t->dirty + k * t->words;
  _Atomic uint64_t *written = t->written + fp_extent_of (t, k) * t->words;

  /* Clear first, then look.  A concurrent writer has set `written` before the
   * look, or marks what is dirty after the clear.
   */
  for (uint32_t w = 0; w < t->words; w++)
    atomic_store (&dirty[w], 0);
  for (uint32_t w = 0; w < t->words; w++)
    atomic_fetch_or (&dirty[w], atomic_load (&written[w]));
}
