/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp-peer.c - see tcp-peer.h. */

#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "proto/messages.h"
#include "tcp-peer.h"
#include "transport/tls/tls.h"

static unsigned seed = 1;
uint8_t *tcp_slab;

unsigned
tcp_rnd (void)
{
  seed = seed * 1103515245 + 12345;
  return seed >> 8;
}

atomic_int tcp_held;

static void *
mem_get (void *ctx, uint64_t rkey, uint64_t raddr, uint32_t length, bool write,
         void **hold)
{
  (void) ctx;
  (void) write;
  if (rkey != RKEY || raddr < RADDR || raddr - RADDR > MEMORY ||
      length > MEMORY - (raddr - RADDR)) {
    *hold = tcp_slab; /* means nothing, as nothing is held */
    return NULL;
  }
  atomic_fetch_add (&tcp_held, 1);
  *hold = tcp_slab;
  return tcp_slab + (raddr - RADDR);
}

static void
mem_put (void *ctx, void *hold)
{
  (void) ctx;
  assert_ptr_equal (hold, tcp_slab);
  atomic_fetch_sub (&tcp_held, 1);
}

const struct fp_tcp_memory tcp_memory = { .get = mem_get, .put = mem_put };

int
tcp_peer_setup (void **state)
{
  (void) state;
  tcp_slab = malloc (MEMORY);
  return tcp_slab == NULL;
}

int
tcp_peer_teardown (void **state)
{
  (void) state;
  free (tcp_slab);
  return 0;
}

/* ---- a server of one connection ---- */

static struct fp_tls *tls_server;

static void
server_wait (struct server *s)
{
  struct pollfd p = { .fd = s->fd, .events = fp_tls_wants (s->tls) };

  assert_int_equal (poll (&p, 1, PATIENCE_MS), 1);
}

void
server_read (struct server *s, void *p, size_t n)
{
  while (n > 0) {
    const struct iovec iov = { p, n };
    ssize_t r = s->tls ? fp_tls_recv (s->tls, &iov, 1) : recv (s->fd, p, n, 0);

    if (s->tls && r == -EAGAIN) {
      server_wait (s);
      continue;
    }
    assert_true (r > 0);
    p = (uint8_t *) p + r;
    n -= (size_t) r;
  }
}

void
server_send (struct server *s, const void *p, size_t n)
{
  const struct iovec iov = { (void *) (uintptr_t) p, n };

  /* The data is short, so the socket buffer takes all of it. */
  assert_int_equal (s->tls ? fp_tls_send (s->tls, &iov, 1)
                           : send (s->fd, p, n, MSG_NOSIGNAL),
                    n);
}

static void
server_shake (struct server *s)
{
  int r;

  assert_int_equal (fp_tls_begin (&s->tls, tls_server, s->fd, NULL), 0);
  while ((r = fp_tls_handshake (s->tls)) == -EAGAIN)
    server_wait (s);
  assert_int_equal (r, 0);
}

/* ---- with TLS ---- */

int
tcp_peer_setup_tls (void **state)
{
  static const char key[] = "alice:00112233445566778899aabbccddeeff\n";
  struct fp_tls_params p = { .mode = FP_TLS_REQUIRE };
  char path[] = "/tmp/farpage-tcp-XXXXXX";
  struct fp_error error;
  struct fp_tls *client;
  int fd = mkstemp (path);

  assert_true (fd >= 0);
  assert_int_equal (write (fd, key, sizeof key - 1), sizeof key - 1);
  close (fd);
  memcpy (p.psk, path, sizeof path);
  assert_int_equal (fp_tls_new (&client, &p, false, &error), 0);
  assert_int_equal (fp_tls_new (&tls_server, &p, true, &error), 0);
  unlink (path);
  fp_tls_set_client (client);
  return tcp_peer_setup (state);
}

int
tcp_peer_teardown_tls (void **state)
{
  fp_tls_free (fp_tls_client ());
  fp_tls_set_client (NULL);
  fp_tls_free (tls_server);
  tls_server = NULL;
  return tcp_peer_teardown (state);
}

/* ---- the server's thread ---- */

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
  if (tls_server != NULL)
    server_shake (s);
  server_read (s, buf, FP_HEADER_SIZE);
  assert_int_equal (fp_header_decode (&h, buf), 0);
  assert_int_equal (h.type, FP_MSG_DATA_HELLO);
  assert_true (h.length <= 64);
  server_read (s, buf, h.length);
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
  server_send (s, buf, FP_HEADER_SIZE + h.length);
  if (s->run != NULL)
    s->run (s);
}

void
serve (struct server *s)
{
  s->result = fp_tcp_serve (s->fd, s->tls, &tcp_memory, STALL_MS);
}

void
server_start (struct server *s, void (*run) (struct server *s))
{
  struct sockaddr_in in = { .sin_family = AF_INET,
                            .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  socklen_t len = sizeof in;

  s->run = run;
  s->tls = NULL;
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

void
server_stop (struct server *s)
{
  assert_int_equal (fp_thread_join (&s->thread), 0);
  close (s->listener);
  fp_tls_end (s->tls);
  if (s->fd >= 0)
    close (s->fd);
}

/* ---- the client ---- */

const struct fp_transport_ops *const tcp = &fp_transport_tcp;

int wakes;

struct fp_queue *
queue_new (void)
{
  struct fp_queue_params p = { .depth = DEPTH, .max_conns = 4 };
  struct fp_queue *q;

  if (wakes > 0)
    close (wakes);
  p.epoll = wakes = epoll_create1 (EPOLL_CLOEXEC);
  assert_true (wakes > 0);
  assert_int_equal (tcp->queue_new (&q, &p), 0);
  return q;
}

int
conn_open (struct fp_conn **out, struct fp_queue *q, struct server *s)
{
  const struct fp_conn_params p = {
    .addr = &s->addr, .session = 42, .depth = DEPTH, .timeout_ms = PATIENCE_MS
  };

  return tcp->conn_open (out, q, &p, fp_deadline_in_ms (PATIENCE_MS));
}

struct fp_op *
next_done (struct fp_queue *q, bool wait)
{
  uint64_t deadline = fp_deadline_in_ms (PATIENCE_MS);

  for (;;) {
    struct fp_op *list = tcp->poll (q);
    struct pollfd p = { .fd = wakes, .events = POLLIN };

    if (list != NULL || !wait)
      return list;
    assert_false (fp_deadline_passed (deadline));
    if (!tcp->arm (q))
      assert_true (poll (&p, 1, fp_deadline_left_ms (deadline)) >= 0);
  }
}

void
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

void
conn_end (struct fp_conn *c)
{
  tcp->conn_break (c);
  tcp->conn_break (c);
  while (tcp->conn_inflight (c) > 0)
    next_done (c->queue, true);
  assert_true (tcp->conn_broken (c));
  tcp->conn_free (c);
}

void
sem_wait_patiently (sem_t *sem)
{
  struct timespec until;

  assert_int_equal (clock_gettime (CLOCK_REALTIME, &until), 0);
  until.tv_sec += 2 * PATIENCE_MS / 1000;
  assert_int_equal (sem_timedwait (sem, &until), 0);
}
