/* SPDX-License-Identifier: BSD-3-Clause */
/* test-tcp.c - both ends of the TCP data transport, over loopback sockets in
 * this process.  Data is right, bad requests are refused, and the peer dies or
 * lies at any point.  Each op is returned exactly once.
 */

#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "tcp-peer.h"
#include "transport/transport.h"

/* Read one request, send the script of the test, hang up. */
static void
send_script (struct server *s)
{
  uint8_t req[FP_DATA_REQ_SIZE];

  server_read (s, req, sizeof req);
  if (s->script_length > 0)
    server_send (s, s->script, s->script_length);
  shutdown (s->fd, SHUT_WR);
}

/* Each op in flight has a stripe of its own, so that the model knows what it
 * must read.
 */
static void
test_random_ops (void **state)
{
  struct server s = { 0 };
  struct fp_queue *q = queue_new ();
  struct fp_op ops[DEPTH];
  uint8_t *model = malloc (MEMORY), *local = malloc (MEMORY);
  struct fp_conn *c;
  bool busy[DEPTH] = { false };
  unsigned inflight = 0, issued = 0;

  (void) state;
  assert_non_null (model);
  assert_non_null (local);
  memset (tcp_slab, 7, MEMORY);
  memset (model, 7, MEMORY);
  server_start (&s, serve);
  assert_int_equal (conn_open (&c, q, &s), 0);

  while (issued < 3000 || inflight > 0) {
    for (unsigned i = 0; i < DEPTH && issued < 3000; i++) {
      static const uint32_t sizes[] = { 4096,  4096,   4096,  512,
                                        16384, 131072, STRIPE };
      struct fp_op *op = &ops[i];
      uint32_t max = sizes[tcp_rnd () % 7];
      uint32_t length = tcp_rnd () % 4 == 0 ? 1 + tcp_rnd () % max : max;
      size_t at = i * (size_t) STRIPE + tcp_rnd () % (STRIPE - length + 1);

      if (busy[i] || tcp_rnd () % 4 == 0 || (issued > 1000 && length > 131072))
        continue;
      *op = (struct fp_op) { .kind = tcp_rnd () % 2 ? FP_OP_READ : FP_OP_WRITE,
                             .length = length,
                             .local = local + at,
                             .raddr = RADDR + at,
                             .rkey = RKEY };
      if (op->kind == FP_OP_WRITE) {
        memset (local + at, (int) tcp_rnd (), length);
        memset (local + at, (int) tcp_rnd (), length / 3);
        memcpy (model + at, local + at, length);
      }
      else
        memset (local + at, 0xee, length);
      assert_int_equal (tcp->post (c, op), 0);
      busy[i] = true;
      issued++;
      inflight++;
    }
    tcp->kick (q);
    for (struct fp_op *op = next_done (q, tcp_rnd () % 2); op; op = op->next) {
      size_t at = op->raddr - RADDR;

      assert_int_equal (op->status, 0);
      assert_true (busy[op - ops]);
      busy[op - ops] = false;
      inflight--;
      if (op->kind == FP_OP_READ)
        assert_memory_equal (op->local, model + at, op->length);
    }
    assert_int_equal (tcp->conn_inflight (c), inflight);
  }
  conn_end (c);
  server_stop (&s);
  assert_int_equal (s.result, 0);
  assert_memory_equal (tcp_slab, model, MEMORY);
  assert_int_equal (atomic_load (&tcp_held), 0);
  tcp->queue_free (q);
  free (model);
  free (local);
}

