/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h - time for code that reads it by lib/base/clock.h.  It passes only
 * when a fuzzer says so: no deadline takes time, and an input always gives the
 * same result.
 */

#ifndef FUZZ_CLOCK_H
#define FUZZ_CLOCK_H

#include <stdint.h>

extern uint64_t fuzz_now_ns;

#endif /* FUZZ_CLOCK_H */
