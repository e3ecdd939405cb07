/* SPDX-License-Identifier: BSD-3-Clause */
/* test-extent.c - no operation is inside an extent that was shut, and a
 * written chunk never looks unwritten.
 */

#include "unit.h"

#include <errno.h>

#include "base/clock.h"
#include "base/thread.h"
#include "extent/extent.h"
#include "place/placement.h"

#define MIB (1024 * 1024)

static const struct fp_stripe unstriped = { .width = 1, .size = 4096 };
static struct fp_extents *t;

static int
setup (void **state)
{
  (void) state;
  return fp_extents_new (&t, 10 * MIB + 512, 4 * MIB, &unstriped, 1);
}

static int
teardown (void **state)
{
  (void) state;
  fp_extents_free (t);
  return 0;
}

static void
test_sizes (void **state)
{
  struct fp_extents *x = NULL;

  (void) state;
  assert_int_equal (t->nr, 3);
  assert_int_equal (fp_extents_new (&x, 0, MIB, &unstriped, 1), -EINVAL);
  assert_int_equal (fp_extents_new (&x, MIB, MIB - 1, &unstriped, 1), -EINVAL);
  assert_int_equal (fp_extents_new (&x, MIB, 32768, &unstriped, 1), -EINVAL);
  assert_int_equal (fp_extents_new (&x, (uint64_t) FP_MAX_EXTENTS * 65536 + 1,
                                    65536, &unstriped, 1),
                    -EINVAL);
  assert_null (x);
  /* The bitmap has a limit, however large an extent is. */
  assert_int_equal (
      fp_extents_new (&x, UINT64_C (1) << 40, 1 << 30, &unstriped, 1), 0);
  assert_int_equal (x->words * sizeof (uint64_t), 512);
  fp_extents_free (x);
}

/* The volume ends in the middle of a chunk. */
static void
test_last_chunk (void **state)
{
  const uint64_t end = 2 * MIB + 512;
  uint64_t run;

  (void) state;
  fp_extent_set_written (t, 2, 0, end);
  fp_extent_clear_written (t, 2, 0, end - 1);
  assert_false (fp_extent_run (t, 2, 0, end, &run));
  assert_int_equal (run, 2 * MIB);
  fp_extent_clear_written (t, 2, 0, end);
  assert_false (fp_extent_run (t, 2, 0, end, &run));
  assert_int_equal (run, end);
}

static void
test_states (void **state)
{
  struct fp_extent *p = &t->p[1];

  (void) state;
  assert_int_equal (fp_extent_state (p), FP_EXTENT_EMPTY);
  assert_int_equal (fp_extent_enter (t, p), FP_EXTENT_EMPTY);
  assert_true (fp_extent_drained (t, p, 0));
  assert_true (fp_extent_move (t, p, FP_EXTENT_EMPTY, FP_EXTENT_BUSY));
  assert_false (fp_extent_move (t, p, FP_EXTENT_EMPTY, FP_EXTENT_BUSY));
  assert_true (fp_extent_move (t, p, FP_EXTENT_BUSY, FP_EXTENT_READY));

  assert_int_equal (fp_extent_enter (t, p), FP_EXTENT_READY);
  assert_int_equal (fp_extent_enter (t, p), FP_EXTENT_READY);
  assert_true (fp_extent_move (t, p, FP_EXTENT_READY, FP_EXTENT_BUSY));
  assert_int_equal (fp_extent_enter (t, p), FP_EXTENT_BUSY);
  fp_extent_leave (t, p);
  assert_false (fp_extent_drained (t, p, 1));
  fp_extent_leave (t, p);
  assert_true (fp_extent_drained (t, p, 0));
  assert_int_equal (fp_extent_state (p), FP_EXTENT_BUSY);
}

/* Two threads use an extent while this one shuts and opens it.  They must not
 * see the owner's mark.
 */
static _Atomic bool stop;
static unsigned long mark; /* deliberately not atomic: the extent guards it */
static _Atomic unsigned long seen, entered;

static void
user (void *arg)
{
  (void) arg;
  while (!atomic_load (&stop)) {
    if (fp_extent_enter (t, &t->p[0]) != FP_EXTENT_READY)
      continue;
    atomic_fetch_add (&seen, mark);
    atomic_fetch_add (&entered, 1);
    fp_extent_leave (t, &t->p[0]);
  }
}

