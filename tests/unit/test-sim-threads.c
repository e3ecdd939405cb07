/* SPDX-License-Identifier: BSD-3-Clause */
/* test-sim-threads.c - turns, time and deadlocks of sim/threads.c. */

#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define THREADS 4u
#define STEPS 100u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static unsigned char order[THREADS * STEPS];
static unsigned at;

static void *
step (void *arg)
{
  for (unsigned n = 0; n < STEPS; n++) {
    pthread_mutex_lock (&lock);
    order[at++] = (unsigned char) (uintptr_t) arg;
    pthread_mutex_unlock (&lock);
  }
  return NULL;
}

/* Run the threads in a child, which inherits the state of the seed. */
static void
take_steps (unsigned char out[THREADS * STEPS])
{
  int fds[2], status;
  pid_t pid;

  assert_int_equal (pipe (fds), 0);
  pid = fork ();
  assert_true (pid >= 0);
  if (pid == 0) {
    pthread_t t[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
      if (pthread_create (&t[i], NULL, step, (void *) i) != 0)
        _exit (1);
    for (unsigned i = 0; i < THREADS; i++)
      pthread_join (t[i], NULL);
    _exit (write (fds[1], order, sizeof order) != sizeof order);
  }
  assert_int_equal (waitpid (pid, &status, 0), pid);
  assert_int_equal (status, 0);
  assert_int_equal (read (fds[0], out, sizeof order), sizeof order);
  close (fds[0]);
  close (fds[1]);
}

/* Threads take turns, in the same order in each run. */
static void
test_repeats (void **state)
{
  unsigned char first[sizeof order], second[sizeof order];
  unsigned turns = 0;

  (void) state;
  take_steps (first);
  take_steps (second);
  assert_memory_equal (first, second, sizeof first);
  for (unsigned i = 1; i < sizeof first; i++)
    turns += first[i] != first[i - 1];
  assert_true (turns > THREADS);
}

/* Ten days pass at once. */
static void
test_sleep (void **state)
{
  const struct timespec ten_days = { .tv_sec = 864000 };
  uint64_t start = fp_now_ns ();

  (void) state;
  assert_int_equal (nanosleep (&ten_days, NULL), 0);
  assert_in_range (fp_now_ns () - start, 864000 * FP_NS_PER_S,
                   864001 * FP_NS_PER_S);
}

static void *
signal_later (void *arg)
{
  const struct timespec second = { .tv_sec = 1 };
  uint64_t one = 1;

  nanosleep (&second, NULL);
  if (arg != NULL)
    assert_int_equal (write (*(int *) arg, &one, sizeof one), sizeof one);
  pthread_mutex_lock (&lock);
  pthread_cond_signal (&cond);
  pthread_mutex_unlock (&lock);
  return NULL;
}

/* A timed wait ends at its deadline, or at a signal before that. */
static void
test_condition (void **state)
{
  struct timespec until;
  pthread_t t;
  uint64_t start = fp_now_ns ();

  (void) state;
  pthread_mutex_lock (&lock);
  clock_gettime (CLOCK_REALTIME, &until);
  until.tv_sec += 3;
  assert_int_equal (pthread_cond_timedwait (&cond, &lock, &until), ETIMEDOUT);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 3000, 3001);
  assert_int_equal (pthread_create (&t, NULL, signal_later, NULL), 0);
  until.tv_sec += 3;
  assert_int_equal (pthread_cond_timedwait (&cond, &lock, &until), 0);
  pthread_mutex_unlock (&lock);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 4000, 4001);
  assert_int_equal (pthread_join (t, NULL), 0);
}

static void
test_poll (void **state)
{
  int fd = eventfd (0, 0);
  struct pollfd p = { .fd = fd, .events = POLLIN };
  uint64_t start = fp_now_ns ();
  pthread_t t;

  (void) state;
  assert_true (fd >= 0);
  assert_int_equal (poll (&p, 1, 500), 0);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 500, 501);
  assert_int_equal (pthread_create (&t, NULL, signal_later, &fd), 0);
  assert_int_equal (poll (&p, 1, -1), 1);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 1500, 1501);
  assert_int_equal (pthread_join (t, NULL), 0);
  close (fd);
}

/* A program whose threads all wait for ever is aborted. */
static void
test_deadlock (void **state)
{
  int status;
  pid_t pid = fork ();

  (void) state;
  assert_true (pid >= 0);
  if (pid == 0) {
    pthread_mutex_lock (&lock);
    pthread_cond_wait (&cond, &lock);
    _exit (0);
  }
  assert_int_equal (waitpid (pid, &status, 0), pid);
  assert_true (WIFSIGNALED (status) && WTERMSIG (status) == SIGABRT);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_repeats),   cmocka_unit_test (test_sleep),
    cmocka_unit_test (test_condition), cmocka_unit_test (test_poll),
    cmocka_unit_test (test_deadlock),
  };

  return RUN_TESTS (tests);
}
