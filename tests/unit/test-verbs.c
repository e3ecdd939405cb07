/* SPDX-License-Identifier: BSD-3-Clause */
/* test-verbs.c - the RDMA transport against rdma/verbs-server, over any RDMA
 * device of this machine (soft-RoCE and soft-iWARP in tests/vm).  It is
 * skipped without one.
 *
 * FARPAGE_TEST_RDMA_DEAD is an address that does not answer.
 */

#include "unit.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <arpa/inet.h>

#include <rdma/rdma_cma.h>

#include "base/clock.h"
#include "transport/transport.h"
#include "transport/verbs_conn.h"
#include "transport/verbs_connect.h"

#define DEPTH 32
#define AREA 65536 /* bytes of each slot, at both ends */
#define SERVER_MB 16
#define TIMEOUT_MS 1000
#define NOTICE_MS 500   /* ms; siw answers a READ sooner if it notices it */
#define TOKEN_BYTE 0x5a /* same as in verbs-server */

static const struct fp_transport_ops *const t = &fp_transport_rdma;

struct fixture {
  pid_t pid;
  FILE *to, *from;
  struct fp_addr addr;
  uint64_t rw, rw_key, ro, ro_key;

  char *memory;
  size_t memory_size;
  int epoll;
  struct fp_queue *queue;
  struct fp_conn *conn;
  struct fp_op ops[DEPTH];
  unsigned yielded[DEPTH]; /* completions since the last post_all */
};

static char device_host[INET_ADDRSTRLEN];
static bool device_is_iwarp, device_is_siw;

/* ---- the server ---- */

static void
ask (struct fixture *f, const char *command, char *answer, int size)
{
  struct pollfd p = { .fd = fileno (f->from), .events = POLLIN };

  if (command != NULL)
    assert_true (fprintf (f->to, "%s\n", command) > 0);
  assert_int_equal (poll (&p, 1, 10000), 1);
  assert_non_null (fgets (answer, size, f->from));
}

static void
start_server (struct fixture *f)
{
  const char *build = getenv ("top_builddir");
  char path[512], line[128], mb[16];
  int in[2], out[2];
  unsigned port;

  snprintf (path, sizeof path, "%s/tests/rdma/verbs-server",
            build != NULL ? build : ".");
  snprintf (mb, sizeof mb, "%d", SERVER_MB);
  assert_int_equal (pipe2 (in, O_CLOEXEC), 0);
  assert_int_equal (pipe2 (out, O_CLOEXEC), 0);
  f->pid = fork ();
  assert_true (f->pid >= 0);
  if (f->pid == 0) {
    dup2 (in[0], 0);
    dup2 (out[1], 1);
    execl (path, path, device_host, mb, (char *) NULL);
    _exit (127);
  }
  close (in[0]);
  close (out[1]);
  f->to = fdopen (in[1], "w");
  f->from = fdopen (out[0], "r");
  assert_true (f->to != NULL && f->from != NULL);
  setvbuf (f->to, NULL, _IOLBF, 0);
  setvbuf (f->from, NULL, _IONBF, 0);
  ask (f, NULL, line, sizeof line);
  assert_int_equal (sscanf (line, "port %u", &port), 1);
  assert_int_equal (fp_addr_parse (&f->addr, device_host, NULL), 0);
  f->addr.port = (uint16_t) port;
}

static int
open_conn (struct fixture *f, struct fp_conn **out, int token, unsigned ms)
{
  struct fp_conn_params p = {
    .addr = &f->addr, .session = 1, .depth = DEPTH, .timeout_ms = TIMEOUT_MS
  };

  memset (p.token, token, sizeof p.token);
  return t->conn_open (out, f->queue, &p, fp_deadline_in_ms (ms));
}

/* ---- ops ---- */

static void
set_op (struct fixture *f, unsigned i, enum fp_op_kind kind, uint32_t offset,
        uint32_t length)
{
  struct fp_op *op = &f->ops[i];

  memset (op, 0, sizeof *op);
  op->kind = kind;
  op->length = length;
  op->local = f->memory + i * AREA + offset;
  op->raddr = f->rw + i * AREA + offset;
  op->rkey = f->rw_key;
  op->status = 1;
}

