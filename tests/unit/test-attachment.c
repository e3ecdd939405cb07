/* SPDX-License-Identifier: BSD-3-Clause */
/* test-attachment.c - how an nbdkit that does not get ready is ended. */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/error.h"
#include "tools/attach/attachment.h"
#include "tools/common/device.h"

/* A fake nbdkit that never answers.  On SIGUSR1 a real one gives its memory
 * back; this one makes a file.
 */
static const char script[] = "#!/bin/sh\n"
                             "trap 'echo >\"$FAKE_NBDKIT/in-order\"; exit' "
                             "USR1\n"
                             "echo \"$@\" >\"$FAKE_NBDKIT/args\"\n"
                             "echo >\"$FAKE_NBDKIT/ready\"\n"
                             "echo 'waiting for what'\n"
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

static char args[512];

static void
read_args (void)
{
  char path[128];
  FILE *fp;

  path_of (path, sizeof path, "args");
  fp = fopen (path, "r");
  assert_non_null (fp);
  assert_non_null (fgets (args, sizeof args, fp));
  fclose (fp);
  assert_true (was_made ("args"));
}

static unsigned heard;
static struct deadline patience;

/* End the wait when nbdkit says what it waits for. */
static void
hear (const char *line)
{
  assert_string_equal (line, "waiting for what");
  heard++;
  patience.at_ms = 0;
}

static void
serve_fails (bool resume, const char *volume, char *const *given, unsigned nr)
{
  struct attachment a = ATTACHMENT_INIT;
  struct fp_error error;

  a.front = &front_nbd;
  a.st.index = 4095;
  a.st.connections = 1;
  a.st.args = (char **) given;
  a.st.nr_args = nr;
  strcpy (a.st.uuid, "the-client");
  strcpy (a.st.volume, volume);
  a.aloud = hear;
  heard = 0;
  patience = deadline_in (60000, NULL);
  path_of (a.socket, sizeof a.socket, "nbd.sock");
  assert_int_equal (attachment_serve (&a, resume, &patience, &error),
                    -ETIMEDOUT);
  assert_int_equal (a.process.pid, 0);
  assert_true (was_made ("ready"));
  assert_int_equal (heard, 1); /* the reason is passed on, once */
  read_args ();
}

/* A first start that fails leaves nothing behind. */
static void
test_first (void **state)
{
  (void) state;
  serve_fails (false, "the-volume", NULL, 0);
  assert_true (was_made ("in-order"));
  assert_non_null (strstr (args, " client=the-client uuid=the-volume "));
  assert_null (strstr (args, "resume="));
}

/* A resume that fails leaves the memory to the next try: the device is in use.
 */
static void
test_resume (void **state)
{
  (void) state;
  serve_fails (true, "the-volume", NULL, 0);
  assert_false (was_made ("in-order"));
  assert_non_null (strstr (args, " client=the-client uuid=the-volume "));
  assert_non_null (strstr (args, " resume=true"));
}

/* A named volume is found by its name, and taken over only at the first start.
 */
static void
test_named (void **state)
{
  char *const given[] = { "server=a", "volume=v", "takeover=true" };

  (void) state;
  serve_fails (false, "", given, 3);
  assert_true (was_made ("in-order"));
  assert_non_null (strstr (args, " server=a volume=v takeover=true "));
  assert_non_null (strstr (args, " client=the-client "));
  assert_null (strstr (args, " uuid="));
  assert_null (strstr (args, "resume="));
  serve_fails (true, "the-volume", given, 3);
  assert_non_null (
      strstr (args, " server=a volume=v client=the-client uuid=the-volume "));
  /* The volume exists, or it is an error.  A device never gets an empty one.
   */
  assert_non_null (strstr (args, " resume=true"));
  assert_null (strstr (args, "takeover="));
}

/* Members join and leave at the first start only.  Later, a server that came
 * back empty must not replace the member that it was.
 */
static void
test_changes (void **state)
{
  char *const given[] = { "server=a", "server=b",   "volume=v",  "remove=c",
                          "add=true", "force=true", "address=x", "timeout=9" };

  (void) state;
  serve_fails (false, "", given, 8);
  assert_non_null (strstr (args, " remove=c add=true force=true "));
  assert_true (was_made ("in-order"));
  serve_fails (true, "", given, 8);
  assert_non_null (
      strstr (args, " server=a server=b volume=v address=x timeout=9 "));
}

static void
test_read_ahead (void **state)
{
  (void) state;
  assert_int_equal (device_read_ahead_kb (0), 256);
  assert_int_equal (device_read_ahead_kb (128 * 1024), 256);
  assert_int_equal (device_read_ahead_kb (4 * 128 * 1024), 512);
  assert_int_equal (device_read_ahead_kb (300 * 1024 + 1), 301);
  assert_int_equal (device_read_ahead_kb (UINT64_C (64) << 30), 4096);
  assert_int_equal (device_read_ahead_kb (UINT64_MAX), 4096);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_first),      cmocka_unit_test (test_resume),
    cmocka_unit_test (test_named),      cmocka_unit_test (test_changes),
    cmocka_unit_test (test_read_ahead),
  };

  return cmocka_run_group_tests (tests, setup, teardown);
}
