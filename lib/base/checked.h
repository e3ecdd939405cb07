/* SPDX-License-Identifier: BSD-3-Clause */
/* checked.h - arithmetic on sizes and offsets that may come from outside.
 *
 * Errors:   -EOVERFLOW, and *out is then unchanged.
 * Threads:  pure functions.
 */

#ifndef FP_CHECKED_H
#define FP_CHECKED_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

/* Each argument is evaluated only once. */
#define FP_MIN(a, b)                                                          \
  FP_PICK_ (a, <, b, FP_UNIQUE_NAME (_a), FP_UNIQUE_NAME (_b))
#define FP_MAX(a, b)                                                          \
  FP_PICK_ (a, >, b, FP_UNIQUE_NAME (_a), FP_UNIQUE_NAME (_b))
#define FP_PICK_(a, op, b, va, vb)                                            \
  ({                                                                          \
    __auto_type va = (a);                                                     \
    __auto_type vb = (b);                                                     \
    va op vb ? va : vb;                                                       \
  })

static inline int
fp_add_u64 (uint64_t a, uint64_t b, uint64_t *out)
{
  uint64_t sum;

  if (__builtin_add_overflow (a, b, &sum))
    return -EOVERFLOW;
  *out = sum;
  return 0;
}

static inline int
fp_mul_u64 (uint64_t a, uint64_t b, uint64_t *out)
{
  uint64_t product;

  if (__builtin_mul_overflow (a, b, &product))
    return -EOVERFLOW;
  *out = product;
  return 0;
}

/* Return true if [offset, offset + length) is inside [0, size).  An empty
 * range at size is inside.
 */
static inline bool
fp_range_ok (uint64_t offset, uint64_t length, uint64_t size)
{
  return offset <= size && length <= size - offset;
}

static inline bool
fp_is_power_of_2 (uint64_t v)
{
  return v != 0 && (v & (v - 1)) == 0;
}

/* Return the number of the highest set bit, floor (log2 (v)).  v must not be
 * 0.
 */
static inline unsigned
fp_log2 (uint64_t v)
{
  assert (v != 0);
  return 63 - (unsigned) __builtin_clzll (v);
}

/* Round v down to a multiple of align, which must be a power of two. */
static inline uint64_t
fp_round_down (uint64_t v, uint64_t align)
{
  assert (fp_is_power_of_2 (align));
  return v & ~(align - 1);
}

static inline int
fp_round_up (uint64_t v, uint64_t align, uint64_t *out)
{
  uint64_t sum;

  assert (fp_is_power_of_2 (align));
  if (__builtin_add_overflow (v, align - 1, &sum))
    return -EOVERFLOW;
  *out = sum & ~(align - 1);
  return 0;
}

/* Return the number of units that hold v.  It cannot overflow.  unit must not
 * be 0.
 */
static inline uint64_t
fp_div_round_up (uint64_t v, uint64_t unit)
{
  return v / unit + (v % unit != 0);
}

#endif /* FP_CHECKED_H */
