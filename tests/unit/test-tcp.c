/* SPDX-License-Identifier: BSD-3-Clause */
/* test-tcp.c - both ends of the tcp data transport, over loopback sockets
 * in this process: right data, refusals, a peer that dies or lies at any
 * point, and every op yielded exactly once.
 */

#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "transport/tcp_server.h"
#include "transport/transport.h"

#define RKEY UINT64_C (0x1122334455667788)
#define RADDR UINT64_C (0x7000000000)
#define STRIPE (1u << 20)
#define DEPTH 16
#define MEMORY (DEPTH * (size_t) STRIPE)
#define STALL_MS 300
#define PATIENCE_MS 20000

static unsigned seed = 1;
static uint8_t *slab; /* what the server lends */

static unsigned
rnd (void)
{
  seed = seed * 1103515245 + 12345;
  return seed >> 8;
}

/* ---- the passive side ---- */

static atomic_int held;

static void *
mem_get (void *ctx, uint64_t rkey, uint64_t raddr, uint32_t length, bool write,
         void **hold)
{
  (void) ctx;
  (void) write;
  if (rkey != RKEY || raddr < RADDR || raddr - RADDR > MEMORY ||
      length > MEMORY - (raddr - RADDR))
    return NULL;
  atomic_fetch_add (&held, 1);
  *hold = slab;
  return slab + (raddr - RADDR);
}

static void
mem_put (void *ctx, void *hold)
{
  (void) ctx;
  assert_ptr_equal (hold, slab);
  atomic_fetch_sub (&held, 1);
}

static const struct fp_tcp_memory memory = { .get = mem_get, .put = mem_put };

struct server {
  struct fp_thread thread;
  int listener, fd;
  struct fp_addr addr;
  uint32_t hello_status;
  void (*run) (struct server *s); /* what to do after the handshake */
  const uint8_t *script;          /* send_script */
  size_t script_length;
  int result; /* serve */
};

static void
read_full (int fd, void *p, size_t n)
{
  while (n > 0) {
    ssize_t r = recv (fd, p, n, 0);

    assert_true (r > 0);
    p = (uint8_t *) p + r;
    n -= (size_t) r;
  }
}

static void
server_main (void *arg)
{
  struct server *s = arg;
  uint8_t buf[FP_HEADER_SIZE + 64];
  struct fp_header h;
  struct fp_data_hello hello;
  struct fp_reader r;
  struct fp_writer w;

  s->fd = accept (s->listener, NULL, NULL);
  assert_true (s->fd >= 0);
  read_full (s->fd, buf, FP_HEADER_SIZE);
  assert_int_equal (fp_header_decode (&h, buf), 0);
  assert_int_equal (h.type, FP_MSG_DATA_HELLO);
  assert_true (h.length <= 64);
  read_full (s->fd, buf, h.length);
  fp_reader_init (&r, buf, h.length);
  assert_int_equal (fp_dec_data_hello (&r, &hello), 0);
  assert_int_equal (hello.session, 42);

  h.type |= FP_MSG_REPLY;
  h.status = s->hello_status;
  fp_writer_init (&w, buf + FP_HEADER_SIZE, 64);
  if (h.status != FP_STATUS_OK)
    fp_enc_reason (&w, "no");
  h.length = (uint32_t) (64 - w.left);
  fp_header_encode (buf, &h);
  assert_int_equal (send (s->fd, buf, FP_HEADER_SIZE + h.length, MSG_NOSIGNAL),
                    FP_HEADER_SIZE + h.length);
  if (s->run != NULL)
    s->run (s);
}

static void
serve (struct server *s)
{
  s->result = fp_tcp_serve (s->fd, &memory, STALL_MS);
}

/* Read a little, answer with what the test wants, hang up. */
static void
send_script (struct server *s)
{
  uint8_t req[FP_DATA_REQ_SIZE];

  read_full (s->fd, req, sizeof req);
  if (s->script_length > 0)
    assert_int_equal (send (s->fd, s->script, s->script_length, MSG_NOSIGNAL),
                      s->script_length);
  shutdown (s->fd, SHUT_WR);
}

