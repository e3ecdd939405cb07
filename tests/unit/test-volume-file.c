/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-file.c - the words that 'farpage attach' gets from a volume
 * file, and the options of 'farpage swapon'.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "tools/common/volume_file.h"

static char dir[32];
static struct volume_file file;
static struct fp_error error;

/* Write a file of dir. */
static void
write_file (const char *name, const char *text)
{
  char path[128];
  FILE *fp;

  snprintf (path, sizeof path, "%s/%s", dir, name);
  fp = fopen (path, "w");
  assert_non_null (fp);
  assert_true (fputs (text, fp) >= 0);
  assert_int_equal (fclose (fp), 0);
}

static int
setup (void **state)
{
  char drop_ins[64];

  (void) state;
  strcpy (dir, "/tmp/farpage-XXXXXX");
  if (mkdtemp (dir) == NULL)
    return -1;
  snprintf (drop_ins, sizeof drop_ins, "%s/v.conf.d", dir);
  return mkdir (drop_ins, 0700) == -1 ||
         setenv ("FARPAGE_VOLUMES_DIR", dir, 1) == -1;
}

static int
teardown (void **state)
{
  char command[64];

  (void) state;
  snprintf (command, sizeof command, "rm -r %s", dir);
  return system (command);
}

/* Check that the words for attach are these, with a blank between. */
static void
becomes (const char *wanted)
{
  char words[1024] = "";
  size_t n = 0;

  if (volume_file_read (&file, "v", &error) < 0)
    fail_msg ("%s", error.text);
  for (unsigned i = 0; i < file.nr_words; i++)
    n += (size_t) snprintf (words + n, sizeof words - n, "%s%s",
                            i > 0 ? " " : "", file.words[i]);
  assert_string_equal (words, wanted);
  volume_file_clear (&file);
}

static void
refused (const char *text, const char *says)
{
  write_file ("v.conf", text);
  assert_true (volume_file_read (&file, "v", &error) < 0);
  volume_file_clear (&file);
  if (strstr (error.text, says) == NULL)
    fail_msg ("'%s' does not say '%s'", error.text, says);
}

static void
test_words (void **state)
{
  (void) state;
  write_file ("v.conf", "# a comment\n\nserver = a,domain=x\n  server=b\n"
                        "size\t=\t16G  ");
  becomes ("--name=v server=a,domain=x server=b size=16G volume=v");
  assert_int_equal (file.priority, -1);
  write_file ("v.conf", "server = a\nswap = yes\ndevice-timeout = 40s\n"
                        "volume =\ndevice=/dev/nbd3\ntimeout = 500ms\n"
                        "priority = 3\ndiscard = on\n");
  becomes ("--name=v --device-timeout=40s --device=/dev/nbd3 --swap server=a "
           "timeout=500ms");
  assert_int_equal (file.priority, 3);
  assert_true (file.discard);
  assert_false (file.single_copy);
  /* Former names, and an empty value, which is as none. */
  write_file ("v.conf", "server=a\nrebuild_delay=1\nnbd-timeout = 40\n"
                        "priority =\nvolume = none\n");
  becomes ("--name=v --device-timeout=40 server=a rebuild-delay=1 "
           "volume=none");
  assert_int_equal (file.priority, -1);
}

/* A drop-in replaces settings, and the list of servers as a whole. */
static void
test_drop_ins (void **state)
{
  (void) state;
  write_file ("v.conf", "server = a\nserver = b\nsize = 1G\nwait = 1min\n"
                        "rebuild_delay = 1\npool = p\n");
  write_file ("v.conf.d/1.conf",
              "server = c\nsize = 2G\nrebuild-delay = 2s\n");
  write_file ("v.conf.d/2.conf",
              "wait = 2min\nserver = d\nserver = e\npool =\n");
  becomes ("--name=v --wait=2min size=2G rebuild-delay=2s server=d server=e "
           "volume=v");
}

static void
test_refused (void **state)
{
  (void) state;
  assert_int_equal (volume_file_read (&file, "w", &error), -ENOENT);
  volume_file_clear (&file);
  assert_int_equal (volume_file_read (&file, "../v", &error), -EINVAL);
  volume_file_clear (&file);
  refused ("swap = maybe\n",
           "v.conf: line 1: swap: 'maybe' is neither yes nor no");
  refused ("server\n", "line 1: not KEY = VALUE");
  refused ("wait = 1s\nwait = 2s\n", "line 2: wait: given twice");
  refused ("size = 1G\nencrypt =\n", "line 2: encrypt: a value is missing");
  refused ("--wait = 5s\n", "a key does not begin with '-'");
  refused ("[volume]\nsize = 1G\n", "volume files have no sections");
  refused ("priority = 40000\n", "priority: '40000': must be from 0 to 32767");
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_words, setup, teardown),
    cmocka_unit_test_setup_teardown (test_drop_ins, setup, teardown),
    cmocka_unit_test_setup_teardown (test_refused, setup, teardown),
  };

  return RUN_TESTS (tests);
}
