/* SPDX-License-Identifier: BSD-3-Clause */
/* test-swap-settings.c - change kernel settings, and put them back. */

#include "unit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/swap/swap_settings.h"

#define BOOST "/proc/sys/vm/watermark_boost_factor"
#define RESERVE "/proc/sys/vm/min_free_kbytes"
#define RECORD "/run/farpage/swap-settings"

static char root[32];

static void
path_of (char *path, size_t size, const char *name)
{
  snprintf (path, size, "%s%s", root, name);
}

static void
put (const char *name, const char *text)
{
  char path[128];
  FILE *fp;

  path_of (path, sizeof path, name);
  fp = fopen (path, "w");
  assert_non_null (fp);
  assert_true (fputs (text, fp) >= 0);
  assert_int_equal (fclose (fp), 0);
}

static uint64_t
get (const char *name)
{
  char path[128], text[64] = "";
  FILE *fp;

  path_of (path, sizeof path, name);
  fp = fopen (path, "r");
  assert_non_null (fp);
  assert_non_null (fgets (text, sizeof text, fp));
  fclose (fp);
  return strtoull (text, NULL, 10);
}

static bool
exists (const char *name)
{
  char path[128];

  path_of (path, sizeof path, name);
  return access (path, F_OK) == 0;
}

static int
setup (void **state)
{
  static const char *const dirs[] = { "/proc", "/proc/sys", "/proc/sys/vm",
                                      "/run" };
  char path[128];

  (void) state;
  strcpy (root, "/tmp/farpage-XXXXXX");
  if (mkdtemp (root) == NULL)
    return -1;
  for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
    path_of (path, sizeof path, dirs[i]);
    if (mkdir (path, 0700) == -1)
      return -1;
  }
  put (RESERVE, "4096\n");
  put ("/proc/meminfo", "MemTotal:         524288 kB\n");
  return 0;
}

static int
teardown (void **state)
{
  char command[64];

  (void) state;
  snprintf (command, sizeof command, "rm -rf %s", root);
  return system (command);
}

static void
raised_and_put_back (void **state)
{
  struct swap_changes done;
  struct fp_error error;

  (void) state;
  assert_int_equal (swap_settings_set (&done, root, &error), 0);
  assert_int_equal (done.nr, 1);
  assert_string_equal (done.of[0].name, "vm.min_free_kbytes");
  assert_int_equal (done.of[0].from, 4096);
  assert_int_equal (done.of[0].to, 32768);
  assert_int_equal (get (RESERVE), done.of[0].to);

  /* With a second device nothing is raised again, and nothing is forgotten. */
  assert_int_equal (swap_settings_set (&done, root, &error), 0);
  assert_int_equal (done.nr, 0);

  assert_int_equal (swap_settings_restore (&done, root, &error), 0);
  assert_int_equal (done.nr, 1);
  assert_int_equal (done.of[0].to, 4096);
  assert_int_equal (get (RESERVE), 4096);
  assert_false (exists (RECORD));
  assert_int_equal (swap_settings_restore (&done, root, &error), 0);
  assert_int_equal (done.nr, 0);
}

/* The boost is switched off before the reserve is set, and both are put back.
 */
static void
no_boost (void **state)
{
  struct swap_changes done;
  struct fp_error error;

  (void) state;
  put (BOOST, "15000\n");
  assert_int_equal (swap_settings_set (&done, root, &error), 0);
  assert_int_equal (done.nr, 2);
  assert_string_equal (done.of[0].name, "vm.watermark_boost_factor");
  assert_int_equal (done.of[0].from, 15000);
  assert_int_equal (get (BOOST), 0);
  assert_int_equal (get (RESERVE), 32768);
  assert_int_equal (swap_settings_restore (&done, root, &error), 0);
  assert_int_equal (done.nr, 2);
  assert_int_equal (get (BOOST), 15000);
  assert_int_equal (get (RESERVE), 4096);

  put (BOOST, "0\n");
  assert_int_equal (swap_settings_set (&done, root, &error), 0);
  assert_int_equal (done.nr, 1);
  assert_int_equal (swap_settings_restore (&done, root, &error), 0);
  assert_int_equal (get (BOOST), 0);
}

/* A setting that is high enough is left alone, now and afterwards. */
static void
never_lowered (void **state)
{
  struct swap_changes done;
  struct fp_error error;

  (void) state;
  put (RESERVE, "90000\n");
  assert_int_equal (swap_settings_set (&done, root, &error), 0);
  assert_int_equal (done.nr, 0);
  assert_int_equal (get (RESERVE), 90000);
  assert_int_equal (swap_settings_restore (&done, root, &error), 0);
  assert_int_equal (get (RESERVE), 90000);
}

/* A value that the administrator set meanwhile is kept. */
static void
changed_by_others (void **state)
{
  struct swap_changes done;
  struct fp_error error;

  (void) state;
  assert_int_equal (swap_settings_set (&done, root, &error), 0);
  put (RESERVE, "30000\n");
  assert_int_equal (swap_settings_restore (&done, root, &error), 0);
  assert_int_equal (done.nr, 0);
  assert_int_equal (get (RESERVE), 30000);
  assert_false (exists (RECORD));
}

/* A value that the administrator set between two raises is put back. */
static void
raised_again (void **state)
{
  struct swap_changes done;
  struct fp_error error;

  (void) state;
  assert_int_equal (swap_settings_set (&done, root, &error), 0);
  put (RESERVE, "8192\n");
  assert_int_equal (swap_settings_set (&done, root, &error), 0);
  assert_int_equal (done.of[0].from, 8192);
  assert_int_equal (swap_settings_restore (&done, root, &error), 0);
  assert_int_equal (get (RESERVE), 8192);
}

/* A line in the record that is not ours leads to no write. */
static void
strange_record (void **state)
{
  struct swap_changes done;
  struct fp_error error;

  (void) state;
  assert_int_equal (swap_settings_set (&done, root, &error), 0);
  put (RECORD, "vm.overcommit_memory 1 0\nrubbish\n");
  assert_int_equal (swap_settings_restore (&done, root, &error), 0);
  assert_int_equal (done.nr, 0);
}

/* A large machine reserves no more than swapping needs. */
static void
never_too_much (void **state)
{
  struct swap_changes done;
  struct fp_error error;

  (void) state;
  put ("/proc/meminfo", "MemTotal:       67108864 kB\n");
  assert_int_equal (swap_settings_set (&done, root, &error), 0);
  assert_int_equal (get (RESERVE), 65536);
}

static void
refused (void **state)
{
  struct swap_changes done;
  struct fp_error error;

  (void) state;
  put (RESERVE, "many\n");
  assert_int_equal (swap_settings_set (&done, root, &error), -EPROTO);
  assert_non_null (strstr (error.text, "min_free_kbytes"));
  assert_int_equal (done.nr, 0);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (raised_and_put_back, setup, teardown),
    cmocka_unit_test_setup_teardown (no_boost, setup, teardown),
    cmocka_unit_test_setup_teardown (never_lowered, setup, teardown),
    cmocka_unit_test_setup_teardown (changed_by_others, setup, teardown),
    cmocka_unit_test_setup_teardown (raised_again, setup, teardown),
    cmocka_unit_test_setup_teardown (strange_record, setup, teardown),
    cmocka_unit_test_setup_teardown (never_too_much, setup, teardown),
    cmocka_unit_test_setup_teardown (refused, setup, teardown),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
