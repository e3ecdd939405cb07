/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_bench.h - measure an RDMA device of this machine by itself, with two
 * connected queue pairs of this process.
 *
 * One-sided: READ, WRITE and compare-and-swap.  Two-sided: READ and WRITE by
 * means of SEND and RECV, with a thread at the far end that replies.
 *
 * Requests are numbered by slots.  Each slot has max_size bytes of memory and
 * at most one request at a time.
 *
 * Units:    bytes.
 * Errors:   0 or a negative errno value.  -ENODEV: no RDMA device has addr.
 *           -EOPNOTSUPP: the device has no atomics.
 * Threads:  one, besides the far end's own.
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
  const struct fp_addr *addr; /* the device's */
  bool two_sided;
  uint64_t region; /* bytes of memory at the far end */
  uint32_t max_size;
  unsigned slots;
};

int fp_verbs_bench_new (struct fp_verbs_bench **out,
                        const struct fp_verbs_bench_params *p);
void fp_verbs_bench_free (struct fp_verbs_bench *b);

int fp_verbs_bench_post (struct fp_verbs_bench *b, enum fp_verbs_bench_op op,
                         unsigned slot, uint32_t size, uint64_t offset);

/* Store the slots of at most max completed requests.  Return their number,
 * which may be 0.  Both ends wait as the transport does: they poll, the far
 * end for a limited time.  If this host's CPUs do the device's work, they
 * sleep at once, because polling would take those CPUs.
 */
int fp_verbs_bench_wait (struct fp_verbs_bench *b, unsigned *slots,
                         unsigned max);

/* Get the CPU time of the far end's thread; 0 if it has none. */
int fp_verbs_bench_far_ns (struct fp_verbs_bench *b, uint64_t *ns);

#endif /* FP_VERBS_BENCH_H */
