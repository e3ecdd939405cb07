/* SPDX-License-Identifier: BSD-3-Clause */
/* test-access.c - the file of --access, and the rights that it gives. */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "memserver/auth/access.h"

static char path[64];
static struct fp_error error;
static struct access *file;

static int
setup (void **state)
{
  int fd;

  (void) state;
  snprintf (path, sizeof path, "/tmp/farpage-test.XXXXXX");
  fd = mkstemp (path);
  if (fd < 0)
    return -1;
  close (fd);
  file = NULL;
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  access_free (file);
  return unlink (path);
}

static int
read_text (const char *text)
{
  FILE *fp = fopen (path, "w");

  assert_non_null (fp);
  assert_true (fputs (text, fp) >= 0);
  assert_int_equal (fclose (fp), 0);
  access_free (file);
  file = NULL;
  return access_read (&file, path, &error);
}

static struct who
tls (const char *name)
{
  struct who w = { .kind = WHO_TLS };

  snprintf (w.name, sizeof w.name, "%s", name);
  return w;
}

static const struct who anonymous = { .kind = WHO_ANONYMOUS };
static const struct who nobody;

static struct who
user (uint32_t uid)
{
  return (struct who) { .kind = WHO_USER, .uid = uid };
}

static const struct access_rights *
find (struct who w)
{
  return access_find (file, &w);
}

static void
test_settings (void **state)
{
  const struct access_rights *r;

  (void) state;
  assert_int_equal (read_text ("# who\n"
                               "[alice]\n"
                               "quota = 8G\n"
                               "volumes = alice-* shared\n"
                               "volumes = extra\n"
                               "read-only = golden-?\n"
                               "delete = yes ; hers\n"
                               "takeover = yes\n"
                               "[uid:1000]\n"
                               "read_only = yes\n"
                               "volumes = *\n"
                               "[anonymous]\n"
                               "quota = 0\n"
                               "[boss]\n"
                               "admin = yes\n"
                               "delete = no\n"),
                    0);
  assert_int_equal (access_count (file), 4);
  r = find (tls ("alice"));
  assert_non_null (r);
  assert_int_equal (r->quota, UINT64_C (8) << 30);
  assert_int_equal (r->nr_patterns, 4);
  assert_true (r->may_delete && r->may_take_over);
  assert_false (r->is_admin || r->read_only);
  r = find (user (1000));
  assert_non_null (r);
  assert_true (r->read_only);
  assert_false (r->may_delete || r->may_take_over || r->is_admin);
  assert_true (r->quota == UINT64_MAX);
  r = find (anonymous);
  assert_non_null (r);
  assert_int_equal (r->quota, 0);
  assert_true (find (tls ("boss"))->is_admin);
}

/* One kind of identity is never taken for another. */
static void
test_who (void **state)
{
  struct who w = user (0);
  char text[WHO_STR_MAX];

  (void) state;
  assert_int_equal (read_text ("[uid:0]\nvolumes = *\n"
                               "[anonymous]\nvolumes = *\n"
                               "[alice]\nvolumes = *\n"),
                    0);
  assert_null (find (tls ("uid:0")));
  assert_null (find (tls ("anonymous")));
  assert_null (find (tls ("alic")));
  assert_null (find (tls ("Alice")));
  assert_null (find (tls ("")));
  assert_null (find (user (1)));
  assert_null (find (user (UINT32_MAX)));
  assert_null (find (nobody));
  assert_non_null (find (user (0)));
  assert_false (who_eq (&nobody, &nobody));
  who_format (&w, text);
  assert_string_equal (text, "uid:0");
  w = tls ("anonymous");
  who_format (&w, text);
  assert_string_equal (text, "tls:anonymous");
  who_format (&anonymous, text);
  assert_string_equal (text, "anonymous");

  assert_int_equal (read_text ("[user:root]\ndelete = yes\n"), 0);
  assert_true (find (user (0))->may_delete);
  /* One identity, written in two ways, is one entry. */
  assert_int_equal (
      read_text ("[user:root]\ndelete = yes\n[uid:0]\nadmin = yes\n"), 0);
  assert_int_equal (access_count (file), 1);
  assert_true (find (user (0))->is_admin);
}

