/* SPDX-License-Identifier: BSD-3-Clause */
/* memclient_data.c - memclient's data connections: read, write and compare. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memclient.h"

#define DEPTH 4

static struct fp_data_hello shown; /* by the current connection */
static int wakes;                  /* epoll set of all queues; 0: none yet */

int
stay (void)
{
  struct fp_ping_reply p;

  return fp_ctl_ping (ctl, NULL, &p, deadline ());
}

/* Get the proof for a data connection of this lane: a new token. */
static int
prove (struct fp_ctl *c, struct fp_data_hello *out, uint32_t lane)
{
  const struct fp_token_req q = { .lane = lane };
  struct fp_token p;
  int r = fp_ctl_token (c, &q, &p, deadline ());

  *out = (struct fp_data_hello) { .session = server.session, .lane = lane };
  if (r == 0)
    memcpy (out->token, p.token, sizeof out->token);
  return r;
}

static int
connect_with (const struct fp_data_hello *proof)
{
  struct fp_queue_params qp = {
    .depth = DEPTH, .max_conns = 1, .memory = buffer, .memory_size = CHUNK
  };
  struct fp_conn_params cp = { .addr = &addr,
                               .session = proof->session,
                               .lane = proof->lane,
                               .depth = DEPTH,
                               .timeout_ms = DEADLINE_MS };
  struct fp_addr rdma;
  int r;

  if (wakes == 0)
    wakes = epoll_create1 (EPOLL_CLOEXEC);
  qp.epoll = wakes;
  r = wakes == -1 ? -errno : ops->queue_new (&queue, &qp);
  for (uint32_t i = 0; r == 0 && ops->bit == FP_TRANSPORT_RDMA &&
                       i < server.nr_rdma && cp.addr == &addr;
       i++) {
    r = fp_addr_parse (&rdma, server.rdma[i], NULL);
    if (strcmp (rdma.host, addr.host) == 0)
      cp.addr = &rdma;
  }
  if (r < 0)
    return r;
  memcpy (cp.token, proof->token, sizeof cp.token);
  return ops->conn_open (&conn, queue, &cp, deadline ());
}

int
connect_data (void)
{
  int r = ops->direct ? 0 : prove (ctl, &shown, 0);

  return r < 0 ? r : connect_with (&shown);
}

/* Get a token of another session of this client, to be shown as one of this
 * session.
 */
static int
prove_as_other (struct fp_data_hello *out)
{
  struct fp_hello h = hello;
  struct fp_hello_reply p;
  struct fp_ctl *c;
  int r = fp_ctl_open (&c, &addr, deadline ());

  if (r == 0)
    r = fp_uuid_generate (&h.client);
  if (r == 0)
    r = fp_ctl_hello (c, &h, &p, deadline ());
  if (r == 0)
    r = prove (c, out, 0);
  fp_ctl_free (c);
  return r;
}

/* Try a second connection.  The first stays as it is, whatever happens. */
static int
connect_beside (const struct fp_data_hello *proof)
{
  struct fp_queue *queue_before = queue;
  struct fp_conn *conn_before = conn;
  int r = connect_with (proof);

  if (r == 0) {
    ops->conn_break (conn);
    ops->conn_free (conn);
  }
  ops->queue_free (queue);
  queue = queue_before;
  conn = conn_before;
  return r;
}

int
another_connection (const char *what)
{
  struct fp_data_hello proof = shown, later;
  bool lane = strcmp (what, "lane") == 0;
  int r = 0;

  if (strcmp (what, "other") == 0)
    r = prove_as_other (&proof);
  else if (strcmp (what, "replay") != 0)
    r = prove (ctl, &proof, lane ? 1 : 0);
  if (r == 0 && strcmp (what, "old") == 0)
    r = prove (ctl, &later, 0);
  if (r < 0)
    return r;
  if (strcmp (what, "token") == 0)
    proof.token[FP_TOKEN_SIZE - 1] ^= 1;
  if (strcmp (what, "session") == 0)
    proof.session ^= 1;
  if (lane)
    proof.lane = 0;
  return connect_beside (&proof);
}

int
connection_as (unsigned uid)
{
  struct fp_data_hello proof;
  int r = prove (ctl, &proof, 2), status;
  pid_t pid;

  if (r < 0)
    return r;
  pid = fork ();
  if (pid == 0) {
    struct fp_ctl *c;

    if (setresuid (uid, uid, uid) < 0)
      _exit (EIO);
    r = fp_ctl_open (&c, &addr, deadline ());
    if (r == 0)
      r = fp_ctl_data_hello (c, &proof, deadline ());
    _exit (-r);
  }
  if (pid < 0 || waitpid (pid, &status, 0) != pid || !WIFEXITED (status))
    return -ECHILD;
  return -WEXITSTATUS (status);
}

