/* SPDX-License-Identifier: BSD-3-Clause */
/* test-silence.c - how long the requests of a device have waited. */

#include "unit.h"

#include "tools/attach/silence.h"

#define MOST 6000

static struct silence s;

static int
begin (void **state)
{
  (void) state;
  s = (struct silence) { 0 };
  return 0;
}

/* Requests that wait from one look to the next have waited that long. */
static void
test_waits (void **state)
{
  (void) state;
  assert_int_equal (silence_look (&s, 1000, MOST, 7, true), 0);
  assert_int_equal (silence_look (&s, 3000, MOST, 7, true), 2000);
  assert_int_equal (silence_look (&s, 3500, MOST, 7, true), 2500);
}

/* A request that came just before a look has not waited since the last one. */
static void
test_just_came (void **state)
{
  (void) state;
  silence_look (&s, 1000, MOST, 7, false);
  assert_int_equal (silence_look (&s, 6000, MOST, 7, true), 0);
  assert_int_equal (silence_look (&s, 6200, MOST, 7, true), 200);
}

/* An answer ends it, though other requests still wait. */
static void
test_answer (void **state)
{
  (void) state;
  silence_look (&s, 1000, MOST, 7, true);
  silence_look (&s, 3000, MOST, 7, true);
  assert_int_equal (silence_look (&s, 4000, MOST, 8, true), 0);
  assert_int_equal (silence_look (&s, 5000, MOST, 8, true), 1000);
}

/* So does a look that finds nothing waiting. */
static void
test_nothing_waits (void **state)
{
  (void) state;
  silence_look (&s, 1000, MOST, 7, true);
  silence_look (&s, 3000, MOST, 7, true);
  assert_int_equal (silence_look (&s, 4000, MOST, 7, false), 0);
  assert_int_equal (silence_look (&s, 5000, MOST, 7, true), 0);
}

/* Time in which this process was stopped counts no more than a look. */
static void
test_stopped (void **state)
{
  (void) state;
  silence_look (&s, 1000, MOST, 7, true);
  assert_int_equal (silence_look (&s, 901000, MOST, 7, true), MOST);
}

/* After a new process took over, its first look is the first. */
static void
test_end (void **state)
{
  (void) state;
  silence_look (&s, 1000, MOST, 7, true);
  silence_look (&s, 3000, MOST, 7, true);
  silence_end (&s);
  assert_int_equal (silence_look (&s, 4000, MOST, 7, true), 0);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup (test_waits, begin),
    cmocka_unit_test_setup (test_just_came, begin),
    cmocka_unit_test_setup (test_answer, begin),
    cmocka_unit_test_setup (test_nothing_waits, begin),
    cmocka_unit_test_setup (test_stopped, begin),
    cmocka_unit_test_setup (test_end, begin),
  };

  return RUN_TESTS (tests);
}
