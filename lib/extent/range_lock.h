/* SPDX-License-Identifier: BSD-3-Clause */
/* range_lock.h - two writes that overlap are not in flight at the same time,
 * where each goes to several copies: these would take them in different
 * orders.
 *
 * Units of 4 KiB are held in a table that those of the whole volume share; so
 * now and then two wait for each other that do not overlap.  The extents are
 * skewed, so that the units of one row of stripes do not.
 *
 * Threads:  any.  Nothing blocks: who gets no place comes again, and is woken
 *           when one who was asked lets go.
 * Memory:   only the table itself, which is made by who embeds it.
 */

#ifndef FP_RANGE_LOCK_H
#define FP_RANGE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FP_RANGE_LOCK_SHIFT 12
#define FP_RANGE_LOCK_UNITS 16384u
#define FP_RANGE_LOCK_SKEW 2503u
/* At most this at a time, so that nobody holds all of it. */
#define FP_RANGE_LOCK_MAX (1u << 20)

struct fp_range_lock {
  _Atomic uint8_t held[FP_RANGE_LOCK_UNITS];
  _Atomic bool waits; /* somebody was refused */
};

static inline void
fp_range_lock_release (struct fp_range_lock *o, uint64_t first, uint64_t end)
{
  for (uint64_t u = first; u < end; u++)
    atomic_store (&o->held[u % FP_RANGE_LOCK_UNITS], 0);
}

/* Of extent i, [in, in + length), length > 0 and FP_RANGE_LOCK_MAX at most. */
static inline bool
fp_range_lock_hold (struct fp_range_lock *o, uint64_t i, uint64_t in,
                    uint64_t length)
{
  uint64_t skew = i * FP_RANGE_LOCK_SKEW;
  uint64_t first = skew + (in >> FP_RANGE_LOCK_SHIFT);
  uint64_t end = skew + ((in + length - 1) >> FP_RANGE_LOCK_SHIFT) + 1;

  for (uint64_t u = first; u < end; u++) {
    /* Before the look, so that who lets go after it sees this. */
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

/* Returns true if somebody may be waiting for that. */
static inline bool
fp_range_lock_let_go (struct fp_range_lock *o, uint64_t i, uint64_t in,
                      uint64_t length)
{
  uint64_t skew = i * FP_RANGE_LOCK_SKEW;

  fp_range_lock_release (o, skew + (in >> FP_RANGE_LOCK_SHIFT),
                         skew + ((in + length - 1) >> FP_RANGE_LOCK_SHIFT) +
                             1);
  /* After the stores, in the one order that all see. */
  return atomic_load (&o->waits) && atomic_exchange (&o->waits, false);
}

#endif /* FP_RANGE_LOCK_H */