/* Count completions in f->yielded.  Return how many came. */
static unsigned
collect (struct fixture *f)
{
  struct fp_op *op, *next;
  unsigned n = 0;

  for (op = t->poll (f->queue); op != NULL; op = next) {
    next = op->next;
    f->yielded[op - f->ops]++;
    assert_true (op->status <= 0);
    n++;
  }
  return n;
}

/* Wait for n completions, asleep if `sleepy`. */
static void
wait_for (struct fixture *f, unsigned n, bool sleepy, unsigned ms)
{
  struct pollfd p = { .fd = f->epoll, .events = POLLIN };
  uint64_t deadline = fp_deadline_in_ms (ms);
  unsigned got = 0;

  while ((got += collect (f)) < n) {
    assert_false (fp_deadline_passed (deadline));
    if (sleepy && !t->arm (f->queue))
      assert_true (poll (&p, 1, fp_deadline_left_ms (deadline)) >= 0);
  }
  assert_int_equal (got, n);
}

/* Make the first READ of a connection.
 *
 * siw_accept answers the client before it installs its callbacks on the
 * socket.  A frame that comes in between is not noticed before another one
 * comes (siw_cm.c, Linux 6.1).  A volume would notice by its timeout, and
 * reconnect.  Here another frame is sent, so that no other fault passes as
 * siw's.
 */
static void
read_first (struct fixture *f, struct fp_conn *c)
{
  uint64_t patience = fp_deadline_in_ms (NOTICE_MS);

  set_op (f, 0, FP_OP_READ, 0, 4096);
  set_op (f, 1, FP_OP_READ, 0, 4096);
  assert_int_equal (t->post (c, &f->ops[0]), 0);
  t->kick (f->queue);
  if (device_is_siw) {
    while (collect (f) == 0) {
      if (!fp_deadline_passed (patience))
        continue;
      print_message ("siw: a frame was not noticed, sending another\n");
      assert_int_equal (t->post (c, &f->ops[1]), 0);
      t->kick (f->queue);
      wait_for (f, 2, false, 5000);
      assert_int_equal (f->ops[1].status, 0);
      break;
    }
  }
  else {
    wait_for (f, 1, false, 5000);
  }
  assert_int_equal (f->ops[0].status, 0);
}

