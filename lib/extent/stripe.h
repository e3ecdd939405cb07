/* SPDX-License-Identifier: BSD-3-Clause */
/* stripe.h - where the bytes of a volume are in its extents.
 *
 * Consecutive extents form a group.  Consecutive units of the volume go to the
 * extents of a group in turn, so that a sequential reader keeps several
 * servers busy.  Here the width is 3, and an extent has 4 units:
 *
 *       extent 0   extent 1   extent 2 |  extent 3   extent 4
 *     0  3  6  9  1  4  7 10  2  5  8 11  12 14 16 18  13 15 17 19
 *
 * The last group has the extents that are left.  They are filled to about
 * equal length, so several may end before their memory does
 * (fp_extent_length).  With a width of 1, an extent is one run of consecutive
 * bytes.
 *
 * Only the code that cuts requests knows about stripes.  Below it, code uses
 * linear addresses: extent << shift | offset in the extent.
 *
 * All are pure functions of what fp_extents_new was given.  They have no
 * errors, because offsets are inside the volume.  Any thread, no allocation.
 */

#ifndef FP_STRIPE_H
#define FP_STRIPE_H

#include "base/checked.h"
#include "extent/extent.h"

/* Return the first extent of the group of extent i.  Set *width to the number
 * of extents in the group.
 */
static inline uint64_t
fp_stripe_group (const struct fp_extents *t, uint64_t i, uint32_t *width)
{
  uint32_t first = (uint32_t) i - (uint32_t) i % t->width;

  *width = (uint32_t) FP_MIN (t->nr - first, (uint64_t) t->width);
  return first;
}

/* Return the linear address of a byte of the volume.  From there, *run bytes
 * are consecutive in the volume and in the extent, unless the volume ends
 * first.
 */
static inline uint64_t
fp_stripe_at (const struct fp_extents *t, uint64_t offset, uint64_t *run)
{
  uint64_t first, in, unit = UINT64_C (1) << t->unit_shift;
  uint32_t width, n;

  if (t->width == 1) {
    *run = t->extent_size - (offset & (t->extent_size - 1));
    return offset;
  }
  first = fp_stripe_group (t, offset >> t->shift, &width);
  /* FP_STRIPE_ROWS_MAX ensures that the number of a unit fits 32 bits. */
  n = (uint32_t) ((offset - (first << t->shift)) >> t->unit_shift);
  in = offset & (unit - 1);
  *run = unit - in;
  return ((first + n % width) << t->shift) +
         ((uint64_t) (n / width) << t->unit_shift) + in;
}

/* Return the volume offset of byte `in` of extent i, which must be part of the
 * volume.
 */
static inline uint64_t
fp_stripe_offset (const struct fp_extents *t, uint64_t i, uint64_t in)
{
  uint32_t width;
  uint64_t first = fp_stripe_group (t, i, &width), unit = in >> t->unit_shift;

  if (t->width == 1)
    return (i << t->shift) + in;
  return (first << t->shift) +
         ((unit * width + (i - first)) << t->unit_shift) +
         (in & ((UINT64_C (1) << t->unit_shift) - 1));
}

/* Return how many bytes of extent i belong to the volume. */
static inline uint64_t
fp_extent_length (const struct fp_extents *t, uint64_t i)
{
  uint64_t first, rest, units;
  uint32_t width, k;

  if (t->size - (i << t->shift) >= t->width * t->extent_size)
    return t->extent_size; /* not in the last group */
  first = fp_stripe_group (t, i, &width);
  rest = t->size - (first << t->shift);
  units = rest >> t->unit_shift;
  k = (uint32_t) (i - first);
  if (rest >= width * t->extent_size)
    return t->extent_size;
  return ((units / width + (k < units % width)) << t->unit_shift) +
         (k == units % width ? rest & ((UINT64_C (1) << t->unit_shift) - 1)
                             : 0);
}

/* Set [*in, *in + *n) to the part of extent i that lies in [offset, offset +
 * length) of the volume, always one run.  Return false if there is none.
 */
static inline bool
fp_stripe_part (const struct fp_extents *t, uint64_t i, uint64_t offset,
                uint64_t length, uint64_t *in, uint64_t *n)
{
  uint32_t width;
  uint64_t first = fp_stripe_group (t, i, &width), k = i - first;
  uint64_t begin = first << t->shift, end = begin + width * t->extent_size;
  uint64_t unit = UINT64_C (1) << t->unit_shift, a, b, last, to;

  if (offset >= end || offset + length <= begin)
    return false;
  end = FP_MIN (end, offset + length) - begin;
  begin = offset > begin ? offset - begin : 0;
  /* First and last unit of the range in extent i. */
  a = begin >> t->unit_shift;
  a += (k + width - a % width) % width;
  last = (end - 1) >> t->unit_shift;
  b = last - (last % width + width - k) % width;
  if (a > last || a > b)
    return false;
  *in = (a / width) << t->unit_shift;
  if (a == begin >> t->unit_shift)
    *in += begin & (unit - 1);
  to = (b / width) << t->unit_shift;
  to += b == last ? ((end - 1) & (unit - 1)) + 1 : unit;
  *n = to - *in;
  return true;
}

#endif /* FP_STRIPE_H */
