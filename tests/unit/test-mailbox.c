/* SPDX-License-Identifier: BSD-3-Clause */
/* test-mailbox.c - the loop runs what other threads post, in order, once. */

#include "unit.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/clock.h"
#include "base/thread.h"
#include "memserver/pool/mailbox.h"

#define THREADS 4
#define NOTES 1000

static struct event_base *base;
static struct mailbox *mailbox;

static int
setup (void **state)
{
  (void) state;
  base = event_base_new ();
  return base == NULL || mailbox_new (&mailbox, base) < 0;
}

static int
teardown (void **state)
{
  (void) state;
  mailbox_free (mailbox);
  event_base_free (base);
  return 0;
}

static void
run_loop (void)
{
  assert_int_not_equal (event_base_loop (base, EVLOOP_NONBLOCK), -1);
}

static struct note notes[THREADS][NOTES];
static unsigned ran[THREADS];

static void
on_note (struct note *note)
{
  unsigned t = (unsigned) ((note - &notes[0][0]) / NOTES);

  /* The notes of each thread run in the order in which it posted them. */
  assert_ptr_equal (note, &notes[t][ran[t]]);
  ran[t]++;
}

static void
post_all (void *arg)
{
  struct note *mine = arg;

  for (unsigned i = 0; i < NOTES; i++) {
    mine[i].run = on_note;
    mailbox_post (mailbox, &mine[i]);
  }
}

static bool
all_ran (void)
{
  for (unsigned t = 0; t < THREADS; t++)
    if (ran[t] < NOTES)
      return false;
  return true;
}

static void
test_threads (void **state)
{
  struct fp_thread threads[THREADS];
  uint64_t deadline = fp_deadline_in_ms (60000);

  (void) state;
  memset (ran, 0, sizeof ran);
  for (unsigned t = 0; t < THREADS; t++)
    assert_int_equal (
        fp_thread_create (&threads[t], "poster", post_all, notes[t]), 0);
  while (!all_ran ()) {
    assert_false (fp_deadline_passed (deadline));
    run_loop ();
  }
  for (unsigned t = 0; t < THREADS; t++)
    assert_int_equal (fp_thread_join (&threads[t]), 0);
  run_loop ();
  for (unsigned t = 0; t < THREADS; t++)
    assert_int_equal (ran[t], NOTES);
}

static unsigned count;

static void
on_count (struct note *note)
{
  (void) note;
  count++;
}

/* A note that is posted twice while it waits runs once.  Later it runs again.
 */
static void
test_once (void **state)
{
  struct note note = { .run = on_count };

  (void) state;
  count = 0;
  for (unsigned round = 1; round <= 3; round++) {
    mailbox_post (mailbox, &note);
    mailbox_post (mailbox, &note);
    assert_int_equal (count, round - 1);
    run_loop ();
    assert_int_equal (count, round);
  }
  run_loop ();
  assert_int_equal (count, 3);
}

static void
on_again (struct note *note)
{
  if (++count < 3)
    mailbox_post (mailbox, note);
}

/* A note may be posted while it runs, also by itself.  The loop turns before
 * it runs again.
 */
static void
test_again (void **state)
{
  struct note note = { .run = on_again };

  (void) state;
  count = 0;
  mailbox_post (mailbox, &note);
  for (unsigned i = 1; i <= 5; i++) {
    assert_int_not_equal (
        event_base_loop (base, EVLOOP_NONBLOCK | EVLOOP_ONCE), -1);
    assert_int_equal (count, i < 3 ? i : 3);
  }
}

/* Notes that still wait at the end do not run. */
static void
test_end (void **state)
{
  static struct note left = { .run = on_count };

  (void) state;
  count = 0;
  mailbox_post (mailbox, &left);
  mailbox_free (mailbox);
  mailbox = NULL;
  run_loop ();
  assert_int_equal (count, 0);
}

static struct note *post_at_read; /* as if by another thread */

ssize_t __real_read (int fd, void *buf, size_t size);
ssize_t __wrap_read (int fd, void *buf, size_t size);

ssize_t
__wrap_read (int fd, void *buf, size_t size)
{
  struct note *note = post_at_read;

  post_at_read = NULL;
  if (note != NULL)
    mailbox_post (mailbox, note);
  return __real_read (fd, buf, size);
}

/* A note that is posted just when the loop looks is not forgotten. */
static void
test_posted_at_read (void **state)
{
  static struct note first = { .run = on_count }, second = { .run = on_count };

  (void) state;
  count = 0;
  mailbox_post (mailbox, &first);
  post_at_read = &second;
  run_loop ();
  assert_int_equal (count, 2);
}

static unsigned slow_ran, slow_before_other;

static void
on_slow (struct note *note)
{
  (void) note;
  usleep (10000);
  slow_ran++;
}

static void
on_other (evutil_socket_t fd, short what, void *arg)
{
  (void) fd;
  (void) what;
  (void) arg;
  slow_before_other = slow_ran;
}

/* Many slow notes do not hold up another event that is ready. */
static void
test_turns (void **state)
{
  struct event *other = event_new (base, -1, 0, on_other, NULL);
  static struct note slow[100];

  (void) state;
  assert_non_null (other);
  for (unsigned i = 0; i < 100; i++) {
    slow[i].run = on_slow;
    mailbox_post (mailbox, &slow[i]);
  }
  assert_int_not_equal (event_base_loop (base, EVLOOP_NONBLOCK | EVLOOP_ONCE),
                        -1);
  assert_in_range (slow_ran, 1, 50);
  event_active (other, EV_TIMEOUT, 0);
  while (slow_ran < 100)
    run_loop ();
  assert_in_range (slow_before_other, 1, 50);
  event_free (other);
}

int
main (void)
{
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_threads), TEST (test_once),  TEST (test_again),
    TEST (test_end),     TEST (test_turns), TEST (test_posted_at_read),
  };

  return RUN_TESTS (tests);
}
