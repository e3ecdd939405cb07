/* SPDX-License-Identifier: BSD-3-Clause */
/* sync.h - mutexes and conditions whose timed waits follow the monotonic
 * clock, so that no timeout depends on the time of day.  And counters that
 * several threads read.
 *
 * The mutexes do not inherit priority.  If two threads meet at a mutex that
 * does, the kernel may allocate (kernel/futex/pi.c, refill_pi_state_cache),
 * and this host may be out of memory.  A thread without real-time priority
 * holds a mutex only while it copies the data that the mutex protects
 * (base/thread.h).  So a waiter waits until the scheduler lets that thread
 * run, and no longer.
 *
 * Units:    deadlines in ns, by fp_now_ns.
 * Errors:   initialising them cannot fail on Linux; if it does, abort.
 */

#ifndef FP_SYNC_H
#define FP_SYNC_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <pthread.h>

#include "base/clock.h"

/* Add n to a counter that has one writer at a time, for example because a lock
 * is held.  Others may read it.  Unlike atomic_fetch_add, this locks no bus.
 */
static inline void
fp_counter_add (_Atomic uint64_t *counter, uint64_t n)
{
  uint64_t now = atomic_load_explicit (counter, memory_order_relaxed);

  atomic_store_explicit (counter, now + n, memory_order_relaxed);
}

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

/* Wait on c, with m held, for a wake-up or until the deadline, which may
 * be FP_NEVER.  Return true after a wake-up or a timeout: look again.  Return
 * false, at once, if the deadline has passed.
 */
static inline bool
fp_cond_wait_until (pthread_cond_t *c, pthread_mutex_t *m,
                    uint64_t deadline_ns)
{
  struct timespec until;
  int ms;

  if (deadline_ns == FP_NEVER) {
    if (pthread_cond_wait (c, m) != 0)
      abort ();
    return true;
  }
  ms = fp_deadline_left_ms (deadline_ns);
  if (ms == 0)
    return false;
  fp_timespec_after (&until, (unsigned) ms);
  /* A timeout is as good as a wake-up: the caller looks again. */
  (void) pthread_cond_timedwait (c, m, &until);
  return true;
}

#endif /* FP_SYNC_H */