/* Wait for completions.  Return at least one. */
static struct fp_op *
completed (uint64_t end)
{
  struct fp_op *list;

  while ((list = ops->poll (queue)) == NULL) {
    struct pollfd p[2] = { { .fd = wakes, .events = POLLIN },
                           { .fd = ops->conn_event_fd (conn),
                             .events = POLLIN } };

    if (ops->arm (queue))
      continue;
    if (poll (p, 2, fp_deadline_left_ms (end)) == 0)
      ops->conn_break (conn);
    if (p[1].revents != 0)
      ops->conn_event (conn);
  }
  return list;
}

int
transfer (enum fp_op_kind kind, unsigned slab, uint64_t offset,
          uint32_t length)
{
  struct fp_op op = { .kind = kind,
                      .length = length,
                      .local = buffer,
                      .raddr = remotes[slab].raddr + offset,
                      .rkey = remotes[slab].rkey };
  uint64_t end = deadline ();
  int r = ops->post (conn, &op);

  if (r < 0)
    return r;
  ops->kick (queue);
  completed (end);
  return op.status;
}

int
fill (uint8_t byte)
{
  memset (buffer, byte, CHUNK);
  for (unsigned i = 0; i < nr_grants; i++)
    for (uint64_t at = 0; at < grants[i].length; at += CHUNK) {
      int r = transfer (FP_OP_WRITE, i, at, CHUNK);

      if (r == 0)
        r = stay ();
      if (r < 0)
        return r;
    }
  return 0;
}

int
check_slab (unsigned slab, uint8_t byte, uint64_t from, uint64_t to)
{
  for (uint64_t at = 0; at < grants[slab].length; at += CHUNK) {
    int r = transfer (FP_OP_READ, slab, at, CHUNK);

    if (r < 0)
      return r;
    for (uint32_t i = 0; i < CHUNK; i++) {
      uint8_t want = at + i >= from && at + i < to ? 0 : byte;

      if (buffer[i] != want) {
        fprintf (stderr, "memclient: slab %u at %llu: %02x, not %02x\n", slab,
                 (unsigned long long) (at + i), buffer[i], want);
        return -EBADMSG;
      }
    }
  }
  return 0;
}

int
check (uint8_t byte)
{
  for (unsigned i = 0; i < nr_grants; i++) {
    int r = check_slab (i, byte, 0, 0);

    if (r == 0)
      r = stay ();
    if (r < 0)
      return r;
  }
  return 0;
}

static int
write_all (uint8_t byte)
{
  memset (buffer, byte, CHUNK);
  return transfer (FP_OP_WRITE, 0, 0, CHUNK);
}

/* Send WRITEs all over the slabs, as many at a time as possible and without
 * any control message, until one fails.
 */
int
flood (uint8_t byte)
{
  struct fp_op writes[DEPTH] = { { .length = 0 } };
  struct fp_op *idle[DEPTH], *op;
  unsigned nr_idle = DEPTH, slab = 0;
  uint64_t at = 0, end = deadline ();
  int r = 0;

  memset (buffer, byte, CHUNK);
  for (unsigned i = 0; i < DEPTH; i++)
    idle[i] = &writes[i];
  while (r == 0 && !fp_deadline_passed (end)) {
    while (nr_idle > 0 && r == 0) {
      op = idle[nr_idle - 1];
      *op = (struct fp_op) { .kind = FP_OP_WRITE,
                             .length = CHUNK / 4,
                             .local = buffer,
                             .raddr = remotes[slab].raddr + at,
                             .rkey = remotes[slab].rkey };
      r = ops->post (conn, op);
      nr_idle -= r == 0;
      at = (at + CHUNK / 4) % grants[slab].length;
      slab = (slab + (at == 0)) % nr_grants;
    }
    ops->kick (queue);
    if (nr_idle == DEPTH)
      continue;
    for (op = completed (end); op != NULL; op = op->next) {
      r = op->status < 0 ? op->status : r;
      idle[nr_idle++] = op;
    }
  }
  ops->conn_break (conn);
  while (ops->conn_inflight (conn) > 0)
    completed (end);
  return r < 0 ? 0 : -ETIMEDOUT;
}

int
replaced (void)
{
  struct fp_queue *queues[2] = { queue };
  struct fp_conn *conns[2] = { conn };
  int r = connect_data ();

  queues[1] = queue;
  conns[1] = conn;
  if (r == 0)
    r = write_all (2);
  if (r == 0) {
    queue = queues[0];
    conn = conns[0];
    r = write_all (1) == 0 ? -EBADMSG : 0;
    ops->conn_break (conn);
    while (ops->conn_inflight (conn) > 0)
      ops->poll (queue);
    ops->conn_free (conn);
    ops->queue_free (queue);
  }
  queue = queues[1];
  conn = conns[1];
  return r == 0 ? check_slab (0, 2, 0, 0) : r;
}

