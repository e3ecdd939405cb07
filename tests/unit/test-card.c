/* SPDX-License-Identifier: BSD-3-Clause */
/* test-card.c - the simulated card (sim/card.h): when its transfers end, and
 * that it keeps the contract of transport.h.  The clock is the test's.
 */

#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "sim/card.h"

#define DEPTH 64
#define IO 4096u
#define WIRE_NS (IO / SIM_CARD_BYTES_PER_NS)

static const struct fp_transport_ops *t = &sim_card;
static uint8_t local[DEPTH * IO];
static struct fp_queue *queue;
static struct fp_conn *conns[2];
static struct fp_op ops[2 * DEPTH];
static uint64_t now;

uint64_t __wrap_fp_mono_ns (void);
uint64_t
__wrap_fp_mono_ns (void)
{
  return now;
}

static int wakes; /* epoll set of the queue */

static int
setup (void **state)
{
  const struct fp_queue_params qp = { .depth = 2 * DEPTH,
                                      .max_conns = 2,
                                      .memory = local,
                                      .memory_size = sizeof local,
                                      .epoll = epoll_create1 (EPOLL_CLOEXEC) };
  const struct fp_conn_params cp = { .depth = DEPTH };

  (void) state;
  now += FP_NS_PER_MS; /* the link is idle */
  wakes = qp.epoll;
  assert_true (wakes > 0);
  assert_int_equal (t->queue_new (&queue, &qp), 0);
  for (unsigned i = 0; i < 2; i++)
    assert_int_equal (t->conn_open (&conns[i], queue, &cp, FP_NEVER), 0);
  for (unsigned i = 0; i < 2 * DEPTH; i++)
    ops[i] = (struct fp_op) { .kind = FP_OP_READ,
                              .length = IO,
                              .local = local + i % DEPTH * IO };
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  for (unsigned i = 0; i < 2; i++) {
    t->conn_break (conns[i]);
    while (t->poll (queue) != NULL)
      ;
    assert_int_equal (t->conn_inflight (conns[i]), 0);
    t->conn_free (conns[i]);
  }
  t->queue_free (queue);
  close (wakes);
  return 0;
}

static void
post (unsigned conn, unsigned op)
{
  assert_int_equal (t->post (conns[conn], &ops[op]), 0);
}

static void
expect (struct fp_op *list, unsigned first, unsigned nr)
{
  for (unsigned i = first; i < first + nr; i++, list = list->next) {
    assert_ptr_equal (list, &ops[i]);
    assert_int_equal (list->status, 0);
  }
  assert_null (list);
}

/* Return true if the fd is readable, or becomes so within ms. */
static bool
readable_in (int ms)
{
  struct pollfd p = { .fd = wakes, .events = POLLIN };

  return poll (&p, 1, ms) == 1;
}

static bool
becomes_readable (void)
{
  return readable_in (60000);
}

static void
test_one (void **state)
{
  uint64_t start = now;

  (void) state;
  post (0, 0);
  now += FP_NS_PER_MS;
  assert_null (t->poll (queue)); /* not kicked */
  start = now;
  t->kick (queue);
  now = start + WIRE_NS + SIM_CARD_LATENCY_NS - 1;
  assert_null (t->poll (queue));
  assert_int_equal (t->conn_inflight (conns[0]), 1);
  now++;
  expect (t->poll (queue), 0, 1);
  assert_int_equal (t->conn_inflight (conns[0]), 0);
}

/* Transfers of one direction share the link, also those of two connections.
 * The other direction is not affected.
 */
static void
test_link (void **state)
{
  uint64_t start = now;

  (void) state;
  ops[2].kind = FP_OP_WRITE;
  post (0, 0);
  post (1, 1);
  post (1, 2);
  t->kick (queue);
  now = start + WIRE_NS + SIM_CARD_LATENCY_NS;
  expect (t->poll (queue), 0, 1);
  now += WIRE_NS - 1;
  assert_null (t->poll (queue));
  now++;
  /* The WRITE starts and ends with the READ before it: the link of WRITEs was
   * free all the time.
   */
  expect (t->poll (queue), 1, 2);
}

/* A short WRITE does not end before the long READ that it was posted behind.
 */
static void
test_order (void **state)
{
  const uint64_t start = now;

  (void) state;
  ops[0].length = 32 * IO;
  ops[1].kind = FP_OP_WRITE;
  post (0, 0);
  post (0, 1);
  t->kick (queue);
  now = start + 32 * IO / SIM_CARD_BYTES_PER_NS + SIM_CARD_LATENCY_NS - 1;
  assert_null (t->poll (queue));
  now++;
  expect (t->poll (queue), 0, 2);
}

