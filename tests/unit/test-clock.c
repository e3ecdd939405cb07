/* SPDX-License-Identifier: BSD-3-Clause */
/* test-clock.c - deadlines end, and not early. */

#include "unit.h"

#include <limits.h>
#include <poll.h>

#include "base/clock.h"

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

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_monotonic),
    cmocka_unit_test (test_left),
    cmocka_unit_test (test_poll_reaches_it),
  };

  return RUN_TESTS (tests);
}
