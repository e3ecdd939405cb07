/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.h - calls of a test to the scheduler in threads.c. */

#ifndef SIM_THREADS_H
#define SIM_THREADS_H

/* Stop the process for ms, as SIGSTOP does: the clock goes on, no thread runs.
 */
void sim_stop_ms (unsigned ms);

#endif /* SIM_THREADS_H */
