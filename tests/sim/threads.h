/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.h - calls of a test to the scheduler in threads.c.
 *
 * A thread belongs to a host, and a thread that it creates to the same one.  A
 * host stands for a process of its own.  The first thread is on host 0.
 */

#ifndef SIM_THREADS_H
#define SIM_THREADS_H

#include <stdint.h>

#define SIM_HOSTS 4096u

/* Stop the process for ms, as SIGSTOP does: the clock goes on, no thread runs.
 */
void sim_stop_ms (unsigned ms);

/* Return how often a wait of the calling thread ended because its time was
 * over.
 */
unsigned long sim_timeouts (void);

/* Begin again with another seed than FARPAGE_TEST_SEED. */
void sim_seed (unsigned long seed);
/* Return a number below n, drawn from the seed. */
unsigned sim_dice (unsigned n);

/* Return the virtual time, without a turn. */
uint64_t sim_now_ns (void);

/* Call run (arg) at at_ns, or as soon as a thread gives up its turn after
 * that.  Calls for the same time run in the order in which they were asked
 * for.  run may use descriptors and ask for more calls, but may not wait, lock
 * or read the clock.
 */
void sim_at (uint64_t at_ns, void (*run) (void *arg), void *arg);

/* Return the number of a new host.  Abort if there are SIM_HOSTS. */
unsigned sim_host_new (void);
/* Move the calling thread to this host. */
void sim_host_enter (unsigned host);
unsigned sim_host (void);
/* Give the threads of a host no turn, as SIGSTOP does, until continue.  Locks
 * with static storage are shared by all hosts here.  So a thread that has one
 * goes on until it has none.
 */
void sim_host_stop (unsigned host);
/* Stop a host as if its machine were suspended: its fp_mono_ns stands still.
 */
void sim_host_suspend (unsigned host);
void sim_host_continue (unsigned host);
/* Give its threads no turn any more.  Their memory stays. */
void sim_host_kill (unsigned host);
/* Return how long the host was stopped in all, in ns, without the first
 * SIM_GAP_NS of each stop.  Those count as time in which it ran, as in
 * base/clock.c.
 */
#define SIM_GAP_NS UINT64_C (500000000)
uint64_t sim_host_stopped_ns (unsigned host);
/* Return how long the host was suspended in all, in ns, up to the last
 * continue.
 */
uint64_t sim_host_suspended_ns (unsigned host);

#endif /* SIM_THREADS_H */