static void
test_reads_in_flight (void **state)
{
  const unsigned n = SIM_CARD_READS;
  const uint64_t wire = 48 / SIM_CARD_BYTES_PER_NS, start = now;
  uint64_t first_end = start + wire + SIM_CARD_LATENCY_NS;

  (void) state;
  for (unsigned i = 0; i < n + 2; i++)
    ops[i].length = 48;
  for (unsigned i = 0; i <= n; i++)
    post (0, i);
  ops[n + 1].kind = FP_OP_WRITE;
  ops[n + 1].length = IO;
  post (0, n + 1);
  t->kick (queue);
  now = start + n * wire + SIM_CARD_LATENCY_NS;
  expect (t->poll (queue), 0, n);
  /* The link has been free for long.  But the last READ waited for the first
   * one to end, and the WRITE behind it waited for the READ to start.
   */
  now = first_end + wire + SIM_CARD_LATENCY_NS - 1;
  assert_null (t->poll (queue));
  now++;
  expect (t->poll (queue), n, 1);
  now = first_end + WIRE_NS + SIM_CARD_LATENCY_NS - 1;
  assert_null (t->poll (queue));
  now++;
  expect (t->poll (queue), n + 1, 1);
}

static void
test_full (void **state)
{
  (void) state;
  for (unsigned i = 0; i < DEPTH; i++)
    post (0, i);
  assert_int_equal (t->post (conns[0], &ops[DEPTH]), -EAGAIN);
  t->kick (queue);
  now += FP_NS_PER_MS;
  expect (t->poll (queue), 0, DEPTH);
  /* The ring goes round. */
  post (0, 0);
  t->kick (queue);
  now += FP_NS_PER_MS;
  expect (t->poll (queue), 0, 1);
}

static void
test_refused (void **state)
{
  static uint8_t outside[IO];

  (void) state;
  ops[0].local = local + sizeof local - IO + 1;
  assert_int_equal (t->post (conns[0], &ops[0]), -EINVAL);
  ops[0].local = outside;
  assert_int_equal (t->post (conns[0], &ops[0]), -EINVAL);
  ops[0].local = local;
  ops[0].length = 0;
  assert_int_equal (t->post (conns[0], &ops[0]), -EINVAL);
}

static void
test_break (void **state)
{
  struct fp_op *list;

  (void) state;
  post (0, 0);
  post (1, 1);
  t->kick (queue);
  post (0, 3); /* not kicked */
  t->conn_break (conns[0]);
  assert_true (becomes_readable ());
  assert_true (t->conn_broken (conns[0]));
  assert_int_equal (t->post (conns[0], &ops[2]), -ENOTCONN);
  list = t->poll (queue);
  assert_ptr_equal (list, &ops[0]);
  assert_int_equal (list->status, -ECONNRESET);
  assert_ptr_equal (list->next, &ops[3]);
  assert_int_equal (list->next->status, -ECONNRESET);
  assert_null (list->next->next);
  now += FP_NS_PER_MS;
  expect (t->poll (queue), 1, 1);
}

/* The timer uses the real clock, which is far beyond the test's.  So it ends
 * at once.
 */
static void
test_arm (void **state)
{
  (void) state;
  assert_false (t->arm (queue));
  assert_false (readable_in (0));
  post (0, 0);
  t->kick (queue); /* while another thread sleeps */
  assert_true (becomes_readable ());
  assert_false (t->arm (queue));
  assert_true (becomes_readable ());
  now += FP_NS_PER_MS;
  assert_true (t->arm (queue));
  expect (t->poll (queue), 0, 1);
  assert_false (t->arm (queue));
  assert_false (readable_in (0));
}

static void
test_moves_nothing (void **state)
{
  (void) state;
  memset (local, 7, IO);
  post (0, 0);
  t->kick (queue);
  now += FP_NS_PER_MS;
  expect (t->poll (queue), 0, 1);
  for (unsigned i = 0; i < IO; i++)
    assert_int_equal (local[i], 7);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_one, setup, teardown),
    cmocka_unit_test_setup_teardown (test_link, setup, teardown),
    cmocka_unit_test_setup_teardown (test_order, setup, teardown),
    cmocka_unit_test_setup_teardown (test_reads_in_flight, setup, teardown),
    cmocka_unit_test_setup_teardown (test_full, setup, teardown),
    cmocka_unit_test_setup_teardown (test_refused, setup, teardown),
    cmocka_unit_test_setup_teardown (test_break, setup, teardown),
    cmocka_unit_test_setup_teardown (test_arm, setup, teardown),
    cmocka_unit_test_setup_teardown (test_moves_nothing, setup, teardown),
  };

  return RUN_TESTS (tests);
}
