/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <limits.h>

#include "place/placement.h"

/* Return the n-th donor that can lend, from 0; or -1. */
static int
nth (const uint64_t *free, unsigned nr, unsigned n)
{
  for (unsigned i = 0; i < nr; i++) {
    if (free[i] > 0 && n-- == 0)
      return (int) i;
  }
  return -1;
}

int
fp_placement_choose (const uint64_t *free, unsigned nr, uint64_t random)
{
  unsigned usable = 0;
  int a, b;

  for (unsigned i = 0; i < nr; i++)
    usable += free[i] > 0;
  if (usable == 0)
    return -1;
  a = nth (free, nr, (unsigned) ((random & UINT32_MAX) % usable));
  if (usable == 1)
    return a;
  /* Pick a different donor. */
  b = nth (free, nr, (unsigned) ((random >> 32) % (usable - 1)));
  if (b >= a)
    b = nth (free, nr, (unsigned) ((random >> 32) % (usable - 1)) + 1);
  return free[b] > free[a] ? b : a;
}

void
fp_placement_spread (uint64_t *free, const unsigned *has, unsigned nr)
{
  unsigned least = UINT_MAX;

  for (unsigned i = 0; i < nr; i++)
    if (free[i] > 0 && has[i] < least)
      least = has[i];
  for (unsigned i = 0; i < nr; i++)
    if (has[i] > least)
      free[i] = 0;
}
