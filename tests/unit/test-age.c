/* SPDX-License-Identifier: BSD-3-Clause */
/* test-age.c - a request that was behind another one in the socket counts as
 * old as that one.
 */

#include "unit.h"

#include <unistd.h>

#include "base/clock.h"
#include "nbdkit-plugin/age.h"

static struct fp_age age;

static int
setup (void **state)
{
  (void) state;
  fp_age_init (&age);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  fp_age_destroy (&age);
  return 0;
}

/* Serve one request for ms; return the earliest time at which it was made. */
static uint64_t
serve (unsigned ms, bool waited)
{
  uint64_t made_ns = fp_age_begin (&age);

  usleep (ms * 1000);
  fp_age_end (&age, made_ns, waited);
  return made_ns;
}

static bool
is_fresh (uint64_t made_ns, unsigned ms)
{
  return fp_mono_ns () - made_ns < (ms + 1) * FP_NS_PER_MS;
}

/* A slow request that did not wait for a server makes no later one older. */
static void
test_fresh (void **state)
{
  (void) state;
  for (unsigned n = 0; n < 300; n++)
    assert_true (is_fresh (serve (n % 3 * 2000, false), n % 3 * 2000));
}

static void
test_behind (void **state)
{
  uint64_t first;

  (void) state;
  first = serve (20000, true);
  for (unsigned n = 0; n < FP_AGE_BEHIND; n++)
    assert_int_equal (serve (10, false), first);
  assert_true (is_fresh (serve (10, false), 10));
}

/* If a request of the batch waits too, the requests behind the batch were sent
 * after the first one had ended.
 */
static void
test_behind_again (void **state)
{
  uint64_t first, ended;

  (void) state;
  first = serve (5000, true);
  ended = fp_mono_ns ();
  for (unsigned n = 0; n < FP_AGE_BEHIND - 10; n++)
    assert_int_equal (serve (10, false), first);
  assert_int_equal (serve (5000, true), first);
  for (unsigned n = 0; n < 9; n++)
    assert_int_equal (serve (10, false), first);
  for (unsigned n = 0; n < FP_AGE_BEHIND; n++)
    assert_in_range (serve (10, false), ended - FP_NS_PER_MS, ended);
  assert_true (is_fresh (serve (10, false), 10));
}

static void
test_idle (void **state)
{
  uint64_t first, second;

  (void) state;
  first = serve (20000, true);
  usleep ((FP_AGE_IDLE_MS - 10) * 1000);
  assert_int_equal (serve (10, false), first);
  usleep (FP_AGE_IDLE_MS * 1000);
  assert_true (is_fresh (serve (10, false), 10));
  /* While another request is served the connection is not idle. */
  first = serve (20000, true);
  second = fp_age_begin (&age);
  usleep (FP_AGE_IDLE_MS * 1000);
  assert_int_equal (second, first);
  assert_int_equal (serve (10, false), first);
  fp_age_end (&age, second, false);
}

/* A client that pauses after each reply has nothing in the socket.  That is
 * noticed long before FP_AGE_BEHIND requests.
 */
static void
test_gaps (void **state)
{
  uint64_t first;

  (void) state;
  first = serve (18000, true);
  for (unsigned n = 1; n < FP_AGE_GAPS; n++) {
    usleep (50000);
    assert_int_equal (serve (10, false), first);
  }
  usleep (50000);
  assert_true (is_fresh (serve (10, false), 10));
  assert_true (is_fresh (serve (10, false), 10));
  /* Single pauses prove nothing. */
  first = serve (18000, true);
  for (unsigned n = 0; n < FP_AGE_BEHIND; n++) {
    if (n % FP_AGE_GAPS != 0)
      usleep (25000);
    assert_int_equal (serve (10, false), first);
  }
  /* If a request waits again, the socket may have filled. */
  first = serve (5000, true);
  for (unsigned n = 1; n < FP_AGE_GAPS; n++) {
    usleep (25000);
    assert_int_equal (serve (n == 1 ? 10 : 5000, n > 1), first);
  }
  usleep (25000);
  assert_int_equal (serve (10, false), first);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_fresh, setup, teardown),
    cmocka_unit_test_setup_teardown (test_behind, setup, teardown),
    cmocka_unit_test_setup_teardown (test_behind_again, setup, teardown),
    cmocka_unit_test_setup_teardown (test_idle, setup, teardown),
    cmocka_unit_test_setup_teardown (test_gaps, setup, teardown),
  };

  return RUN_TESTS (tests);
}
