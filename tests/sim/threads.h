/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.h - calls of a test to the scheduler in threads.c. */

#ifndef SIM_THREADS_H
#define SIM_THREADS_H

/* Stop the process for ms, as SIGSTOP does: the clock goes on, no thread runs.
 */
void sim_stop_ms (unsigned ms);

/* Return how often a wait of the calling thread ended because its time was
 * over.
 */
unsigned long sim_timeouts (void);

#endif /* SIM_THREADS_H */
