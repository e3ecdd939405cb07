/* SPDX-License-Identifier: BSD-3-Clause */
/* test-conf.c - configuration files, their drop-ins, and times. */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "conf/conf.h"
#include "conf/duration.h"

static char dir[32];
static char path[64];
static char seen[1024]; /* what was set, one line each */
static struct fp_error error;

/* Write a file of dir. */
static void
write_file (const char *name, const char *text)
{
  char file[128];
  FILE *fp;

  snprintf (file, sizeof file, "%s/%s", dir, name);
  fp = fopen (file, "w");
  assert_non_null (fp);
  assert_true (fputs (text, fp) >= 0);
  assert_int_equal (fclose (fp), 0);
}

static int
setup (void **state)
{
  char drop_ins[sizeof path + sizeof ".d"];

  (void) state;
  strcpy (dir, "/tmp/farpage-XXXXXX");
  if (mkdtemp (dir) == NULL)
    return -1;
  snprintf (path, sizeof path, "%s/a.conf", dir);
  snprintf (drop_ins, sizeof drop_ins, "%s.d", path);
  seen[0] = '\0';
  return mkdir (drop_ins, 0700);
}

static int
teardown (void **state)
{
  char command[64];

  (void) state;
  snprintf (command, sizeof command, "rm -r %s", dir);
  return system (command);
}

static int
set (void *arg, const struct fp_conf_line *line, struct fp_error *why)
{
  size_t n = strlen (seen);

  assert_ptr_equal (arg, &seen);
  if (strcmp (line->key, "bad") == 0)
    return fp_fail (why, -EDOM, "it is bad");
  snprintf (seen + n, sizeof seen - n, "%u [%s] %s=%s\n", line->file,
            line->section, line->key, line->value);
  return 0;
}

static int
read_conf (void)
{
  return fp_conf_read (path, set, &seen, &error);
}

static void
test_lines (void **state)
{
  (void) state;
  write_file ("a.conf", "\xef\xbb\xbf# a comment\n; and another\r\n\n"
                        "a=1\n  b\t=  two words  \n"
                        "[s] # why\n\tc = \r\nd = x=y:z ; why\n"
                        "last = 1");
  assert_int_equal (read_conf (), 0);
  assert_string_equal (seen, "0 [] a=1\n0 [] b=two words\n0 [s] c=\n"
                             "0 [s] d=x=y:z\n0 [s] last=1\n");
}

/* Drop-ins come after the file, in the order of their names. */
static void
test_drop_ins (void **state)
{
  (void) state;
  write_file ("a.conf", "a = 1\n");
  write_file ("a.conf.d/20-b.conf", "a = 3\n");
  write_file ("a.conf.d/10-a.conf", "a = 2\n");
  write_file ("a.conf.d/.hidden.conf", "bad = 1\n");
  write_file ("a.conf.d/30.conf.old", "bad = 1\n");
  assert_int_equal (read_conf (), 0);
  assert_string_equal (seen, "0 [] a=1\n1 [] a=2\n2 [] a=3\n");
  write_file ("a.conf.d/15.conf", "\nbad = 1\n");
  assert_int_equal (read_conf (), -EDOM);
  assert_non_null (
      strstr (error.text, "/a.conf.d/15.conf: line 2: it is bad"));
}

/* A long line is one line, and may be a comment. */
static void
test_long (void **state)
{
  static char text[1300];

  (void) state;
  memset (text, '#', 1000);
  strcpy (text + 1000, "\na = 1\nb = ");
  memset (text + 1011, 'x', 198 - 4);
  write_file ("a.conf", text);
  assert_int_equal (read_conf (), 0);
  assert_memory_equal (seen, "0 [] a=1\n0 [] b=xxx", 19);
  assert_int_equal (strlen (seen), 9 + 7 + 198 - 4 + 1);
}

/* Otherwise any user could add settings to a file in /tmp. */
static void
test_writable (void **state)
{
  char drop_ins[sizeof path + sizeof ".d"];

  (void) state;
  write_file ("a.conf", "a = 1\n");
  snprintf (drop_ins, sizeof drop_ins, "%s.d", path);
  assert_int_equal (chmod (drop_ins, 0777), 0);
  assert_int_equal (read_conf (), -EPERM);
  assert_non_null (strstr (error.text, "other users could add settings"));
  assert_int_equal (rmdir (drop_ins), 0);
  assert_int_equal (read_conf (), 0);
}

