/* SPDX-License-Identifier: BSD-3-Clause */
/* test-ctl.c - the control channel against servers that answer, lie, stall,
 * hang up or speak another protocol.  File descriptors that come along are
 * handed out or closed, never leaked.
 */

#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "transport/control/ctl_channel.h"
#include "transport/transport.h"

#define SHORT_MS 200
#define LONG_MS 60000 /* only a hang reaches it */

/* One step of the server: it reads a request and answers it like this. */
struct step {
  const void *raw; /* send these bytes instead of a reply */
  size_t raw_length;
  uint16_t version, type_xor;
  uint32_t status, sequence_add;
  const void *body;
  size_t length;
  unsigned nr_fds;
  bool trickle; /* one byte each 20 ms, until the client hangs up */
  bool silent;  /* no answer, until the client hangs up */
};

static struct fp_thread thread;
static int listener = -1;
static struct fp_addr addr;
static char dir[32] = "/tmp/fp-ctl-XXXXXX";
static const struct step *steps;
static unsigned nr_steps;
static uint8_t reply[FP_HEADER_SIZE + FP_BODY_MAX];

static bool
read_full (int fd, void *p, size_t n)
{
  while (n > 0) {
    ssize_t r = recv (fd, p, n, 0);

    if (r <= 0)
      return false;
    p = (uint8_t *) p + r;
    n -= (size_t) r;
  }
  return true;
}

static void
send_fds (int fd, const void *p, size_t n, unsigned nr_fds)
{
  union {
    struct cmsghdr align;
    char buf[CMSG_SPACE (100 * sizeof (int))];
  } control;
  struct iovec iov = { .iov_base = (void *) p, .iov_len = n };
  struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

  if (nr_fds > 0) {
    struct cmsghdr *h;

    memset (&control, 0, sizeof control);
    msg.msg_control = control.buf;
    msg.msg_controllen = CMSG_SPACE (nr_fds * sizeof (int));
    h = CMSG_FIRSTHDR (&msg);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN (nr_fds * sizeof (int));
    for (unsigned i = 0; i < nr_fds; i++) {
      int sent = STDERR_FILENO;

      memcpy (CMSG_DATA (h) + i * sizeof sent, &sent, sizeof sent);
    }
  }
  assert_int_equal (sendmsg (fd, &msg, MSG_NOSIGNAL), n);
}

static void
wait_hang_up (int fd)
{
  uint8_t byte;

  while (recv (fd, &byte, 1, 0) > 0)
    ;
}

static void
server_main (void *arg)
{
  int fd = accept (listener, NULL, NULL);
  uint8_t buf[FP_BODY_MAX];

  (void) arg;
  assert_true (fd >= 0);
  for (unsigned i = 0; i < nr_steps; i++) {
    const struct step *s = &steps[i];
    struct fp_header h;

    if (!read_full (fd, buf, FP_HEADER_SIZE) ||
        fp_header_decode (&h, buf) < 0 || !read_full (fd, buf, h.length))
      break;
    if (s->silent) {
      wait_hang_up (fd);
      break;
    }
    if (s->raw != NULL) {
      send_fds (fd, s->raw, s->raw_length, 0);
      continue;
    }
    h.version = s->version != 0 ? s->version : FP_VERSION;
    h.type = (uint16_t) ((h.type | FP_MSG_REPLY) ^ s->type_xor);
    h.status = s->status;
    h.sequence += s->sequence_add;
    h.length = (uint32_t) s->length;
    fp_header_encode (reply, &h);
    if (s->length > 0)
      memcpy (reply + FP_HEADER_SIZE, s->body, s->length);
    if (s->trickle) {
      for (size_t n = 0; n < FP_HEADER_SIZE + s->length; n++) {
        if (send (fd, reply + n, 1, MSG_NOSIGNAL) != 1)
          break;
        usleep (20000);
      }
      continue;
    }
    send_fds (fd, reply, FP_HEADER_SIZE + s->length, s->nr_fds);
  }
  shutdown (fd, SHUT_WR);
  wait_hang_up (fd);
  close (fd);
}

