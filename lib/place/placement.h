/* SPDX-License-Identifier: BSD-3-Clause */
/* placement.h - which server an extent goes to: the better of two that are
 * picked at random (Mitzenmacher, "The power of two choices in randomized
 * load balancing", IEEE TPDS 2001; Infiniswap, NSDI '17, for slabs).  Asking
 * the emptiest of all instead would send every client there at once.
 *
 * A pure function of its arguments: no errors but 'none', any thread, no
 * allocation.
 */

#ifndef FP_PLACEMENT_H
#define FP_PLACEMENT_H

#include <stdint.h>

/* free[i] is how many slabs server i can lend, 0 if it cannot be used.
 * random is 64 random bits.  Returns a server with free > 0, or -1.
 */
int fp_place (const uint64_t *free, unsigned nr, uint64_t random);

/* For an extent that others go with (stripe.h), of which server i has has[i]:
 * only the servers with the fewest of them are left in free.
 */
void fp_place_apart (uint64_t *free, const unsigned *has, unsigned nr);

#endif /* FP_PLACEMENT_H */
