/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h - time, and deadlines as points in time.
 *
 * A deadline counts only time in which this process ran.  After a SIGSTOP, a
 * frozen cgroup or a pause of the whole guest, no peer is silent merely
 * because this process did not listen.  So fp_now_ns is CLOCK_MONOTONIC minus
 * the time in which this process did not run.  The thread fp-clock reads the
 * clock every 100 ms.  If a gap between two reads is longer than 500 ms, it
 * counts as 500 ms.  Without that thread fp_now_ns is CLOCK_MONOTONIC.
 *
 * A lease runs while its holder is stopped.  Leases use the other clocks.
 *
 * Units:    nanoseconds unless a name says ms.
 * Errors:   none, except from fp_clock_start.
 * Threads:  any.  No allocation.  Reading a clock takes no system call (vDSO).
 */

#ifndef FP_CLOCK_H
#define FP_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define FP_NS_PER_MS 1000000ull
#define FP_NS_PER_S 1000000000ull
#define FP_NEVER UINT64_MAX /* as a deadline: none */

/* Start the thread; stop it when its last user calls fp_clock_stop.  The child
 * of a fork has no such thread, and there fp_now_ns is CLOCK_MONOTONIC again.
 * Return 0, or -errno of pthread_create(3).
 */
int fp_clock_start (void);
void fp_clock_stop (void);

/* Return the time in which this process ran. */
uint64_t fp_now_ns (void);

/* Return CLOCK_MONOTONIC, which stops only while the host is suspended. */
uint64_t fp_mono_ns (void);
/* Return CLOCK_MONOTONIC as of the last tick, up to some 10 ms ago, at a tenth
 * of the cost.
 */
uint64_t fp_mono_coarse_ns (void);
/* Return CLOCK_BOOTTIME, which never stops. */
uint64_t fp_boot_ns (void);

/* Return the deadline that is ms milliseconds from now, by fp_now_ns. */
uint64_t fp_deadline_in_ms (unsigned ms);

bool fp_deadline_passed (uint64_t deadline_ns);

/* Return the milliseconds left, for poll(2).  They are rounded up, so that a
 * wait ends no earlier than the deadline.  Return 0 once it has passed.
 */
int fp_deadline_left_ms (uint64_t deadline_ns);

#endif /* FP_CLOCK_H */
