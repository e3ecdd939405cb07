/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.h - a named thread with a small stack, deaf to signals.
 *
 * A stack is 256 KiB (64 for the work, the rest for thread-local storage of
 * the libraries) and a guard page below it: with locked memory, the 8 MiB that
 * pthreads gives would be paid for.
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

/* A longer name is cut.  All signals are blocked in the new thread. */
int fp_thread_create (struct fp_thread *t, const char *name,
                      void (*run) (void *arg), void *arg);
/* For code of others that may want more stack than ours does. */
int fp_thread_create_large (struct fp_thread *t, const char *name,
                            void (*run) (void *arg), void *arg);

int fp_thread_join (struct fp_thread *t);

#endif /* FP_THREAD_H */
