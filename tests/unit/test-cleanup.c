/* SPDX-License-Identifier: BSD-3-Clause */
/* test-cleanup.c - scopes release what they hold, unless it was stolen. */

#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"

static int released;

static void
release (int **p)
{
  if (*p)
    released++;
}

static int *
make (int *obj, int succeed)
{
  FP_CLEANUP (release) int *p = obj;

  if (!succeed)
    return NULL;
  return FP_STEAL (p);
}

static void
test_steal (void **state)
{
  int obj;

  (void) state;
  released = 0;
  assert_ptr_equal (make (&obj, 1), &obj);
  assert_int_equal (released, 0);
  assert_null (make (&obj, 0));
  assert_int_equal (released, 1);
}

static void
test_lock_scope (void **state)
{
  pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_t b = PTHREAD_MUTEX_INITIALIZER;

  (void) state;
  {
    FP_LOCK_SCOPE (&a);
    FP_LOCK_SCOPE (&b); /* two in one scope */
    assert_int_equal (pthread_mutex_trylock (&a), EBUSY);
    assert_int_equal (pthread_mutex_trylock (&b), EBUSY);
  }
  assert_int_equal (pthread_mutex_trylock (&a), 0);
  assert_int_equal (pthread_mutex_trylock (&b), 0);
  assert_int_equal (pthread_mutex_unlock (&a), 0);
  assert_int_equal (pthread_mutex_unlock (&b), 0);
}

static void
test_free_and_close (void **state)
{
  int pipefd[2];

  (void) state;
  assert_int_equal (pipe (pipefd), 0);
  {
    FP_CLEANUP (fp_free) char *s = malloc (10);
    FP_CLEANUP (fp_closep) int fd = pipefd[0];
    FP_CLEANUP (fp_closep) int none = -1;

    assert_non_null (s);
  }
  assert_int_equal (close (pipefd[0]), -1);
  assert_int_equal (errno, EBADF);
  assert_int_equal (close (pipefd[1]), 0);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_steal),
    cmocka_unit_test (test_lock_scope),
    cmocka_unit_test (test_free_and_close),
  };

  return RUN_TESTS (tests);
}
