/* SPDX-License-Identifier: BSD-3-Clause */
/* test-tokens.c - tokens prove that a data connection belongs to a session:
 * each counts once, for one lane, and for a limited time.
 */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "memserver/session/tokens.h"

#define LANE 3u

static struct tokens t, other;
static uint8_t token[FP_TOKEN_SIZE];
static uint64_t now;

static int
setup (void **state)
{
  (void) state;
  memset (&t, 0, sizeof t);
  memset (&other, 0, sizeof other);
  now = UINT64_C (1) << 40;
  assert_int_equal (tokens_make (&t, LANE, now, token), 0);
  return 0;
}

static void
test_replayed (void **state)
{
  (void) state;
  assert_true (tokens_take (&t, LANE, now, token));
  assert_false (tokens_take (&t, LANE, now, token));
  /* A used token stays void when the next one is made. */
  assert_int_equal (tokens_make (&t, LANE, now, (uint8_t[16]) { 0 }), 0);
  assert_false (tokens_take (&t, LANE, now, token));
}

/* An unused token is void once its lane has a later one. */
static void
test_old (void **state)
{
  uint8_t next[FP_TOKEN_SIZE];

  (void) state;
  assert_int_equal (tokens_make (&t, LANE, now, next), 0);
  assert_memory_not_equal (token, next, sizeof next);
  assert_false (tokens_take (&t, LANE, now, token));
  assert_true (tokens_take (&t, LANE, now, next));
  assert_int_equal (t.nr, 0);
}

static void
test_expired (void **state)
{
  (void) state;
  now += TOKENS_MS * FP_NS_PER_MS - 1;
  assert_int_equal (tokens_make (&other, LANE, now, token), 0);
  assert_false (tokens_take (&t, LANE, now, token));
  assert_int_equal (t.nr, 1);
  assert_false (tokens_take (&t, LANE, now + 1, token));
  assert_int_equal (t.nr, 0);
  assert_false (
      tokens_take (&other, LANE, now + TOKENS_MS * FP_NS_PER_MS, token));
}

/* A wrong token is refused, whichever bit differs, and leaves the right one
 * valid.  Else a client could use it up with the session's number alone.
 */
static void
test_wrong (void **state)
{
  (void) state;
  for (unsigned i = 0; i < 8 * FP_TOKEN_SIZE; i++) {
    token[i / 8] ^= (uint8_t) (1 << i % 8);
    assert_false (tokens_take (&t, LANE, now, token));
    token[i / 8] ^= (uint8_t) (1 << i % 8);
  }
  assert_true (tokens_take (&t, LANE, now, token));
}

static void
test_wrong_lane (void **state)
{
  uint8_t second[FP_TOKEN_SIZE];

  (void) state;
  assert_int_equal (tokens_make (&t, LANE + 1, now, second), 0);
  assert_false (tokens_take (&t, LANE + 1, now, token));
  assert_false (tokens_take (&t, LANE, now, second));
  assert_false (tokens_take (&t, 0, now, token));
  assert_true (tokens_take (&t, LANE, now, token));
  assert_true (tokens_take (&t, LANE + 1, now, second));
}

static void
test_other_session (void **state)
{
  uint8_t theirs[FP_TOKEN_SIZE];

  (void) state;
  assert_false (tokens_take (&other, LANE, now, token));
  assert_int_equal (tokens_make (&other, LANE, now, theirs), 0);
  assert_false (tokens_take (&other, LANE, now, token));
  assert_false (tokens_take (&t, LANE, now, theirs));
  assert_true (tokens_take (&t, LANE, now, token));
}

/* MAX_DATA tokens at most, in memory of fixed size. */
static void
test_full (void **state)
{
  uint8_t each[MAX_DATA][FP_TOKEN_SIZE];

  (void) state;
  assert_true (tokens_take (&t, LANE, now, token));
  for (uint32_t i = 0; i < MAX_DATA; i++)
    assert_int_equal (tokens_make (&t, i << 16, now, each[i]), 0);
  assert_int_equal (tokens_make (&t, 1, now, token), -EBUSY);
  /* A lane that has a token may get another one. */
  assert_int_equal (tokens_make (&t, 5 << 16, now, each[5]), 0);
  /* They may be used in any order. */
  for (uint32_t i = 0; i < MAX_DATA; i++) {
    uint32_t lane = i * 37 % MAX_DATA;

    assert_true (tokens_take (&t, lane << 16, now, each[lane]));
    assert_false (tokens_take (&t, lane << 16, now, each[lane]));
  }
  assert_int_equal (t.nr, 0);
  for (uint32_t i = 0; i < MAX_DATA; i++)
    assert_int_equal (tokens_make (&t, i, now, each[i]), 0);
  now += TOKENS_MS * FP_NS_PER_MS;
  assert_int_equal (tokens_make (&t, MAX_DATA, now, token), 0);
  assert_int_equal (t.nr, 1);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup (test_replayed, setup),
    cmocka_unit_test_setup (test_old, setup),
    cmocka_unit_test_setup (test_expired, setup),
    cmocka_unit_test_setup (test_wrong, setup),
    cmocka_unit_test_setup (test_wrong_lane, setup),
    cmocka_unit_test_setup (test_other_session, setup),
    cmocka_unit_test_setup (test_full, setup),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
