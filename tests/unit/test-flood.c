/* SPDX-License-Identifier: BSD-3-Clause */
/* test-flood.c - many strangers that connect and say nothing.  Few of them are
 * kept at any time, and they keep no client out.
 */

#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/error.h"
#include "donor.h"
#include "memserver/auth/origin.h"
#include "memserver/listener.h"
#include "memserver/session/rdma.h"

#define FLOOD 300
#define WAIT_S 5 /* less than HELLO_MS, after which all are dropped anyway */

static struct sockaddr_in server;
static int fds[FLOOD + 1], nr_fds;

static int
setup (void **state)
{
  struct fp_addr addr = { .host = "127.0.0.1" };
  struct fp_error error = { .text = "" };

  (void) state;
  donor_start (1, 1);
  assert_int_equal (listener_open (&donor, &addr, &error), 0);
  server = (struct sockaddr_in) {
    .sin_family = AF_INET,
    .sin_port = htons (listener_addr (donor.listeners[0])->port),
    .sin_addr.s_addr = htonl (INADDR_LOOPBACK)
  };
  nr_fds = 0;
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  while (nr_fds > 0)
    close (fds[--nr_fds]);
  while (!TAILQ_EMPTY (&donor.sessions.fresh))
    session_end (TAILQ_FIRST (&donor.sessions.fresh), "end of test");
  while (!TAILQ_EMPTY (&donor.sessions.list))
    session_end (TAILQ_FIRST (&donor.sessions.list), "end of test");
  listener_free (donor.listeners[0]);
  rdma_free (donor.sessions.rdma);
  donor_stop ();
  return 0;
}

static void
loop (void)
{
  assert_int_not_equal (event_base_loop (donor.base, EVLOOP_NONBLOCK), -1);
}

/* Connect from 127.X.Y.Z.  The server has not accepted it yet. */
static int
dial_from (uint32_t host)
{
  struct sockaddr_in from = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl (host) };
  int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  assert_true (fd >= 0);
  assert_int_equal (bind (fd, (struct sockaddr *) &from, sizeof from), 0);
  assert_int_equal (connect (fd, (struct sockaddr *) &server, sizeof server),
                    0);
  assert_true (nr_fds < FLOOD + 1);
  fds[nr_fds++] = fd;
  return fd;
}

