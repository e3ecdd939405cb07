/* SPDX-License-Identifier: BSD-3-Clause */
/* test-fake.c - the fake transport keeps the contract of transport.h, and its
 * faults do what fake.h says.  Other tests rely on that.
 */

#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "transport/local/fake.h"

#define SIZE 65536
#define DEPTH 4

static const struct fp_transport_ops *t = &fp_transport_fake;
static uint8_t local[DEPTH * 4096];
static struct fp_fake_server *server;
static struct fp_queue *queue;
static struct fp_conn *conn;
static struct fp_remote remote;
static struct fp_op ops[DEPTH];

static int
open_conn (void)
{
  const struct fp_conn_params p = { .addr = fp_fake_server_addr (server),
                                    .depth = DEPTH };

  return t->conn_open (&conn, queue, &p, UINT64_MAX);
}

static int wakes; /* epoll set of the queue */

static int
setup (void **state)
{
  const struct fp_queue_params qp = { .depth = DEPTH,
                                      .max_conns = 1,
                                      .memory = local,
                                      .memory_size = sizeof local,
                                      .epoll = epoll_create1 (EPOLL_CLOEXEC) };
  struct fp_grant g;

  (void) state;
  fp_fake_fault_at (0, FP_FAKE_ERROR);
  server = fp_fake_server_new ("a", SIZE);
  assert_non_null (server);
  wakes = qp.epoll;
  assert_true (wakes > 0);
  assert_int_equal (t->queue_new (&queue, &qp), 0);
  assert_int_equal (open_conn (), 0);
  fp_fake_server_grant (server, 0, SIZE, &g);
  assert_int_equal (t->import (&remote, &g, -1, false), 0);
  for (unsigned i = 0; i < DEPTH; i++)
    ops[i] = (struct fp_op) { .kind = FP_OP_WRITE,
                              .length = 4096,
                              .local = local + i * 4096,
                              .raddr = remote.raddr + i * 4096,
                              .rkey = remote.rkey };
  memset (local, 1, sizeof local);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  if (conn != NULL) {
    t->conn_break (conn);
    while (t->poll (queue) != NULL)
      ;
    assert_int_equal (t->conn_inflight (conn), 0);
    t->conn_free (conn);
    conn = NULL;
  }
  t->queue_free (queue);
  close (wakes);
  fp_fake_server_free (server);
  return 0;
}

static bool
readable (int fd)
{
  struct pollfd p = { .fd = fd, .events = POLLIN };

  return poll (&p, 1, 0) == 1;
}

/* Expect that op, and no other, completed. */
static void
expect_one (struct fp_op *op, int status)
{
  struct fp_op *got;

  assert_true (readable (wakes));
  assert_true (t->arm (queue));
  got = t->poll (queue);
  assert_ptr_equal (got, op);
  assert_null (got->next);
  assert_int_equal (got->status, status);
  assert_false (readable (wakes));
  assert_false (t->arm (queue));
}

static void
test_write_read (void **state)
{
  (void) state;
  assert_int_equal (t->post (conn, &ops[1]), 0);
  assert_null (t->poll (queue)); /* not kicked */
  assert_int_equal (t->conn_inflight (conn), 1);
  t->kick (queue);
  expect_one (&ops[1], 0);
  assert_int_equal (t->conn_inflight (conn), 0);
  assert_int_equal (fp_fake_server_memory (server)[4095], 0);
  assert_int_equal (fp_fake_server_memory (server)[4096], 1);
  assert_int_equal (fp_fake_server_memory (server)[8192], 0);
  ops[1].kind = FP_OP_READ;
  memset (ops[1].local, 2, 4096);
  assert_int_equal (t->post (conn, &ops[1]), 0);
  t->kick (queue);
  expect_one (&ops[1], 0);
  assert_int_equal (local[8191], 1);
}

static void
test_strict (void **state)
{
  struct fp_op extra = ops[0];

  (void) state;
  extra.local = local + sizeof local - 4095;
  assert_int_equal (t->post (conn, &extra), -EFAULT);
  extra.length = 0;
  assert_int_equal (t->post (conn, &extra), -EINVAL);
  extra = ops[0];
  for (unsigned i = 0; i < DEPTH; i++)
    assert_int_equal (t->post (conn, &ops[i]), 0);
  assert_int_equal (t->post (conn, &extra), -EAGAIN);
  t->kick (queue);
  for (unsigned n = 0; n < DEPTH;)
    for (struct fp_op *op = t->poll (queue); op; op = op->next)
      n++;
  ops[0].kind = FP_OP_READ;
  ops[0].raddr = remote.raddr + SIZE - 4095;
  assert_int_equal (t->post (conn, &ops[0]), 0);
  t->kick (queue);
  expect_one (&ops[0], -EPERM);
  assert_int_equal (local[0], 0xa5);
  fp_fake_server_revoke (server);
  assert_int_equal (t->post (conn, &ops[1]), 0);
  t->kick (queue);
  expect_one (&ops[1], -EPERM);
}

