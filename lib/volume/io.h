/* SPDX-License-Identifier: BSD-3-Clause */
/* io.h - the requests of front ends: checked, counted, and given to the top
 * layer (block.h).
 *
 * A memcpy to mapped memory takes about as long as reading the clock twice.
 * So one request in eight is timed, and every request for which the top layer
 * reads the clock.  (The engine does unless the memory is mapped and the
 * volume has one copy.)  If a thread waits, the time ends when it runs again.
 *
 * Units:    bytes, ns and numbers.
 * Threads:  any.
 * Memory:   only fp_io_new and fp_io_status allocate.
 */

#ifndef FP_IO_H
#define FP_IO_H

#include <stdatomic.h>

#include "base/hist.h"
#include "volume/volume.h"

/* The counts of one lane.  A request that is over is counted in one of the
 * first six.  Requests of length 0, and those that io.c refuses, are not
 * counted.
 */
struct fp_io_counts {
  _Atomic uint64_t reads, writes, zeros, trims, flushes, errors;
  _Atomic uint64_t bytes_read, bytes_written;
  struct fp_hist read_ns, write_ns;
};

/* Create the counts of all lanes, in resident memory. */
int fp_io_new (struct fp_volume *v);
void fp_io_free (struct fp_volume *v);

/* Fill in the counts and latencies of all lanes.  If memory is short, leave
 * out the latencies.
 */
void fp_io_status (struct fp_volume *v, struct fp_volume_status *s);
/* Add the latencies of all lanes to reads and writes. */
void fp_io_latencies (struct fp_volume *v, struct fp_hist *reads,
                      struct fp_hist *writes);

#endif /* FP_IO_H */
