/* SPDX-License-Identifier: BSD-3-Clause */
/* test-mapped.c - copying memory that a server has taken away is an error, and
 * not the end of the process.
 */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "transport/local/mapped.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1 /* Linux 5.11 */
#endif

#define PAGES 4

static unsigned char *map;
static size_t page;
static int uffd = -1;
static bool can; /* the kernel let us make it */
static struct sigaction ours;

/* Map PAGES pages full of 'm', without the second: each access to that raises
 * SIGBUS (ioctl_userfaultfd(2), UFFD_FEATURE_SIGBUS).  Return false if the
 * kernel does not let us.
 */
static bool
map_all_but_one (void)
{
  struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_SIGBUS };
  struct uffdio_register r = { .mode = UFFDIO_REGISTER_MODE_MISSING };

  page = (size_t) sysconf (_SC_PAGESIZE);
  map = mmap (NULL, PAGES * page, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal (map, MAP_FAILED);
  memset (map, 'm', PAGES * page);
  uffd = (int) syscall (SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  if (uffd == -1)
    return false;
  r.range.start = (uintptr_t) map + page;
  r.range.len = page;
  if (ioctl (uffd, UFFDIO_API, &api) == -1 ||
      ioctl (uffd, UFFDIO_REGISTER, &r) == -1)
    return false;
  return madvise (map + page, page, MADV_DONTNEED) == 0;
}

static int
setup (void **state)
{
  (void) state;
  can = map_all_but_one ();
  return 0;
}

/* Handle SIGBUS as fp_mapped_guard does: cmocka has its own handler in each
 * test.
 */
static void
begin (void)
{
  if (!can)
    skip ();
  assert_int_equal (sigaction (SIGBUS, &ours, NULL), 0);
}

static int
teardown (void **state)
{
  (void) state;
  if (uffd != -1)
    close (uffd);
  uffd = -1;
  return munmap (map, PAGES * page);
}

/* Check that a copy that meets the missing page fails, at its start or in its
 * middle.  Another one then succeeds.
 */
static void
check_copies (void)
{
  unsigned char *buf = malloc (PAGES * page);

  assert_non_null (buf);
  memset (buf, 'b', PAGES * page);
  assert_int_equal (fp_mapped_copy (buf, map, PAGES * page), -EFAULT);
  assert_int_equal (fp_mapped_copy (buf, map + page, 1), -EFAULT);
  assert_int_equal (fp_mapped_copy (map + 2 * page - 1, buf, 1), -EFAULT);

  memset (buf, 'b', PAGES * page);
  assert_int_equal (fp_mapped_copy (map + 3 * page, buf, page), 0);
  assert_int_equal (fp_mapped_copy (buf, map + 2 * page, 2 * page), 0);
  assert_int_equal (buf[0], 'm');
  assert_int_equal (buf[page], 'b');
  /* How much of that is copied is the C library's choice. */
  assert_int_equal (fp_mapped_copy (map, buf, PAGES * page), -EFAULT);
  free (buf);
}

static void
test_missing (void **state)
{
  (void) state;
  begin ();
  check_copies ();
}

/* Run as the threads of the engine do: they block all other signals. */
static void
copy_missing (void *result)
{
  unsigned char byte;

  *(int *) result = fp_mapped_copy (&byte, map + page, 1);
}

static void
test_thread (void **state)
{
  struct fp_thread t;
  int result = 0;

  (void) state;
  begin ();
  assert_int_equal (fp_thread_create (&t, "copy", copy_missing, &result), 0);
  assert_int_equal (fp_thread_join (&t), 0);
  assert_int_equal (result, -EFAULT);
}

/* ---- SIGBUS from elsewhere ---- */

static sigjmp_buf back;
static volatile sig_atomic_t handled;

static void
on_other (int sig, siginfo_t *info, void *context)
{
  (void) sig;
  (void) context;
  handled++;
  if (info->si_code > 0)
    siglongjmp (back, 1);
}

static void
test_other (void **state)
{
  (void) state;
  begin ();
  handled = 0;
  if (sigsetjmp (back, 1) == 0) {
    (void) *(volatile unsigned char *) (map + page);
    fail ();
  }
  assert_int_equal (handled, 1);
  assert_int_equal (raise (SIGBUS), 0);
  assert_int_equal (handled, 2);
  check_copies ();
  assert_int_equal (handled, 2);
}

/* Exit status (waitpid(2)) of processes that got SIGBUS from an access, or
 * from kill, and had no handler but ours.
 */
static int by_access, by_kill;

/* Fork a process that gets SIGBUS; return its exit status. */
static int
end_of (bool kills)
{
  const struct rlimit no_core = { 0, 0 };
  int status = 0;
  pid_t pid = fork ();

  if (pid > 0 && waitpid (pid, &status, 0) == pid)
    return status;
  if (pid != 0)
    return -1;
  setrlimit (RLIMIT_CORE, &no_core);
  signal (SIGBUS, SIG_DFL);
  fp_mapped_guard ();
  if (kills)
    raise (SIGBUS);
  else if (!map_all_but_one ())
    _exit (77);
  else
    (void) *(volatile unsigned char *) (map + page);
  _exit (1);
}

static void
test_default (void **state)
{
  (void) state;
  assert_true (WIFSIGNALED (by_kill));
  assert_int_equal (WTERMSIG (by_kill), SIGBUS);
  if (WIFEXITED (by_access) && WEXITSTATUS (by_access) == 77)
    skip ();
  assert_true (WIFSIGNALED (by_access));
  assert_int_equal (WTERMSIG (by_access), SIGBUS);
}

#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)

int
main (void)
{
  struct sigaction other = { .sa_sigaction = on_other,
                             .sa_flags = SA_SIGINFO };
  const struct CMUnitTest tests[] = {
    TEST (test_missing),
    TEST (test_thread),
    TEST (test_other),
    cmocka_unit_test (test_default),
  };

  /* Fork before this process handles SIGBUS itself. */
  by_access = end_of (false);
  by_kill = end_of (true);
  if (sigaction (SIGBUS, &other, NULL) == -1)
    return 1;
  fp_mapped_guard ();
  if (sigaction (SIGBUS, NULL, &ours) == -1)
    return 1;
  return cmocka_run_group_tests (tests, NULL, NULL);
}
