/* SPDX-License-Identifier: BSD-3-Clause */
/* test-membership.c - choose the member list that counts among several. */

#include "unit.h"

#include <string.h>

#include "meta/membership.h"

static struct fp_uuid uuid[4];
static struct fp_members list[4];
static struct fp_seen seen[4];

/* Set list i: the first nr servers, current those in the set `current`. */
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
  assert_int_equal (fp_membership_best (seen, 0), -1);
  fill (0, 0, 0, 0);
  seen[1].list = NULL;
  assert_int_equal (fp_membership_best (seen, 2), -1);
  seen[1].list = &list[1];
}

/* The highest version counts among the lists that no current member lacks. */
static void
test_highest (void **state)
{
  (void) state;
  fill (0, 5, 3, 7);
  fill (1, 6, 3, 2);
  fill (2, 4, 3, 7);
  assert_int_equal (fp_membership_best (seen, 3), 1);
  assert_int_equal (fp_membership_newest (seen, 3), 6);
  /* Server 0 lacks list 1.  Server 2 lacks list 0. */
  fill (1, 6, 3, 1);
  assert_int_equal (fp_membership_best (seen, 3), 2);
  seen[1].list = NULL;
  assert_int_equal (fp_membership_best (seen, 3), 2);
  assert_int_equal (fp_membership_newest (seen, 3), 5);
  fill (2, 5, 3, 7);
  assert_int_equal (fp_membership_best (seen, 3), 0);
  seen[1].list = &list[1];
}

/* A current member lacks a list if its own is older, or differs at the same
 * version.  A member with a newer list, or with none, may have had it.
 */
static void
test_lacked (void **state)
{
  (void) state;
  fill (0, 5, 3, 7);
  fill (1, 5, 3, 6);
  assert_true (fp_membership_is_lacked (seen, 2, &list[0]));
  assert_false (fp_membership_is_lacked (seen, 2, &list[1]));
  assert_int_equal (fp_membership_best (seen, 2), 1);
  fill (2, 0, 0, 0);
  assert_false (fp_membership_is_lacked (seen, 3, &list[1]));
  fill (2, 4, 3, 7);
  assert_true (fp_membership_is_lacked (seen, 3, &list[1]));
  fill (2, 6, 3, 4);
  assert_false (fp_membership_is_lacked (seen, 3, &list[1]));
  assert_int_equal (fp_membership_best (seen, 3), 2);
}

/* If each of two lists is lacked, the oldest is the base, and both count. */
static void
test_all_lacked (void **state)
{
  (void) state;
  fill (0, 5, 3, 3);
  fill (1, 5, 3, 7);
  assert_int_equal (fp_membership_best (seen, 2), 0);
  assert_int_equal (fp_membership_believed (seen, 2, 0, 2), 3);
  assert_true (fp_membership_enough (seen, 2, 0, 2));
  fill (2, 6, 3, 7);
  assert_int_equal (fp_membership_best (seen, 3), 0);
}

/* Two of three members have the newest list.  The third has an older one,
 * where a member that missed something since is current: that member is not
 * believed.
 */
static void
test_believed (void **state)
{
  (void) state;
  fill (0, 5, 4, 15);
  fill (1, 7, 4, 14);
  fill (2, 7, 4, 14);
  fill (3, 5, 4, 15);
  assert_int_equal (fp_membership_best (seen, 4), 0);
  assert_false (fp_membership_is_sure (seen, 4, 0, 2));
  assert_int_equal (fp_membership_believed (seen, 4, 0, 2), 14);
  assert_true (fp_membership_enough (seen, 4, 0, 2));
  /* So many have the base that no later list can be complete. */
  fill (2, 5, 4, 15);
  assert_int_equal (fp_membership_best (seen, 4), 0);
  assert_true (fp_membership_is_sure (seen, 4, 0, 2));
  assert_int_equal (fp_membership_believed (seen, 4, 0, 2), 15);
}

/* Each list that counts needs its quorum. */
static void
test_enough (void **state)
{
  (void) state;
  fill (0, 5, 4, 7);
  /* the caller checks the base's own quorum */
  assert_true (fp_membership_enough (seen, 1, 0, 2));
  fill (1, 6, 4, 15);
  assert_int_equal (fp_membership_best (seen, 2), 0);
  assert_int_equal (fp_membership_believed (seen, 2, 0, 2), 7);
  assert_false (fp_membership_enough (seen, 2, 0, 2));
  fill (2, 6, 4, 15);
  assert_true (fp_membership_enough (seen, 3, 0, 2));
  /* No member is current in all the lists. */
  fill (0, 5, 4, 3);
  fill (1, 4, 4, 15);
  fill (2, 6, 4, 12);
  fill (3, 4, 4, 15);
  assert_int_equal (fp_membership_best (seen, 4), 1);
  assert_int_equal (fp_membership_believed (seen, 4, 1, 2), 0);
  assert_false (fp_membership_enough (seen, 4, 1, 2));
}

