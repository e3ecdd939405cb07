/* SPDX-License-Identifier: BSD-3-Clause */
/* test-tcp-break.c - break a connection of the TCP transport from any thread.
 * Each op completes, and bytes that the server has not received yet never
 * reach it.
 */

#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "tcp-peer.h"

/* A server that is alive but silent: only conn_break ends the ops. */
static void
silent (struct server *s)
{
  uint8_t byte;

  while (recv (s->fd, &byte, 1, 0) > 0)
    ;
}

static void
break_main (void *conn)
{
  tcp->conn_break (conn);
}

static void
test_break_elsewhere (void **state)
{
  (void) state;
  for (unsigned round = 0; round < 20; round++) {
    struct server s = { 0 };
    struct fp_queue *q = queue_new ();
    uint8_t *local = calloc (DEPTH, 4096);
    struct fp_op ops[DEPTH];
    struct fp_thread breaker;
    struct fp_conn *c;

    assert_non_null (local);
    server_start (&s, silent);
    assert_int_equal (conn_open (&c, q, &s), 0);
    for (unsigned i = 0; i < DEPTH; i++) {
      ops[i] = (struct fp_op) { .kind = i % 2 ? FP_OP_READ : FP_OP_WRITE,
                                .length = 4096,
                                .local = local + i * (size_t) 4096 };
      assert_int_equal (tcp->post (c, &ops[i]), 0);
    }
    if (round % 2)
      tcp->kick (q);
    assert_int_equal (fp_thread_create (&breaker, "breaker", break_main, c),
                      0);
    expect_done (q, DEPTH, -ECONNRESET);
    assert_int_equal (fp_thread_join (&breaker), 0);
    assert_int_equal (tcp->conn_inflight (c), 0);
    tcp->conn_free (c);
    server_stop (&s);
    tcp->queue_free (q);
    free (local);
  }
}

/* Once told to, read all that comes before the reset. */
static _Atomic size_t late_bytes;
static sem_t may_read;

static void
late_reader (struct server *s)
{
  static uint8_t buf[65536];
  ssize_t n;

  sem_wait_patiently (&may_read);
  while ((n = recv (s->fd, buf, sizeof buf, 0)) > 0)
    atomic_fetch_add (&late_bytes, (size_t) n);
}

/* A WRITE that was reported as failed may be retried elsewhere.  So the rest
 * of it in the socket must not follow.
 */
static void
test_break_drops_unsent (void **state)
{
  struct server s = { 0 };
  struct fp_queue *q = queue_new ();
  uint8_t *local = calloc (1, MEMORY);
  struct fp_op ops[DEPTH];
  struct fp_conn *c;
  int before = 0, arrived = -1;

  (void) state;
  assert_non_null (local);
  assert_int_equal (sem_init (&may_read, 0, 0), 0);
  atomic_store (&late_bytes, 0);
  server_start (&s, late_reader);
  assert_int_equal (conn_open (&c, q, &s), 0);
  for (unsigned i = 0; i < DEPTH; i++) {
    ops[i] = (struct fp_op) { .kind = FP_OP_WRITE,
                              .length = STRIPE,
                              .local = local + i * (size_t) STRIPE,
                              .raddr = RADDR + i * (size_t) STRIPE,
                              .rkey = RKEY };
    assert_int_equal (tcp->post (c, &ops[i]), 0);
  }
  tcp->kick (q);
  while (before != arrived) { /* until the server's window is full */
    before = arrived;
    assert_int_equal (poll (NULL, 0, 100), 0);
    assert_int_equal (ioctl (s.fd, FIONREAD, &arrived), 0);
  }
  tcp->conn_break (c);
  expect_done (q, DEPTH, -ECONNRESET);
  tcp->conn_free (c);
  assert_int_equal (sem_post (&may_read), 0);
  server_stop (&s);
  assert_true (atomic_load (&late_bytes) <= (size_t) arrived);
  tcp->queue_free (q);
  free (local);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_break_elsewhere),
    cmocka_unit_test (test_break_drops_unsent),
  };

  return cmocka_run_group_tests (tests, tcp_peer_setup, tcp_peer_teardown);
}
