/* SPDX-License-Identifier: BSD-3-Clause */
/* test-verbs-queue.c - before it sleeps, a queue requests an event of its
 * completion queue, unless the last one that it requested is still to come.
 *
 * This program needs no device: the completion queue and the channel are fake.
 * It defines the functions of libibverbs that fp_verbs_queue_rearm calls.
 */

#include "unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "transport/verbs_queue.h"

static struct ibv_context context;
static struct ibv_cq cq;
static struct ibv_comp_channel channel;
static struct fp_verbs_queue q;

/* The state of the channel, and what was called. */
static struct {
  unsigned events; /* on the channel, not taken */
  unsigned acked;
  unsigned requests;
  int get_err, request_err; /* errno values; 0: the call works */
} fake;

int
ibv_get_cq_event (struct ibv_comp_channel *c, struct ibv_cq **which,
                  void **cq_context)
{
  assert_ptr_equal (c, &channel);
  if (fake.get_err != 0 || fake.events == 0) {
    errno = fake.get_err != 0 ? fake.get_err : EAGAIN;
    return -1;
  }
  fake.events--;
  *which = &cq;
  *cq_context = NULL;
  return 0;
}

void
ibv_ack_cq_events (struct ibv_cq *which, unsigned n)
{
  assert_ptr_equal (which, &cq);
  fake.acked += n;
}

static int
req_notify_cq (struct ibv_cq *which, int solicited_only)
{
  assert_ptr_equal (which, &cq);
  assert_int_equal (solicited_only, 0);
  fake.requests++;
  return fake.request_err;
}

static int
setup (void **state)
{
  (void) state;
  memset (&fake, 0, sizeof fake);
  memset (&q, 0, sizeof q);
  context.ops.req_notify_cq = req_notify_cq;
  cq.context = &context;
  q.channel = &channel;
  atomic_store (&q.cq, &cq);
  q.armed = true; /* as bind leaves it */
  return 0;
}

static void
test_still_to_come (void **state)
{
  (void) state;
  assert_int_equal (fp_verbs_queue_rearm (&q), 0);
  assert_int_equal (fp_verbs_queue_rearm (&q), 0);
  assert_int_equal (fake.requests, 0);
}

static void
test_came (void **state)
{
  (void) state;
  fake.events = 1;
  q.polled = true;
  assert_int_equal (fp_verbs_queue_rearm (&q), 0);
  assert_int_equal (fake.acked, 1);
  assert_int_equal (fake.requests, 1);
  assert_int_equal (fp_verbs_queue_rearm (&q), 0);
  assert_int_equal (fake.requests, 1);
}

/* The kernel had no memory for the event.  The completion was found by
 * polling.
 */
static void
test_dropped (void **state)
{
  (void) state;
  q.polled = true;
  assert_int_equal (fp_verbs_queue_rearm (&q), 0);
  assert_int_equal (fake.requests, 1);
  assert_int_equal (fp_verbs_queue_rearm (&q), 0);
  assert_int_equal (fake.requests, 1);
}

/* Two requests made two events.  Both are taken off the channel, or its
 * descriptor would stay readable.
 */
static void
test_two_came (void **state)
{
  (void) state;
  fake.events = 2;
  assert_int_equal (fp_verbs_queue_rearm (&q), 0);
  assert_int_equal (fp_verbs_queue_rearm (&q), 0);
  assert_int_equal (fake.events, 0);
  assert_int_equal (fake.acked, 2);
}

static void
test_broken (void **state)
{
  (void) state;
  fake.get_err = EIO;
  assert_int_equal (fp_verbs_queue_rearm (&q), -EIO);
  fake.get_err = 0;
  fake.events = 1;
  fake.request_err = ENOMEM;
  assert_int_equal (fp_verbs_queue_rearm (&q), -ENOMEM);
  /* A request that failed is made again. */
  fake.request_err = 0;
  assert_int_equal (fp_verbs_queue_rearm (&q), 0);
  assert_int_equal (fake.requests, 2);
}

/* A queue that is not bound to a device has nothing to request. */
static void
test_unbound (void **state)
{
  (void) state;
  atomic_store (&q.cq, NULL);
  assert_int_equal (fp_verbs_queue_rearm (&q), 0);
  assert_int_equal (fake.requests, 0);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup (test_still_to_come, setup),
    cmocka_unit_test_setup (test_came, setup),
    cmocka_unit_test_setup (test_dropped, setup),
    cmocka_unit_test_setup (test_two_came, setup),
    cmocka_unit_test_setup (test_broken, setup),
    cmocka_unit_test_setup (test_unbound, setup),
  };

  cmocka_set_test_filter (getenv ("FARPAGE_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