static void
test_shut_keeps_users_out (void **state)
{
  struct fp_extent *p = &t->p[0];
  struct fp_thread threads[2];

  (void) state;
  assert_true (fp_extent_move (t, p, FP_EXTENT_EMPTY, FP_EXTENT_BUSY));
  assert_true (fp_extent_move (t, p, FP_EXTENT_BUSY, FP_EXTENT_READY));
  for (unsigned i = 0; i < 2; i++)
    assert_int_equal (fp_thread_create (&threads[i], "user", user, NULL), 0);
  for (unsigned i = 0; i < 2000 || atomic_load (&entered) < 1000; i++) {
    assert_true (fp_extent_move (t, p, FP_EXTENT_READY, FP_EXTENT_BUSY));
    assert_true (fp_extent_drained (t, p, FP_NEVER));
    mark = 1;
    mark = 0;
    assert_true (fp_extent_move (t, p, FP_EXTENT_BUSY, FP_EXTENT_READY));
  }
  atomic_store (&stop, true);
  for (unsigned i = 0; i < 2; i++)
    assert_int_equal (fp_thread_join (&threads[i]), 0);
  assert_int_equal (atomic_load (&seen), 0);
}

static void
test_written (void **state)
{
  uint64_t run;

  (void) state;
  assert_false (fp_extent_run (t, 0, 0, 4 * MIB, &run));
  assert_int_equal (run, 4 * MIB);
  /* One byte marks its chunk of 64 KiB, and no other. */
  fp_extent_set_written (t, 0, 65536 + 5, 1);
  assert_false (fp_extent_run (t, 0, 10, 4 * MIB - 10, &run));
  assert_int_equal (run, 65536 - 10);
  assert_true (fp_extent_run (t, 0, 65536, 4 * MIB - 65536, &run));
  assert_int_equal (run, 65536);
  assert_true (fp_extent_run (t, 0, 65536, 100, &run));
  assert_int_equal (run, 100);
  /* A write across a border marks both chunks, and none of the next extent. */
  fp_extent_set_written (t, 0, 4 * MIB - 65536 - 1, 2);
  assert_true (fp_extent_run (t, 0, 4 * MIB - 131072, 131072, &run));
  assert_int_equal (run, 131072);
  assert_false (fp_extent_run (t, 1, 0, 4 * MIB, &run));
  /* Only whole chunks are cleared. */
  fp_extent_set_all_written (t, 0);
  fp_extent_clear_written (t, 0, 1, 3 * 65536 - 2);
  assert_true (fp_extent_run (t, 0, 0, 4 * MIB, &run));
  assert_int_equal (run, 65536);
  assert_false (fp_extent_run (t, 0, 65536, 4 * MIB - 65536, &run));
  assert_int_equal (run, 65536);
  assert_true (fp_extent_run (t, 0, 131072, 4 * MIB - 131072, &run));
}

static void
test_placement (void **state)
{
  uint64_t none[3] = { 0, 0, 0 }, one[3] = { 0, 7, 0 };
  uint64_t uneven[4] = { 100, 0, 1, 50 };
  unsigned hits[4] = { 0 };
  uint64_t x = 1;

  (void) state;
  assert_int_equal (fp_placement_choose (none, 3, 12345), -1);
  assert_int_equal (fp_placement_choose (one, 3, 12345), 1);
  for (unsigned i = 0; i < 3000; i++) {
    x = x * UINT64_C (6364136223846793005) + 1442695040888963407;
    int s = fp_placement_choose (uneven, 4, x ^ (x >> 29));

    assert_in_range (s, 0, 3);
    hits[s]++;
  }
  /* Never the full server, nor the worst of any two; mostly the emptiest. */
  assert_int_equal (hits[1], 0);
  assert_int_equal (hits[2], 0);
  assert_in_range (hits[0], 1700, 2300);
  assert_in_range (hits[3], 700, 1300);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_sizes, setup, teardown),
    cmocka_unit_test_setup_teardown (test_last_chunk, setup, teardown),
    cmocka_unit_test_setup_teardown (test_states, setup, teardown),
    cmocka_unit_test_setup_teardown (test_shut_keeps_users_out, setup,
                                     teardown),
    cmocka_unit_test_setup_teardown (test_written, setup, teardown),
    cmocka_unit_test (test_placement),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