/* Open a data connection of lane 1, as a bare socket. */
static int
bare_connection (void)
{
  struct fp_data_hello proof;
  struct fp_ctl *c;
  int r = prove (ctl, &proof, 1);

  if (r < 0)
    return r;
  r = fp_ctl_open (&c, &addr, deadline ());
  if (r == 0)
    r = fp_ctl_data_hello (c, &proof, deadline ());
  if (r == 0)
    r = fp_ctl_steal_fd (c);
  fp_ctl_free (c);
  return r;
}

/* Send the first `length` bytes of a WRITE to the first chunk.  Return how
 * many are left.
 */
static uint32_t
begin_write (int fd, uint8_t byte, uint32_t length)
{
  uint8_t header[FP_DATA_REQ_SIZE];
  const struct fp_data_req q = { .op = FP_DATA_WRITE,
                                 .length = CHUNK,
                                 .rkey = remotes[0].rkey,
                                 .raddr = remotes[0].raddr };

  fp_data_req_encode (header, &q);
  memset (buffer, byte, CHUNK);
  /* A failed send does no harm: the caller waits for the reply. */
  (void) send (fd, header, sizeof header, MSG_NOSIGNAL);
  for (uint32_t done = 0; done < length;) {
    ssize_t n = send (fd, buffer + done, length - done, MSG_NOSIGNAL);

    if (n <= 0 && errno != EAGAIN)
      break;
    done += n > 0 ? (uint32_t) n : 0;
  }
  return CHUNK - length;
}

/* Wait for the reply, or for the end.  Return true if the WRITE was done. */
static bool
was_done (int fd)
{
  uint8_t reply[FP_DATA_REPLY_SIZE];
  struct pollfd p = { .fd = fd, .events = POLLIN };
  struct fp_data_reply answer;

  return poll (&p, 1, DEADLINE_MS) == 1 &&
         recv (fd, reply, sizeof reply, 0) == sizeof reply &&
         fp_data_reply_decode (&answer, reply) == 0 &&
         answer.status == FP_STATUS_OK;
}

int
late (void)
{
  int old = bare_connection (), new, r = 0;
  uint32_t left;

  if (old < 0)
    return old;
  left = begin_write (old, 1, CHUNK / 2);
  new = bare_connection ();
  if (new < 0)
    return new;
  begin_write (new, 2, CHUNK);
  if (!was_done (new))
    r = -EIO;
  memset (buffer, 1, left);
  (void) send (old, buffer, left, MSG_NOSIGNAL);
  (void) was_done (old);
  close (old);
  close (new);
  if (r == 0)
    r = transfer (FP_OP_READ, 0, 0, CHUNK);
  for (uint32_t i = 0; r == 0 && i < CHUNK; i++)
    r = buffer[i] == 2 ? 0 : -EBADMSG;
  return r;
}

int
read_only (uint8_t byte)
{
  int r = check_slab (0, byte, 0, 0);

  if (r == 0)
    r = write_all ((uint8_t) ~byte) == 0 ? -EBADMSG : 0;
  /* Over RDMA the connection has ended. */
  if (r == 0 && ops->conn_broken (conn)) {
    while (ops->conn_inflight (conn) > 0)
      ops->poll (queue);
    ops->conn_free (conn);
    ops->queue_free (queue);
    r = connect_data ();
  }
  return r == 0 ? check_slab (0, byte, 0, 0) : r;
}

/* Check that fd reads as byte, and can be neither mapped nor made writable. */
static int
is_read_only (int fd, uint64_t length, uint8_t byte)
{
  uint8_t *map;
  int r = 0;

  if ((fcntl (fd, F_GETFL) & O_ACCMODE) != O_RDONLY ||
      mmap (NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) !=
          MAP_FAILED)
    return -EBADMSG;
  map = mmap (NULL, length, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED)
    return -errno;
  if (mprotect (map, length, PROT_READ | PROT_WRITE) == 0 ||
      fallocate (fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) ==
          0 ||
      pwrite (fd, "", 1, 0) >= 0)
    r = -EBADMSG;
  for (uint64_t i = 0; r == 0 && i < length; i++)
    r = map[i] == byte ? 0 : -EBADMSG;
  munmap (map, length);
  return r;
}

int
list_read_only (uint8_t byte)
{
  struct fp_list q = { .max = FP_MAX_GRANTS };
  struct fp_grants p;
  int fds[FP_MAX_GRANTS], again = -1;
  int r = fp_ctl_list (ctl, &q, &p, fds, deadline ());

  if (r == 0 && p.count == 0)
    r = -ENOENT;
  for (uint32_t i = 0; r == 0 && i < p.count; i++)
    r = is_read_only (fds[i], p.grants[i].length, byte);
  if (r == 0) {
    char path[32];

    snprintf (path, sizeof path, "/proc/self/fd/%d", fds[0]);
    again = open (path, O_RDWR | O_CLOEXEC);
    printf ("again=%d\n", again >= 0);
    if (again >= 0)
      close (again);
  }
  for (uint32_t i = 0; i < p.count; i++)
    close (fds[i]);
  return r;
}