static void
server_start (struct server *s, void (*run) (struct server *s))
{
  struct sockaddr_in in = { .sin_family = AF_INET,
                            .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  socklen_t len = sizeof in;

  s->run = run;
  s->fd = -1;
  s->listener = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true (s->listener >= 0);
  assert_int_equal (bind (s->listener, (struct sockaddr *) &in, len), 0);
  assert_int_equal (listen (s->listener, 4), 0);
  assert_int_equal (getsockname (s->listener, (struct sockaddr *) &in, &len),
                    0);
  s->addr =
      (struct fp_addr) { .port = ntohs (in.sin_port), .host = "127.0.0.1" };
  assert_int_equal (fp_thread_create (&s->thread, "server", server_main, s),
                    0);
}

static void
server_stop (struct server *s)
{
  assert_int_equal (fp_thread_join (&s->thread), 0);
  close (s->listener);
  if (s->fd >= 0)
    close (s->fd);
}

/* ---- the active side ---- */

static const struct fp_transport_ops *tcp = &fp_transport_tcp;

static struct fp_queue *
queue_new (void)
{
  const struct fp_queue_params p = { .depth = DEPTH, .max_conns = 4 };
  struct fp_queue *q;

  assert_int_equal (tcp->queue_new (&q, &p), 0);
  return q;
}

static int
conn_open (struct fp_conn **out, struct fp_queue *q, struct server *s)
{
  const struct fp_conn_params p = {
    .addr = &s->addr, .session = 42, .depth = DEPTH, .timeout_ms = 2000
  };

  return tcp->conn_open (out, q, &p, fp_deadline_in_ms (PATIENCE_MS));
}

/* Whatever completed; waits for something if wait. */
static struct fp_op *
next_done (struct fp_queue *q, bool wait)
{
  uint64_t deadline = fp_deadline_in_ms (PATIENCE_MS);

  for (;;) {
    struct fp_op *list = tcp->poll (q);
    struct pollfd p = { .fd = tcp->fd (q), .events = POLLIN };

    if (list != NULL || !wait)
      return list;
    assert_false (fp_deadline_passed (deadline));
    if (!tcp->arm (q))
      assert_true (poll (&p, 1, fp_deadline_left_ms (deadline)) >= 0);
  }
}

/* Wait for n ops; each has this status. */
static void
expect_done (struct fp_queue *q, unsigned n, int status)
{
  while (n > 0)
    for (struct fp_op *op = next_done (q, true); op; op = op->next) {
      assert_true (n > 0);
      assert_int_equal (op->status, status);
      op->status = 12345;
      n--;
    }
  assert_null (tcp->poll (q));
}

static void
conn_end (struct fp_conn *c)
{
  tcp->conn_break (c);
  tcp->conn_break (c);
  while (tcp->conn_inflight (c) > 0)
    next_done (c->queue, true);
  assert_true (tcp->conn_broken (c));
  tcp->conn_free (c);
}

static int
setup (void **state)
{
  (void) state;
  slab = malloc (MEMORY);
  return slab == NULL;
}

static int
teardown (void **state)
{
  (void) state;
  free (slab);
  return 0;
}

/* Each op in flight has a stripe of its own, so that a model can say what
 * it must read.
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
  memset (slab, 7, MEMORY);
  memset (model, 7, MEMORY);
  server_start (&s, serve);
  assert_int_equal (conn_open (&c, q, &s), 0);

  while (issued < 3000 || inflight > 0) {
    for (unsigned i = 0; i < DEPTH && issued < 3000; i++) {
      static const uint32_t sizes[] = { 4096,  4096,   4096,  512,
                                        16384, 131072, STRIPE };
      struct fp_op *op = &ops[i];
      uint32_t max = sizes[rnd () % 7];
      uint32_t length = rnd () % 4 == 0 ? 1 + rnd () % max : max;
      size_t at = i * (size_t) STRIPE + rnd () % (STRIPE - length + 1);

      if (busy[i] || rnd () % 4 == 0 || (issued > 1000 && length > 131072))
        continue;
      *op = (struct fp_op) { .kind = rnd () % 2 ? FP_OP_READ : FP_OP_WRITE,
                             .length = length,
                             .local = local + at,
                             .raddr = RADDR + at,
                             .rkey = RKEY };
      if (op->kind == FP_OP_WRITE) {
        memset (local + at, (int) rnd (), length);
        memset (local + at, (int) rnd (), length / 3);
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
    for (struct fp_op *op = next_done (q, rnd () % 2); op; op = op->next) {
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
  assert_memory_equal (slab, model, MEMORY);
  assert_int_equal (atomic_load (&held), 0);
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
  memset (slab, 1, MEMORY);
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
      /* Nothing is out of step after a refusal. */
      assert_int_equal (tcp->post (c, &good), 0);
      tcp->kick (q);
      expect_done (q, 1, 0);
      assert_int_equal (local[99], 1);
      if (cases[i].status != 0)
        assert_int_equal (slab[0], 1);
      else
        assert_int_equal (slab[0], kind ? 2 : 1);
    }
  conn_end (c);
  server_stop (&s);
  assert_int_equal (atomic_load (&held), 0);
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