static void
server_start (const struct step *list, unsigned nr, bool is_unix)
{
  steps = list;
  nr_steps = nr;
  if (is_unix) {
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    snprintf (un.sun_path, sizeof un.sun_path, "%s/s", dir);
    listener = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true (listener >= 0);
    assert_int_equal (
        bind (listener, (const struct sockaddr *) &un, sizeof un), 0);
    addr = (struct fp_addr) { .is_unix = true };
    snprintf (addr.host, sizeof addr.host, "%s/s", dir);
  }
  else {
    struct sockaddr_in in = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
    socklen_t len = sizeof in;

    listener = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true (listener >= 0);
    assert_int_equal (bind (listener, (const struct sockaddr *) &in, len), 0);
    assert_int_equal (getsockname (listener, (struct sockaddr *) &in, &len),
                      0);
    addr =
        (struct fp_addr) { .port = ntohs (in.sin_port), .host = "127.0.0.1" };
  }
  assert_int_equal (listen (listener, 4), 0);
  assert_int_equal (fp_thread_create (&thread, "server", server_main, NULL),
                    0);
}

static void
server_stop (void)
{
  assert_int_equal (fp_thread_join (&thread), 0);
  close (listener);
  if (addr.is_unix)
    unlink (addr.host);
}

static const struct fp_hello hello = { .version_min = FP_VERSION,
                                       .version_max = FP_VERSION,
                                       .transports = 7,
                                       .name = "test" };

/* Eight words of the map from extent 0 or, wrongly, 64 on. */
#define MAP_PAGE(start)                                                       \
  0, 0, 0, 0, 0, 0, 0, start, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 5

static void
test_map (void **state)
{
  static const uint8_t good[12 + 64] = { MAP_PAGE (0) };
  static const uint8_t other[12 + 64] = { MAP_PAGE (64) };
  const struct step list[] = { { .body = good, .length = sizeof good },
                               { .body = other, .length = sizeof other } };
  const struct fp_map_read q = { .start = 0, .count = 8 };
  struct fp_map_words p;
  struct fp_ctl *c;

  (void) state;
  server_start (list, 2, false);
  assert_int_equal (fp_ctl_open (&c, &addr, fp_deadline_in_ms (LONG_MS)), 0);
  assert_int_equal (fp_ctl_map_read (c, &q, &p, fp_deadline_in_ms (LONG_MS)),
                    0);
  assert_int_equal (p.words[0], 5);
  assert_int_equal (fp_ctl_map_read (c, &q, &p, fp_deadline_in_ms (LONG_MS)),
                    -EPROTO);
  assert_non_null (strstr (fp_ctl_why (c), "a part of the map"));
  fp_ctl_free (c);
  server_stop ();
}

static unsigned
count_fds (void)
{
  DIR *d = opendir ("/proc/self/fd");
  unsigned n = 0;

  assert_non_null (d);
  while (readdir (d) != NULL)
    n++;
  closedir (d);
  return n;
}

/* Send one PING that ends like this. */
static void
ping_says (const struct step *step, int want, unsigned ms, const char *why)
{
  struct fp_ping_reply p;
  struct fp_ctl *c;
  int ret;

  server_start (step, 1, false);
  assert_int_equal (fp_ctl_open (&c, &addr, fp_deadline_in_ms (LONG_MS)), 0);
  assert_false (fp_ctl_is_unix (c));
  ret = fp_ctl_ping (c, NULL, &p, fp_deadline_in_ms (ms));
  assert_int_equal (ret, want);
  if (why != NULL && strstr (fp_ctl_why (c), why) == NULL)
    fail_msg ("\"%s\" is not in \"%s\"", why, fp_ctl_why (c));
  fp_ctl_free (c);
  server_stop ();
}

static const uint8_t pong[] = { 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0,
                                0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0 };

static void
test_answers (void **state)
{
  static const uint8_t reason[] = { 0, 4, 'f', 'u', 'l', 'l' };
  static const uint8_t opened[17] = { 1 };
  const struct step list[] = {
    { .body = pong, .length = sizeof pong },
    { .body = reason, .length = sizeof reason, .status = FP_STATUS_NOSPC },
    { .body = opened, .length = sizeof opened },
    { .length = 0 },
  };
  const struct fp_open open = { .flags = 1,
                                .transport = 4,
                                .size = 1,
                                .slab_size = 4096,
                                .copies = 1,
                                .servers = 1,
                                .stripe = { .width = 1, .size = 4096 } };
  struct fp_open_reply open_reply;
  struct fp_grants grants;
  struct fp_ping_reply p;
  const struct fp_grant_req one = { .count = 1 };
  int fds[FP_MAX_GRANTS];
  struct fp_ctl *c;

  (void) state;
  server_start (list, 4, false);
  assert_int_equal (fp_ctl_open (&c, &addr, fp_deadline_in_ms (LONG_MS)), 0);
  assert_int_equal (fp_ctl_ping (c, NULL, &p, fp_deadline_in_ms (LONG_MS)), 0);
  assert_int_equal (p.slabs_total, 2);
  /* A refusal does not break the channel. */
  assert_int_equal (
      fp_ctl_grant (c, &one, &grants, fds, fp_deadline_in_ms (LONG_MS)),
      -ENOSPC);
  assert_string_equal (fp_ctl_why (c), "full");
  assert_int_equal (
      fp_ctl_volume_open (c, &open, &open_reply, fp_deadline_in_ms (LONG_MS)),
      0);
  assert_true (open_reply.resumed);
  assert_int_equal (
      fp_ctl_bye (c, &(struct fp_bye) { true }, fp_deadline_in_ms (LONG_MS)),
      0);
  assert_int_equal (fp_ctl_ping (c, NULL, &p, fp_deadline_in_ms (LONG_MS)),
                    -ECONNRESET);
  fp_ctl_free (c);
  server_stop ();
}

