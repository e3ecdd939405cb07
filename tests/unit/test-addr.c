/* SPDX-License-Identifier: BSD-3-Clause */
/* test-addr.c - each form of an address is accepted, and nothing else. */

#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "base/addr.h"

#define C50 "cccccccccccccccccccccccccccccccccccccccccccccccccc"

/* Input, and how it is printed; NULL: refused. */
static const struct {
  const char *in, *out;
} table[] = {
  { "donor", "donor:7471" },
  { "donor:1", "donor:1" },
  { "Donor-1.example.net:65535", "Donor-1.example.net:65535" },
  { "127.0.0.1:0", "127.0.0.1:0" },
  { "[::1]", "[::1]:7471" },
  { "[::1]:9", "[::1]:9" },
  { "[fe80::1%eth0]:9", "[fe80::1%eth0]:9" },
  { "unix:/run/f.sock", "unix:/run/f.sock" },
  { "unix:a:b", "unix:a:b" },
  { "unix:/" C50 C50 "666666", "unix:/" C50 C50 "666666" }, /* 107 */
  { "unix:/" C50 C50 "7777777", NULL },
  { "", NULL },
  { ":7471", NULL },
  { "donor:", NULL },
  { "donor:65536", NULL },
  { "donor:4294967297", NULL },
  { "donor:99999999999999999999", NULL },
  { "donor:-1", NULL },
  { "donor:+1", NULL },
  { "donor:1x", NULL },
  { "donor: 1", NULL },
  { "do nor", NULL },
  { "donor/x", NULL },
  { "donor\n", NULL },
  { "::1", NULL },
  { "fe80::1:7471", NULL },
  { "[::1", NULL },
  { "[::1]x", NULL },
  { "[::1]:", NULL },
  { "[]:1", NULL },
  { "[donor]:1", NULL },
  { "[::1%]:1", NULL },
  { "[%eth0]", NULL },
  { "unix:", NULL },
  { "unix:/a\nb", NULL },
  { "unix:/a\tb", NULL },
  { C50 C50 "12345678901234567890", C50 C50 "12345678901234567890:7471" },
  { C50 C50 "123456789012345678901", NULL },
};

static void
test_table (void **state)
{
  (void) state;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct fp_addr a = { .port = 77 }, b;
    char s[FP_ADDR_MAX + 1];
    const char *why = NULL;
    int r = fp_addr_parse (&a, table[i].in, &why);

    if (table[i].out == NULL) {
      if (r != -EINVAL || why == NULL || a.port != 77)
        fail_msg ("'%s' was not refused", table[i].in);
      continue;
    }
    if (r != 0)
      fail_msg ("'%s': %s", table[i].in, why);
    fp_addr_format (&a, s);
    assert_string_equal (s, table[i].out);
    assert_int_equal (fp_addr_parse (&b, s, NULL), 0);
    assert_true (fp_addr_eq (&a, &b));
  }
}

static void
parse (struct fp_addr *a, const char *s)
{
  assert_int_equal (fp_addr_parse (a, s, NULL), 0);
}

static void
test_eq (void **state)
{
  struct fp_addr a, b;

  (void) state;
  parse (&a, "donor:7471");
  parse (&b, "DONOR");
  assert_true (fp_addr_eq (&a, &b));
  parse (&b, "donor:7472");
  assert_false (fp_addr_eq (&a, &b));
  parse (&a, "unix:a");
  parse (&b, "unix:A");
  assert_false (fp_addr_eq (&a, &b));
  parse (&b, "a:0");
  assert_false (fp_addr_eq (&a, &b));
}

static void
test_wildcard (void **state)
{
  struct fp_addr a;

  (void) state;
  parse (&a, "0.0.0.0");
  assert_true (fp_addr_is_wildcard (&a));
  parse (&a, "[::]:1");
  assert_true (fp_addr_is_wildcard (&a));
  parse (&a, "[::1]:1");
  assert_false (fp_addr_is_wildcard (&a));
  parse (&a, "unix:0.0.0.0");
  assert_false (fp_addr_is_wildcard (&a));
}

