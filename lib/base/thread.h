/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.h - a named thread with a small stack that handles no signals.
 *
 * A stack is 256 KiB (64 for the work, the rest for thread-local storage of
 * the libraries) and a guard page below it: with locked memory, the 8 MiB that
 * pthreads gives would be paid for.
 *
 * A thread runs as the process's first one does, which has real-time priority
 * where this serves swap: I/O waits for what it does, or for a lock that it
 * holds.  One for which no I/O ever waits steps aside, and has SCHED_BATCH:
 * so it says to all the world (chrt -p, and who gives real-time priority to a
 * process that runs) that it is to have none.
 *
 * Errors:   -errno of pthread_create(3), pthread_join(3).
 * Threads:  one thread owns the struct.
 * Memory:   the struct is the caller's, and stays until the join.
 */

#ifndef FP_THREAD_H
#define FP_THREAD_H

#include <pthread.h>

#define FP_THREAD_NAME_MAX 15 /* the kernel's limit, without the NUL */

struct fp_thread {
  pthread_t id;
  char name[FP_THREAD_NAME_MAX + 1];
  void (*run) (void *arg);
  void *arg;
};

/* A longer name is cut.  All signals but SIGBUS are blocked in the new thread
 * (transport/mapped.h).
 */
int fp_thread_create (struct fp_thread *t, const char *name,
                      void (*run) (void *arg), void *arg);
/* For code of others that may want more stack than ours does. */
int fp_thread_create_large (struct fp_thread *t, const char *name,
                            void (*run) (void *arg), void *arg);

int fp_thread_join (struct fp_thread *t);

/* From now on the stack of each new thread is in memory when it starts, so
 * that none of its pages is asked for when there is no memory: all that our
 * code uses of it.  Once, before there are any.
 */
void fp_thread_fill_stacks (void);
/* The calling thread's, which another library made; if that was asked for. */
void fp_thread_fill_stack (void);

/* For the calling thread: no I/O ever waits for it.  It takes part in nothing
 * that holds a lock of the I/O path for longer than it takes to copy what is
 * under it.  A thread that it creates does not inherit this.
 */
void fp_thread_step_aside (void);

#endif /* FP_THREAD_H */
