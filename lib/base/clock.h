/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h - monotonic time, and deadlines as points of it.
 *
 * Units:    nanoseconds unless a name says ms.
 * Errors:   none.
 * Threads:  any.  No system call (vDSO), no allocation.
 */

#ifndef FP_CLOCK_H
#define FP_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define FP_NS_PER_MS 1000000ull
#define FP_NS_PER_S 1000000000ull

/* CLOCK_MONOTONIC. */
uint64_t fp_now_ns (void);

/* The same clock as of the last tick: up to some 10 ms ago, and a tenth of the
 * price.
 */
uint64_t fp_now_coarse_ns (void);

/* A deadline so many milliseconds from now. */
uint64_t fp_deadline_in_ms (unsigned ms);

bool fp_deadline_passed (uint64_t deadline_ns);

/* For poll(2): milliseconds left, rounded up so that a wait of it ends after
 * the deadline and not before; 0 once it has passed; never negative.
 */
int fp_deadline_left_ms (uint64_t deadline_ns);

#endif /* FP_CLOCK_H */