static int
setup (void **state)
{
  struct fixture *f = calloc (1, sizeof *f);
  struct fp_queue_params q = { .depth = DEPTH, .max_conns = 2 };
  char line[256];

  assert_non_null (f);
  start_server (f);
  f->memory_size = DEPTH * AREA;
  f->memory = mmap (NULL, f->memory_size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true (f->memory != MAP_FAILED);
  q.memory = f->memory;
  q.memory_size = f->memory_size;
  q.epoll = f->epoll = epoll_create1 (EPOLL_CLOEXEC);
  assert_true (f->epoll > 0);
  assert_int_equal (t->queue_new (&f->queue, &q), 0);
  assert_int_equal (open_conn (f, &f->conn, TOKEN_BYTE, 5000), 0);
  ask (f, "regions", line, sizeof line);
  assert_int_equal (
      sscanf (line, "regions %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
              &f->rw, &f->rw_key, &f->ro, &f->ro_key),
      4);
  read_first (f, f->conn);
  *state = f;
  return 0;
}

static int
teardown (void **state)
{
  struct fixture *f = *state;
  int status;

  if (f->conn != NULL)
    t->conn_free (f->conn);
  t->queue_free (f->queue);
  close (f->epoll);
  munmap (f->memory, f->memory_size);
  fclose (f->to); /* the server stops at EOF */
  if (f->pid > 0) {
    assert_int_equal (waitpid (f->pid, &status, 0), f->pid);
    assert_int_equal (status, 0);
  }
  fclose (f->from);
  free (f);
  return 0;
}

static void
post_all (struct fixture *f)
{
  unsigned i;

  memset (f->yielded, 0, sizeof f->yielded);
  for (i = 0; i < DEPTH; i++)
    assert_int_equal (t->post (f->conn, &f->ops[i]), 0);
  t->kick (f->queue);
}

static void
assert_each_once (struct fixture *f)
{
  unsigned i;

  for (i = 0; i < DEPTH; i++)
    assert_int_equal (f->yielded[i], 1);
  assert_int_equal (collect (f), 0);
  assert_int_equal (t->conn_inflight (f->conn), 0);
}

/* ---- tests ---- */

static void
test_ack_timeout (void **state)
{
  (void) state;
  /* 7 tries of 67 ms are 470 ms. */
  assert_int_equal (fp_verbs_ack_timeout (1), 14);
  assert_int_equal (fp_verbs_ack_timeout (1000), 14);
  assert_int_equal (fp_verbs_ack_timeout (1878), 14);
  assert_int_equal (fp_verbs_ack_timeout (1880), 15);
  assert_int_equal (fp_verbs_ack_timeout (10000), 17);
  assert_int_equal (fp_verbs_ack_timeout (UINT32_MAX), 24);
}

static void
random_io (struct fixture *f, bool sleepy)
{
  char *shadow = calloc (1, f->memory_size);
  uint32_t offset, length;
  unsigned round, i, k;

  assert_non_null (shadow);
  srandom (1);
  for (round = 0; round < 60; round++) {
    for (i = 0; i < DEPTH; i++) {
      length = 1 + (uint32_t) random () % (random () % 4 ? 300 : AREA - 1);
      offset = (uint32_t) random () % (AREA - length);
      set_op (f, i, round == 0 || random () % 2 ? FP_OP_WRITE : FP_OP_READ,
              offset, length);
      if (round == 0)
        set_op (f, i, FP_OP_WRITE, 0, AREA);
      if (f->ops[i].kind == FP_OP_WRITE)
        for (k = 0; k < f->ops[i].length; k++)
          ((char *) f->ops[i].local)[k] = (char) random ();
      else
        memset (f->ops[i].local, 0xee, f->ops[i].length);
    }
    post_all (f);
    wait_for (f, DEPTH, sleepy, 10000);
    assert_each_once (f);
    for (i = 0; i < DEPTH; i++) {
      const struct fp_op *op = &f->ops[i];
      char *mine = shadow + ((char *) op->local - f->memory);

      assert_int_equal (op->status, 0);
      if (op->kind == FP_OP_WRITE)
        memcpy (mine, op->local, op->length);
      else
        assert_memory_equal (mine, op->local, op->length);
    }
  }
  free (shadow);
}

static void
test_random_polling (void **state)
{
  random_io (*state, false);
}

static void
test_random_sleeping (void **state)
{
  random_io (*state, true);
}

static void
test_max_transfer (void **state)
{
  struct fixture *f = *state;
  const uint32_t n = t->max_transfer;
  uint32_t i;

  for (i = 0; i < n; i++)
    f->memory[i] = (char) (i * 31 + i / 4096);
  set_op (f, 0, FP_OP_WRITE, 0, n);
  assert_int_equal (t->post (f->conn, &f->ops[0]), 0);
  t->kick (f->queue);
  wait_for (f, 1, true, 10000);
  assert_int_equal (f->ops[0].status, 0);
  set_op (f, 0, FP_OP_READ, 0, n);
  f->ops[0].local = f->memory + n;
  assert_int_equal (t->post (f->conn, &f->ops[0]), 0);
  t->kick (f->queue);
  wait_for (f, 1, true, 10000);
  assert_int_equal (f->ops[0].status, 0);
  assert_memory_equal (f->memory, f->memory + n, n);

  set_op (f, 0, FP_OP_READ, 0, n + 1);
  assert_int_equal (t->post (f->conn, &f->ops[0]), -EINVAL);
  set_op (f, 0, FP_OP_READ, 0, 2);
  f->ops[0].local = f->memory + f->memory_size - 1;
  assert_int_equal (t->post (f->conn, &f->ops[0]), -EINVAL);
}

static void
test_depth (void **state)
{
  struct fixture *f = *state;
  struct fp_op one_more;
  unsigned i;

  for (i = 0; i < DEPTH; i++)
    set_op (f, i, FP_OP_READ, 0, 4096);
  one_more = f->ops[0];
  post_all (f);
  assert_int_equal (t->conn_inflight (f->conn), DEPTH);
  assert_int_equal (t->post (f->conn, &one_more), -EAGAIN);
  wait_for (f, DEPTH, false, 10000);
  assert_each_once (f);
}

static void
test_wrong_token (void **state)
{
  struct fixture *f = *state;
  struct fp_conn *c = NULL;

  assert_int_equal (open_conn (f, &c, TOKEN_BYTE + 1, 5000), -EACCES);
  assert_null (c);
}

static void
test_no_listener (void **state)
{
  struct fixture *f = *state;
  struct fp_conn *c = NULL;
  uint16_t port = f->addr.port;

  f->addr.port = 9;
  assert_int_equal (open_conn (f, &c, TOKEN_BYTE, 5000), -ECONNREFUSED);
  f->addr.port = port;
}

static void
test_dead_address (void **state)
{
  struct fixture *f = *state;
  const char *dead = getenv ("FARPAGE_TEST_RDMA_DEAD");
  struct fp_addr good = f->addr;
  struct fp_conn *c = NULL;
  uint64_t start = fp_now_ns ();
  int err;

  if (dead == NULL)
    skip ();
  assert_int_equal (fp_addr_parse (&f->addr, dead, NULL), 0);
  err = open_conn (f, &c, TOKEN_BYTE, 700);
  f->addr = good;
  print_message ("a dead address: %s after %llu ms\n", strerror (-err),
                 (fp_now_ns () - start) / FP_NS_PER_MS);
  assert_true (err < 0);
  assert_true (fp_now_ns () - start < 1200 * FP_NS_PER_MS);
}

/* The server's device refuses op `bad` of DEPTH with -EACCES.  The connection
 * breaks, and the other ops succeed or are flushed.
 */
static void
refused (struct fixture *f, unsigned bad)
{
  unsigned i;

  post_all (f);
  wait_for (f, DEPTH, true, 5000);
  assert_each_once (f);
  for (i = 0; i < DEPTH; i++)
    /* iWARP has no NAK: it hangs up.  Which op gets the error is not
     * specified; all others are flushed.
     */
    if (device_is_iwarp)
      assert_true (i == bad ? f->ops[i].status < 0 : f->ops[i].status <= 0);
    else if (i == bad)
      assert_int_equal (f->ops[i].status, -EACCES);
    else if (f->ops[i].status != 0)
      assert_int_equal (f->ops[i].status, -ECONNRESET);
  assert_true (t->conn_broken (f->conn));
  assert_int_equal (t->post (f->conn, &f->ops[0]), -ENOTCONN);
  t->conn_break (f->conn); /* a second call is allowed */
}

static void
fill_ops (struct fixture *f)
{
  unsigned i;

  for (i = 0; i < DEPTH; i++)
    set_op (f, i, i % 2 ? FP_OP_WRITE : FP_OP_READ, 0, 4096);
}

static void
test_out_of_bounds (void **state)
{
  struct fixture *f = *state;

  fill_ops (f);
  f->ops[11].raddr = f->rw + ((uint64_t) SERVER_MB << 20) - 4095;
  refused (f, 11);
}

static void
test_read_only (void **state)
{
  struct fixture *f = *state;

  fill_ops (f);
  f->ops[3].raddr = f->ro;
  f->ops[3].rkey = f->ro_key;
  refused (f, 3);
}

/* Both regions cover the same memory, and neither address reveals where. */
static void
test_addresses (void **state)
{
  struct fixture *f = *state;
  char line[64];
  uint64_t at;

  ask (f, "memory", line, sizeof line);
  assert_int_equal (sscanf (line, "memory %" SCNu64, &at), 1);
  if (device_is_siw) /* siw ignores them: see verbs_device.h */
    skip ();
  assert_true (f->rw != f->ro);
  assert_true (f->rw != at && f->ro != at);
}

static void
test_revoked (void **state)
{
  struct fixture *f = *state;
  char line[64];

  fill_ops (f);
  post_all (f);
  wait_for (f, DEPTH, true, 5000);
  ask (f, "revoke", line, sizeof line);
  assert_string_equal (line, "ok\n");
  refused (f, 0);
}

struct breaker {
  struct fp_conn *conn;
  atomic_bool go;
};

static void *
break_on_go (void *arg)
{
  struct breaker *b = arg;

  while (!atomic_load (&b->go))
    ;
  t->conn_break (b->conn);
  return NULL;
}

/* Repeat, as the moment of the break matters. */
static void
test_break_from_another_thread (void **state)
{
  struct fixture *f = *state;
  struct breaker b;
  pthread_t thread;
  unsigned round, posted, got, i;
  uint64_t deadline;

  for (round = 0; round < 20; round++) {
    fill_ops (f);
    memset (f->yielded, 0, sizeof f->yielded);
    b.conn = f->conn;
    atomic_store (&b.go, false);
    assert_int_equal (pthread_create (&thread, NULL, break_on_go, &b), 0);
    for (i = posted = got = 0; i < DEPTH; i++) {
      if (i == round)
        atomic_store (&b.go, true);
      posted += t->post (f->conn, &f->ops[i]) == 0;
      t->kick (f->queue);
      got += collect (f);
    }
    deadline = fp_deadline_in_ms (3000);
    while (!t->conn_broken (f->conn) || got < posted) {
      assert_false (fp_deadline_passed (deadline));
      got += collect (f);
    }
    assert_int_equal (got, posted);
    assert_int_equal (pthread_join (thread, NULL), 0);
    for (i = 0; i < DEPTH; i++)
      assert_true (f->yielded[i] <= 1);
    assert_int_equal (t->conn_inflight (f->conn), 0);
    t->conn_free (f->conn);
    f->conn = NULL;
    assert_int_equal (open_conn (f, &f->conn, TOKEN_BYTE, 5000), 0);
  }
}

static void
test_server_killed (void **state)
{
  struct fixture *f = *state;
  unsigned i, round = 0, failed = 0;
  uint64_t start;

  fill_ops (f);
  post_all (f);
  wait_for (f, DEPTH, true, 5000);
  start = fp_now_ns ();
  while (!t->conn_broken (f->conn)) {
    post_all (f);
    if (round++ == 2) {
      assert_int_equal (kill (f->pid, SIGKILL), 0);
      start = fp_now_ns ();
    }
    wait_for (f, DEPTH, true, 5000);
    assert_each_once (f);
    t->conn_event (f->conn);
  }
  print_message ("killed server: all answered after %llu ms\n",
                 (fp_now_ns () - start) / FP_NS_PER_MS);
  assert_true (fp_now_ns () - start < TIMEOUT_MS * FP_NS_PER_MS);
  for (i = 0; i < DEPTH; i++)
    failed += f->ops[i].status != 0;
  print_message ("killed server: %u of %d failed\n", failed, DEPTH);
  assert_int_equal (waitpid (f->pid, NULL, 0), f->pid);
  f->pid = 0;
}

/* With nothing in flight, only the event shows it. */
static void
test_server_killed_idle (void **state)
{
  struct fixture *f = *state;
  struct pollfd p = { .fd = t->conn_event_fd (f->conn), .events = POLLIN };

  assert_int_equal (kill (f->pid, SIGKILL), 0);
  assert_int_equal (waitpid (f->pid, NULL, 0), f->pid);
  f->pid = 0;
  assert_int_equal (poll (&p, 1, 3000), 1);
  t->conn_event (f->conn);
  assert_true (t->conn_broken (f->conn));
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

/* Return the counts "qp N cq N ... mr N" of all devices and both ends. */
static void
kernel_objects (char *line, int size)
{
  FILE *p = popen ("rdma resource show 2>/dev/null | "
                   "sed 's/ctx.*//; s/srq.*//'",
                   "r");

  assert_non_null (p);
  if (fgets (line, size, p) == NULL)
    line[0] = 0;
  pclose (p);
}

static void
wait_for_peers (struct fixture *f, unsigned n)
{
  uint64_t deadline = fp_deadline_in_ms (10000);
  char line[64];
  unsigned have;

  do {
    assert_false (fp_deadline_passed (deadline));
    ask (f, "peers", line, sizeof line);
    assert_int_equal (sscanf (line, "peers %u", &have), 1);
  } while (have != n);
}

static void
assert_same_objects (const char *before)
{
  uint64_t deadline = fp_deadline_in_ms (10000);
  char after[256];

  do
    kernel_objects (after, sizeof after);
  while (strcmp (before, after) != 0 && !fp_deadline_passed (deadline));
  assert_string_equal (before, after);
}

static void
test_no_leak (void **state)
{
  struct fixture *f = *state;
  char before[256];
  struct fp_conn *c;
  unsigned i, fds;

  wait_for_peers (f, 1);
  kernel_objects (before, sizeof before);
  print_message ("%s", before);
  fds = count_fds ();
  for (i = 0; i < 200; i++) {
    assert_int_equal (open_conn (f, &c, TOKEN_BYTE + (i % 10 == 9), 5000),
                      i % 10 == 9 ? -EACCES : 0);
    if (i % 10 == 9)
      continue;
    read_first (f, c);
    t->conn_free (c);
  }
  wait_for_peers (f, 1);
  assert_int_equal (count_fds (), fds);
  assert_same_objects (before);
}

/* A freed connection may complete an op late, when another connection has its
 * place.  So work requests of the two never share an id.
 */
static void
test_called_anew (void **state)
{
  uint64_t names[3];
  struct fixture *f = *state;
  struct fp_conn *c;

  for (unsigned n = 0; n < 3; n++) {
    assert_int_equal (open_conn (f, &c, TOKEN_BYTE, 5000), 0);
    read_first (f, c);
    names[n] = fp_verbs_to_conn (c)->wrs[f->ops[0].cookie].wr_id;
    for (unsigned k = 0; k < n; k++)
      assert_true (names[k] != names[n]);
    t->conn_free (c);
  }
}

/* Clients die at each stage: the server leaks nothing. */
static void
test_clients_vanish (void **state)
{
  struct fixture *f = *state;
  char before[256], port[16];
  unsigned i;
  pid_t pid;

  wait_for_peers (f, 1);
  kernel_objects (before, sizeof before);
  snprintf (port, sizeof port, "%u", f->addr.port);
  for (i = 0; i < 20; i++) {
    pid = fork ();
    assert_true (pid >= 0);
    if (pid == 0) {
      execl ("/proc/self/exe", "vanish", device_host, port,
             i % 2 ? "established" : "asked", (char *) NULL);
      _exit (127);
    }
    assert_int_equal (waitpid (pid, NULL, 0), pid);
  }
  wait_for_peers (f, 1);
  assert_same_objects (before);
  /* The server still serves. */
  fill_ops (f);
  post_all (f);
  wait_for (f, DEPTH, true, 5000);
  assert_int_equal (f->ops[0].status, 0);
}

/* A connection request that is not one of ours is refused. */
static void
test_garbage_request (void **state)
{
  struct fixture *f = *state;
  struct rdma_addrinfo *info, hints = { .ai_port_space = RDMA_PS_TCP };
  struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
                                   .cap = { 1, 1, 1, 1, 0 } };
  struct rdma_conn_param p = { .private_data = "GET / HTTP/1.1",
                               .private_data_len = 14 };
  struct rdma_cm_id *id;
  char port[16];

  snprintf (port, sizeof port, "%u", f->addr.port);
  assert_int_equal (rdma_getaddrinfo (device_host, port, &hints, &info), 0);
  assert_int_equal (rdma_create_ep (&id, info, NULL, &attr), 0);
  assert_int_equal (rdma_connect (id, &p), -1);
  assert_int_equal (errno, ECONNREFUSED);
  rdma_destroy_ep (id);
  rdma_freeaddrinfo (info);
  wait_for_peers (f, 1);
}

/* ---- running ---- */

static _Noreturn void
vanish (char *argv[])
{
  struct fixture f = { .memory_size = AREA };
  struct fp_queue_params q = { .depth = DEPTH, .max_conns = 1 };
  bool asked = strcmp (argv[3], "asked") == 0;

  if (fp_addr_parse (&f.addr, argv[1], NULL) != 0)
    _exit (1);
  f.addr.port = (uint16_t) atoi (argv[2]);
  q.memory = f.memory = aligned_alloc (4096, AREA);
  q.memory_size = AREA;
  if (t->queue_new (&f.queue, &q) != 0)
    _exit (1);
  /* This deadline passes while the answer is under way. */
  (void) open_conn (&f, &f.conn, TOKEN_BYTE, asked ? 6 : 5000);
  kill (getpid (), SIGKILL);
  _exit (1);
}

/* Find this machine's first IPv4 address that belongs to an RDMA device. */
static bool
find_device_host (void)
{
  struct rdma_event_channel *channel = rdma_create_event_channel ();
  struct ifaddrs *list, *i;
  struct rdma_cm_id *id;
  bool found = false;

  if (channel == NULL || getifaddrs (&list) != 0)
    return false;
  for (i = list; !found && i != NULL; i = i->ifa_next) {
    if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET ||
        rdma_create_id (channel, &id, NULL, RDMA_PS_TCP) != 0)
      continue;
    if (rdma_bind_addr (id, i->ifa_addr) == 0 && id->verbs != NULL) {
      device_is_iwarp =
          id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
      device_is_siw =
          strncmp (ibv_get_device_name (id->verbs->device), "siw", 3) == 0;
      found =
          inet_ntop (AF_INET, &((struct sockaddr_in *) i->ifa_addr)->sin_addr,
                     device_host, sizeof device_host) != NULL;
    }
    rdma_destroy_id (id);
  }
  freeifaddrs (list);
  rdma_destroy_event_channel (channel);
  return found;
}

