/* SPDX-License-Identifier: BSD-3-Clause */
/* hist.h - a histogram of durations in fixed memory.
 *
 * Each value below 16 has a bucket.  Above that, each power of two has 16
 * buckets of equal width, so that a quantile is at most 1/32 off:
 *
 *   0 1 .. 15 | 16 17 .. 31 | 32 34 .. 62 | 64 68 .. 124 | ... 2^64 - 1
 *
 * Units:    the caller's, usually nanoseconds.
 * Errors:   none.
 * Threads:  fp_hist_add needs one writer at a time, fp_hist_add_shared allows
 *           any number.  Never mix the two on one histogram.  Readers need no
 *           lock, but may see half an add (the bucket without the sum).
 * Memory:   8 KiB per histogram, no allocation.
 */

#ifndef FP_HIST_H
#define FP_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#define FP_HIST_BUCKETS 976

/* A histogram.  All zero is empty.  Only the functions below may access the
 * fields.
 */
struct fp_hist {
  _Atomic uint64_t sum;
  _Atomic uint64_t max;
  _Atomic uint64_t buckets[FP_HIST_BUCKETS];
};

struct fp_hist_summary {
  uint64_t count; /* if 0, the others are 0 too */
  uint64_t mean;
  uint64_t p50, p99, p999;
  uint64_t max; /* exact */
};

void fp_hist_add (struct fp_hist *h, uint64_t value);
void fp_hist_add_shared (struct fp_hist *h, uint64_t value);

/* Add all of src to dst.  dst must have no other writer meanwhile. */
void fp_hist_merge (struct fp_hist *dst, const struct fp_hist *src);

void fp_hist_summary (const struct fp_hist *h, struct fp_hist_summary *out);

/* Return the number of values below value, which must be the start of a
 * bucket: 2^n or 1.5 * 2^n, at least 16.  UINT64_MAX counts all values.
 */
uint64_t fp_hist_below (const struct fp_hist *h, uint64_t value);
uint64_t fp_hist_sum (const struct fp_hist *h);

#endif /* FP_HIST_H */