static void
test_levels (void **state)
{
  static const struct {
    const char *name;
    enum access_level alice, bob;
  } table[] = {
    { "alice-1", ACCESS_WRITE, ACCESS_NONE },
    { "alice-", ACCESS_WRITE, ACCESS_NONE },
    { "alice", ACCESS_NONE, ACCESS_NONE },
    { "xalice-1", ACCESS_NONE, ACCESS_NONE },
    { "Alice-1", ACCESS_NONE, ACCESS_NONE },
    { "shared", ACCESS_WRITE, ACCESS_READ },
    { "shared2", ACCESS_NONE, ACCESS_NONE },
    { "alice-golden", ACCESS_READ, ACCESS_NONE },
    { "golden", ACCESS_READ, ACCESS_NONE },
    { ".hidden", ACCESS_NONE, ACCESS_NONE },
  };
  const struct access_rights *alice, *bob;
  struct who a = tls ("alice"), b = tls ("bob");

  (void) state;
  assert_int_equal (read_text ("[alice]\n"
                               "read-only = *golden\n"
                               "volumes = alice-* shared\n"
                               "[bob]\n"
                               "volumes = shared\n"
                               "read-only = yes\n"
                               "[boss]\n"
                               "admin = yes\n"),
                    0);
  alice = find (a);
  bob = find (b);
  for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
    if (access_to (alice, table[i].name, &b) != table[i].alice)
      fail_msg ("alice: %s", table[i].name);
    if (access_to (bob, table[i].name, &a) != table[i].bob)
      fail_msg ("bob: %s", table[i].name);
    /* Having created the volume gives no more rights. */
    assert_true (access_to (alice, table[i].name, &a) == table[i].alice);
    assert_true (access_sees (alice, table[i].name, &a) ==
                 (table[i].alice != ACCESS_NONE));
    assert_true (access_sees (find (tls ("boss")), table[i].name, &a));
    assert_true (access_to (find (tls ("boss")), table[i].name, &a) ==
                 ACCESS_NONE);
    assert_true (access_to (&access_nobody, table[i].name, &nobody) ==
                 ACCESS_NONE);
  }
  /* Volumes without a name. */
  assert_true (access_to (alice, "", &a) == ACCESS_WRITE);
  assert_true (access_to (alice, "", &b) == ACCESS_NONE);
  assert_true (access_to (alice, "", &nobody) == ACCESS_WRITE);
  assert_true (access_to (bob, "", &b) == ACCESS_READ);
  assert_true (access_to (&access_nobody, "", &nobody) == ACCESS_NONE);
  assert_false (access_sees (&access_nobody, "", &nobody));
}

/* Without an access file. */
static void
test_none (void **state)
{
  const struct access_rights *r = find (nobody);

  (void) state;
  assert_non_null (r);
  assert_true (access_to (r, "x", &nobody) == ACCESS_WRITE);
  assert_true (access_to (r, "", &anonymous) == ACCESS_WRITE);
  assert_true (access_sees (r, "x", &anonymous));
  assert_true (r->may_delete && r->may_take_over && r->is_admin);
  assert_true (r->quota == UINT64_MAX);
}