#define WITH_SERVER(f) cmocka_unit_test_setup_teardown (f, setup, teardown)

int
main (int argc, char *argv[])
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_ack_timeout),
    WITH_SERVER (test_random_polling),
    WITH_SERVER (test_random_sleeping),
    WITH_SERVER (test_max_transfer),
    WITH_SERVER (test_depth),
    WITH_SERVER (test_wrong_token),
    WITH_SERVER (test_no_listener),
    WITH_SERVER (test_garbage_request),
    WITH_SERVER (test_dead_address),
    WITH_SERVER (test_out_of_bounds),
    WITH_SERVER (test_read_only),
    WITH_SERVER (test_addresses),
    WITH_SERVER (test_revoked),
    WITH_SERVER (test_break_from_another_thread),
    WITH_SERVER (test_no_leak),
    WITH_SERVER (test_called_anew),
    WITH_SERVER (test_clients_vanish),
    WITH_SERVER (test_server_killed),
    WITH_SERVER (test_server_killed_idle),
  };
  const char *why;

  if (argc == 4 && strcmp (argv[0], "vanish") == 0)
    vanish (argv);
  /* siw sends from the posting thread.  If the server has closed the socket,
   * that raises SIGPIPE, as write(2) does.
   */
  if (signal (SIGPIPE, SIG_IGN) == SIG_ERR)
    return 1;
  if (t->available (&why) != 0 || !find_device_host ()) {
    printf ("SKIP: no RDMA device with an address\n");
    return 77;
  }
  if (argc == 2) /* name of one test */
    cmocka_set_test_filter (argv[1]);
  return RUN_TESTS (tests);
}
