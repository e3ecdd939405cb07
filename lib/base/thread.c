/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.c - a named thread with a small stack that handles no signals. */

#include <config.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/thread.h"

/* If memory is locked, all of a stack counts, touched or not, and a client has
 * a thread for each of 64 servers.  A sanitizer's frames are several times
 * larger.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_SIZE (1024u << 10)
#define LARGE_STACK_SIZE STACK_SIZE
#else
#define STACK_SIZE (128u << 10)
#define LARGE_STACK_SIZE (512u << 10)
#endif
/* Bytes of a stack for our code.  The rest is for thread-local storage and for
 * libraries.
 */
#define STACK_USED (64u << 10)

void
fp_thread_step_aside (void)
{
  const struct sched_param none = { .sched_priority = 0 };

  /* Giving priority up is always allowed.  On Linux 0 is the calling thread,
   * and a nice value belongs to a thread.
   */
  (void) sched_setscheduler (0, SCHED_BATCH, &none);
  (void) setpriority (PRIO_PROCESS, 0, 0);
}

static bool fill_stacks;

void
fp_thread_fill_stacks (void)
{
  fill_stacks = true;
}

void
fp_thread_fill_stack (void)
{
  volatile char page[STACK_USED];

  if (fill_stacks)
    for (size_t i = 0; i < sizeof page; i += 1024)
      page[i] = 0;
}

/* Undo the stepping aside of the thread that created this one: take the policy
 * and nice value of the process's first thread.  If the right to do so is gone
 * by now, this thread stays aside.
 */
static void
step_in (void)
{
  pid_t first = getpid ();
  struct sched_param param;
  int policy, nice;

  if (sched_getscheduler (0) != SCHED_BATCH)
    return;
  policy = sched_getscheduler (first);
  nice = getpriority (PRIO_PROCESS, (id_t) first);
  if (policy == -1 || sched_getparam (first, &param) == -1)
    return;
  (void) setpriority (PRIO_PROCESS, 0, nice);
  (void) sched_setscheduler (0, policy, &param);
}

static void *
start (void *arg)
{
  struct fp_thread *t = arg;

  step_in ();
  fp_thread_fill_stack ();
  /* A thread without its name works as well. */
  (void) pthread_setname_np (pthread_self (), t->name);
  t->run (t->arg);
  return NULL;
}

static int
create (struct fp_thread *t, const char *name, size_t stack,
        void (*run) (void *arg), void *arg)
{
  pthread_attr_t attr;
  sigset_t all, before;
  int r;

  snprintf (t->name, sizeof t->name, "%.*s", FP_THREAD_NAME_MAX, name);
  t->run = run;
  t->arg = arg;

  r = pthread_attr_init (&attr);
  if (r != 0)
    return -r;
  r = pthread_attr_setstacksize (&attr, stack);
  if (r == 0) {
    /* A new thread inherits the mask, so no signal can slip in between. */
    sigfillset (&all);
    sigdelset (&all, SIGBUS);
    r = pthread_sigmask (SIG_SETMASK, &all, &before);
  }
  if (r == 0) {
    int r2;

    r = pthread_create (&t->id, &attr, start, t);
    r2 = pthread_sigmask (SIG_SETMASK, &before, NULL);
    if (r2 != 0) /* only EINVAL, for a bad first argument */
      abort ();
  }
  pthread_attr_destroy (&attr);
  return -r;
}

int
fp_thread_create (struct fp_thread *t, const char *name,
                  void (*run) (void *arg), void *arg)
{
  return create (t, name, STACK_SIZE, run, arg);
}

int
fp_thread_create_large (struct fp_thread *t, const char *name,
                        void (*run) (void *arg), void *arg)
{
  return create (t, name, LARGE_STACK_SIZE, run, arg);
}

int
fp_thread_join (struct fp_thread *t)
{
  return -pthread_join (t->id, NULL);
}
