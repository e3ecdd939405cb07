/* SPDX-License-Identifier: BSD-3-Clause */
/* test-range-lock.c - a block has one holder at a time, and a refused caller
 * is told when to try again.
 */

#include "unit.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "extent/notifier.h"
#include "extent/range_lock.h"

#define WORDS FP_RANGE_LOCK_WORDS

static struct fp_range_lock holds;

static int
setup (void **state)
{
  (void) state;
  memset (&holds, 0, sizeof holds);
  fp_range_lock_init (&holds);
  return 0;
}

/* Nothing may be left held. */
static int
teardown (void **state)
{
  (void) state;
  for (unsigned i = 0; i < WORDS; i++)
    assert_int_equal (atomic_load (&holds.words[i]) % 2, 0);
  fp_range_lock_destroy (&holds);
  return 0;
}

static int
take (struct fp_range_hold *h, uint64_t first, uint64_t end)
{
  return fp_range_lock_take (&holds, h, first, end, fp_deadline_in_ms (60));
}

static bool
try (uint64_t first, uint64_t end)
{
  return fp_range_lock_try (&holds, first, end);
}

static bool
untry (uint64_t first, uint64_t end)
{
  return fp_range_lock_untry (&holds, first, end);
}

static void
test_narrow (void **state)
{
  struct fp_range_hold narrow, other, wide;
  uint64_t before, after;

  (void) state;
  assert_true (fp_range_lock_sum (&holds, 0, 100, &before));
  assert_int_equal (take (&narrow, 5, 9), 0);
  assert_false (fp_range_lock_sum (&holds, 0, 100, &after));
  assert_true (fp_range_lock_sum (&holds, 9, 100, &after));
  assert_int_equal (take (&other, 8, 10), -EIO);
  assert_int_equal (take (&other, 9, 10), 0);
  assert_int_equal (take (&wide, 0, 1000), -EIO);
  fp_range_lock_release (&holds, &other);
  fp_range_lock_release (&holds, &narrow);
  assert_true (fp_range_lock_sum (&holds, 0, 100, &after));
  assert_true (after > before);
}

static void
test_wide (void **state)
{
  struct fp_range_hold narrow, other, wide;
  uint64_t before, after;

  (void) state;
  assert_true (fp_range_lock_sum (&holds, 0, 100, &before));
  assert_int_equal (take (&wide, 0, 1000), 0);
  assert_false (fp_range_lock_sum (&holds, 2000, 2001, &after));
  assert_int_equal (take (&narrow, 999, 1001), -EIO);
  assert_int_equal (take (&narrow, 1000, 1001), 0);
  fp_range_lock_release (&holds, &narrow);
  assert_int_equal (take (&other, 500, 5000), -EIO);
  assert_int_equal (take (&other, 1000, UINT64_C (1) << 40), 0);
  fp_range_lock_release (&holds, &other);
  fp_range_lock_release (&holds, &wide);
  assert_true (fp_range_lock_sum (&holds, 0, 100, &after));
  assert_true (after > before);
}

/* A range that goes on at the start of the table. */
static void
test_wraps (void **state)
{
  struct fp_range_hold narrow, other;

  (void) state;
  assert_int_equal (take (&narrow, WORDS - 2, WORDS + 2), 0);
  assert_int_equal (take (&other, WORDS + 1, WORDS + 3), -EIO);
  assert_int_equal (take (&other, WORDS - 10, WORDS - 1), -EIO);
  fp_range_lock_release (&holds, &narrow);
  assert_int_equal (take (&other, WORDS - 10, WORDS + 10), 0);
  fp_range_lock_release (&holds, &other);
}

static void
test_try_wraps (void **state)
{
  (void) state;
  assert_true (try (3 * WORDS - 1, 3 * WORDS + 256));
  assert_false (try (255, 256));
  assert_true (try (256, 257));
  assert_false (try (WORDS - 1, WORDS));
  (void) untry (256, 257);
  (void) untry (3 * WORDS - 1, 3 * WORDS + 256);
}

/* A release reports a refusal that came before it, and only once. */
static void
test_refusal_is_told_once (void **state)
{
  (void) state;
  assert_true (try (10, 20));
  assert_true (try (20, 30));
  assert_false (untry (20, 30));
  assert_false (try (19, 40));
  assert_true (untry (10, 20));
  assert_true (try (19, 40));
  assert_false (untry (19, 40));
}

/* A refused caller lets go of the blocks before the held one. */
static void
test_refused_holds_nothing (void **state)
{
  uint64_t sum;

  (void) state;
  assert_true (try (300, 301));
  assert_false (try (100, 301));
  assert_true (fp_range_lock_sum (&holds, 100, 300, &sum));
  assert_true (try (100, 300));
  (void) untry (100, 300);
  /* The whole table is as much as one caller can have. */
  assert_false (try (7, 7 + WORDS));
  assert_true (untry (300, 301));
  assert_true (try (7, 7 + WORDS));
  assert_false (untry (7, 7 + WORDS));
}

/* ---- threads: in real time ---- */

#define THREADS 3u
#define BLOCKS 8u
#define ROUNDS 2000u

static struct fp_notifier changes;
static _Atomic unsigned holder[BLOCKS]; /* number of the thread, or 0 */

static void
hold_and_release (void *arg)
{
  unsigned number = *(const unsigned *) arg;

  for (unsigned i = 0; i < ROUNDS; i++) {
    unsigned first = (number * 3 + i) % BLOCKS;
    unsigned end = first + 1 + i % (BLOCKS - first);
    uint32_t seen = fp_notifier_count (&changes);

    while (!try (first, end)) {
      /* Two threads may have refused each other: no change tells. */
      (void) fp_notifier_await (&changes, seen, fp_deadline_in_ms (1));
      seen = fp_notifier_count (&changes);
    }
    for (unsigned b = first; b < end; b++)
      assert_int_equal (atomic_exchange (&holder[b], number), 0);
    sched_yield ();
    for (unsigned b = first; b < end; b++)
      assert_int_equal (atomic_exchange (&holder[b], 0), number);
    if (untry (first, end))
      fp_notifier_raise (&changes);
  }
}

static void
test_threads (void **state)
{
  static const unsigned numbers[THREADS] = { 1, 2, 3 };
  struct fp_thread threads[THREADS];

  (void) state;
  fp_notifier_init (&changes);
  (void) alarm (120);
  for (unsigned n = 0; n < THREADS; n++)
    assert_int_equal (fp_thread_create (&threads[n], "hold", hold_and_release,
                                        (void *) (uintptr_t) &numbers[n]),
                      0);
  for (unsigned n = 0; n < THREADS; n++)
    assert_int_equal (fp_thread_join (&threads[n]), 0);
  (void) alarm (0);
  fp_notifier_destroy (&changes);
}

int
main (void)
{
#define TEST(f) cmocka_unit_test_setup_teardown (f, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_narrow),
    TEST (test_wide),
    TEST (test_wraps),
    TEST (test_try_wraps),
    TEST (test_refusal_is_told_once),
    TEST (test_refused_holds_nothing),
    TEST (test_threads),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
