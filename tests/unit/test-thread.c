/* SPDX-License-Identifier: BSD-3-Clause */
/* test-thread.c - a thread has its name, a small stack, and no signals. */

#include "unit.h"

#include <pthread.h>
#include <signal.h>

#include "base/thread.h"

struct seen {
  char name[16];
  size_t stack, guard;
  sigset_t mask;
};

static void
look (void *arg)
{
  struct seen *seen = arg;
  pthread_attr_t attr;

  pthread_getname_np (pthread_self (), seen->name, sizeof seen->name);
  pthread_sigmask (SIG_BLOCK, NULL, &seen->mask);
  if (pthread_getattr_np (pthread_self (), &attr) != 0)
    return;
  pthread_attr_getstacksize (&attr, &seen->stack);
  pthread_attr_getguardsize (&attr, &seen->guard);
  pthread_attr_destroy (&attr);
}

static void
test_thread (void **state)
{
  struct seen seen = { .name = "" };
  struct fp_thread t;
  sigset_t before, after;

  (void) state;
  pthread_sigmask (SIG_BLOCK, NULL, &before);
  assert_int_equal (
      fp_thread_create (&t, "a-name-that-is-too-long", look, &seen), 0);
  assert_int_equal (fp_thread_join (&t), 0);
  assert_string_equal (seen.name, "a-name-that-is-");
  assert_in_range (seen.stack, 64 << 10, 1 << 20);
  assert_true (seen.guard > 0);
  assert_int_equal (sigismember (&seen.mask, SIGTERM), 1);
  assert_int_equal (sigismember (&seen.mask, SIGALRM), 1);

  /* The creator still hears them. */
  pthread_sigmask (SIG_BLOCK, NULL, &after);
  assert_int_equal (sigismember (&after, SIGTERM),
                    sigismember (&before, SIGTERM));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_thread),
  };

  return RUN_TESTS (tests);
}
