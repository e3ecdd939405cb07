/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <pthread.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"

#define BEAT_MS 100
#define GAP_NS (500 * FP_NS_PER_MS) /* longest time that one gap counts */

/* fp_now_ns is CLOCK_MONOTONIC minus stopped_ns, and never later than
 * limit_ns. Both only grow while the thread runs.  The thread stores
 * stopped_ns before its limit_ns.  A reader loads limit_ns first and reads
 * CLOCK_MONOTONIC last, so its time never includes a stop that stopped_ns does
 * not, and never goes back.
 */
static _Atomic uint64_t stopped_ns, limit_ns = UINT64_MAX;

/* protects users and thread */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users; /* fp_clock_start calls without their fp_clock_stop */
static struct fp_thread thread;

/* Tell the thread to end. */
static pthread_mutex_t end_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t end_cond; /* initialised by init, for CLOCK_MONOTONIC */
static bool ending;

static uint64_t
now (clockid_t clock)
{
  struct timespec ts;

  /* This cannot fail for these clocks.  A time of 0 would stop all deadlines.
   */
  if (clock_gettime (clock, &ts) != 0)
    abort ();
  return (uint64_t) ts.tv_sec * FP_NS_PER_S + (uint64_t) ts.tv_nsec;
}

uint64_t
fp_now_ns (void)
{
  /* The order of these loads matters: see above. */
  uint64_t limit = atomic_load (&limit_ns);
  uint64_t stopped = atomic_load (&stopped_ns);
  uint64_t mono = now (CLOCK_MONOTONIC);

  return FP_MIN (mono - stopped, limit);
}

uint64_t
fp_mono_ns (void)
{
  return now (CLOCK_MONOTONIC);
}

uint64_t
fp_mono_coarse_ns (void)
{
  return now (CLOCK_MONOTONIC_COARSE);
}

uint64_t
fp_boot_ns (void)
{
  return now (CLOCK_BOOTTIME);
}

/* ---- the thread ---- */

static void
beat (void)
{
  uint64_t mono = now (CLOCK_MONOTONIC);
  uint64_t is = FP_MIN (mono - stopped_ns, limit_ns);

  atomic_store (&stopped_ns, mono - is);
  atomic_store (&limit_ns, is + GAP_NS);
}

/* Wait BEAT_MS; return false if the thread must end. */
static bool
await_beat (void)
{
  uint64_t until = now (CLOCK_MONOTONIC) + BEAT_MS * FP_NS_PER_MS;
  const struct timespec t = { .tv_sec = (time_t) (until / FP_NS_PER_S),
                              .tv_nsec = (long) (until % FP_NS_PER_S) };

  FP_LOCK_SCOPE (&end_lock);
  if (!ending)
    (void) pthread_cond_timedwait (&end_cond, &end_lock, &t);
  return !ending;
}

static void
clock_main (void *arg)
{
  (void) arg;
  do
    beat ();
  while (await_beat ());
}

/* Let fp_now_ns follow CLOCK_MONOTONIC without a limit. */
static void
let_run (void)
{
  beat ();
  atomic_store (&limit_ns, UINT64_MAX);
}

static void
in_child (void)
{
  /* Take no lock: another thread of the parent may have held it. */
  if (users > 0)
    let_run ();
}

static void
init (void)
{
  pthread_condattr_t attr;

  if (pthread_condattr_init (&attr) != 0 ||
      pthread_condattr_setclock (&attr, CLOCK_MONOTONIC) != 0 ||
      pthread_cond_init (&end_cond, &attr) != 0 ||
      pthread_atfork (NULL, NULL, in_child) != 0)
    abort ();
  pthread_condattr_destroy (&attr);
}

int
fp_clock_start (void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  int r = 0;

  if (pthread_once (&once, init) != 0)
    abort ();
  FP_LOCK_SCOPE (&lock);
  if (users == 0) {
    ending = false;
    beat ();
    r = fp_thread_create (&thread, "fp-clock", clock_main, NULL);
    if (r < 0)
      let_run ();
  }
  users += r == 0;
  return r;
}

void
fp_clock_stop (void)
{
  FP_LOCK_SCOPE (&lock);
  if (--users > 0)
    return;
  {
    FP_LOCK_SCOPE (&end_lock);
    ending = true;
    pthread_cond_broadcast (&end_cond);
  }
  if (fp_thread_join (&thread) < 0)
    abort (); /* joined twice: a bug */
  let_run ();
}

/* ---- deadlines ---- */

uint64_t
fp_deadline_in_ms (unsigned ms)
{
  return fp_now_ns () + ms * FP_NS_PER_MS;
}

bool
fp_deadline_passed (uint64_t deadline_ns)
{
  return fp_now_ns () >= deadline_ns;
}

int
fp_deadline_left_ms (uint64_t deadline_ns)
{
  uint64_t now = fp_now_ns ();

  if (now >= deadline_ns)
    return 0;
  return (int) FP_MIN (fp_div_round_up (deadline_ns - now, FP_NS_PER_MS),
                       (uint64_t) INT_MAX);
}
