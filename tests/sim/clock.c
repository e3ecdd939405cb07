/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.c - base/clock.h for a program with several hosts.  Each host has its
 * own clocks: fp_now_ns stands still while the host is stopped or suspended,
 * fp_mono_ns while it is suspended, fp_boot_ns never.  (The one of
 * base/clock.c belongs to the process, and so would be that of all hosts.)
 */

#include <config.h>

#include <limits.h>

#include "base/checked.h"
#include "base/clock.h"
#include "sim/threads.h"

/* Read the clock as threads.c has it: that costs time, and perhaps a turn. */
static uint64_t
now (clockid_t clock)
{
  struct timespec t;

  (void) clock_gettime (clock, &t);
  return (uint64_t) t.tv_sec * FP_NS_PER_S + (uint64_t) t.tv_nsec;
}

uint64_t
fp_now_ns (void)
{
  /* Reading the clock may give up the turn, and the host may be stopped then.
   * Both figures must be from before that.
   */
  uint64_t stopped = sim_host_stopped_ns (sim_host ());

  return fp_mono_ns () - stopped;
}

uint64_t
fp_mono_ns (void)
{
  uint64_t suspended = sim_host_suspended_ns (sim_host ());

  return now (CLOCK_MONOTONIC) - suspended;
}

uint64_t
fp_mono_coarse_ns (void)
{
  return fp_mono_ns ();
}

uint64_t
fp_boot_ns (void)
{
  return now (CLOCK_BOOTTIME);
}

int
fp_clock_start (void)
{
  return 0;
}

void
fp_clock_stop (void)
{
}

uint64_t
fp_deadline_in_ms (unsigned ms)
{
  return fp_now_ns () + ms * FP_NS_PER_MS;
}

bool
fp_deadline_passed (uint64_t deadline_ns)
{
  return fp_now_ns () >= deadline_ns;
}

int
fp_deadline_left_ms (uint64_t deadline_ns)
{
  uint64_t ns = fp_now_ns ();

  if (ns >= deadline_ns)
    return 0;
  return (int) FP_MIN (fp_div_round_up (deadline_ns - ns, FP_NS_PER_MS),
                       (uint64_t) INT_MAX);
}