static void
test_cannot_connect (void **state)
{
  struct fp_ctl *c;

  (void) state;
  server_start (NULL, 0, false);
  assert_int_equal (fp_ctl_open (&c, &addr, fp_deadline_in_ms (LONG_MS)), 0);
  fp_ctl_free (c);
  server_stop (); /* now nothing listens there */
  assert_int_equal (fp_ctl_open (&c, &addr, fp_deadline_in_ms (LONG_MS)),
                    -ECONNREFUSED);
  assert_non_null (strstr (fp_ctl_why (c), "connection refused"));
  fp_ctl_free (c);
  addr = (struct fp_addr) { .is_unix = true, .host = "/nonexistent/s" };
  assert_int_equal (fp_ctl_open (&c, &addr, fp_deadline_in_ms (LONG_MS)),
                    -ENOENT);
  assert_non_null (strstr (fp_ctl_why (c), "no such socket"));
  fp_ctl_free (c);
}

static void
test_lies (void **state)
{
  static const uint8_t reason[] =
      "\0\x14speaks version 3..4"; /* the NUL is the 20th */
  static const uint8_t ssh[] = "SSH-2.0-Open\r\n", bin[] = { 0x15, 3, 1, 0 };
  static const uint8_t longer[FP_HEADER_SIZE] = {
    'F', 'P', 'g', 'C', 0, 1, 0x80, 8, 0, 0, 0x40, 1
  };
  uint8_t text[21];

  (void) state;
  memcpy (text, reason, 2);
  text[1] = 19;
  memcpy (text + 2, reason + 2, 19);
  ping_says (&(struct step) { .raw = ssh, .raw_length = sizeof ssh - 1 },
             -EPROTO, LONG_MS, "it answered \"SSH-2.0-Open\"");
  ping_says (&(struct step) { .raw = bin, .raw_length = sizeof bin }, -EPROTO,
             LONG_MS, "not a farpage memory server");
  ping_says (&(struct step) { .raw = longer, .raw_length = sizeof longer },
             -EPROTO, LONG_MS, "more than the protocol allows");
  ping_says (&(struct step) { .raw = "FPg", .raw_length = 3 }, -ECONNRESET,
             LONG_MS, "hung up before it answered PING");
  ping_says (
      &(struct step) { .body = pong, .length = sizeof pong, .version = 3 },
      -EPROTONOSUPPORT, LONG_MS, "speaks version 3; this client");
  ping_says (&(struct step) { .body = text,
                              .length = sizeof text,
                              .version = 4,
                              .status = FP_STATUS_VERSION },
             -EPROTONOSUPPORT, LONG_MS,
             "speaks version 3..4; this client speaks version 2");
  ping_says (&(struct step) { .body = pong,
                              .length = sizeof pong,
                              .sequence_add = 1 },
             -EPROTO, LONG_MS, "answered PING (1) with PING reply (2)");
  ping_says (
      &(struct step) { .body = pong, .length = sizeof pong, .type_xor = 1 },
      -EPROTO, LONG_MS, "with BYE reply");
  ping_says (&(struct step) { .body = pong, .length = sizeof pong - 1 },
             -EPROTO, LONG_MS, "malformed PING reply");
  ping_says (&(struct step) { .length = 0, .status = FP_STATUS_IO }, -EPROTO,
             LONG_MS, "malformed reason");
}

static void
test_deadline (void **state)
{
  uint64_t start = fp_now_ns (), took;

  (void) state;
  ping_says (&(struct step) { .silent = true }, -ETIMEDOUT, SHORT_MS,
             "accepted the connection but did not answer PING within 0.2 s");
  /* Trickling for 41 x 20 ms gains no time. */
  ping_says (
      &(struct step) { .body = pong, .length = sizeof pong, .trickle = true },
      -ETIMEDOUT, SHORT_MS, "did not answer PING");
  took = fp_now_ns () - start;
  assert_true (took >= 2 * SHORT_MS * FP_NS_PER_MS);
  assert_true (took < LONG_MS * FP_NS_PER_MS);
}