/* The server sends script[0, length) and hangs up: all ops come back, once,
 * and nothing is written to a buffer afterwards.
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
      op->status = 1; /* a second time would show */
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
  /* Nothing keeps a sleeper awake. */
  struct pollfd p = { .fd = tcp->fd (q), .events = POLLIN };
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

/* More than was asked for breaks the connection, once somebody looks. */
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
  if (!tcp->conn_broken (c)) { /* else that poll saw the rest, too */
    tcp->arm (q);
    p = (struct pollfd) { .fd = tcp->fd (q), .events = POLLIN };
    assert_int_equal (poll (&p, 1, PATIENCE_MS), 1);
    assert_null (tcp->poll (q));
  }
  assert_true (tcp->conn_broken (c));
  tcp->conn_free (c);
  server_stop (&s);
  tcp->queue_free (q);
}

/* A server that is alive and silent: only break ends that, from anywhere. */
static void
silent (struct server *s)
{
  uint8_t byte;

  while (recv (s->fd, &byte, 1, 0) > 0)
    ;
}

/* Takes DEPTH WRITEs of a stripe when it is told to, and answers when it is
 * told to.
 */
static sem_t may_read, may_answer;

static void
sem_wait_patiently (sem_t *sem)
{
  struct timespec until;

  assert_int_equal (clock_gettime (CLOCK_REALTIME, &until), 0);
  until.tv_sec += 2 * PATIENCE_MS / 1000;
  assert_int_equal (sem_timedwait (sem, &until), 0);
}

static void
slow_reader (struct server *s)
{
  uint8_t header[FP_DATA_REQ_SIZE], reply[FP_DATA_REPLY_SIZE];
  struct fp_data_req r;

  sem_wait_patiently (&may_read);
  for (unsigned i = 0; i < DEPTH; i++) {
    read_full (s->fd, header, sizeof header);
    assert_int_equal (fp_data_req_decode (&r, header), 0);
    read_full (s->fd, slab + (r.raddr - RADDR), r.length);
  }
  sem_wait_patiently (&may_answer);
  for (unsigned i = 0; i < DEPTH; i++) {
    const struct fp_data_reply p = { .cookie = i };

    fp_data_reply_encode (reply, &p);
    assert_int_equal (send (s->fd, reply, sizeof reply, MSG_NOSIGNAL),
                      sizeof reply);
  }
}

/* Of a lane's threads one sleeps on the queue's fd while another posts more
 * than the socket takes: the sleeper wakes up when there is room.
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
  memset (slab, 1, MEMORY);
  assert_int_equal (sem_init (&may_read, 0, 0), 0);
  assert_int_equal (sem_init (&may_answer, 0, 0), 0);
  server_start (&s, slow_reader);
  assert_int_equal (conn_open (&c, q, &s), 0);

  assert_false (tcp->arm (q)); /* the sleeper, before anything is posted */
  assert_null (tcp->poll (q)); /* the other thread from here on */
  for (unsigned i = 0; i < DEPTH; i++) {
    ops[i] = (struct fp_op) { .kind = FP_OP_WRITE,
                              .length = STRIPE,
                              .local = local + i * (size_t) STRIPE,
                              .raddr = RADDR + i * (size_t) STRIPE,
                              .rkey = RKEY };
    assert_int_equal (tcp->post (c, &ops[i]), 0);
  }
  tcp->kick (q);
  p = (struct pollfd) { .fd = tcp->fd (q), .events = POLLIN };
  assert_int_equal (sem_post (&may_read), 0);
  assert_int_equal (poll (&p, 1, PATIENCE_MS), 1); /* no answer came yet */

  assert_int_equal (sem_post (&may_answer), 0);
  expect_done (q, DEPTH, 0);
  assert_memory_equal (slab, local, MEMORY);
  /* Nothing is left to send, and room is no reason to wake up. */
  assert_false (tcp->arm (q));
  assert_int_equal (poll (&p, 1, 0), 0);
  conn_end (c);
  server_stop (&s);
  tcp->queue_free (q);
  free (local);
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

/* An idle connection whose server hangs up is noticed by the event fd. */
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
  /* Not before the server is in its loop, or accept would race with us. */
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

/* ---- fp_tcp_serve against a hostile client ---- */

struct serving {
  struct fp_thread thread;
  int fd, result;
};

static void
serving_main (void *arg)
{
  struct serving *s = arg;

  s->result = fp_tcp_serve (s->fd, &memory, STALL_MS);
  shutdown (s->fd, SHUT_RDWR);
}

