/* SPDX-License-Identifier: BSD-3-Clause */
/* sync.h - mutexes and conditions whose timed waits follow the monotonic
 * clock, so that no timeout depends on the time of day.
 *
 * The mutexes do not inherit priority.  If two threads meet at a mutex that
 * does, the kernel may allocate (kernel/futex/pi.c, refill_pi_state_cache),
 * and this host may be out of memory.  A thread without real-time priority
 * holds a mutex only while it copies the data that the mutex protects
 * (base/thread.h).  So a waiter waits until the scheduler lets that thread
 * run, and no longer.
 *
 * Errors:   initialising them cannot fail on Linux; if it does, abort.
 */

#ifndef FP_SYNC_H
#define FP_SYNC_H

#include <stdlib.h>
#include <time.h>

#include <pthread.h>

static inline void
fp_mutex_init (pthread_mutex_t *m)
{
  if (pthread_mutex_init (m, NULL) != 0)
    abort ();
}

static inline void
fp_cond_init (pthread_cond_t *c)
{
  pthread_condattr_t attr;

  if (pthread_condattr_init (&attr) != 0 ||
      pthread_condattr_setclock (&attr, CLOCK_MONOTONIC) != 0 ||
      pthread_cond_init (c, &attr) != 0)
    abort ();
  pthread_condattr_destroy (&attr);
}

/* Set *t to the time ms from now, for pthread_cond_timedwait. */
static inline void
fp_timespec_after (struct timespec *t, unsigned ms)
{
  if (clock_gettime (CLOCK_MONOTONIC, t) == -1)
    abort ();
  t->tv_sec += ms / 1000;
  t->tv_nsec += (long) (ms % 1000) * 1000000;
  if (t->tv_nsec >= 1000000000) {
    t->tv_sec++;
    t->tv_nsec -= 1000000000;
  }
}

#endif /* FP_SYNC_H */
