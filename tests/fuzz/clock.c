/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.c - see clock.h.  Linked with --wrap for each of these (Makefile.am).
 * lib/base/clock.c itself calls the kernel, and libFuzzer needs that, too.
 */

#include <config.h>

#include <limits.h>

#include "base/checked.h"
#include "base/clock.h"
#include "clock.h"

uint64_t __wrap_fp_now_ns (void);
uint64_t __wrap_fp_deadline_in_ms (unsigned ms);
bool __wrap_fp_deadline_passed (uint64_t deadline_ns);
int __wrap_fp_deadline_left_ms (uint64_t deadline_ns);

uint64_t fuzz_now_ns = FP_NS_PER_S;

uint64_t
__wrap_fp_now_ns (void)
{
  return fuzz_now_ns;
}

uint64_t
__wrap_fp_deadline_in_ms (unsigned ms)
{
  return fuzz_now_ns + ms * FP_NS_PER_MS;
}

bool
__wrap_fp_deadline_passed (uint64_t deadline_ns)
{
  return fuzz_now_ns >= deadline_ns;
}

int
__wrap_fp_deadline_left_ms (uint64_t deadline_ns)
{
  uint64_t left = deadline_ns > fuzz_now_ns ? deadline_ns - fuzz_now_ns : 0;

  return (int) FP_MIN (fp_div_round_up (left, FP_NS_PER_MS),
                       (uint64_t) INT_MAX);
}
