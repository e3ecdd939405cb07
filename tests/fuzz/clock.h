/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h - time that passes when a fuzzer says so, for what reads it by
 * lib/base/clock.h: no deadline is waited for, and each input gives the same.
 */

#ifndef FUZZ_CLOCK_H
#define FUZZ_CLOCK_H

#include <stdint.h>

extern uint64_t fuzz_now_ns;

#endif /* FUZZ_CLOCK_H */
