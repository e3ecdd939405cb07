/* SPDX-License-Identifier: BSD-3-Clause */
/* test-hist.c - quantiles are near the truth, and no writer's sample is lost.
 */

#include "unit.h"

#include <string.h>

#include "base/hist.h"
#include "base/thread.h"

static struct fp_hist h;

static int
setup (void **state)
{
  (void) state;
  memset (&h, 0, sizeof h);
  return 0;
}

/* Expect v within 1/16 of truth. */
#define ASSERT_NEAR(v, truth)                                                 \
  assert_in_range (v, (truth) - (truth) / 16, (truth) + (truth) / 16)

static void
test_empty (void **state)
{
  struct fp_hist_summary s;

  (void) state;
  memset (&s, 0xff, sizeof s);
  fp_hist_summary (&h, &s);
  assert_int_equal (s.count, 0);
  assert_int_equal (s.mean, 0);
  assert_int_equal (s.p50, 0);
  assert_int_equal (s.max, 0);
}

static void
test_uniform (void **state)
{
  struct fp_hist_summary s;

  (void) state;
  for (uint64_t v = 1; v <= 100000; v++)
    fp_hist_add (&h, v);
  fp_hist_summary (&h, &s);
  assert_int_equal (s.count, 100000);
  assert_int_equal (s.mean, 50000);
  assert_int_equal (s.max, 100000);
  ASSERT_NEAR (s.p50, 50000);
  ASSERT_NEAR (s.p99, 99000);
  ASSERT_NEAR (s.p999, 99900);
}

static void
test_few (void **state)
{
  struct fp_hist_summary s;

  (void) state;
  for (uint64_t v = 1; v <= 10; v++)
    fp_hist_add (&h, v);
  fp_hist_summary (&h, &s);
  assert_int_equal (s.p50, 5);
  assert_int_equal (s.p99, 10);
}

/* Each power of two, its neighbours, and both ends of the range. */
static void
test_each_bucket (void **state)
{
  (void) state;
  for (unsigned e = 0; e < 64; e++) {
    for (int d = -1; d <= 1; d++) {
      uint64_t v = (UINT64_C (1) << e) + (uint64_t) d;
      struct fp_hist_summary s;

      memset (&h, 0, sizeof h);
      fp_hist_add (&h, v);
      fp_hist_add (&h, UINT64_MAX); /* so that max does not clip */
      fp_hist_summary (&h, &s);
      assert_int_equal (s.count, 2);
      assert_true (s.max == UINT64_MAX);
      if (v < 16)
        assert_int_equal (s.p50, v);
      else
        assert_true (s.p50 >= v - v / 16 && s.p50 - v / 32 <= v + 1);
    }
  }
}

static void
test_tail (void **state)
{
  struct fp_hist_summary s;

  (void) state;
  for (int i = 0; i < 9990; i++)
    fp_hist_add (&h, 10);
  for (int i = 0; i < 10; i++)
    fp_hist_add (&h, 5000);
  fp_hist_summary (&h, &s);
  assert_int_equal (s.p50, 10);
  assert_int_equal (s.p99, 10);
  assert_int_equal (s.p999, 10);
  fp_hist_add (&h, 5000);
  fp_hist_summary (&h, &s);
  ASSERT_NEAR (s.p999, 5000);
  assert_int_equal (s.max, 5000);
}

static void
test_merge (void **state)
{
  static struct fp_hist other;
  struct fp_hist_summary s;

  (void) state;
  fp_hist_add (&h, 10);
  fp_hist_add (&other, 1000);
  fp_hist_add (&other, 1000);
  fp_hist_merge (&h, &other);
  fp_hist_summary (&h, &s);
  assert_int_equal (s.count, 3);
  assert_int_equal (s.mean, 670);
  assert_int_equal (s.max, 1000);
}

#define ADDS 20000

static void
writer (void *arg)
{
  for (uint64_t v = 1; v <= ADDS; v++)
    fp_hist_add_shared (arg, v);
}

static void
test_shared (void **state)
{
  struct fp_thread threads[4];
  struct fp_hist_summary s;

  (void) state;
  for (int i = 0; i < 4; i++)
    assert_int_equal (fp_thread_create (&threads[i], "writer", writer, &h), 0);
  for (int i = 0; i < 4; i++)
    assert_int_equal (fp_thread_join (&threads[i]), 0);
  fp_hist_summary (&h, &s);
  assert_int_equal (s.count, 4 * ADDS);
  assert_int_equal (s.mean, ADDS / 2);
  assert_int_equal (s.max, ADDS);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup (test_empty, setup),
    cmocka_unit_test_setup (test_uniform, setup),
    cmocka_unit_test_setup (test_few, setup),
    cmocka_unit_test_setup (test_each_bucket, setup),
    cmocka_unit_test_setup (test_tail, setup),
    cmocka_unit_test_setup (test_merge, setup),
    cmocka_unit_test_setup (test_shared, setup),
  };

  return RUN_TESTS (tests);
}
