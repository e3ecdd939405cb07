/* SPDX-License-Identifier: BSD-3-Clause */
/* test-copies-pairs.c - two faults in one run of a volume with copies: in two
 * transfers, in two control calls, or in one of each.  (test-volume-copies.c
 * walks the fault points one by one.)
 *
 * FARPAGE_TEST_ALL=1 runs all pairs, which takes hours.  Otherwise some are
 * drawn at random.  FARPAGE_TEST_SEED=N draws the same ones again.
 */

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "fake-ctl.h"
#include "volume-fixture.h"

#define NR_PAIRS 200
#define NR_SILENT 40

/* Fault points of one run; 0: none. */
struct pair {
  unsigned data[2], control[2];
  enum fp_fake_fault data_kind[2];
  enum fake_ctl_fault control_kind[2];
};

static unsigned data_points, control_points;
static unsigned ran, both, seed;
static struct pair now;
static bool running;

static bool
data_fired (void)
{
  return fp_fake_fault_fired ();
}

static bool
both_fired (void)
{
  return (now.data[0] == 0 || fp_fake_fault_fired ()) &&
         (now.control[0] == 0 || fake_ctl_fault_fired ());
}

static void
run (const struct pair *p)
{
  bool fired = false;

  now = *p;
  running = true;
  fp_fake_fault_at (p->data[0], p->data_kind[0]);
  fp_fake_fault_again (p->data[1], p->data_kind[1]);
  fake_ctl_fault_at (p->control[0], p->control_kind[0]);
  fake_ctl_fault_again (p->control[1], p->control_kind[1]);
  /* If both copies answer with an error, no copy is left. */
  copies_may_fail = p->data[1] != 0 && p->data_kind[0] == FP_FAKE_ERROR &&
                    p->data_kind[1] == FP_FAKE_ERROR;
  copies_exercise (both_fired, &fired);
  running = false;
  ran++;
  both += fired;
}

static bool
count_points (void)
{
  data_points = fp_fake_fault_points ();
  control_points = fake_ctl_fault_points ();
  return false;
}

static unsigned
chance (unsigned n)
{
  return (unsigned) rand_r (&seed) % n;
}

static enum fp_fake_fault
some_data_kind (void)
{
  return chance (2) ? FP_FAKE_BREAK : FP_FAKE_ERROR;
}

static enum fake_ctl_fault
some_control_kind (void)
{
  return chance (2) ? FAKE_CTL_REFUSE : FAKE_CTL_LOSE_ANSWER;
}

/* Apply faults at the i-th point and then at the j-th, i < j. */
static void
run_data (unsigned i, unsigned j)
{
  run (&(struct pair) {
      .data = { i, j },
      .data_kind = { some_data_kind (), some_data_kind () },
  });
}

static void
run_control (unsigned i, unsigned j)
{
  run (&(struct pair) {
      .control = { i, j },
      .control_kind = { some_control_kind (), some_control_kind () },
  });
}

static void
run_mixed (unsigned i, unsigned j)
{
  run (&(struct pair) {
      .data = { i },
      .data_kind = { some_data_kind () },
      .control = { j },
      .control_kind = { some_control_kind () },
  });
}

static void
test_pairs (void (*run_one) (unsigned i, unsigned j), unsigned *nr_i,
            unsigned *nr_j)
{
  bool none, twice = nr_i == nr_j;

  copies_setup (NULL);
  seed = fixture_seed ();
  copies_timeout_ms = 2000; /* the faults tested are short */
  fp_fake_fault_at (0, FP_FAKE_ERROR);
  fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
  copies_exercise (count_points, &none);
  assert_true (*nr_i > 10 && *nr_j > 10);
  if (getenv ("FARPAGE_TEST_ALL") != NULL)
    for (unsigned i = 1; i <= *nr_i; i++)
      for (unsigned j = twice ? i + 1 : 1; j <= *nr_j; j++)
        run_one (i, j);
  else
    while (ran < NR_PAIRS) {
      unsigned i = 1 + chance (*nr_i - 1);
      unsigned j = twice ? i + 1 + chance (*nr_j - i) : 1 + chance (*nr_j);

      run_one (i, j);
    }
  printf ("%u and %u points: %u pairs, in %u of which both faults came to "
          "pass; %u requests failed\n",
          *nr_i, *nr_j, ran, both, copies_failed);
  assert_true (both > 0 && both >= ran / 4);
  fixture_down (NULL);
}

static void
test_two_transfers (void **state)
{
  (void) state;
  test_pairs (run_data, &data_points, &data_points);
}

static void
test_two_calls (void **state)
{
  (void) state;
  test_pairs (run_control, &control_points, &control_points);
}

static void
test_one_of_each (void **state)
{
  (void) state;
  test_pairs (run_mixed, &data_points, &control_points);
}

/* Print the pair that failed. */
static int
tell (void **state)
{
  (void) state;
  for (unsigned n = 0; running && n < 2; n++)
    printf ("at: transfer %u kind %d, call %u kind %d\n", now.data[n],
            (int) now.data_kind[n], now.control[n], (int) now.control_kind[n]);
  return 0;
}

/* If a transfer never completes, its connection ends, and the transfer with
 * it.
 */
static void
test_silence (void **state)
{
  bool all = getenv ("FARPAGE_TEST_ALL") != NULL, fired = false;

  (void) state;
  copies_setup (NULL);
  seed = fixture_seed ();
  fp_fake_fault_at (0, FP_FAKE_DELAY);
  copies_exercise (count_points, &fired);
  for (unsigned n = 1; n <= (all ? data_points : NR_SILENT); n++) {
    fp_fake_fault_at (all ? n : 1 + chance (data_points), FP_FAKE_DELAY);
    copies_exercise (data_fired, &fired);
    ran++;
    both += fired;
  }
  printf ("%u transfers of %u took for ever\n", both, data_points);
  assert_true (both > 0 && both >= ran / 2);
  fixture_down (NULL);
}

#define TEST(t) cmocka_unit_test_teardown (t, tell)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_two_transfers),
    TEST (test_two_calls),
    TEST (test_one_of_each),
    TEST (test_silence),
  };

  return RUN_TESTS (tests);
}
