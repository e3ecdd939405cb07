/* SPDX-License-Identifier: BSD-3-Clause */
/* test-backup-hung.c - a backup whose disk does not answer: nobody waits for
 * longer than stuck_ms says, not even who ends it.
 *
 * The disk hangs for real: a thread is in the middle of a write to the same
 * file, with its lock in the kernel held, and the memory that it writes from
 * is one that this test does not give it (userfaultfd).  So a write and a read
 * sleep as they do where a disk is dead: they cannot be cancelled, and a
 * thread that has made them cannot end.
 */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/userfaultfd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "volume/backup.h"

#define BLOCK FP_BACKUP_BLOCK
#define SIZE (4u << 20)
#define LAG (1u << 20)
#define STUCK_MS 1000
#define BOUND_MS 60000 /* of any wait; only a hang reaches it */

static char dir[] = "/var/tmp/farpage-hung-XXXXXX";
static char path[sizeof dir + 16];
static struct fp_backup_params params;
static struct fp_backup *b;
static unsigned char *buf;
static char why[FP_WHY_MAX];

static int uffd = -1;
static unsigned char *missing; /* one page */
static long page;
static struct fp_thread holder;

/* ---- how it hangs ---- */

static void
hold_lock (void *arg)
{
  int fd = open (path, O_WRONLY | O_CLOEXEC);

  (void) arg;
  if (fd == -1)
    abort ();
  /* Where nobody reads. */
  if (pwrite (fd, missing, 1, BLOCK) != 1)
    abort ();
  close (fd);
}

static bool
can_hang (void)
{
  struct uffdio_api api = { .api = UFFD_API };

  page = sysconf (_SC_PAGESIZE);
  uffd = (int) syscall (SYS_userfaultfd, O_CLOEXEC);
  return uffd >= 0 && ioctl (uffd, UFFDIO_API, &api) == 0;
}

