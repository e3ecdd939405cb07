/* SPDX-License-Identifier: BSD-3-Clause */
/* hist.h - how long things took, in fixed memory.
 *
 * A bucket for each value below 16; above that 16 buckets of equal width for
 * each power of two, so that what comes out is at most 1/16 off, usually half
 * of that:
 *
 *   0 1 .. 15 | 16 17 .. 31 | 32 34 .. 62 | 64 68 .. 124 | ... 2^64 - 1
 *
 * Units:    the caller's, nanoseconds as a rule.
 * Errors:   none.
 * Threads:  fp_hist_add wants one writer at a time, fp_hist_add_shared takes
 *           any number; do not mix them on one histogram.  Readers need no
 *           lock, and may see an add half done (its bucket, not yet its sum).
 * Memory:   8 KiB each; no allocation ever.
 */

#ifndef FP_HIST_H
#define FP_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#define FP_HIST_BUCKETS 976

/* All zero: empty.  Nobody else looks inside. */
struct fp_hist {
  _Atomic uint64_t sum;
  _Atomic uint64_t max;
  _Atomic uint64_t buckets[FP_HIST_BUCKETS];
};

struct fp_hist_summary {
  uint64_t count; /* 0: the others are 0 too */
  uint64_t mean;
  uint64_t p50, p99, p999;
  uint64_t max; /* exact */
};

void fp_hist_add (struct fp_hist *h, uint64_t value);
void fp_hist_add_shared (struct fp_hist *h, uint64_t value);

/* Add all of src to dst, which has no writer meanwhile. */
void fp_hist_merge (struct fp_hist *dst, const struct fp_hist *src);

void fp_hist_summary (const struct fp_hist *h, struct fp_hist_summary *out);

/* How many were less than value, which is where a bucket begins: a power of
 * two from 16 on, or such a one and a half.  UINT64_MAX: all.
 */
uint64_t fp_hist_below (const struct fp_hist *h, uint64_t value);
uint64_t fp_hist_sum (const struct fp_hist *h);

#endif /* FP_HIST_H */
