/* SPDX-License-Identifier: BSD-3-Clause */
/* test-join-token.c - the text of a join token. */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "transport/tls/join_token.h"
#include "transport/tls/psk_file.h"

#define KEY "00112233445566778899aabbccddeeff"
/* 50 characters, the longest name */
#define LONG "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void
test_good (void **state)
{
  static const char *const users[] = { "a", "a.b", "client-1", "@all", LONG };
  char text[FP_JOIN_TOKEN_MAX], again[FP_JOIN_TOKEN_MAX];
  struct fp_join_token t;

  (void) state;
  for (unsigned i = 0; i < sizeof users / sizeof users[0]; i++) {
    snprintf (text, sizeof text, "join.%s.7ffffff0." KEY, users[i]);
    assert_int_equal (fp_join_parse (&t, text), 0);
    assert_string_equal (t.user, users[i]);
    assert_int_equal (t.expiry, 0x7ffffff0);
    assert_int_equal (t.key[15], 0xff);
    assert_true (fp_psk_user_joins (t.identity));
    assert_int_equal (strncmp (t.identity, text, strlen (t.identity)), 0);
    assert_int_equal (fp_join_format (&t, again), 0);
    assert_string_equal (again, text);
    strcat (text, "\r\n");
    assert_int_equal (fp_join_parse (&t, text), 0);
  }
}

static void
test_bad (void **state)
{
  static const char *const bad[] = {
    "",
    "join",
    "join.",
    "join..7ffffff0." KEY,
    "join.a.7ffffff0." KEY "0",
    "join.a.7ffffff0." KEY "\nx",
    "join.a.7ffffff0.00112233445566778899aabbccddeef",
    "join.a.7ffffff0.00112233445566778899aabbccddeefx",
    "join.a.7fffff0." KEY,
    "join.a.7ffffffx." KEY,
    "join.a7ffffff0." KEY,
    "Join.a.7ffffff0." KEY,
    "join.a b.7ffffff0." KEY,
    "join.#61.7ffffff0." KEY,
    "join.a:b.7ffffff0." KEY,
    "join.join.a.7ffffff0." KEY,
    "join." LONG "a.7ffffff0." KEY,
    " join.a.7ffffff0." KEY,
  };
  struct fp_join_token t;

  (void) state;
  for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
    if (fp_join_parse (&t, bad[i]) != -EINVAL)
      fail_msg ("'%s' is accepted", bad[i]);
  assert_int_equal (fp_join_make (&t, "join.a", 1), -EINVAL);
  assert_int_equal (fp_join_make (&t, "", 1), -EINVAL);
  assert_int_equal (fp_join_parse_identity (&t, "alice"), -EINVAL);
  assert_int_equal (fp_join_parse_identity (&t, "join.a"), -EINVAL);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_good),
    cmocka_unit_test (test_bad),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
