/* SPDX-License-Identifier: BSD-3-Clause */
/* test-roster.c - which of several lists of members counts. */

#include "unit.h"

#include <string.h>

#include "volume/roster.h"

static struct fp_uuid uuid[4];
static struct fp_members list[4];
static struct fp_seen seen[4];

/* Of these servers, the current ones a set. */
static void
fill (unsigned i, uint64_t version, unsigned nr, unsigned current)
{
  memset (&list[i], 0, sizeof list[i]);
  list[i].version = version;
  list[i].count = nr;
  for (unsigned m = 0; m < nr; m++) {
    list[i].members[m].server = uuid[m];
    list[i].members[m].current = current >> m & 1;
  }
}

static int
setup (void **state)
{
  (void) state;
  for (unsigned i = 0; i < 4; i++) {
    if (fp_uuid_generate (&uuid[i]) < 0)
      return 1;
    seen[i] = (struct fp_seen) { &uuid[i], &list[i] };
  }
  return 0;
}

static void
test_none (void **state)
{
  (void) state;
  assert_int_equal (fp_roster_best (seen, 0), -1);
  fill (0, 0, 0, 0);
  seen[1].list = NULL;
  assert_int_equal (fp_roster_best (seen, 2), -1);
  seen[1].list = &list[1];
}

static void
test_highest (void **state)
{
  (void) state;
  fill (0, 5, 3, 7);
  fill (1, 6, 3, 1);
  fill (2, 4, 3, 7);
  assert_int_equal (fp_roster_best (seen, 3), 1);
  seen[1].list = NULL;
  assert_int_equal (fp_roster_best (seen, 3), 0);
  seen[1].list = &list[1];
}

/* Two attempts of one version: what all whom it names have is what counts. */
static void
test_tie (void **state)
{
  (void) state;
  fill (0, 5, 3, 7);
  fill (1, 5, 3, 2);
  fill (2, 4, 3, 7);
  assert_int_equal (fp_roster_best (seen, 3), 1);
  fill (1, 5, 3, 6);
  fill (2, 5, 3, 7);
  assert_int_equal (fp_roster_best (seen, 3), 0);
  fill (2, 5, 3, 6);
  assert_int_equal (fp_roster_best (seen, 3), 1);
}

static void
test_find (void **state)
{
  (void) state;
  fill (0, 1, 3, 5);
  assert_int_equal (fp_roster_find (&list[0], &uuid[2]), 2);
  assert_int_equal (fp_roster_find (&list[0], &uuid[3]), -1);
  assert_int_equal (fp_roster_current (&list[0]), 2);
}

/* Whatever it may shrink to, more than half of what was has one of them. */
static void
test_shrink (void **state)
{
  (void) state;
  for (unsigned was = 1; was <= 64; was++)
    for (unsigned is = 0; is <= was; is++) {
      unsigned others = was - is;

      assert_int_equal (fp_roster_may_shrink (was, is, 1),
                        is > 0 && others <= was / 2);
    }
}

/* Higher with each version, as it always was for the low ones. */
static void
test_generation (void **state)
{
  const uint64_t wide = UINT64_C (1) << 29;
  uint64_t last = 0;

  (void) state;
  assert_true (fp_roster_generation (FP_ROSTER_ROUND) == UINT64_C (1) << 42);
  assert_true (fp_roster_generation (wide) == UINT64_C (1) << 61);
  for (uint64_t v = 1; v < FP_ROSTER_VERSION_MAX; v += v / 64 + 1) {
    uint64_t g = fp_roster_generation (v);

    assert_true (g > last);
    assert_true (fp_roster_generation (v + 1) > g);
    last = g;
  }
  assert_true (fp_roster_generation (wide - 1) < fp_roster_generation (wide));
  assert_true (fp_roster_generation (wide + 1) > fp_roster_generation (wide));
  assert_true (fp_roster_generation (FP_ROSTER_VERSION_MAX) < UINT64_C (1)
                                                                  << 62);
  assert_true (FP_ROSTER_VERSION_MAX / FP_ROSTER_ROUND >= 100000000);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_none),   cmocka_unit_test (test_highest),
    cmocka_unit_test (test_tie),    cmocka_unit_test (test_find),
    cmocka_unit_test (test_shrink), cmocka_unit_test (test_generation),
  };

  return cmocka_run_group_tests (tests, setup, NULL);
}
