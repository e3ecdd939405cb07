/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_bench.h - two queue pairs of this process, connected over an RDMA
 * device of this machine, to measure what the device does by itself: READ,
 * WRITE and compare-and-swap (one-sided), or the same by SEND and RECV with a
 * thread at the far end that answers (two-sided).
 *
 * Requests are numbered by slots; each slot has max_size bytes of memory and
 * one request at a time.
 *
 * Units:    bytes.
 * Errors:   0 or a negative errno value.  -ENODEV: no RDMA device has addr.
 *           -EOPNOTSUPP: it has no atomics.
 * Threads:  one, but for the far end's own.
 * Memory:   only new allocates.
 */

#ifndef FP_VERBS_BENCH_H
#define FP_VERBS_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"

struct fp_verbs_bench;

enum fp_verbs_bench_op {
  FP_VERBS_BENCH_READ,
  FP_VERBS_BENCH_WRITE,
  FP_VERBS_BENCH_CAS, /* one-sided only; 8 bytes */
};

struct fp_verbs_bench_params {
  const struct fp_addr *addr; /* of the device */
  bool two_sided;
  uint64_t region; /* memory at the far end */
  uint32_t max_size;
  unsigned slots;
};

int fp_verbs_bench_new (struct fp_verbs_bench **out,
                        const struct fp_verbs_bench_params *p);
void fp_verbs_bench_free (struct fp_verbs_bench *b);

int fp_verbs_bench_post (struct fp_verbs_bench *b, enum fp_verbs_bench_op op,
                         unsigned slot, uint32_t size, uint64_t offset);

/* Slots whose requests completed, max of them at most: how many; 0 sometimes.
 * Both ends wait as the transport does: they poll, the far end for a while
 * only, or sleep at once if this host's processors do the device's work, which
 * who polls would keep from them.
 */
int fp_verbs_bench_wait (struct fp_verbs_bench *b, unsigned *slots,
                         unsigned max);

/* Processor time of the far end's thread; 0 if it has none. */
int fp_verbs_bench_far_ns (struct fp_verbs_bench *b, uint64_t *ns);

#endif /* FP_VERBS_BENCH_H */
