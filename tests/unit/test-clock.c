/* SPDX-License-Identifier: BSD-3-Clause */
/* test-clock.c - deadlines are not early, and count only time in which this
 * process ran.
 */

#include "unit.h"

#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "sim/threads.h"

static void
test_monotonic (void **state)
{
  uint64_t before = fp_now_ns ();

  (void) state;
  assert_true (before > 0);
  assert_true (fp_now_ns () >= before);
}

static void
test_left (void **state)
{
  uint64_t d;

  (void) state;
  assert_int_equal (fp_deadline_left_ms (0), 0);
  assert_true (fp_deadline_passed (0));
  assert_int_equal (fp_deadline_left_ms (UINT64_MAX), INT_MAX);
  assert_false (fp_deadline_passed (UINT64_MAX));

  /* Part of a millisecond counts as one: poll (0) would spin. */
  d = fp_now_ns () + 60 * FP_NS_PER_S + 1;
  assert_in_range (fp_deadline_left_ms (d), 1, 60001);
}

static void
test_poll_reaches_it (void **state)
{
  uint64_t d = fp_deadline_in_ms (20);

  (void) state;
  assert_false (fp_deadline_passed (fp_deadline_in_ms (60000)));
  assert_int_equal (poll (NULL, 0, fp_deadline_left_ms (d)), 0);
  assert_true (fp_deadline_passed (d));
  assert_int_equal (fp_deadline_left_ms (d), 0);
}

/* ---- time in which the process did not run ---- */

static uint64_t
since_ms (uint64_t start)
{
  return (fp_now_ns () - start) / FP_NS_PER_MS;
}

static void
test_without_thread (void **state)
{
  uint64_t start = fp_now_ns ();

  (void) state;
  sim_stop_ms (60000);
  assert_in_range (since_ms (start), 60000, 60001);
}

static void
test_stopped (void **state)
{
  uint64_t start, mono, boot;

  (void) state;
  assert_int_equal (fp_clock_start (), 0);
  assert_int_equal (fp_clock_start (), 0);
  for (unsigned n = 1; n <= 3; n++) {
    usleep (1000000);
    start = fp_now_ns ();
    mono = fp_mono_ns ();
    boot = fp_boot_ns ();
    sim_stop_ms (60000);
    assert_in_range (since_ms (start), 0, 500);
    assert_in_range ((fp_mono_ns () - mono) / FP_NS_PER_MS, 60000, 60001);
    assert_in_range ((fp_boot_ns () - boot) / FP_NS_PER_MS, 60000, 60001);
    usleep (1000000);
    assert_in_range (since_ms (start), 1000, 1600);
    fp_clock_stop ();
    assert_int_equal (fp_clock_start (), 0);
  }
  fp_clock_stop ();
  fp_clock_stop ();
  /* The clock goes on from the time at which it was stopped. */
  assert_in_range (since_ms (start), 1000, 1600);
  sim_stop_ms (60000);
  assert_in_range (since_ms (start), 61000, 61600);
}

/* Time passes although no thread reads it. */
static void
test_idle (void **state)
{
  uint64_t start;

  (void) state;
  assert_int_equal (fp_clock_start (), 0);
  start = fp_now_ns ();
  usleep (20000000);
  assert_in_range (since_ms (start), 20000, 20100);
  fp_clock_stop ();
}

static _Atomic bool reading;

static void
read_on (void *arg)
{
  uint64_t last = 0;

  while (atomic_load (&reading)) {
    uint64_t now = fp_now_ns ();

    if (now < last)
      *(_Atomic bool *) arg = true;
    last = now;
  }
}

static void
test_never_back (void **state)
{
  struct fp_thread threads[3];
  _Atomic bool back = false;

  (void) state;
  atomic_store (&reading, true);
  assert_int_equal (fp_clock_start (), 0);
  for (unsigned i = 0; i < 3; i++)
    assert_int_equal (fp_thread_create (&threads[i], "reader", read_on, &back),
                      0);
  for (unsigned n = 0; n < 200; n++) {
    sim_stop_ms (n % 7 * 300);
    usleep (n % 5 * 70000);
  }
  atomic_store (&reading, false);
  for (unsigned i = 0; i < 3; i++)
    assert_int_equal (fp_thread_join (&threads[i]), 0);
  fp_clock_stop ();
  assert_false (atomic_load (&back));
}

/* The child of a fork does not have the thread. */
static void
test_fork (void **state)
{
  uint64_t start;
  int status;
  pid_t pid;

  (void) state;
  assert_int_equal (fp_clock_start (), 0);
  start = fp_now_ns ();
  pid = fork ();
  assert_true (pid >= 0);
  if (pid == 0) {
    usleep (20000000);
    _exit (since_ms (start) < 20000 || since_ms (start) > 20600);
  }
  assert_int_equal (waitpid (pid, &status, 0), pid);
  assert_int_equal (status, 0);
  fp_clock_stop ();
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_monotonic),
    cmocka_unit_test (test_left),
    cmocka_unit_test (test_poll_reaches_it),
    cmocka_unit_test (test_without_thread),
    cmocka_unit_test (test_stopped),
    cmocka_unit_test (test_idle),
    cmocka_unit_test (test_never_back),
    cmocka_unit_test (test_fork),
  };

  return RUN_TESTS (tests);
}
