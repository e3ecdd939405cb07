/* SPDX-License-Identifier: BSD-3-Clause */
/* census.h - counts that are taken only on request, for metrics.
 *
 * Threads:  any.
 * Memory:   does not allocate.  Takes the lock of each lane while it counts
 *           the lane's transfers, at most one for each slot.
 */

#ifndef FP_CENSUS_H
#define FP_CENSUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hist.h"
#include "extent/extent.h"
#include "volume/volume.h"

struct fp_census {
  uint64_t extents[FP_EXTENT_LOST + 1]; /* entries in each fp_extent_state */
  bool moving; /* an entry is being moved to another server */
  uint64_t inflight[FP_MAX_SERVERS]; /* transfers to each server */
  struct fp_hist read_ns, write_ns;
};

/* Fill in *out, which has 17 KiB: do not put it on a small stack. */
void fp_volume_census (struct fp_volume *v, struct fp_census *out);

#endif /* FP_CENSUS_H */
