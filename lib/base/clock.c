/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.c - monotonic time and deadlines. */

#include <config.h>

#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"

static uint64_t
now (clockid_t clock)
{
  struct timespec ts;

  /* It cannot fail with these; a time of 0 would stop every deadline. */
  if (clock_gettime (clock, &ts) != 0)
    abort ();
  return (uint64_t) ts.tv_sec * FP_NS_PER_S + (uint64_t) ts.tv_nsec;
}

uint64_t
fp_now_ns (void)
{
  return now (CLOCK_MONOTONIC);
}

uint64_t
fp_now_coarse_ns (void)
{
  return now (CLOCK_MONOTONIC_COARSE);
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
  uint64_t now = fp_now_ns ();

  if (now >= deadline_ns)
    return 0;
  return (int) FP_MIN (fp_div_round_up (deadline_ns - now, FP_NS_PER_MS),
                       (uint64_t) INT_MAX);
}
