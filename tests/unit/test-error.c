/* SPDX-License-Identifier: BSD-3-Clause */
/* test-error.c - texts of errors: set, prefixed and cut. */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

static void
test_fail (void **state)
{
  struct fp_error error;

  (void) state;
  assert_int_equal (fp_fail (&error, -EIO, "%s: line %d", "file", 7), -EIO);
  assert_string_equal (error.text, "file: line 7");
  assert_int_equal (fp_fail (&error, 0, "%s", "a note"), 0);
  assert_string_equal (error.text, "a note");
}

static void
test_fail_in (void **state)
{
  struct fp_error error = { .text = "no such file" };

  (void) state;
  assert_int_equal (fp_fail_in (&error, -ENOENT, "open %s", "a"), -ENOENT);
  assert_string_equal (error.text, "open a: no such file");
}

/* An argument may be the text that is replaced, or a part of it. */
static void
test_own_text (void **state)
{
  struct fp_error error = { .text = "lost" };

  (void) state;
  fp_fail (&error, -EIO, "%s: try again", error.text);
  assert_string_equal (error.text, "lost: try again");
  fp_fail_in (&error, -EIO, "after '%s'", error.text + 6);
  assert_string_equal (error.text, "after 'try again': lost: try again");
}

static void
test_too_long (void **state)
{
  char filler[FP_ERROR_MAX + 1];
  struct fp_error error;

  (void) state;
  memset (filler, 'x', FP_ERROR_MAX);
  filler[FP_ERROR_MAX] = '\0';
  assert_int_equal (fp_fail (&error, -EIO, "%s", filler), -EIO);
  assert_int_equal (strlen (error.text), FP_ERROR_MAX - 1);
  assert_memory_equal (error.text, filler, FP_ERROR_MAX - 1);

  fp_fail (&error, -EIO, "cause");
  assert_int_equal (fp_fail_in (&error, -EIO, "%s", filler), -EIO);
  assert_int_equal (strlen (error.text), FP_ERROR_MAX - 1);
  assert_memory_equal (error.text, filler, FP_ERROR_MAX - 1);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_fail),
    cmocka_unit_test (test_fail_in),
    cmocka_unit_test (test_own_text),
    cmocka_unit_test (test_too_long),
  };

  return RUN_TESTS (tests);
}
