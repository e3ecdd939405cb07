/* SPDX-License-Identifier: BSD-3-Clause */
/* test-checked.c - checked arithmetic never wraps around. */

#include "unit.h"

#include "base/checked.h"

static void
test_add_mul (void **state)
{
  uint64_t v = 7;

  (void) state;
  assert_int_equal (fp_add_u64 (UINT64_MAX - 1, 1, &v), 0);
  assert_true (v == UINT64_MAX);
  v = 7;
  assert_int_equal (fp_add_u64 (UINT64_MAX, 1, &v), -EOVERFLOW);
  assert_int_equal (v, 7);
  assert_int_equal (fp_mul_u64 (1ull << 32, (1ull << 32) - 1, &v), 0);
  assert_true (v == ((1ull << 32) - 1) << 32);
  v = 7;
  assert_int_equal (fp_mul_u64 (1ull << 32, 1ull << 32, &v), -EOVERFLOW);
  assert_int_equal (v, 7);
}

static void
test_range (void **state)
{
  (void) state;
  assert_true (fp_range_ok (0, 10, 10));
  assert_true (fp_range_ok (10, 0, 10));
  assert_false (fp_range_ok (1, 10, 10));
  assert_false (fp_range_ok (11, 0, 10));
  assert_false (fp_range_ok (5, UINT64_MAX - 2, 10));
  assert_false (fp_range_ok (UINT64_MAX - 2, 5, 10));
}

static void
test_round (void **state)
{
  uint64_t v = 7;

  (void) state;
  assert_false (fp_is_power_of_2 (0));
  assert_true (fp_is_power_of_2 (1));
  assert_false (fp_is_power_of_2 (3));
  assert_true (fp_is_power_of_2 (1ull << 63));
  assert_int_equal (fp_log2 (1), 0);
  assert_int_equal (fp_log2 (4095), 11);
  assert_int_equal (fp_log2 (UINT64_MAX), 63);
  assert_int_equal (fp_round_down (4097, 4096), 4096);
  assert_int_equal (fp_round_up (4097, 4096, &v), 0);
  assert_int_equal (v, 8192);
  assert_int_equal (fp_round_up (4096, 4096, &v), 0);
  assert_int_equal (v, 4096);
  assert_int_equal (fp_round_up (UINT64_MAX, 4096, &v), -EOVERFLOW);
  assert_int_equal (v, 4096);
  assert_int_equal (fp_div_round_up (0, 10), 0);
  assert_int_equal (fp_div_round_up (11, 10), 2);
  assert_true (fp_div_round_up (UINT64_MAX, 2) == 1ull << 63);
}

static void
test_min_max (void **state)
{
  int i = 0;

  (void) state;
  assert_int_equal (FP_MIN (FP_MAX (1, 5), FP_MIN (9, 7)), 5);
  assert_int_equal (FP_MAX (i++, -1), 0);
  assert_int_equal (i, 1);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_add_mul),
    cmocka_unit_test (test_range),
    cmocka_unit_test (test_round),
    cmocka_unit_test (test_min_max),
  };

  return RUN_TESTS (tests);
}