static void
test_refused (void **state)
{
  static const struct {
    uint64_t rkey, raddr;
    int status;
  } cases[] = {
    { RKEY + 1, RADDR, -EPERM },
    { RKEY, RADDR - 1, -EPERM },
    { RKEY, RADDR + MEMORY - STRIPE + 1, -EPERM },
    { RKEY, UINT64_MAX - 10, -EPERM },
    { RKEY, RADDR, 0 },
  };
  struct server s = { 0 };
  struct fp_queue *q = queue_new ();
  uint8_t *local = malloc (STRIPE);
  struct fp_conn *c;

  (void) state;
  assert_non_null (local);
  memset (tcp_slab, 1, MEMORY);
  server_start (&s, serve);
  assert_int_equal (conn_open (&c, q, &s), 0);
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (unsigned kind = 0; kind < 2; kind++) {
      struct fp_op op = { .kind = kind ? FP_OP_WRITE : FP_OP_READ,
                          .length = STRIPE,
                          .local = local,
                          .raddr = cases[i].raddr,
                          .rkey = cases[i].rkey };
      struct fp_op good = { .kind = FP_OP_READ,
                            .length = 100,
                            .local = local,
                            .raddr = RADDR + STRIPE,
                            .rkey = RKEY };

      memset (local, 2, STRIPE);
      assert_int_equal (tcp->post (c, &op), 0);
      tcp->kick (q);
      expect_done (q, 1, cases[i].status);
      /* After a refusal the stream is still in step. */
      assert_int_equal (tcp->post (c, &good), 0);
      tcp->kick (q);
      expect_done (q, 1, 0);
      assert_int_equal (local[99], 1);
      if (cases[i].status != 0)
        assert_int_equal (tcp_slab[0], 1);
      else
        assert_int_equal (tcp_slab[0], kind ? 2 : 1);
    }
  conn_end (c);
  server_stop (&s);
  assert_int_equal (atomic_load (&tcp_held), 0);
  tcp->queue_free (q);
  free (local);
}

static void
test_limits (void **state)
{
  struct server s = { 0 };
  struct fp_queue *q = queue_new ();
  struct fp_op ops[DEPTH + 1] = { { 0 } };
  uint8_t local[16];
  struct fp_conn *c;

  (void) state;
  server_start (&s, serve);
  assert_int_equal (conn_open (&c, q, &s), 0);
  assert_int_equal (tcp->post (c, &ops[0]), -EINVAL);
  ops[0].length = FP_DATA_MAX + 1;
  assert_int_equal (tcp->post (c, &ops[0]), -EINVAL);
  for (unsigned i = 0; i <= DEPTH; i++) {
    ops[i] = (struct fp_op) {
      .length = 1, .local = local + i % 16, .raddr = RADDR, .rkey = RKEY
    };
    assert_int_equal (tcp->post (c, &ops[i]), i < DEPTH ? 0 : -EAGAIN);
  }
  tcp->kick (q);
  while (tcp->conn_inflight (c) > 0)
    next_done (q, true);
  tcp->conn_break (c);
  assert_int_equal (tcp->post (c, &ops[0]), -ENOTCONN);
  tcp->conn_free (c);
  server_stop (&s);
  tcp->queue_free (q);
}

static void
test_token (void **state)
{
  struct server s = { .hello_status = FP_STATUS_PERM };
  struct fp_queue *q = queue_new ();
  struct fp_conn *c = NULL;

  (void) state;
  server_start (&s, NULL);
  assert_int_equal (conn_open (&c, q, &s), -EACCES);
  assert_null (c);
  server_stop (&s);
  assert_int_equal (conn_open (&c, q, &s), -ECONNREFUSED);
  tcp->queue_free (q);
}

/* The server sends script[0, length) and hangs up.  All ops come back, each
 * once, and no buffer is written to afterwards.
 */