static void
test_resolve (void **state)
{
  struct fp_sockaddrs list;
  struct fp_addr a, back;
  const char *why = NULL;

  (void) state;
  parse (&a, "127.0.0.1:9");
  assert_int_equal (fp_addr_resolve (&a, &list, &why), 0);
  assert_int_equal (list.nr, 1);
  assert_int_equal (list.list[0].len, sizeof (struct sockaddr_in));
  assert_int_equal (
      fp_addr_from_sockaddr (&back, (struct sockaddr *) &list.list[0].addr,
                             list.list[0].len),
      0);
  assert_true (fp_addr_eq (&a, &back));

  parse (&a, "[::1]:9");
  assert_int_equal (fp_addr_resolve (&a, &list, &why), 0);
  assert_int_equal (
      fp_addr_from_sockaddr (&back, (struct sockaddr *) &list.list[0].addr,
                             list.list[0].len),
      0);
  assert_true (fp_addr_eq (&a, &back));

  parse (&a, "[fe80::1%lo]:9");
  assert_int_equal (fp_addr_resolve (&a, &list, &why), 0);
  assert_int_equal (list.nr, 1);
  assert_true (((struct sockaddr_in6 *) &list.list[0].addr)->sin6_scope_id >
               0);
  parse (&a, "[fe80::1%no-such-if]:9");
  why = NULL;
  assert_true (fp_addr_resolve (&a, &list, &why) < 0);
  assert_non_null (why);
  why = NULL;

  parse (&a, "unix:/x/y");
  assert_int_equal (fp_addr_resolve (&a, &list, &why), 0);
  assert_int_equal (list.nr, 1);
  assert_int_equal (list.list[0].addr.ss_family, AF_UNIX);
  assert_int_equal (
      fp_addr_from_sockaddr (&back, (struct sockaddr *) &list.list[0].addr,
                             list.list[0].len),
      0);
  assert_true (fp_addr_eq (&a, &back));

  /* Refused by the resolver without asking a network. */
  parse (&a, "a..b");
  assert_null (why);
  assert_true (fp_addr_resolve (&a, &list, &why) < 0);
  assert_non_null (why);
}

static void
test_from_sockaddr (void **state)
{
  struct sockaddr_un un = { .sun_family = AF_UNIX };
  struct sockaddr other = { .sa_family = AF_NETLINK };
  struct fp_addr a;

  (void) state;
  assert_int_equal (
      fp_addr_from_sockaddr (&a, (struct sockaddr *) &un,
                             offsetof (struct sockaddr_un, sun_path)),
      0);
  assert_true (a.is_unix);
  assert_string_equal (a.host, "");

  /* A path may fill the array without a NUL. */
  memset (un.sun_path, 'p', sizeof un.sun_path);
  assert_int_equal (
      fp_addr_from_sockaddr (&a, (struct sockaddr *) &un, sizeof un), 0);
  assert_int_equal (strlen (a.host), sizeof un.sun_path);

  assert_int_equal (fp_addr_from_sockaddr (&a, &other, sizeof other),
                    -EAFNOSUPPORT);
}

static void
test_local (void **state)
{
  static const struct {
    const char *addr;
    bool local;
  } cases[] = {
    { "unix:/x", true },
    { "127.0.0.1:1", true },
    { "127.255.0.9:1", true },
    { "[::1]:1", true },
    { "[::ffff:127.0.0.1]:1", true },
    { "[::ffff:10.0.0.1]:1", false },
    { "10.0.0.1:1", false },
    { "128.0.0.1:1", false },
    { "0.0.0.0:1", false },
    { "0.0.0.127:1", false },
    { "[::]:1", false },
    { "[fe80::1]:1", false },
    { "[2001:db8::1]:1", false },
    { "[7f00::1]:1", false },
  };
  static struct fp_sockaddrs list;
  struct sockaddr other = { .sa_family = AF_NETLINK };

  (void) state;
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *why = NULL;
    struct fp_addr a;

    assert_int_equal (fp_addr_parse (&a, cases[i].addr, &why), 0);
    assert_int_equal (fp_addr_resolve (&a, &list, &why), 0);
    if (fp_sockaddr_is_local ((struct sockaddr *) &list.list[0].addr) !=
        cases[i].local)
      fail_msg ("%s", cases[i].addr);
  }
  assert_false (fp_sockaddr_is_local (&other));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_table),         cmocka_unit_test (test_eq),
    cmocka_unit_test (test_wildcard),      cmocka_unit_test (test_resolve),
    cmocka_unit_test (test_from_sockaddr), cmocka_unit_test (test_local),
  };

  return RUN_TESTS (tests);
}
