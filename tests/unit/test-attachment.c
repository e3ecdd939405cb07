/* SPDX-License-Identifier: BSD-3-Clause */
/* test-attachment.c - what becomes of an nbdkit that does not serve. */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "../../tools/attachment.h"

/* An nbdkit that never answers, and leaves a file when it is ended in order:
 * then a real one gives its memory back.
 */
static const char script[] = "#!/bin/sh\n"
                             "trap 'echo >\"$FAKE_NBDKIT/in-order\"; exit' "
                             "TERM\n"
                             "echo >\"$FAKE_NBDKIT/ready\"\n"
                             "while :; do sleep 0.05; done\n";

static char dir[32];

static void
path_of (char *path, size_t size, const char *name)
{
  snprintf (path, size, "%s/%s", dir, name);
}

static bool
was_made (const char *name)
{
  char path[128];

  path_of (path, sizeof path, name);
  return unlink (path) == 0;
}

static int
setup (void **state)
{
  char path[128], search[4096];
  FILE *fp;

  (void) state;
  strcpy (dir, "/tmp/farpage-XXXXXX");
  if (mkdtemp (dir) == NULL)
    return -1;
  path_of (path, sizeof path, "nbdkit");
  fp = fopen (path, "w");
  if (fp == NULL || fputs (script, fp) < 0 || fclose (fp) != 0 ||
      chmod (path, 0700) == -1)
    return -1;
  snprintf (search, sizeof search, "%s:%s", dir, getenv ("PATH"));
  return setenv ("PATH", search, 1) == -1 ||
         setenv ("FAKE_NBDKIT", dir, 1) == -1;
}

static int
teardown (void **state)
{
  char path[128];

  (void) state;
  path_of (path, sizeof path, "nbdkit");
  return unlink (path) == -1 || rmdir (dir) == -1;
}

static void
serve_in_vain (bool resume)
{
  struct attachment a = { .lock = -1, .nbdkit = NBDKIT_PROC_INIT };
  struct deadline d = deadline_in (2000, NULL);
  struct why w;

  a.st.index = STATE_MAX_DEVICES - 1;
  a.st.connections = 1;
  path_of (a.socket, sizeof a.socket, "nbd.sock");
  assert_int_equal (attachment_serve (&a, resume, &d, &w), -ETIMEDOUT);
  assert_int_equal (a.nbdkit.pid, 0);
  assert_true (was_made ("ready"));
}

/* Of a first start nothing is left behind. */
static void
test_first (void **state)
{
  (void) state;
  serve_in_vain (false);
  assert_true (was_made ("in-order"));
}

/* What a device that is in use holds is left to the next try. */
static void
test_resume (void **state)
{
  (void) state;
  serve_in_vain (true);
  assert_false (was_made ("in-order"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_first),
    cmocka_unit_test (test_resume),
  };

  return cmocka_run_group_tests (tests, setup, teardown);
}
