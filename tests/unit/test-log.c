/* SPDX-License-Identifier: BSD-3-Clause */
/* test-log.c - levels, truncated messages, and the count of dropped ones. */

#include "unit.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static int calls;
static enum fp_log_level last_level;
static char last[FP_LOG_MAX];

static void
sink (enum fp_log_level level, const char *message, void *opaque)
{
  assert_ptr_equal (opaque, &calls);
  calls++;
  last_level = level;
  snprintf (last, sizeof last, "%s", message);
}

static int
setup (void **state)
{
  (void) state;
  calls = 0;
  fp_log_set_sink (sink, &calls);
  fp_log_set_level (FP_LOG_INFO);
  return 0;
}

static void
test_levels (void **state)
{
  (void) state;
  fp_log (FP_LOG_DEBUG, "not shown");
  assert_int_equal (calls, 0);
  assert_false (fp_log_enabled (FP_LOG_DEBUG));
  fp_log (FP_LOG_WARN, "%s %d", "shown", 1);
  assert_int_equal (calls, 1);
  assert_int_equal (last_level, FP_LOG_WARN);
  assert_string_equal (last, "shown 1");
  fp_log_set_level (FP_LOG_DEBUG);
  fp_log (FP_LOG_DEBUG, "now it is");
  assert_int_equal (calls, 2);
  fp_log_set_sink (NULL, NULL);
  fp_log (FP_LOG_ERROR, "nowhere");
  assert_int_equal (calls, 2);
}

static void
test_cut (void **state)
{
  char exact[FP_LOG_MAX];

  (void) state;
  memset (exact, 'x', sizeof exact);
  exact[FP_LOG_MAX - 1] = '\0';
  fp_log (FP_LOG_INFO, "%s", exact);
  assert_string_equal (last, exact);
  fp_log (FP_LOG_INFO, "%sy", exact);
  assert_int_equal (strlen (last), FP_LOG_MAX - 1);
  assert_string_equal (last + FP_LOG_MAX - 5, "x...");
}

static void
test_limit (void **state)
{
  static struct fp_log_limit limit, other;

  (void) state;
  for (int i = 0; i < 5; i++)
    fp_log_limited (&limit, FP_LOG_INFO, "event %d", i);
  assert_int_equal (calls, 1);
  assert_string_equal (last, "event 0");
  fp_log_limited (&other, FP_LOG_INFO, "another");
  assert_int_equal (calls, 2);

  limit.next_ns = 0; /* a second later */
  fp_log_limited (&limit, FP_LOG_INFO, "event %d", 5);
  assert_int_equal (calls, 3);
  assert_string_equal (last, "event 5 (and 4 more like it)");

  limit.next_ns = 0;
  fp_log_limited (&limit, FP_LOG_INFO, "event %d", 6);
  assert_string_equal (last, "event 6");
}

static void
says (enum fp_log_level level, const char *expected)
{
  char line[64] = "";
  int pipefd[2], saved;
  struct stat st;
  char stream[64];

  assert_int_equal (pipe (pipefd), 0);
  assert_int_equal (fstat (pipefd[1], &st), 0);
  /* This pipe is the journal if a priority is expected, else another file is.
   */
  snprintf (stream, sizeof stream, "%ju:%ju", (uintmax_t) st.st_dev,
            (uintmax_t) st.st_ino + (expected[0] != '<'));
  assert_int_equal (setenv ("JOURNAL_STREAM", stream, 1), 0);
  saved = dup (STDERR_FILENO);
  assert_true (saved >= 0);
  assert_true (dup2 (pipefd[1], STDERR_FILENO) >= 0);
  fp_log_to_stderr (level, "what: why", (void *) "prog");
  assert_true (dup2 (saved, STDERR_FILENO) >= 0);
  assert_int_equal (read (pipefd[0], line, sizeof line - 1),
                    strlen (expected));
  assert_string_equal (line, expected);
  unsetenv ("JOURNAL_STREAM");
  close (saved);
  close (pipefd[0]);
  close (pipefd[1]);
}

static void
test_stderr (void **state)
{
  (void) state;
  says (FP_LOG_ERROR, "prog: what: why\n");
  says (FP_LOG_ERROR, "<3>prog: what: why\n");
  says (FP_LOG_WARN, "<4>prog: what: why\n");
  says (FP_LOG_INFO, "<6>prog: what: why\n");
  says (FP_LOG_DEBUG, "<7>prog: what: why\n");
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup (test_levels, setup),
    cmocka_unit_test_setup (test_cut, setup),
    cmocka_unit_test_setup (test_limit, setup),
    cmocka_unit_test_setup (test_stderr, setup),
  };

  return RUN_TESTS (tests);
}
