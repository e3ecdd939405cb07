/* SPDX-License-Identifier: BSD-3-Clause */
/* range_lock.h - keep overlapping writes to several copies from being in
 * flight together, because the copies could apply them in different orders.
 *
 * All extents of the volume share one table of 4 KiB units.  So a write may
 * now and then wait for one that it does not overlap.  Each extent has its own
 * skew, so that units at one offset of neighbouring extents do not collide.
 *
 * Threads:  any.  No call blocks: a caller that is refused tries again, and is
 *           woken when a holder lets go after that.
 * Memory:   only the table, which the owner of the struct allocates.
 */

#ifndef FP_RANGE_LOCK_H
#define FP_RANGE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FP_RANGE_LOCK_SHIFT 12
#define FP_RANGE_LOCK_UNITS 16384u
#define FP_RANGE_LOCK_SKEW 2503u
/* Most bytes that one holder may lock, so that it never holds the whole table.
 */
#define FP_RANGE_LOCK_MAX (1u << 20)

struct fp_range_lock {
  _Atomic uint8_t held[FP_RANGE_LOCK_UNITS];
  _Atomic bool waits; /* a caller was refused */
};

static inline void
fp_range_lock_release (struct fp_range_lock *o, uint64_t first, uint64_t end)
{
  for (uint64_t u = first; u < end; u++)
    atomic_store (&o->held[u % FP_RANGE_LOCK_UNITS], 0);
}

/* Try to lock [in, in + length) of extent i, 0 < length <= FP_RANGE_LOCK_MAX.
 * Return false, with nothing held, if any unit is taken.
 */
static inline bool
fp_range_lock_hold (struct fp_range_lock *o, uint64_t i, uint64_t in,
                    uint64_t length)
{
  uint64_t skew = i * FP_RANGE_LOCK_SKEW;
  uint64_t first = skew + (in >> FP_RANGE_LOCK_SHIFT);
  uint64_t end = skew + ((in + length - 1) >> FP_RANGE_LOCK_SHIFT) + 1;

  for (uint64_t u = first; u < end; u++) {
    /* Set this before the second try: a holder that lets go later sees it. */
    if (atomic_exchange (&o->held[u % FP_RANGE_LOCK_UNITS], 1) == 0)
      continue;
    atomic_store (&o->waits, true);
    if (atomic_exchange (&o->held[u % FP_RANGE_LOCK_UNITS], 1) == 0)
      continue;
    fp_range_lock_release (o, first, u);
    return false;
  }
  return true;
}

/* Unlock the range.  Return true if a refused caller may be waiting for it. */
static inline bool
fp_range_lock_let_go (struct fp_range_lock *o, uint64_t i, uint64_t in,
                      uint64_t length)
{
  uint64_t skew = i * FP_RANGE_LOCK_SKEW;

  fp_range_lock_release (o, skew + (in >> FP_RANGE_LOCK_SHIFT),
                         skew + ((in + length - 1) >> FP_RANGE_LOCK_SHIFT) +
                             1);
  /* Read this after the releasing stores: all are sequentially consistent. */
  return atomic_load (&o->waits) && atomic_exchange (&o->waits, false);
}

#endif /* FP_RANGE_LOCK_H */
