/* SPDX-License-Identifier: BSD-3-Clause */
/* test-realtime.c - in an nbdkit that serves swap, all threads get real-time
 * priority, except those that no I/O waits for.
 */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/thread.h"
#include "tools/attach/front_proc.h"

#define PRIORITY 10 /* same value as in front_proc.c */

/* Shared with the process that plays nbdkit. */
static struct shared {
  sem_t ready, go, end;
  pid_t io, aside, late;
} * shared;

static void
io_main (void *arg)
{
  (void) arg;
  shared->io = gettid ();
  sem_post (&shared->ready);
  sem_wait (&shared->end);
}

static void
late_main (void *arg)
{
  (void) arg;
  shared->late = gettid ();
  sem_post (&shared->ready);
  sem_wait (&shared->end);
}

static void
aside_main (void *arg)
{
  struct fp_thread late;

  (void) arg;
  fp_thread_step_aside ();
  shared->aside = gettid ();
  sem_post (&shared->ready);
  sem_wait (&shared->go);
  if (fp_thread_create (&late, "late", late_main, NULL) < 0 ||
      fp_thread_join (&late) < 0)
    _exit (1);
}

static void
play_nbdkit (void)
{
  struct fp_thread io, aside;

  prctl (PR_SET_PDEATHSIG, SIGKILL);
  setpriority (PRIO_PROCESS, 0, -5);
  if (fp_thread_create (&io, "io", io_main, NULL) < 0 ||
      fp_thread_create (&aside, "aside", aside_main, NULL) < 0 ||
      fp_thread_join (&io) < 0 || fp_thread_join (&aside) < 0)
    _exit (1);
  _exit (0);
}

/* Return the first word of our command line: is_ours looks for it. */
static void
first_word (char *word, size_t size)
{
  int fd = open ("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t n;

  assert_true (fd >= 0);
  n = read (fd, word, size - 1);
  assert_true (n > 0);
  word[n] = '\0';
  close (fd);
}

static bool
may_have_priority (void)
{
  struct sched_param fifo = { .sched_priority = PRIORITY }, none = { 0 };

  return sched_setscheduler (0, SCHED_FIFO, &fifo) == 0 &&
         sched_setscheduler (0, SCHED_OTHER, &none) == 0;
}

static void
is_realtime (pid_t tid)
{
  struct sched_param param;

  assert_int_equal (sched_getscheduler (tid), SCHED_FIFO);
  assert_int_equal (sched_getparam (tid, &param), 0);
  assert_int_equal (param.sched_priority, PRIORITY);
}

static void
test_set_swap (void **state)
{
  char word[4096];
  int status;
  pid_t pid;

  (void) state;
  if (!may_have_priority ())
    skip ();
  first_word (word, sizeof word);
  pid = fork ();
  assert_true (pid >= 0);
  if (pid == 0)
    play_nbdkit ();
  sem_wait (&shared->ready);
  sem_wait (&shared->ready);

  assert_int_equal (front_proc_set_swap (pid, "/another/socket", true),
                    -ESRCH);
  assert_int_equal (sched_getscheduler (shared->io), SCHED_OTHER);
  assert_int_equal (front_proc_set_swap (pid, word, true), 0);
  is_realtime (pid);
  is_realtime (shared->io);
  assert_int_equal (sched_getscheduler (shared->aside), SCHED_BATCH);
  assert_int_equal (getpriority (PRIO_PROCESS, (id_t) shared->aside), 0);

  /* A new thread is for I/O until it steps aside, whichever thread creates it.
   */
  sem_post (&shared->go);
  sem_wait (&shared->ready);
  is_realtime (shared->late);
  assert_int_equal (getpriority (PRIO_PROCESS, (id_t) shared->late), -5);

  assert_int_equal (front_proc_set_swap (pid, word, false), 0);
  assert_int_equal (sched_getscheduler (pid), SCHED_OTHER);
  assert_int_equal (sched_getscheduler (shared->io), SCHED_OTHER);
  assert_int_equal (sched_getscheduler (shared->aside), SCHED_BATCH);

  sem_post (&shared->end);
  sem_post (&shared->end);
  assert_int_equal (waitpid (pid, &status, 0), pid);
  assert_int_equal (status, 0);
}

static int
setup (void **state)
{
  (void) state;
  shared = mmap (NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return shared == MAP_FAILED || sem_init (&shared->ready, 1, 0) == -1 ||
         sem_init (&shared->go, 1, 0) == -1 ||
         sem_init (&shared->end, 1, 0) == -1;
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_set_swap),
  };

  return cmocka_run_group_tests (tests, setup, NULL);
}