/* Send bytes, hang up or wait, and return what serve returned. */
static int
hostile (const uint8_t *bytes, size_t length, bool hang_up)
{
  struct serving s;
  uint8_t sink[4096];
  int fds[2];

  assert_int_equal (socketpair (AF_UNIX, SOCK_STREAM, 0, fds), 0);
  s.fd = fds[1];
  assert_int_equal (fp_thread_create (&s.thread, "serve", serving_main, &s),
                    0);
  while (length > 0) { /* it may hang up before it got all */
    ssize_t r = send (fds[0], bytes, length, MSG_NOSIGNAL);

    if (r <= 0)
      break;
    bytes += r;
    length -= (size_t) r;
  }
  if (hang_up)
    shutdown (fds[0], SHUT_WR);
  while (recv (fds[0], sink, sizeof sink, 0) > 0)
    ;
  assert_int_equal (fp_thread_join (&s.thread), 0);
  close (fds[0]);
  close (fds[1]);
  assert_int_equal (atomic_load (&held), 0);
  return s.result;
}

static void
test_malformed (void **state)
{
  const struct fp_data_req w = { .op = FP_DATA_WRITE,
                                 .cookie = 1,
                                 .length = 100,
                                 .rkey = RKEY,
                                 .raddr = RADDR };
  const struct fp_data_req r = { .op = FP_DATA_READ,
                                 .cookie = 2,
                                 .length = 100,
                                 .rkey = RKEY,
                                 .raddr = RADDR };
  uint8_t good[FP_DATA_REQ_SIZE * 2 + 100] = { 0 }, bad[sizeof good];

  (void) state;
  fp_data_req_encode (good, &w);
  fp_data_req_encode (good + FP_DATA_REQ_SIZE + 100, &r);
  assert_int_equal (hostile (good, sizeof good, true), 0);
  for (size_t n = 1; n < sizeof good; n++) {
    int want = n == FP_DATA_REQ_SIZE + 100 ? 0 : -ECONNRESET;

    assert_int_equal (hostile (good, n, true), want);
  }
  for (unsigned i = 0; i < 600; i++) {
    int ret;

    memcpy (bad, good, sizeof good);
    for (unsigned n = 1 + rnd () % 3; n > 0; n--)
      bad[rnd () % sizeof bad] = (uint8_t) rnd ();
    ret = hostile (bad, sizeof bad, true);
    assert_true (ret == 0 || ret == -EPROTO || ret == -ECONNRESET);
  }
  for (unsigned i = 0; i < sizeof bad; i++)
    bad[i] = (uint8_t) rnd ();
  assert_int_equal (hostile (bad, sizeof bad, true), -EPROTO);
}

static void
test_stall (void **state)
{
  const struct fp_data_req w = {
    .op = FP_DATA_WRITE, .length = 100, .rkey = RKEY, .raddr = RADDR
  };
  static const size_t cuts[] = { 1, 31, 32, 33, 131 };
  uint8_t bytes[FP_DATA_REQ_SIZE + 100] = { 0 };

  (void) state;
  fp_data_req_encode (bytes, &w);
  for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
    uint64_t start = fp_now_ns ();

    assert_int_equal (hostile (bytes, cuts[i], false), -ETIMEDOUT);
    assert_true (fp_now_ns () - start >= STALL_MS * FP_NS_PER_MS);
  }
}

/* A client that asks and never reads the answers. */
static void
test_deaf_client (void **state)
{
  struct serving s;
  uint8_t req[FP_DATA_REQ_SIZE];
  const struct fp_data_req r = {
    .op = FP_DATA_READ, .length = FP_DATA_MAX, .rkey = RKEY, .raddr = RADDR
  };
  int fds[2];

  (void) state;
  assert_int_equal (socketpair (AF_UNIX, SOCK_STREAM, 0, fds), 0);
  s.fd = fds[1];
  assert_int_equal (fp_thread_create (&s.thread, "serve", serving_main, &s),
                    0);
  fp_data_req_encode (req, &r);
  for (unsigned i = 0; i < 8; i++)
    assert_int_equal (send (fds[0], req, sizeof req, MSG_NOSIGNAL),
                      sizeof req);
  assert_int_equal (fp_thread_join (&s.thread), 0);
  assert_int_equal (s.result, -ETIMEDOUT);
  assert_int_equal (atomic_load (&held), 0);
  close (fds[0]);
  close (fds[1]);
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
    cmocka_unit_test (test_room_wakes_sleeper),
    cmocka_unit_test (test_break_elsewhere),
    cmocka_unit_test (test_event),
    cmocka_unit_test (test_malformed),
    cmocka_unit_test (test_stall),
    cmocka_unit_test (test_deaf_client),
  };

  return cmocka_run_group_tests (tests, setup, teardown);
}
