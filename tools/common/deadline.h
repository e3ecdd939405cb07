/* SPDX-License-Identifier: BSD-3-Clause */
/* deadline.h - how long a step may take, and whether it was cancelled.
 *
 * Units:    milliseconds.
 */

#ifndef FARPAGE_DEADLINE_H
#define FARPAGE_DEADLINE_H

#include <signal.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"

struct deadline {
  int64_t at_ms;                     /* CLOCK_MONOTONIC */
  const volatile sig_atomic_t *stop; /* not 0: it is over now; may be NULL */
};

static inline int64_t
now_ms (void)
{
  return (int64_t) (fp_now_ns () / FP_NS_PER_MS);
}

static inline struct deadline
deadline_in (int64_t ms, const volatile sig_atomic_t *stop)
{
  return (struct deadline) { .at_ms = now_ms () + ms, .stop = stop };
}

/* Return the ms left, but 0 after *stop was set.  At most `most`, so that the
 * caller sees that in time.
 */
static inline int
deadline_left (const struct deadline *d, int most)
{
  int64_t left = d->at_ms - now_ms ();

  if (left <= 0 || (d->stop && *d->stop))
    return 0;
  return left < most ? (int) left : most;
}

static inline void
sleep_ms (int ms)
{
  struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

  nanosleep (&ts, NULL);
}

#endif /* FARPAGE_DEADLINE_H */