static void
dies (const uint8_t *script, size_t length, unsigned good)
{
  struct server s = { .script = script, .script_length = length };
  struct fp_queue *q = queue_new ();
  struct fp_op ops[4];
  uint8_t local[4][256], before[4][256];
  struct fp_conn *c;
  unsigned ok = 0, n = 0;

  server_start (&s, send_script);
  assert_int_equal (conn_open (&c, q, &s), 0);
  for (unsigned i = 0; i < 4; i++) {
    ops[i] = (struct fp_op) { .kind = FP_OP_READ,
                              .length = 256,
                              .local = local[i],
                              .raddr = RADDR,
                              .rkey = RKEY };
    assert_int_equal (tcp->post (c, &ops[i]), 0);
  }
  tcp->kick (q);
  while (n < 4)
    for (struct fp_op *op = next_done (q, true); op; op = op->next) {
      assert_true (op->status == 0 || op->status == -ECONNRESET);
      ok += op->status == 0;
      op->status = 1; /* so that a second completion shows */
      n++;
    }
  assert_int_equal (n, 4);
  assert_int_equal (ok, good);
  assert_int_equal (tcp->conn_inflight (c), 0);
  assert_true (tcp->conn_broken (c));
  assert_int_equal (tcp->post (c, &ops[0]), -ENOTCONN);
  memcpy (before, local, sizeof local);
  assert_false (tcp->arm (q));
  assert_null (tcp->poll (q));
  assert_memory_equal (before, local, sizeof local);
  /* No event is left that would keep a sleeper awake. */
  struct pollfd p = { .fd = wakes, .events = POLLIN };
  assert_false (tcp->arm (q));
  assert_int_equal (poll (&p, 1, 0), 0);
  tcp->conn_free (c);
  server_stop (&s);
  tcp->queue_free (q);
}

#define FRAME (FP_DATA_REPLY_SIZE + 256)

static void
frames (uint8_t *out, unsigned n)
{
  for (unsigned i = 0; i < n; i++) {
    const struct fp_data_reply p = { .cookie = i, .length = 256 };

    fp_data_reply_encode (out + i * FRAME, &p);
    memset (out + i * FRAME + FP_DATA_REPLY_SIZE, (int) i, 256);
  }
}

static void
test_server_dies (void **state)
{
  uint8_t script[5 * FRAME];

  (void) state;
  frames (script, 5);
  for (size_t n = 0; n <= 4 * FRAME; n += 13)
    dies (script, n, (unsigned) (n / FRAME));
}

static void
test_server_lies (void **state)
{
  uint8_t script[5 * FRAME];

  (void) state;
  for (unsigned i = 0; i < 4; i++) {
    frames (script, 5);
    script[i * FRAME + 7] ^= 1; /* cookie */
    dies (script, 4 * FRAME, i);
    frames (script, 5);
    script[i * FRAME + 15] ^= 1; /* length */
    dies (script, 4 * FRAME, i);
    frames (script, 5);
    script[i * FRAME] ^= 1; /* magic */
    dies (script, 4 * FRAME, i);
  }
}

/* Data that was not asked for breaks the connection at the next poll. */
static void
test_server_says_too_much (void **state)
{
  uint8_t script[2 * FRAME];
  struct server s = { .script = script, .script_length = 2 * FRAME };
  struct fp_queue *q = queue_new ();
  uint8_t local[256];
  struct fp_op op = { .length = 256, .local = local };
  struct pollfd p;
  struct fp_conn *c;

  (void) state;
  frames (script, 2);
  server_start (&s, send_script);
  assert_int_equal (conn_open (&c, q, &s), 0);
  assert_int_equal (tcp->post (c, &op), 0);
  tcp->kick (q);
  expect_done (q, 1, 0);
  if (!tcp->conn_broken (c)) { /* else the first poll saw the excess, too */
    tcp->arm (q);
    p = (struct pollfd) { .fd = wakes, .events = POLLIN };
    assert_int_equal (poll (&p, 1, PATIENCE_MS), 1);
    assert_null (tcp->poll (q));
  }
  assert_true (tcp->conn_broken (c));
  tcp->conn_free (c);
  server_stop (&s);
  tcp->queue_free (q);
}

/* Answer two READs of DIVERT bytes: send script_length bytes of the first
 * frame at once, and the rest when told to.
 */