static bool lists;      /* send LIST instead of GRANT */
static bool lost_first; /* the first slab is lost */

/* Get two slabs in a session of this transport; the reply has nr_fds fds. */
static int
grant_with (unsigned transport, unsigned nr_fds, bool refuse)
{
  const struct fp_list list_q = { .max = 2 };
  const struct fp_grant_req two = { .count = 2 };
  static const uint8_t opened[17] = { 0 };
  static const uint8_t reason[] = { 0, 2, 'n', 'o' };
  struct fp_grants g = { .count = 2 };
  uint8_t body[256];
  struct fp_writer w;
  struct step list[2] = { { .body = opened, .length = sizeof opened } };
  const struct fp_open open = { .flags = 1,
                                .transport = transport,
                                .size = 1,
                                .slab_size = 4096,
                                .copies = 1,
                                .servers = 1,
                                .stripe = { .width = 1, .size = 4096 } };
  struct fp_open_reply open_reply;
  int fds[FP_MAX_GRANTS], ret;
  struct fp_ctl *c;

  g.grants[0].length = lost_first ? 0 : 4096;
  g.grants[1].length = 4096;
  fp_writer_init (&w, body, sizeof body);
  fp_enc_grants (&w, &g);
  list[1] = (struct step) { .body = body,
                            .length = sizeof body - w.left,
                            .nr_fds = nr_fds };
  if (refuse)
    list[1] = (struct step) { .body = reason,
                              .length = sizeof reason,
                              .status = FP_STATUS_NOSPC,
                              .nr_fds = nr_fds };
  server_start (list, 2, true);
  assert_int_equal (fp_ctl_open (&c, &addr, fp_deadline_in_ms (LONG_MS)), 0);
  assert_true (fp_ctl_is_unix (c));
  assert_int_equal (
      fp_ctl_volume_open (c, &open, &open_reply, fp_deadline_in_ms (LONG_MS)),
      0);
  if (lists)
    ret = fp_ctl_list (c, &list_q, &g, fds, fp_deadline_in_ms (LONG_MS));
  else
    ret = fp_ctl_grant (c, &two, &g, fds, fp_deadline_in_ms (LONG_MS));
  for (unsigned i = 0; i < FP_MAX_GRANTS; i++) {
    bool has = ret == 0 && transport == FP_TRANSPORT_SHM && i < 2 &&
               !(i == 0 && lost_first);

    assert_int_equal (fds[i] >= 0, has);
    if (has) {
      assert_int_equal (fcntl (fds[i], F_GETFD), FD_CLOEXEC);
      close (fds[i]);
    }
  }
  fp_ctl_free (c);
  server_stop ();
  return ret;
}

static void
test_fds (void **state)
{
  unsigned before = count_fds ();

  (void) state;
  assert_int_equal (grant_with (FP_TRANSPORT_SHM, 2, false), 0);
  assert_int_equal (grant_with (FP_TRANSPORT_SHM, 0, false), -EPROTO);
  assert_int_equal (grant_with (FP_TRANSPORT_SHM, 1, false), -EPROTO);
  assert_int_equal (grant_with (FP_TRANSPORT_SHM, 3, false), -EPROTO);
  assert_int_equal (grant_with (FP_TRANSPORT_SHM, 64, false), -EPROTO);
  assert_int_equal (grant_with (FP_TRANSPORT_SHM, 65, false), -EPROTO);
  assert_int_equal (grant_with (FP_TRANSPORT_SHM, 100, false), -EPROTO);
  assert_int_equal (grant_with (FP_TRANSPORT_TCP, 0, false), 0);
  assert_int_equal (grant_with (FP_TRANSPORT_TCP, 2, false), -EPROTO);
  assert_int_equal (grant_with (FP_TRANSPORT_SHM, 0, true), -ENOSPC);
  assert_int_equal (grant_with (FP_TRANSPORT_SHM, 2, true), -EPROTO);

  /* A lost slab has no memfd.  LIST may name one, GRANT may not. */
  lost_first = true;
  assert_int_equal (grant_with (FP_TRANSPORT_SHM, 1, false), -EPROTO);
  assert_int_equal (grant_with (FP_TRANSPORT_TCP, 0, false), -EPROTO);
  lists = true;
  assert_int_equal (grant_with (FP_TRANSPORT_SHM, 1, false), 0);
  assert_int_equal (grant_with (FP_TRANSPORT_SHM, 2, false), -EPROTO);
  assert_int_equal (grant_with (FP_TRANSPORT_TCP, 0, false), 0);
  lists = lost_first = false;
  assert_int_equal (count_fds (), before);
}

