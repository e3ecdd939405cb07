/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.h - choose donors for a volume out of all that a registry has.
 *
 * They are spread over failure domains: each further donor comes from a domain
 * that the volume uses least so far.  Among these donors fp_placement_choose
 * takes the better of two that are drawn.  The figures in a registry are some
 * seconds old, and many clients choose by the same figures.  They must not all
 * take the emptiest donor.
 *
 * Units:    bytes.
 * Errors:   0 or -errno.
 * Threads:  no shared state.
 */

#ifndef FP_CHOOSE_H
#define FP_CHOOSE_H

#include "pool/registry.h"

struct fp_choose_rules {
  unsigned n;    /* maximum number of donors */
  uint64_t room; /* bytes that each donor must have free */
  /* Return true if the volume has d; NULL: it has none. */
  bool (*has) (void *arg, const struct fp_donor *d);
  /* Return 64 random bits; NULL: use fp_random. */
  uint64_t (*draw) (void *arg);
  void *arg;
};

/* Put the indices of donors of r into out, and return how many.  Skip donors
 * that are pressed, draining, cordoned, full, or the volume's already.  All
 * have slabs of the size of the volume's donors.  If it has none, take the
 * slab size with the most suitable donors, counted up to n.  If sizes tie,
 * take the one with the most memory.  -ENOMEM.
 */
int fp_choose_donors (const struct fp_registry *r,
                      const struct fp_choose_rules *rules, size_t *out);

#endif /* FP_CHOOSE_H */