#define DIVERT 20000u
static sem_t may_go_on;

static void
answer_in_parts (struct server *s)
{
  static uint8_t answer[2][FP_DATA_REPLY_SIZE + DIVERT];
  uint8_t req[2 * FP_DATA_REQ_SIZE];

  for (unsigned i = 0; i < 2; i++) {
    const struct fp_data_reply p = { .cookie = i, .length = DIVERT };

    fp_data_reply_encode (answer[i], &p);
    memset (answer[i] + FP_DATA_REPLY_SIZE, (int) i + 1, DIVERT);
  }
  server_read (s, req, sizeof req);
  if (s->script_length > 0)
    server_send (s, answer, s->script_length);
  sem_wait_patiently (&may_go_on);
  server_send (s, answer[0] + s->script_length,
               sizeof answer - s->script_length);
}

/* Data that comes after the divert goes to the other buffer, and no other. */
static void
test_divert (void **state)
{
  uint8_t *local = malloc (DIVERT), *other = malloc (DIVERT),
          *second = malloc (DIVERT);

  (void) state;
  assert_non_null (local);
  assert_non_null (other);
  assert_non_null (second);
  for (size_t sent = 0; sent < FP_DATA_REPLY_SIZE + DIVERT;
       sent += sent < 20 ? 7 : 3000) {
    struct server s = { .script_length = sent };
    struct fp_queue *q = queue_new ();
    struct fp_op op = { .length = DIVERT, .local = local };
    struct fp_op next = { .length = DIVERT, .local = second };
    struct fp_conn *c;
    size_t got = 0;

    memset (local, 0xee, DIVERT);
    memset (other, 0xdd, DIVERT);
    assert_int_equal (sem_init (&may_go_on, 0, 0), 0);
    server_start (&s, answer_in_parts);
    assert_int_equal (conn_open (&c, q, &s), 0);
    assert_int_equal (tcp->post (c, &op), 0);
    assert_int_equal (tcp->post (c, &next), 0);
    tcp->kick (q);
    while (sent > FP_DATA_REPLY_SIZE &&
           local[sent - FP_DATA_REPLY_SIZE - 1] == 0xee)
      assert_null (next_done (q, false));
    tcp->divert (&op, other);
    while (got < DIVERT && local[got] == 1)
      got++;
    memset (local, 0xee, DIVERT); /* as if another op used it now */
    sem_post (&may_go_on);
    expect_done (q, 2, 0);
    for (size_t i = 0; i < DIVERT; i++) {
      assert_int_equal (local[i], 0xee);
      assert_int_equal (other[i], i < got ? 0xdd : 1);
      assert_int_equal (second[i], 2);
    }
    conn_end (c);
    server_stop (&s);
    tcp->queue_free (q);
    sem_destroy (&may_go_on);
  }
  free (local);
  free (other);
  free (second);
}

/* When told to, take DEPTH WRITEs of a stripe; when told to, answer them. */
static sem_t may_read, may_answer;

static void
slow_reader (struct server *s)
{
  uint8_t header[FP_DATA_REQ_SIZE], reply[FP_DATA_REPLY_SIZE];
  struct fp_data_req r;

  sem_wait_patiently (&may_read);
  for (unsigned i = 0; i < DEPTH; i++) {
    server_read (s, header, sizeof header);
    assert_int_equal (fp_data_req_decode (&r, header), 0);
    server_read (s, tcp_slab + (r.raddr - RADDR), r.length);
  }
  sem_wait_patiently (&may_answer);
  for (unsigned i = 0; i < DEPTH; i++) {
    const struct fp_data_reply p = { .cookie = i };

    fp_data_reply_encode (reply, &p);
    server_send (s, reply, sizeof reply);
  }
}

/* One thread of a lane sleeps on the queue's fd while another posts more than
 * the socket takes.  The sleeper wakes up when there is room.
 */
