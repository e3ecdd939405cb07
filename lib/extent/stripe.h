/* SPDX-License-Identifier: BSD-3-Clause */
/* stripe.h - where the bytes of a volume are in its extents.
 *
 * So that one who reads from end to end has several servers at work, extents
 * that follow each other are a group, and consecutive units of the volume go
 * to its extents in turn (here a width of 3, and 4 units in an extent):
 *
 *       extent 0   extent 1   extent 2 |  extent 3   extent 4
 *     0  3  6  9  1  4  7 10  2  5  8 11  12 14 16 18  13 15 17 19
 *
 * The last group has what is left of extents.  They are all used to about the
 * same length, so more than one of them may end before its memory does:
 * fp_extent_length.  With a width of 1 an extent is so many consecutive bytes.
 *
 * Below the cutting of a request nothing knows of this: it goes by linear
 * addresses, extent << shift | offset in the extent.
 *
 * Pure functions of what fp_extents_new was given.  No errors: offsets are
 * inside the volume.  Any thread, no allocation.
 */

#ifndef FP_STRIPE_H
#define FP_STRIPE_H

#include "base/checked.h"
#include "extent/extent.h"

/* The first extent of the group of extent i, and how many it has. */
static inline uint64_t
fp_stripe_group (const struct fp_extents *t, uint64_t i, uint32_t *width)
{
  uint32_t first = (uint32_t) i - (uint32_t) i % t->width;

  *width = (uint32_t) FP_MIN (t->nr - first, (uint64_t) t->width);
  return first;
}

/* The linear address of a byte of the volume; from there on *run bytes are
 * consecutive here and there, if the volume has them.
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
  /* FP_STRIPE_ROWS_MAX is for this: the number of a unit has 32 bits. */
  n = (uint32_t) ((offset - (first << t->shift)) >> t->unit_shift);
  in = offset & (unit - 1);
  *run = unit - in;
  return ((first + n % width) << t->shift) +
         ((uint64_t) (n / width) << t->unit_shift) + in;
}

/* Where in the volume byte `in` of extent i is, if it is the volume's. */
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

/* So much of extent i is the volume's. */
static inline uint64_t
fp_extent_length (const struct fp_extents *t, uint64_t i)
{
  uint64_t first, rest, units;
  uint32_t width, k;

  if (t->size - (i << t->shift) >= t->width * t->extent_size)
    return t->extent_size; /* its group is not the last */
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

/* What extent i has of [offset, offset + length), which is in the volume: one
 * run, [*in, *in + *n) of the extent.  False: nothing.
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
  /* Its first unit, and its last one. */
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
