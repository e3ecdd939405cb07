/* SPDX-License-Identifier: BSD-3-Clause */
/* simulate.h - what the parts of a simulation tell it. */

#ifndef SIM_SIMULATE_H
#define SIM_SIMULATE_H

#include <stdint.h>

/* Add a line to the trace: the time and the host come first. */
void trace (const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 1, 2)));

/* Print what is wrong, the seed and the end of the trace, and end the program.
 */
_Noreturn void simulation_failed (const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 1, 2)));

/* Note that a request ended with r, 0 or -errno, and that its client still has
 * the volume.  In gentle mode an error, or a request that takes long, is a
 * failure of the run.
 */
void simulation_request_ended (const char *kind, uint64_t first, uint64_t nr,
                               int r, uint64_t began_ns);

#endif /* SIM_SIMULATE_H */