static void
test_room_wakes_sleeper (void **state)
{
  struct server s = { 0 };
  struct fp_queue *q = queue_new ();
  uint8_t *local = malloc (MEMORY);
  struct fp_op ops[DEPTH];
  struct fp_conn *c;
  struct pollfd p;

  (void) state;
  assert_non_null (local);
  memset (local, 3, MEMORY);
  memset (tcp_slab, 1, MEMORY);
  assert_int_equal (sem_init (&may_read, 0, 0), 0);
  assert_int_equal (sem_init (&may_answer, 0, 0), 0);
  server_start (&s, slow_reader);
  assert_int_equal (conn_open (&c, q, &s), 0);

  assert_false (tcp->arm (q)); /* the sleeper, before the posts */
  assert_null (tcp->poll (q)); /* the other thread, from here on */
  for (unsigned i = 0; i < DEPTH; i++) {
    ops[i] = (struct fp_op) { .kind = FP_OP_WRITE,
                              .length = STRIPE,
                              .local = local + i * (size_t) STRIPE,
                              .raddr = RADDR + i * (size_t) STRIPE,
                              .rkey = RKEY };
    assert_int_equal (tcp->post (c, &ops[i]), 0);
  }
  tcp->kick (q);
  p = (struct pollfd) { .fd = wakes, .events = POLLIN };
  assert_int_equal (sem_post (&may_read), 0);
  assert_int_equal (poll (&p, 1, PATIENCE_MS), 1); /* no reply yet */

  assert_int_equal (sem_post (&may_answer), 0);
  expect_done (q, DEPTH, 0);
  assert_memory_equal (tcp_slab, local, MEMORY);
  /* Nothing is left to send, so room in the socket is no reason to wake up. */
  assert_false (tcp->arm (q));
  assert_int_equal (poll (&p, 1, 0), 0);
  conn_end (c);
  server_stop (&s);
  tcp->queue_free (q);
  free (local);
}

/* The event fd shows that the server of an idle connection has hung up. */
static void
test_event (void **state)
{
  struct server s = { 0 };
  struct fp_queue *q = queue_new ();
  struct fp_conn *c;
  struct pollfd p;

  (void) state;
  server_start (&s, serve);
  assert_int_equal (conn_open (&c, q, &s), 0);
  p = (struct pollfd) { .fd = tcp->conn_event_fd (c), .events = POLLIN };
  assert_int_equal (poll (&p, 1, 0), 0);
  tcp->conn_event (c);
  assert_false (tcp->conn_broken (c));
  /* Wait until the server is in its loop, or accept would race with us. */
  uint8_t byte;
  struct fp_op op = {
    .length = 1, .local = &byte, .raddr = RADDR, .rkey = RKEY
  };
  assert_int_equal (tcp->post (c, &op), 0);
  tcp->kick (q);
  expect_done (q, 1, 0);
  assert_int_equal (poll (&p, 1, 0), 0);
  shutdown (s.fd, SHUT_RDWR);
  assert_int_equal (poll (&p, 1, PATIENCE_MS), 1);
  tcp->conn_event (c);
  assert_true (tcp->conn_broken (c));
  tcp->conn_free (c);
  server_stop (&s);
  tcp->queue_free (q);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_random_ops),
    cmocka_unit_test (test_refused),
    cmocka_unit_test (test_limits),
    cmocka_unit_test (test_token),
    cmocka_unit_test (test_server_dies),
    cmocka_unit_test (test_server_lies),
    cmocka_unit_test (test_server_says_too_much),
    cmocka_unit_test (test_divert),
    cmocka_unit_test (test_room_wakes_sleeper),
    cmocka_unit_test (test_event),
  };

  int failed =
      cmocka_run_group_tests (tests, tcp_peer_setup, tcp_peer_teardown);

  failed += cmocka_run_group_tests_name ("tls", tests, tcp_peer_setup_tls,
                                         tcp_peer_teardown_tls);
  return failed;
}
