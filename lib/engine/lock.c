/* SPDX-License-Identifier: BSD-3-Clause */
/* lock.c - lock and unlock a range of an extent. */

#include <config.h>

#include "engine/engine.h"
#include "extent/notifier.h"
#include "extent/range_lock.h"

#define SKEW 2503u /* blocks: block_at */

/* Return the number of the range lock's block at `in` of extent i.  Each
 * extent has its own skew, so that blocks at one offset of neighbouring
 * extents do not share a word.
 */
static uint64_t
block_at (uint64_t i, uint64_t in)
{
  return i * SKEW + (in >> FP_RANGE_LOCK_SHIFT);
}

bool
fp_engine_lock (struct fp_engine *e, uint64_t i, uint64_t in, uint64_t length)
{
  return fp_range_lock_try (e->range_lock, block_at (i, in),
                            block_at (i, in + length - 1) + 1);
}

void
fp_engine_unlock (struct fp_engine *e, uint64_t i, uint64_t in,
                  uint64_t length)
{
  if (fp_range_lock_untry (e->range_lock, block_at (i, in),
                           block_at (i, in + length - 1) + 1))
    fp_notifier_raise (&e->extents->changes);
}
