/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.h - a named thread with a small stack that handles no signals.
 *
 * A stack is 128 KiB (64 for our code, the rest for thread-local storage of
 * the libraries) and a guard page below it.  If memory is locked, all of the 8
 * MiB that pthreads gives would be locked.
 *
 * A thread is scheduled like the first one of the process.  Where that serves
 * swap, it has real-time priority, because I/O waits for what the thread does,
 * or for a lock that it holds.  A thread for which no I/O ever waits steps
 * aside, to SCHED_BATCH.  This also tells others not to give it real-time
 * priority (chrt -p, or a tool that gives priority to a running process).
 *
 * Errors:   -errno of pthread_create(3), pthread_join(3).
 * Threads:  one thread owns the struct.
 * Memory:   the caller's struct, which must stay until the join.
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

/* Create a thread.  A longer name is cut.  All signals but SIGBUS are blocked
 * in the new thread (transport/local/mapped.h).
 */
int fp_thread_create (struct fp_thread *t, const char *name,
                      void (*run) (void *arg), void *arg);
/* Create a thread for library code that may need a larger stack than ours. */
int fp_thread_create_large (struct fp_thread *t, const char *name,
                            void (*run) (void *arg), void *arg);

int fp_thread_join (struct fp_thread *t);

/* Make new threads touch their stack when they start, as far as our code uses
 * it.  Then none of its pages is needed when there is no memory.  Call this
 * once, before there are threads.
 */
void fp_thread_fill_stacks (void);
/* Touch the stack of the calling thread, which another library created, if
 * fp_thread_fill_stacks was called.
 */
void fp_thread_fill_stack (void);

/* Declare that no I/O ever waits for the calling thread.  It must not hold a
 * lock of the I/O path for longer than it takes to copy the data under it.  A
 * thread that it creates does not inherit this.
 */
void fp_thread_step_aside (void);

#endif /* FP_THREAD_H */