static bool
is_connected (int fd)
{
  char byte;

  return recv (fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Send HELLO; return true if it is answered in time. */
static bool
is_served (int fd)
{
  const struct fp_hello q = { .version_min = FP_VERSION,
                              .version_max = FP_VERSION,
                              .transports = FP_TRANSPORT_TCP,
                              .name = "patient" };
  struct fp_header h = { .version = FP_VERSION, .type = FP_MSG_HELLO };
  uint8_t bytes[FP_HEADER_SIZE + 512];
  uint64_t deadline = fp_deadline_in_ms (WAIT_S * 1000);
  struct fp_writer w;
  ssize_t n = -1;

  fp_writer_init (&w, bytes + FP_HEADER_SIZE, 512);
  fp_enc_hello (&w, &q);
  h.length = (uint32_t) (512 - w.left);
  fp_header_encode (bytes, &h);
  if (send (fd, bytes, FP_HEADER_SIZE + h.length, MSG_NOSIGNAL) < 0)
    return false;
  while (n < 0 && !fp_deadline_passed (deadline)) {
    loop ();
    n = recv (fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN)
      return false;
  }
  return n >= FP_HEADER_SIZE && fp_header_decode (&h, bytes) == 0 &&
         h.status == FP_STATUS_OK;
}

static void
test_one_floods (void **state)
{
  int patient = dial_from (INADDR_LOOPBACK + 1);

  (void) state;
  loop ();
  for (unsigned i = 0; i < FLOOD; i++) {
    (void) dial_from (INADDR_LOOPBACK);
    loop ();
    assert_true (donor.sessions.nr_fresh <= MAX_FRESH_ORIGIN + 1);
  }
  assert_int_equal (donor.sessions.nr_fresh, MAX_FRESH_ORIGIN + 1);
  assert_true (is_connected (patient));
  assert_true (is_served (patient));
  /* A client from the flooding host is served, too. */
  assert_true (is_served (fds[nr_fds - 1]));
}

/* Two hosts that have most connections lose some; hosts with one do not. */
static void
test_two_flood (void **state)
{
  (void) state;
  for (unsigned i = 0; i < 40; i++) {
    (void) dial_from (INADDR_LOOPBACK + 256 + i);
    loop ();
  }
  for (unsigned i = 0; i < 2 * MAX_FRESH_ORIGIN; i++) {
    (void) dial_from (INADDR_LOOPBACK + i % 2);
    loop ();
  }
  assert_int_equal (donor.sessions.nr_fresh, MAX_FRESH);
  for (unsigned i = 0; i < 40; i++)
    assert_true (is_connected (fds[i]));
  assert_true (is_served (fds[0]));
}

/* Strangers use all descriptors; then a client that sends HELLO is served. */
static void
test_no_descriptors (void **state)
{
  struct rlimit before, limit;
  int patient, lowest;

  (void) state;
  for (unsigned i = 0; i < 30; i++)
    (void) dial_from (INADDR_LOOPBACK);
  patient = dial_from (INADDR_LOOPBACK);
  lowest = fcntl (patient, F_DUPFD_CLOEXEC, 0);
  close (lowest);
  assert_int_equal (getrlimit (RLIMIT_NOFILE, &before), 0);
  limit = before;
  limit.rlim_cur = (rlim_t) lowest + 10;
  assert_int_equal (setrlimit (RLIMIT_NOFILE, &limit), 0);
  assert_true (is_served (patient));
  assert_int_equal (setrlimit (RLIMIT_NOFILE, &before), 0);
}

/* ---- after HELLO ---- */

static struct session others[MAX_SESSIONS_ORIGIN];

static int
ask_hello (struct session *s)
{
  const struct fp_hello q = { .version_min = FP_VERSION,
                              .version_max = FP_VERSION,
                              .transports = FP_TRANSPORT_TCP,
                              .name = "one" };
  struct fp_writer w;

  donor_begin (s, &w);
  fp_enc_hello (&w, &q);
  return donor_ask (ctl_hello, &w);
}

static void
add_others (unsigned nr, struct origin origin)
{
  memset (others, 0, sizeof others);
  for (unsigned i = 0; i < nr; i++) {
    others[i].origin = origin;
    TAILQ_INSERT_TAIL (&donor.sessions.list, &others[i], entry);
  }
  donor.sessions.nr = nr;
}

static void
test_sessions_of_one (void **state)
{
  struct session *s;

  (void) state;
  (void) dial_from (INADDR_LOOPBACK);
  (void) dial_from (INADDR_LOOPBACK + 1);
  while (donor.sessions.nr_fresh < 2)
    loop ();
  s = TAILQ_FIRST (&donor.sessions.fresh);
  add_others (MAX_SESSIONS_ORIGIN, s->origin);
  assert_int_equal (ask_hello (s), -EBUSY);
  assert_non_null (strstr (donor_call.call.why, "one client host"));
  assert_int_equal (
      ask_hello (TAILQ_LAST (&donor.sessions.fresh, session_list)), 0);
  for (unsigned i = 0; i < MAX_SESSIONS_ORIGIN; i++)
    TAILQ_REMOVE (&donor.sessions.list, &others[i], entry);
  donor.sessions.nr = 1;
}

static struct origin
origin_at (const char *text)
{
  struct sockaddr_in in = { .sin_family = AF_INET };
  struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

  if (inet_pton (AF_INET, text, &in.sin_addr) == 1)
    return origin_of_addr ((struct sockaddr *) &in);
  assert_int_equal (inet_pton (AF_INET6, text, &in6.sin6_addr), 1);
  return origin_of_addr ((struct sockaddr *) &in6);
}

static bool
same (const char *a, const char *b)
{
  struct origin p = origin_at (a), q = origin_at (b);

  return origin_eq (&p, &q);
}

static void
test_origins (void **state)
{
  struct origin p;
  int sv[2];

  (void) state;
  assert_true (same ("192.0.2.1", "192.0.2.1"));
  assert_false (same ("192.0.2.1", "192.0.2.2"));
  assert_true (same ("192.0.2.1", "::ffff:192.0.2.1"));
  assert_true (same ("2001:db8::1", "2001:db8::2:1"));
  assert_false (same ("2001:db8::1", "2001:db8:0:1::1"));
  assert_false (same ("fe80::1", "fe80::2"));
  assert_int_equal (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv),
                    0);
  p = origin_of_socket (sv[0]);
  assert_int_equal (p.family, AF_UNIX);
  close (sv[0]);
  close (sv[1]);
}

int
main (void)
{
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_one_floods),          TEST (test_two_flood),
    TEST (test_no_descriptors),      TEST (test_sessions_of_one),
    cmocka_unit_test (test_origins),
  };

  return RUN_TESTS (tests);
}