static void
test_refused (void **state)
{
  static const struct {
    const char *text, *says;
  } table[] = {
    { "a = 1\nbad = 1\nb = 2\n", "/a.conf: line 2: it is bad" },
    { "\n  bad = 1\n", "/a.conf: line 2: it is bad" },
    { "a = 1\nword\n", "/a.conf: line 2: not KEY = VALUE" },
    { "a b:7471\n", "/a.conf: line 1: 'a b': not KEY = VALUE" },
    { "word\nbad = 1\n", "/a.conf: line 1: not KEY = VALUE" },
    { "bad = 1\nword\n", "/a.conf: line 1: it is bad" },
    { "word\na = \f\n", "/a.conf: line 1: not KEY = VALUE" },
    /* libinih would join these to the line before, or drop them. */
    { "a = 1\n\fb = 2\n", "/a.conf: line 2: control character" },
    { "a = 1\rb = 2\n", "/a.conf: line 1: control character" },
    { "\xef\xbb\xbf[s] a = 1\n", "/a.conf: line 1: text behind [SECTION]" },
    { "[s] a = 1\n", "/a.conf: line 1: text behind [SECTION]" },
    { "[s\na = 1\n", "/a.conf: line 1: not KEY = VALUE or [SECTION]" },
    { "a = 1\nb = "
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
      "\n",
      "/a.conf: line 2: line too long: use at most 198 characters" },
  };

  (void) state;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    write_file ("a.conf", table[i].text);
    assert_true (read_conf () < 0);
    if (strstr (error.text, table[i].says) == NULL)
      fail_msg ("'%s' does not say '%s'", error.text, table[i].says);
  }
  assert_int_equal (unlink (path), 0);
  assert_int_equal (read_conf (), -ENOENT);
  assert_non_null (strstr (error.text, "No such file"));
}

static void
test_duration (void **state)
{
  static const struct {
    const char *s;
    int err;
    uint64_t us;
  } table[] = {
    { "0", 0, 0 },
    { "7", 0, 7000 },
    { "7us", 0, 7 },
    { "500ms", 0, 500000 },
    { "2s", 0, 2000000 },
    { "10min", 0, 600000000 },
    { "1h", 0, UINT64_C (3600000000) },
    { "1d", 0, UINT64_C (86400000000) },
    { "", -EINVAL, 0 },
    { "s", -EINVAL, 0 },
    { "-1s", -EINVAL, 0 },
    { " 1s", -EINVAL, 0 },
    { "1 s", -EINVAL, 0 },
    { "1.5s", -EINVAL, 0 },
    { "1S", -EINVAL, 0 },
    { "1sec", -EINVAL, 0 },
    { "99999999999999999999", -ERANGE, 0 },
    { "999999999999999d", -ERANGE, 0 },
  };

  (void) state;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    uint64_t us = 0;
    int r = fp_parse_duration (table[i].s, FP_MS, &us);

    if (r != table[i].err || (r == 0 && us != table[i].us))
      fail_msg ("'%s': returned %d, %llu us", table[i].s, r,
                (unsigned long long) us);
  }
}

static void
test_format (void **state)
{
  static const struct {
    uint64_t us;
    const char *s;
  } table[] = {
    { 0, "0s" },
    { 1, "1us" },
    { 1500000, "1500ms" },
    { 30000000, "30s" },
    { 90000000, "90s" },
    { 120000000, "2min" },
    { UINT64_C (86400000000), "1d" },
    { UINT64_MAX, "18446744073709551615us" },
  };
  char s[FP_DURATION_STR_MAX];

  (void) state;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    fp_format_duration (table[i].us, s);
    assert_string_equal (s, table[i].s);
  }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_lines, setup, teardown),
    cmocka_unit_test_setup_teardown (test_drop_ins, setup, teardown),
    cmocka_unit_test_setup_teardown (test_long, setup, teardown),
    cmocka_unit_test_setup_teardown (test_writable, setup, teardown),
    cmocka_unit_test_setup_teardown (test_refused, setup, teardown),
    cmocka_unit_test (test_duration),
    cmocka_unit_test (test_format),
  };

  return RUN_TESTS (tests);
}
