/* SPDX-License-Identifier: BSD-3-Clause */
/* test-tcp-server.c - fp_tcp_serve with hostile clients.  Malformed requests,
 * and clients that are slow or never read, end their own connection in time,
 * and no memory stays held.
 */

#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "proto/messages.h"
#include "tcp-peer.h"

struct serving {
  struct fp_thread thread;
  int fd, result;
};

static void
serving_main (void *arg)
{
  struct serving *s = arg;

  s->result = fp_tcp_serve (s->fd, NULL, &tcp_memory, STALL_MS);
  shutdown (s->fd, SHUT_RDWR);
}

/* Send bytes, then hang up or wait.  Return the result of fp_tcp_serve. */
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
  while (length > 0) { /* the server may hang up earlier */
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
  assert_int_equal (atomic_load (&tcp_held), 0);
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
    for (unsigned n = 1 + tcp_rnd () % 3; n > 0; n--)
      bad[tcp_rnd () % sizeof bad] = (uint8_t) tcp_rnd ();
    ret = hostile (bad, sizeof bad, true);
    assert_true (ret == 0 || ret == -EPROTO || ret == -ECONNRESET);
  }
  for (unsigned i = 0; i < sizeof bad; i++)
    bad[i] = (uint8_t) tcp_rnd ();
  assert_int_equal (hostile (bad, sizeof bad, true), -EPROTO);
}

/* A refused request holds no memory, and releases none. */
static void
test_refused (void **state)
{
  struct fp_data_req q = {
    .cookie = 1, .length = 100, .rkey = RKEY + 1, .raddr = RADDR
  };
  uint8_t bytes[FP_DATA_REQ_SIZE + 100] = { 0 };

  (void) state;
  q.op = FP_DATA_READ;
  fp_data_req_encode (bytes, &q);
  assert_int_equal (hostile (bytes, FP_DATA_REQ_SIZE, true), 0);
  q.op = FP_DATA_WRITE;
  fp_data_req_encode (bytes, &q);
  assert_int_equal (hostile (bytes, sizeof bytes, true), 0);
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

/* A client that sends requests but never reads the replies. */
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
  assert_int_equal (atomic_load (&tcp_held), 0);
  close (fds[0]);
  close (fds[1]);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_malformed),
    cmocka_unit_test (test_refused),
    cmocka_unit_test (test_stall),
    cmocka_unit_test (test_deaf_client),
  };

  return cmocka_run_group_tests (tests, tcp_peer_setup, tcp_peer_teardown);
}
