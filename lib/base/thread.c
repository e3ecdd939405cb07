/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.c - a named thread with a small stack, deaf to signals. */

#include <config.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/thread.h"

/* Of memory that is locked all of a stack counts, touched or not, and a client
 * has a thread for each of 64 servers.  A sanitizer's frames are several times
 * larger.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_SIZE (1024u << 10)
#define LARGE_STACK_SIZE STACK_SIZE
#else
#define STACK_SIZE (128u << 10)
#define LARGE_STACK_SIZE (512u << 10)
#endif

static void *
start (void *arg)
{
  struct fp_thread *t = arg;

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
    r = pthread_sigmask (SIG_SETMASK, &all, &before);
  }
  if (r == 0) {
    int r2;

    r = pthread_create (&t->id, &attr, start, t);
    r2 = pthread_sigmask (SIG_SETMASK, &before, NULL);
    if (r2 != 0) /* only ever EINVAL, for the first argument */
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