/* Between two lists of one version, the one counts that all its current
 * members have.
 */
static void
test_tie (void **state)
{
  (void) state;
  fill (0, 5, 3, 7);
  fill (1, 5, 3, 2);
  fill (2, 4, 3, 7);
  assert_int_equal (fp_membership_best (seen, 3), 1);
  fill (1, 5, 3, 6);
  fill (2, 5, 3, 7);
  assert_int_equal (fp_membership_best (seen, 3), 0);
  fill (2, 5, 3, 6);
  assert_int_equal (fp_membership_best (seen, 3), 1);
}

static void
test_find (void **state)
{
  (void) state;
  fill (0, 1, 3, 5);
  assert_int_equal (fp_membership_find (&list[0], &uuid[2]), 2);
  assert_int_equal (fp_membership_find (&list[0], &uuid[3]), -1);
  assert_int_equal (fp_membership_current (&list[0]), 2);
}

/* If a list may shrink, the rest meets every majority of the old one. */
static void
test_shrink (void **state)
{
  (void) state;
  for (unsigned was = 1; was <= 64; was++)
    for (unsigned is = 0; is <= was; is++) {
      unsigned others = was - is;

      assert_int_equal (fp_membership_may_shrink (was, is, 1),
                        is > 0 && others <= was / 2);
    }
}

/* Members missing from a quorum are too few to have shrunk the list, but with
 * one more they could have.  Up to four members, every quorum of a shrunk list
 * meets every quorum of the old one.
 */
static void
test_quorum (void **state)
{
  (void) state;
  for (unsigned copies = 1; copies <= 4; copies++)
    for (unsigned n = 1; n <= 64; n++) {
      unsigned quorum = fp_membership_quorum (n, copies);

      assert_in_range (quorum, 1, n);
      assert_false (fp_membership_may_shrink (n, n - quorum, copies));
      if (quorum > 1)
        assert_true (fp_membership_may_shrink (n, n - quorum + 1, copies));
      for (unsigned is = 1; n <= 4 && is <= n; is++)
        if (fp_membership_may_shrink (n, is, copies))
          assert_true (fp_membership_meet (n, is, n, copies));
    }
  /* A list that grows by one meets the old one, too.  By two it may not. */
  for (unsigned n = 1; n < 64; n++)
    assert_true (fp_membership_meet (n, n + 1, n + 1, 2));
  assert_false (fp_membership_meet (1, 3, 3, 2));
  assert_false (fp_membership_meet (3, 3, 4, 2));
  assert_true (fp_membership_meet (2, 2, 3, 2));
}

/* Generations rise with each version.  The low versions keep the values that
 * they always had.
 */
static void
test_generation (void **state)
{
  const uint64_t wide = UINT64_C (1) << 29;
  uint64_t last = 0;

  (void) state;
  assert_true (fp_membership_generation (FP_MEMBERSHIP_ROUND) == UINT64_C (1)
                                                                     << 42);
  assert_true (fp_membership_generation (wide) == UINT64_C (1) << 61);
  for (uint64_t v = 1; v < FP_MEMBERSHIP_VERSION_MAX; v += v / 64 + 1) {
    uint64_t g = fp_membership_generation (v);

    assert_true (g > last);
    assert_true (fp_membership_generation (v + 1) > g);
    last = g;
  }
  assert_true (fp_membership_generation (wide - 1) <
               fp_membership_generation (wide));
  assert_true (fp_membership_generation (wide + 1) >
               fp_membership_generation (wide));
  assert_true (fp_membership_generation (FP_MEMBERSHIP_VERSION_MAX) <
               UINT64_C (1) << 62);
  assert_true (FP_MEMBERSHIP_VERSION_MAX / FP_MEMBERSHIP_ROUND >= 100000000);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_none),       cmocka_unit_test (test_highest),
    cmocka_unit_test (test_lacked),     cmocka_unit_test (test_all_lacked),
    cmocka_unit_test (test_believed),   cmocka_unit_test (test_enough),
    cmocka_unit_test (test_tie),        cmocka_unit_test (test_find),
    cmocka_unit_test (test_shrink),     cmocka_unit_test (test_quorum),
    cmocka_unit_test (test_generation),
  };

  return cmocka_run_group_tests (tests, setup, NULL);
}
