/* SPDX-License-Identifier: BSD-3-Clause */
/* census.h - what is counted only when somebody asks: for metrics.
 *
 * Threads:  any.
 * Memory:   does not allocate.  Takes the lock of each lane for as long as it
 *           takes to count its transfers, of which there are no more than it
 *           has slots.
 */

#ifndef FP_CENSUS_H
#define FP_CENSUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hist.h"
#include "extent/extent.h"
#include "volume/volume.h"

struct fp_census {
  uint64_t extents[FP_EXTENT_LOST + 1]; /* copies in each fp_extent_state */
  bool moving;                          /* one of them to another server */
  uint64_t inflight[FP_MAX_SERVERS];    /* transfers */
  struct fp_hist read_ns, write_ns;
};

/* 17 KiB: not on a small stack. */
void fp_volume_census (struct fp_volume *v, struct fp_census *out);

#endif /* FP_CENSUS_H */
