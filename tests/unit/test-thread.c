/* SPDX-License-Identifier: BSD-3-Clause */
/* test-thread.c - a thread has its name, a small stack, and no signals. */

#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <sys/mman.h>

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
  assert_int_equal (sigismember (&seen.mask, SIGBUS), 0); /* see mapped.h */

  /* Only the new thread blocks them. */
  pthread_sigmask (SIG_BLOCK, NULL, &after);
  assert_int_equal (sigismember (&after, SIGTERM),
                    sigismember (&before, SIGTERM));
}

/* Count the pages 8 to 48 KiB down this stack that are in memory before their
 * first use.
 */
static void
is_there (void *arg)
{
  unsigned char *here = __builtin_frame_address (0), in_memory = 0;
  uintptr_t page = (uintptr_t) sysconf (_SC_PAGESIZE), deep;
  unsigned *nr = arg;

  for (unsigned kib = 8; kib <= 48; kib += 4) {
    deep = ((uintptr_t) here - (kib << 10)) & ~(page - 1);
    if (mincore ((void *) deep, 1, &in_memory) == 0 && (in_memory & 1))
      ++*nr;
  }
}

static void
test_filled (void **state)
{
  unsigned before = 0, nr = 0;
  struct fp_thread t;

  (void) state;
  assert_int_equal (fp_thread_create (&t, "empty", is_there, &before), 0);
  assert_int_equal (fp_thread_join (&t), 0);
  fp_thread_fill_stacks ();
  assert_int_equal (fp_thread_create (&t, "full", is_there, &nr), 0);
  assert_int_equal (fp_thread_join (&t), 0);
  assert_int_equal (nr, 11);
  assert_true (before < nr);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_thread),
    cmocka_unit_test (test_filled),
  };

  return RUN_TESTS (tests);
}
