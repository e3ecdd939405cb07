/* SPDX-License-Identifier: BSD-3-Clause */
/* test-event-loop.c - an urgent event does not wait for all events that are
 * ready.
 */

#include "unit.h"

#include <event2/event.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "memserver/event_loop.h"

#define READY (8 * EVENT_LOOP_TURN)

static struct event *ordinary[READY], *urgent;
static unsigned ran, ran_before_urgent;
static int fd_of_urgent;

static void
on_ordinary (evutil_socket_t fd, short what, void *arg)
{
  (void) fd;
  (void) what;
  (void) arg;
  /* Only the fd becomes readable: the loop has to poll it. */
  if (ran++ == 0)
    assert_int_equal (eventfd_write (fd_of_urgent, 1), 0);
}

static void
on_urgent (evutil_socket_t fd, short what, void *arg)
{
  (void) fd;
  (void) what;
  (void) arg;
  ran_before_urgent = ran;
}

static void
test_urgent (void **state)
{
  struct event_base *base = event_loop_new ();

  (void) state;
  assert_non_null (base);
  fd_of_urgent = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  assert_true (fd_of_urgent >= 0);
  urgent = event_new (base, fd_of_urgent, EV_READ, on_urgent, NULL);
  assert_non_null (urgent);
  event_loop_urgent (urgent);
  assert_int_equal (event_add (urgent, NULL), 0);
  for (unsigned i = 0; i < READY; i++) {
    ordinary[i] = event_new (base, -1, 0, on_ordinary, NULL);
    assert_non_null (ordinary[i]);
    event_active (ordinary[i], EV_TIMEOUT, 0);
  }
  assert_int_not_equal (event_base_loop (base, EVLOOP_NONBLOCK), -1);
  while (ran < READY)
    assert_int_not_equal (event_base_loop (base, EVLOOP_NONBLOCK), -1);
  assert_in_range (ran_before_urgent, 1, EVENT_LOOP_TURN);
  for (unsigned i = 0; i < READY; i++)
    event_free (ordinary[i]);
  event_free (urgent);
  close (fd_of_urgent);
  event_base_free (base);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_urgent),
  };

  return RUN_TESTS (tests);
}
