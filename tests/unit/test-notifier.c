/* SPDX-License-Identifier: BSD-3-Clause */
/* test-notifier.c - no thread that waits for a change misses it, and none
 * wakes up without one.
 */

#include "unit.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "base/thread.h"
#include "extent/notifier.h"
#include "sim/threads.h"

static struct fp_notifier n;
static _Atomic unsigned value;

static int
setup (void **state)
{
  (void) state;
  fp_notifier_init (&n);
  value = 0;
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  fp_notifier_destroy (&n);
  return 0;
}

static void
test_deadline (void **state)
{
  uint32_t seen = fp_notifier_count (&n);
  uint64_t start = fp_now_ns ();

  (void) state;
  assert_false (fp_notifier_await (&n, seen, start + 3 * FP_NS_PER_S));
  assert_true (fp_now_ns () - start >= 3 * FP_NS_PER_S);
  assert_true (fp_now_ns () - start < 4 * FP_NS_PER_S);
  assert_false (fp_notifier_await (&n, seen, start));
}

/* A raise before the wait ends it at once.  With a new count, the next wait
 * lasts.
 */
static void
test_raised_before (void **state)
{
  uint32_t seen = fp_notifier_count (&n);
  uint64_t start = fp_now_ns ();

  (void) state;
  fp_notifier_raise (&n);
  assert_true (fp_notifier_await (&n, seen, FP_NEVER));
  assert_true (fp_now_ns () - start < FP_NS_PER_S);
  assert_true (fp_notifier_await (&n, seen, start + FP_NS_PER_S));
  /* A caller finds that it is late even if n was raised. */
  assert_false (fp_notifier_await (&n, seen, start));
  seen = fp_notifier_count (&n);
  assert_false (fp_notifier_await (&n, seen, start + FP_NS_PER_S));
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static unsigned woken;

static void
wake (void *arg)
{
  assert_ptr_equal (arg, &woken);
  woken++;
}

static void
test_listener (void **state)
{
  struct fp_listener l = { .wake = wake, .arg = &woken };

  (void) state;
  fp_notifier_listen (&n, &l);
  FP_LOCK_SCOPE (&held);
  fp_notifier_raise (&n);
  assert_int_equal (woken, 1);
}

#define ROUNDS 3000u
#define THREADS 3u

/* In each round, wait for this thread's turn, then add one. */
static void
count_up (void *arg)
{
  unsigned mine = *(unsigned *) arg;

  for (unsigned round = 0; round < ROUNDS; round++) {
    for (;;) {
      uint32_t seen = fp_notifier_count (&n);

      if (atomic_load (&value) == round * THREADS + mine)
        break;
      (void) fp_notifier_await (&n, seen, FP_NEVER);
    }
    atomic_fetch_add (&value, 1);
    fp_notifier_raise (&n);
  }
}

/* Threads take turns.  If one missed its turn, all would wait for ever. */
static void
test_no_change_is_missed (void **state)
{
  unsigned mine[THREADS] = { 0, 1, 2 };
  struct fp_thread threads[THREADS];

  (void) state;
  for (unsigned i = 0; i < THREADS; i++)
    assert_int_equal (
        fp_thread_create (&threads[i], "count", count_up, &mine[i]), 0);
  for (unsigned i = 0; i < THREADS; i++)
    assert_int_equal (fp_thread_join (&threads[i]), 0);
  assert_int_equal (atomic_load (&value), ROUNDS * THREADS);
}

static void
raise_after_9_s (void *arg)
{
  const struct timespec t = { .tv_sec = 9 };

  (void) arg;
  nanosleep (&t, NULL);
  fp_notifier_raise (&n);
}

static void
test_sleeps (void **state)
{
  unsigned long before = sim_timeouts ();
  struct fp_thread thread;

  (void) state;
  assert_int_equal (fp_thread_create (&thread, "raise", raise_after_9_s, NULL),
                    0);
  assert_true (fp_notifier_await (&n, fp_notifier_count (&n), FP_NEVER));
  assert_int_equal (fp_thread_join (&thread), 0);
  assert_int_equal (sim_timeouts (), before);
}

int
main (void)
{
#define TEST(f) cmocka_unit_test_setup_teardown (f, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_deadline), TEST (test_raised_before),
    TEST (test_listener), TEST (test_no_change_is_missed),
    TEST (test_sleeps),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
