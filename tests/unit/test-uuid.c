/* SPDX-License-Identifier: BSD-3-Clause */
/* test-uuid.c - random bytes, and UUIDs made of them. */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/random.h"
#include "base/uuid.h"

static void
test_random (void **state)
{
  /* More than one call of getrandom(2) returns. */
  static uint8_t a[1000], b[1000];
  unsigned zeros = 0;

  (void) state;
  assert_int_equal (fp_random (a, sizeof a - 1), 0);
  assert_int_equal (fp_random (b, sizeof b), 0);
  assert_memory_not_equal (a, b, sizeof b);
  assert_int_equal (a[sizeof a - 1], 0);
  /* 24 or more zeros in 999 bytes come once in 10^11 runs. */
  for (size_t i = 0; i < sizeof a - 1; i++)
    zeros += a[i] == 0;
  assert_in_range (zeros, 0, 24);
}

static void
test_round_trip (void **state)
{
  struct fp_uuid a, b;
  char s[FP_UUID_STR_MAX];

  (void) state;
  assert_int_equal (fp_uuid_generate (&a), 0);
  assert_int_equal (fp_uuid_generate (&b), 0);
  assert_false (fp_uuid_eq (&a, &b));
  assert_false (fp_uuid_is_nil (&a));
  fp_uuid_format (&a, s);
  assert_int_equal (strlen (s), 36);
  assert_int_equal (s[14], '4');
  assert_non_null (strchr ("89ab", s[19]));
  assert_int_equal (fp_uuid_parse (&b, s), 0);
  assert_true (fp_uuid_eq (&a, &b));
}

static void
test_parse (void **state)
{
  static const char *bad[] = {
    "",
    "01234567-89ab-cdef-0123-456789abcde",
    "01234567-89ab-cdef-0123-456789abcdef0",
    "01234567-89ab-cdef-0123-456789abcdeg",
    "0123456789ab-cdef-0123-456789abcdef",
    "01234567+89ab-cdef-0123-456789abcdef",
    "{1234567-89ab-cdef-0123-456789abcdef",
    "01234567-89ab-cdef-0123-456789abcdef\n",
  };
  struct fp_uuid uuid = { { 7 } };
  char s[FP_UUID_STR_MAX];

  (void) state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    if (fp_uuid_parse (&uuid, bad[i]) != -EINVAL || uuid.bytes[0] != 7)
      fail_msg ("'%s' was taken", bad[i]);
  }
  assert_int_equal (
      fp_uuid_parse (&uuid, "01234567-89AB-cdef-0123-456789abcdef"), 0);
  assert_int_equal (uuid.bytes[4], 0x89);
  fp_uuid_format (&uuid, s);
  assert_string_equal (s, "01234567-89ab-cdef-0123-456789abcdef");
  assert_int_equal (
      fp_uuid_parse (&uuid, "00000000-0000-0000-0000-000000000000"), 0);
  assert_true (fp_uuid_is_nil (&uuid));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_random),
    cmocka_unit_test (test_round_trip),
    cmocka_unit_test (test_parse),
  };

  return RUN_TESTS (tests);
}