static void
test_hold (void **state)
{
  (void) state;
  fp_fake_server_hold (server, true);
  for (unsigned i = 0; i < DEPTH; i++)
    assert_int_equal (t->post (conn, &ops[i]), 0);
  t->kick (queue);
  assert_null (t->poll (queue));
  assert_int_equal (fp_fake_server_held (server), DEPTH);
  assert_true (fp_fake_server_release (server, 3, 0));
  expect_one (&ops[3], 0);
  assert_true (fp_fake_server_release (server, 1, -EIO));
  expect_one (&ops[1], -EIO);
  assert_int_equal (fp_fake_server_memory (server)[4096], 0);
  assert_int_equal (fp_fake_server_memory (server)[3 * 4096], 1);
  assert_false (fp_fake_server_release (server, 2, 0));
  t->conn_break (conn);
  t->conn_break (conn);
  assert_int_equal (t->conn_inflight (conn), 2);
  struct fp_op *list = t->poll (queue);
  assert_ptr_equal (list, &ops[0]);
  assert_ptr_equal (list->next, &ops[2]);
  assert_null (list->next->next);
  assert_int_equal (ops[0].status, -ECONNRESET);
  assert_int_equal (fp_fake_server_held (server), 0);
  assert_int_equal (fp_fake_server_memory (server)[0], 0);
  assert_int_equal (t->post (conn, &ops[0]), -ENOTCONN);
}

static void
test_die (void **state)
{
  (void) state;
  fp_fake_server_hold (server, true);
  assert_int_equal (t->post (conn, &ops[0]), 0);
  t->kick (queue);
  assert_int_equal (t->post (conn, &ops[1]), 0); /* not kicked */
  assert_false (readable (t->conn_event_fd (conn)));
  fp_fake_server_die (server);
  assert_true (readable (t->conn_event_fd (conn)));
  t->conn_event (conn);
  assert_false (readable (t->conn_event_fd (conn)));
  assert_true (t->conn_broken (conn));
  assert_non_null (t->poll (queue));
  assert_int_equal (ops[0].status, -ECONNRESET);
  assert_int_equal (ops[1].status, -ECONNRESET);
  t->conn_free (conn);
  assert_int_equal (open_conn (), -ECONNREFUSED);
  fp_fake_server_revive (server);
  assert_int_equal (open_conn (), 0);
}

/* Open, post two ops, kick: 5 fault points.  Set status to how the ops ended;
 * return the error of open.
 */
static int
scenario (int status[2])
{
  int ret;
  unsigned n = 0;

  t->conn_break (conn);
  t->conn_free (conn);
  conn = NULL;
  status[0] = status[1] = 1;
  ret = open_conn ();
  if (ret < 0)
    return ret;
  for (unsigned i = 0; i < 2; i++) {
    ret = t->post (conn, &ops[i]);
    if (ret < 0)
      status[i] = ret;
    else
      n++;
  }
  t->kick (queue);
  if (fp_fake_server_held (server) > 0) {
    status[0] = status[1] = -EINPROGRESS;
    assert_true (fp_fake_server_release (server, 0, 0));
  }
  while (n > 0)
    for (struct fp_op *op = t->poll (queue); op; op = op->next) {
      if (status[op - ops] == 1)
        status[op - ops] = op->status;
      n--;
    }
  return 0;
}

static void
test_fault_points (void **state)
{
  static const struct {
    unsigned n;
    enum fp_fake_fault kind;
    int open, status[2];
  } want[] = {
    { 1, FP_FAKE_ERROR, -ECONNREFUSED, { 1, 1 } },
    { 1, FP_FAKE_BREAK, -ETIMEDOUT, { 1, 1 } },
    { 1, FP_FAKE_DELAY, 0, { 0, 0 } },
    { 2, FP_FAKE_ERROR, 0, { -ENOTCONN, -ENOTCONN } },
    { 2, FP_FAKE_BREAK, 0, { -ECONNRESET, -ENOTCONN } },
    { 3, FP_FAKE_ERROR, 0, { -ECONNRESET, -ENOTCONN } },
    { 3, FP_FAKE_BREAK, 0, { -ECONNRESET, -ECONNRESET } },
    { 4, FP_FAKE_ERROR, 0, { -EREMOTEIO, 0 } },
    { 4, FP_FAKE_BREAK, 0, { -ECONNRESET, -ECONNRESET } },
    { 4, FP_FAKE_DELAY, 0, { -EINPROGRESS, -EINPROGRESS } },
    { 5, FP_FAKE_ERROR, 0, { 0, -EREMOTEIO } },
    { 5, FP_FAKE_BREAK, 0, { 0, -ECONNRESET } },
    { 6, FP_FAKE_ERROR, 0, { 0, 0 } },
  };

  (void) state;
  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
    int status[2];

    if (conn == NULL)
      assert_int_equal (open_conn (), 0);
    fp_fake_fault_at (want[i].n, want[i].kind);
    assert_int_equal (scenario (status), want[i].open);
    assert_int_equal (status[0], want[i].status[0]);
    assert_int_equal (status[1], want[i].status[1]);
    assert_int_equal (fp_fake_fault_fired (), want[i].n <= 5);
    if (want[i].n > 5)
      assert_int_equal (fp_fake_fault_points (), 5);
    fp_fake_fault_at (0, FP_FAKE_ERROR);
  }
}

int
main (void)
{
#define TEST(f) cmocka_unit_test_setup_teardown (f, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_write_read), TEST (test_strict),       TEST (test_hold),
    TEST (test_die),        TEST (test_fault_points),
  };

  return RUN_TESTS (tests);
}
