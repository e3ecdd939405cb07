/* SPDX-License-Identifier: BSD-3-Clause */
/* placement.h - choose a donor for an extent: the better of two that are
 * picked at random.  This is from Mitzenmacher, "The power of two choices in
 * randomized load balancing", IEEE TPDS 2001; for slabs, from Infiniswap,
 * NSDI '17.  If all clients asked the emptiest donor instead, they would all
 * ask it at once.
 *
 * Pure functions of their arguments: no errors but 'none', any thread, no
 * allocation.
 */

#ifndef FP_PLACEMENT_H
#define FP_PLACEMENT_H

#include <stdint.h>

/* Return a donor with free > 0, or -1.  free[i] is the number of slabs that
 * donor i can lend, 0 if it cannot be used.  random is 64 random bits.
 */
int fp_placement_choose (const uint64_t *free, unsigned nr, uint64_t random);

/* Leave in free only the donors with the fewest extents of one stripe group
 * (stripe.h).  has[i] is how many of them donor i has.
 */
void fp_placement_spread (uint64_t *free, const unsigned *has, unsigned nr);

#endif /* FP_PLACEMENT_H */