static void
hang (void)
{
  struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
  struct uffd_msg msg;

  missing = mmap (NULL, (size_t) page, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal (missing, MAP_FAILED);
  reg.range.start = (uintptr_t) missing;
  reg.range.len = (uint64_t) page;
  assert_int_equal (ioctl (uffd, UFFDIO_REGISTER, &reg), 0);
  assert_int_equal (fp_thread_create (&holder, "holder", hold_lock, NULL), 0);
  /* It is in there now. */
  assert_int_equal (read (uffd, &msg, sizeof msg), sizeof msg);
  assert_int_equal (msg.event, UFFD_EVENT_PAGEFAULT);
}

static void
unhang (void)
{
  struct uffdio_zeropage z = {
    .range = { .start = (uintptr_t) missing, .len = (uint64_t) page },
  };

  if (missing == NULL)
    return;
  assert_int_equal (ioctl (uffd, UFFDIO_ZEROPAGE, &z), 0);
  assert_int_equal (fp_thread_join (&holder), 0);
  assert_int_equal (munmap (missing, (size_t) page), 0);
  missing = NULL;
}

/* ---- the tests ---- */

static int
setup_stuck (unsigned stuck_ms)
{
  params = (struct fp_backup_params) {
    .path = path,
    .size = SIZE,
    .lag = LAG,
    .stuck_ms = stuck_ms,
  };
  if (fp_uuid_generate (&params.uuid) < 0)
    return 1;
  buf = calloc (1, SIZE);
  if (buf == NULL)
    return 1;
  if (fp_backup_new (&b, &params, why) < 0) {
    print_message ("%s\n", why);
    return 1;
  }
  return 0;
}

static int
setup (void **state)
{
  (void) state;
  return setup_stuck (STUCK_MS);
}

static int
setup_patient (void **state)
{
  (void) state;
  return setup_stuck (BOUND_MS);
}

static int
teardown (void **state)
{
  (void) state;
  unhang ();
  unlink (path);
  free (buf);
  return 0;
}

static void
free_soon (bool discard)
{
  uint64_t end = fp_deadline_in_ms (BOUND_MS);

  fp_backup_free (b, discard);
  assert_false (fp_deadline_passed (end));
}

static void
check_stuck (const char *what, uint64_t end)
{
  struct fp_backup_counts c;

  assert_false (fp_deadline_passed (end));
  fp_backup_counts (b, &c);
  print_message ("%s\n", c.why);
  assert_true (c.failed);
  assert_non_null (strstr (c.why, what));
  assert_non_null (strstr (c.why, "no answer for 1000 ms"));
  /* From now on at once. */
  assert_int_equal (fp_backup_put (b, buf, BLOCK, 0, true), -EIO);
  assert_int_equal (fp_backup_get (b, buf, BLOCK, 0), -EIO);
  assert_int_equal (fp_backup_flush (b), -EIO);
  assert_int_equal (fp_backup_alone (b), -EIO);
  assert_false (fp_deadline_passed (end));
}

/* Who writes does not notice, as long as the ring has room. */
static void
test_write (void **state)
{
  uint64_t end = fp_deadline_in_ms (BOUND_MS);

  (void) state;
  hang ();
  assert_int_equal (fp_backup_put (b, buf, LAG / 2, 0, false), 0);
  assert_int_equal (fp_backup_flush (b), -EIO);
  check_stuck ("", end);
  free_soon (true);
}

static void
test_full (void **state)
{
  uint64_t end = fp_deadline_in_ms (BOUND_MS);

  (void) state;
  hang ();
  assert_int_equal (fp_backup_put (b, buf, 2 * LAG, 0, false), -EIO);
  check_stuck ("", end);
  free_soon (true);
}

static void
test_read (void **state)
{
  uint64_t end;

  (void) state;
  assert_int_equal (fp_backup_put (b, buf, LAG, 0, false), 0);
  assert_int_equal (fp_backup_flush (b), 0);
  end = fp_deadline_in_ms (BOUND_MS);
  hang ();
  assert_int_equal (fp_backup_get (b, buf, LAG, 0), -EIO);
  check_stuck ("read", end);
  free_soon (true);
}

static void
test_alone (void **state)
{
  uint64_t end = fp_deadline_in_ms (BOUND_MS);

  (void) state;
  hang ();
  assert_int_equal (fp_backup_alone (b), -EIO);
  check_stuck ("", end);
  free_soon (true);
}

/* It hangs when it is to be ended, and has what no server has. */
static void
test_end (void **state)
{
  (void) state;
  assert_int_equal (fp_backup_alone (b), 0);
  hang ();
  assert_int_equal (fp_backup_put (b, buf, LAG / 2, 0, true), 0);
  free_soon (false);
}

/* Nothing is in flight, and the header that says that nobody needs it cannot
 * be written.
 */
static void
test_discard (void **state)
{
  (void) state;
  hang ();
  free_soon (true);
}

/* For less than that: nothing has happened. */
static void
test_hiccup (void **state)
{
  (void) state;
  hang ();
  memset (buf, 7, LAG);
  assert_int_equal (fp_backup_put (b, buf, LAG, 0, false), 0);
  usleep (100000);
  unhang ();
  assert_int_equal (fp_backup_flush (b), 0);
  memset (buf, 0, LAG);
  assert_int_equal (fp_backup_get (b, buf, BLOCK, LAG - BLOCK), 0);
  assert_int_equal (buf[BLOCK - 1], 7);
  free_soon (true);
}

int
main (void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_write, setup, teardown),
    cmocka_unit_test_setup_teardown (test_full, setup, teardown),
    cmocka_unit_test_setup_teardown (test_read, setup, teardown),
    cmocka_unit_test_setup_teardown (test_alone, setup, teardown),
    cmocka_unit_test_setup_teardown (test_end, setup, teardown),
    cmocka_unit_test_setup_teardown (test_discard, setup, teardown),
    cmocka_unit_test_setup_teardown (test_hiccup, setup_patient, teardown),
  };
  int r;

  if (!can_hang ()) {
    printf ("no userfaultfd: %s\n", strerror (errno));
    return 77;
  }
  if (mkdtemp (dir) == NULL)
    return 1;
  snprintf (path, sizeof path, "%s/disk", dir);
  alarm (120); /* a hang is what this is about */
  r = cmocka_run_group_tests (tests, NULL, NULL);
  rmdir (dir);
  return r;
}