static void
test_refused (void **state)
{
  static const struct {
    const char *text, *says;
  } table[] = {
    { "", "no client could connect" },
    { "[alice]\n", "no client could connect" },
    { "quota = 1G\n", "before the first identity" },
    { "[alice]\nquota = much\n", "[alice] quota: 'much' is not a size" },
    { "[alice]\nquota = -1\n", "not a size" },
    { "[alice]\nquota = 1G\nquota = 2G\n", "twice" },
    { "[alice]\nquota =\n", "a value is missing" },
    { "[alice]\nreadonly = yes\n", "is not one of" },
    { "[alice]\nQuota = 1G\n", "is not one of" },
    { "[alice]\nadmin = true\n", "neither yes nor no" },
    { "[alice]\ndelete = YES\n", "neither yes nor no" },
    { "[alice]\nvolumes = a/b\n", "matches no name" },
    { "[alice]\nvolumes = a\\*\n", "matches no name" },
    { "[alice]\nvolumes = \xc3\xa4\n", "matches no name" },
    { "[alice]\nnonsense\n", "line 2" },
    { "[alice\nvolumes = x\n", "line 1: not KEY = VALUE or [SECTION]" },
    { "[uid:]\nvolumes = x\n", "not a user ID" },
    { "[uid:-1]\nvolumes = x\n", "not a user ID" },
    { "[uid:4294967295]\nvolumes = x\n", "not a user ID" },
    { "[uid:99999999999999999999]\nvolumes = x\n", "not a user ID" },
    { "[uid:1x]\nvolumes = x\n", "not a user ID" },
    { "[user:no-such-user]\nvolumes = x\n", "there is no user" },
    { "[gid:5]\nvolumes = x\n", "not an identity" },
    { "[a b]\nvolumes = x\n", "not an identity" },
    /* A line that begins with a blank does not go on with the one before. */
    { "[alice]\ndelete = no\n  yes\n", "line 3: not KEY = VALUE" },
    { "[alice]\nquota = 1G\n  quota = 2G\n", "twice" },
    { "[alice]\nvolumes = a-*\n\fread-only = yes\n", "control character" },
    { "[alice]\nvolumes = a-*\rread-only = yes\n", "control character" },
    { "[alice]\nvolumes = a-* read-only=yes\n", "its own line" },
    { "[alice] read-only = yes\nvolumes = a-*\n", "text behind" },
    /* libinih truncates section names to 49 characters. */
    { "[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab]\n"
      "volumes = x\n",
      "more than 48" },
    { "[alice]\n"
      "volumes = "
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
      "longer than 64" },
  };

  (void) state;
  for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
    if (read_text (table[i].text) != -EINVAL)
      fail_msg ("taken: %s", table[i].text);
    if (strstr (error.text, table[i].says) == NULL)
      fail_msg ("'%s' does not say '%s'", error.text, table[i].says);
    assert_null (file);
  }
}

static void
test_limits (void **state)
{
  static char text[ACCESS_MAX * 40];
  size_t n = 0;

  (void) state;
  for (unsigned i = 0; i < ACCESS_MAX; i++)
    n += (size_t) snprintf (text + n, sizeof text - n, "[u%u]\nvolumes = v\n",
                            i);
  assert_int_equal (read_text (text), 0);
  assert_int_equal (access_count (file), ACCESS_MAX);
  assert_non_null (find (tls ("u1023")));
  snprintf (text + n, sizeof text - n, "[one-more]\nvolumes = v\n");
  assert_int_equal (read_text (text), -EINVAL);

  n = (size_t) snprintf (text, sizeof text, "[alice]\n");
  for (unsigned i = 0; i < ACCESS_PATTERNS_MAX; i++)
    n += (size_t) snprintf (text + n, sizeof text - n, "volumes = v%u\n", i);
  assert_int_equal (read_text (text), 0);
  assert_true (access_to (find (tls ("alice")), "v63", &nobody) ==
               ACCESS_WRITE);
  snprintf (text + n, sizeof text - n, "volumes = v\n");
  assert_int_equal (read_text (text), -EINVAL);
}

static void
test_file (void **state)
{
  (void) state;
  assert_int_equal (read_text ("[alice]\nvolumes = *\n"), 0);
  assert_int_equal (chmod (path, 0646), 0);
  access_free (file);
  file = NULL;
  assert_int_equal (access_read (&file, path, &error), -EINVAL);
  assert_non_null (strstr (error.text, "any user can write to it"));
  assert_int_equal (access_read (&file, "/no/such/file", &error), -ENOENT);
  assert_int_equal (access_read (&file, "/dev/null", &error), -EINVAL);
}

int
main (void)
{
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_settings), TEST (test_who),     TEST (test_levels),
    TEST (test_none),     TEST (test_refused), TEST (test_limits),
    TEST (test_file),
  };

  return RUN_TESTS (tests);
}