static void
test_hello (void **state)
{
  struct fp_hello_reply in = { .version = 1,
                               .transports = 4,
                               .name = "s",
                               .slab_size = 4096,
                               .slabs_total = 1,
                               .lease_ms = 1 };
  struct fp_hello_reply out;
  uint8_t body[512];

  (void) state;
  for (uint16_t v = FP_VERSION - 1; v <= FP_VERSION + 1; v++) {
    struct fp_writer w;
    struct step step;
    struct fp_ctl *c;

    in.version = v;
    fp_writer_init (&w, body, sizeof body);
    fp_enc_hello_reply (&w, &in);
    step = (struct step) { .body = body, .length = sizeof body - w.left };
    server_start (&step, 1, false);
    assert_int_equal (fp_ctl_open (&c, &addr, fp_deadline_in_ms (LONG_MS)), 0);
    assert_int_equal (
        fp_ctl_hello (c, &hello, &out, fp_deadline_in_ms (LONG_MS)),
        v == FP_VERSION ? 0 : -EPROTONOSUPPORT);
    fp_ctl_free (c);
    server_stop ();
  }
}

/* ---- shm: importing the descriptors ---- */

static void
test_shm (void **state)
{
  const struct fp_transport_ops *t = fp_transport_get (FP_TRANSPORT_SHM);
  const struct fp_queue_params qp = { .depth = 2, .max_conns = 1 };
  const struct fp_conn_params cp = { .depth = 2 };
  struct fp_grant g = { .raddr = 4096, .length = 8192 };
  struct fp_remote r, none;
  struct fp_queue *q;
  struct fp_conn *c;
  char buf[16] = "hello", back[16] = "";
  struct fp_op ops[3] = {
    { .kind = FP_OP_WRITE, .length = 6, .local = buf },
    { .kind = FP_OP_READ, .length = 6, .local = back },
  };
  int fd = memfd_create ("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

  (void) state;
  assert_true (fd >= 0);
  assert_int_equal (ftruncate (fd, 12288), 0);
  assert_int_equal (t->import (&none, &g, -1, false), -EBADF);
  assert_int_equal (t->import (&none, &g, fd, false), -EPERM); /* not sealed */
  assert_int_equal (fcntl (fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  g.length = 8193;
  assert_int_equal (t->import (&none, &g, fd, false), -ERANGE);
  g.raddr = UINT64_MAX - 4095;
  assert_int_equal (t->import (&none, &g, fd, false), -ERANGE);
  g.raddr = 4096;
  g.length = 8192;
  assert_int_equal (t->import (&r, &g, fd, false), 0);
  assert_true (t->direct);
  assert_int_equal (r.raddr, (uintptr_t) r.map);

  assert_int_equal (t->queue_new (&q, &qp), 0);
  assert_int_equal (t->conn_open (&c, q, &cp, 0), 0);
  ops[0].raddr = ops[1].raddr = ops[2].raddr = r.raddr + 100;
  ops[2].length = 1;
  ops[2].local = buf;
  assert_int_equal (t->post (c, &ops[0]), 0);
  assert_int_equal (t->post (c, &ops[1]), 0);
  assert_int_equal (t->post (c, &ops[2]), -EAGAIN);
  t->kick (q);
  assert_true (t->arm (q));
  assert_ptr_equal (t->poll (q), &ops[0]);
  assert_ptr_equal (ops[0].next, &ops[1]);
  assert_int_equal (t->conn_inflight (c), 0);
  assert_string_equal (back, "hello");
  memset (back, 0, sizeof back);
  assert_int_equal (pread (fd, back, 6, 4196), 6);
  assert_string_equal (back, "hello");
  t->conn_break (c);
  assert_int_equal (t->post (c, &ops[0]), -ENOTCONN);
  t->conn_free (c);
  t->queue_free (q);
  t->unimport (&r);
  close (fd);
}

static int
setup (void **state)
{
  (void) state;
  return mkdtemp (dir) == NULL;
}

static int
teardown (void **state)
{
  (void) state;
  return rmdir (dir);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_map),
    cmocka_unit_test (test_answers),
    cmocka_unit_test (test_cannot_connect),
    cmocka_unit_test (test_lies),
    cmocka_unit_test (test_deadline),
    cmocka_unit_test (test_fds),
    cmocka_unit_test (test_hello),
    cmocka_unit_test (test_shm),
  };

  return cmocka_run_group_tests (tests, setup, teardown);
}
