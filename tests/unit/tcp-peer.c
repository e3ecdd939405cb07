/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp-peer.c - see tcp-peer.h. */

#include "unit.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/messages.h"
#include "tcp-peer.h"

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
      length > MEMORY - (raddr - RADDR))
    return NULL;
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

void
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

void
serve (struct server *s)
{
  s->result = fp_tcp_serve (s->fd, &tcp_memory, STALL_MS);
}

void
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

void
server_stop (struct server *s)
{
  assert_int_equal (fp_thread_join (&s->thread), 0);
  close (s->listener);
  if (s->fd >= 0)
    close (s->fd);
}
