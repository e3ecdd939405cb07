/* SPDX-License-Identifier: BSD-3-Clause */
/* memclient.c - a client of farpage-memserver that does what the words on its
 * command line say, one after the other, on one session:
 *
 *   memclient ADDR NAME WORD...
 *
 *   open:ID:FLAGS:TRANSPORT  attach volume ID (a digit); FLAGS are of c
 *                     (create), r (resume), e (ephemeral)
 *   grant:N           N slabs, or as many as there are
 *   grant-all         until there are none, and nothing is being scrubbed
 *   expect-slabs:N    it holds so many
 *   label:GEN         piece i is in the i-th slab, generation GEN
 *   list:MAX          forget what it holds; take it from LIST in such pages
 *   fill:BYTE  check:BYTE    write, compare every byte that it holds
 *   zero:OFFSET:LENGTH       in the first slab
 *   check-zeroed:OFFSET:LENGTH:BYTE  zeros there, BYTE in the rest of it
 *   release           all of them
 *   stale             after release: the keys open nothing
 *   replaced          once there is a second connection of the same lane, a
 *                     WRITE on the first is refused
 *   late              tcp: a WRITE whose connection was replaced changes
 *                     nothing that was written after it
 *   data:MUTATION     a data connection with 'token' or 'session' wrong
 *   ping  stat  bye  discard
 *   hang              say 'hanging' on stdout, and wait to be killed
 *   hold              say 'hanging' too, and wait for the end of stdin
 *   kept:BYTE         shm: it is still in what is mapped here
 *   scribble:BYTE     shm: store this in what is mapped here, whoever has it
 *   wait-end          until the server hangs up
 *   fails:ERRNO       the next word fails with this (EBUSY, ...)
 *
 * MEMCLIENT_UUID is whom it says that it is; else somebody new.
 *
 * Exit status 0: all went as the words say.
 */

#include <config.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "transport/ctl_channel.h"
#include "transport/transport.h"

#define MAX_SLABS 4096
#define DEADLINE_MS 30000
#define CHUNK (UINT32_C (1) << 20)

static struct fp_addr addr;
static struct fp_ctl *ctl;
static struct fp_hello_reply server;
static struct fp_grant grants[MAX_SLABS];
static struct fp_remote remotes[MAX_SLABS];
static unsigned nr_grants;
static const struct fp_transport_ops *ops;
static struct fp_queue *queue;
static struct fp_conn *conn;
static uint8_t *buffer;
static char transport_name[16];

static uint64_t
deadline (void)
{
  return fp_deadline_in_ms (DEADLINE_MS);
}

static int
say (int err, const char *what)
{
  fprintf (stderr, "memclient: %s: %s: %s\n", what, strerror (-err),
           fp_ctl_why (ctl));
  return err;
}

/* ---- data ---- */

/* Moving data renews no lease. */
static int
stay (void)
{
  struct fp_ping_reply p;

  return fp_ctl_ping (ctl, &p, deadline ());
}

static int
connect_data (const uint8_t token[FP_TOKEN_SIZE], uint64_t session)
{
  struct fp_queue_params qp = {
    .depth = 4, .max_conns = 1, .memory = buffer, .memory_size = CHUNK
  };
  struct fp_conn_params cp = {
    .addr = &addr, .session = session, .depth = 4, .timeout_ms = DEADLINE_MS
  };
  struct fp_addr rdma;
  int r = ops->queue_new (&queue, &qp);

  for (uint32_t i = 0; r == 0 && ops->bit == FP_TRANSPORT_RDMA &&
                       i < server.nr_rdma && cp.addr == &addr;
       i++) {
    r = fp_addr_parse (&rdma, server.rdma[i], NULL);
    if (strcmp (rdma.host, addr.host) == 0)
      cp.addr = &rdma;
  }
  if (r < 0)
    return r;
  memcpy (cp.token, token, sizeof cp.token);
  return ops->conn_open (&conn, queue, &cp, deadline ());
}

static int
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
  while (ops->poll (queue) == NULL) {
    struct pollfd p[2] = { { .fd = ops->fd (queue), .events = POLLIN },
                           { .fd = ops->conn_event_fd (conn),
                             .events = POLLIN } };

    if (ops->arm (queue))
      continue;
    if (poll (p, 2, fp_deadline_left_ms (end)) == 0)
      ops->conn_break (conn);
    if (p[1].revents != 0)
      ops->conn_event (conn);
  }
  return op.status;
}

static int
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

/* [from, to) of the slab is zeros, the rest is byte. */
static int
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

static int
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

static int
replaced (void)
{
  struct fp_queue *queues[2] = { queue };
  struct fp_conn *conns[2] = { conn };
  int r = connect_data (server.token, server.session);

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

/* A data connection of lane 1, bare. */
static int
bare_connection (void)
{
  struct fp_data_hello hello = { .session = server.session, .lane = 1 };
  struct fp_ctl *c;
  int r = fp_ctl_open (&c, &addr, deadline ());

  memcpy (hello.token, server.token, sizeof hello.token);
  if (r == 0)
    r = fp_ctl_data_hello (c, &hello, deadline ());
  if (r == 0)
    r = fp_ctl_steal_fd (c);
  fp_ctl_free (c);
  return r;
}

/* The first part of a WRITE of the first chunk; returns how much is left. */
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
  /* What cannot be sent any more needs not be: a reply is waited for. */
  (void) send (fd, header, sizeof header, MSG_NOSIGNAL);
  for (uint32_t done = 0; done < length;) {
    ssize_t n = send (fd, buffer + done, length - done, MSG_NOSIGNAL);

    if (n <= 0 && errno != EAGAIN)
      break;
    done += n > 0 ? (uint32_t) n : 0;
  }
  return CHUNK - length;
}

/* Its reply, or its end. */
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

static int
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

/* ---- control ---- */

static int
take_grants (const struct fp_grants *p, int fds[FP_MAX_GRANTS])
{
  int r = 0;

  for (unsigned i = 0; i < p->count; i++) {
    if (r == 0 && nr_grants < MAX_SLABS) {
      grants[nr_grants] = p->grants[i];
      r = ops->import (&remotes[nr_grants], &p->grants[i], fds[i]);
      nr_grants += r == 0;
    }
    if (fds[i] >= 0)
      close (fds[i]);
  }
  return r;
}

static int
grant (unsigned long count)
{
  unsigned long want = nr_grants + count;

  while (nr_grants < want) {
    struct fp_grants p;
    int fds[FP_MAX_GRANTS];
    uint32_t ask = (uint32_t) FP_MIN (want - nr_grants, 64ul);
    int r = fp_ctl_grant (ctl, ask, &p, fds, deadline ());

    if (r == 0)
      r = take_grants (&p, fds);
    if (r < 0)
      return r;
  }
  return 0;
}

static int
grant_all (void)
{
  uint64_t end = deadline ();

  while (!fp_deadline_passed (end)) {
    struct fp_ping_reply p;
    int r = grant (1);

    if (r < 0 && r != -ENOSPC)
      return r;
    if (r == 0)
      continue;
    r = fp_ctl_ping (ctl, &p, deadline ());
    if (r < 0)
      return r;
    if (p.slabs_free == 0)
      return 0;
  }
  return -ETIMEDOUT;
}

static int
list (unsigned long max)
{
  nr_grants = 0;
  for (;;) {
    struct fp_list q = { .start = nr_grants, .max = (uint32_t) max };
    struct fp_grants p;
    int fds[FP_MAX_GRANTS];
    int r = fp_ctl_list (ctl, &q, &p, fds, deadline ());

    if (r < 0 || p.count == 0)
      return r;
    r = take_grants (&p, fds);
    if (r < 0)
      return r;
  }
}

static int
label (uint64_t generation)
{
  for (unsigned i = 0; i < nr_grants;) {
    struct fp_labels q = { .count = 0 };
    int r;

    for (; i < nr_grants && q.count < FP_MAX_GRANTS; i++)
      q.labels[q.count++] = (struct fp_label) { .slab = grants[i].slab,
                                                .piece = i,
                                                .generation = generation };
    r = fp_ctl_label (ctl, &q, deadline ());
    if (r < 0)
      return r;
  }
  return 0;
}

static int
release (void)
{
  for (unsigned i = 0; i < nr_grants;) {
    struct fp_release q = { .count = 0 };
    int r;

    for (; i < nr_grants && q.count < FP_MAX_GRANTS; i++)
      q.slabs[q.count++] = grants[i].slab;
    r = fp_ctl_release (ctl, &q, deadline ());
    if (r < 0)
      return r;
  }
  nr_grants = 0;
  return 0;
}

/* What was released last is still in remotes[0]. */
static int
stale (void)
{
  int r = transfer (FP_OP_READ, 0, 0, 4096);

  if (r == 0)
    return -EBADMSG;
  r = transfer (FP_OP_WRITE, 0, 0, 4096);
  return r == 0 ? -EBADMSG : 0;
}

static int
open_volume (const char *args)
{
  struct fp_open q = { .size = UINT64_C (1) << 40,
                       .slab_size = server.slab_size,
                       .copies = 1 };
  struct fp_open_reply p;
  char flags[8];
  unsigned id;
  int r;

  if (sscanf (args, "%u:%7[cre]:%15s", &id, flags, transport_name) != 3)
    return -EINVAL;
  q.flags = (strchr (flags, 'c') ? FP_OPEN_CREATE : 0) |
            (strchr (flags, 'r') ? FP_OPEN_RESUME : 0) |
            (strchr (flags, 'e') ? FP_OPEN_EPHEMERAL : 0);
  q.transport = fp_transport_by_name (transport_name);
  q.volume.bytes[0] = (uint8_t) (id + 1);
  snprintf (q.name, sizeof q.name, "volume%u", id);
  ops = fp_transport_get (q.transport);
  if (!ops)
    return -EINVAL;
  r = fp_ctl_volume_open (ctl, &q, &p, deadline ());
  if (r < 0)
    return r;
  printf ("resumed=%d labels=%llu\n", p.resumed,
          (unsigned long long) p.labels);
  return connect_data (server.token, server.session);
}

static int
bad_data (const char *what)
{
  uint8_t token[FP_TOKEN_SIZE];
  uint64_t session = server.session;
  int r;

  if (conn) {
    ops->conn_break (conn);
    ops->conn_free (conn);
    ops->queue_free (queue);
    conn = NULL;
  }
  memcpy (token, server.token, sizeof token);
  ops = fp_transport_get (FP_TRANSPORT_TCP);
  if (strcmp (what, "token") == 0)
    token[FP_TOKEN_SIZE - 1] ^= 1;
  else
    session ^= 1;
  r = connect_data (token, session);
  ops->queue_free (queue);
  queue = NULL;
  return r;
}

static int
stat_ (void)
{
  static struct fp_stat_reply p;
  int r = fp_ctl_stat (ctl, &p, deadline ());

  if (r < 0)
    return r;
  printf ("total=%llu free=%llu lent=%llu scrubbing=%llu unpopulated=%llu\n",
          (unsigned long long) p.total, (unsigned long long) p.free,
          (unsigned long long) p.lent, (unsigned long long) p.scrubbing,
          (unsigned long long) p.unpopulated);
  for (unsigned i = 0; i < p.nr_sessions; i++)
    printf ("session client=%s volume=%s slabs=%llu attached=%d\n",
            p.sessions[i].client, p.sessions[i].volume,
            (unsigned long long) p.sessions[i].slabs, p.sessions[i].attached);
  return 0;
}

static int
wait_end (void)
{
  struct pollfd p = { .fd = fp_ctl_fd (ctl), .events = POLLIN };

  return poll (&p, 1, DEADLINE_MS) == 1 ? 0 : -ETIMEDOUT;
}

static _Noreturn void
hang (void)
{
  puts ("hanging");
  fflush (stdout);
  for (;;)
    pause ();
}

static int
hold (void)
{
  char c;

  puts ("hanging");
  fflush (stdout);
  while (read (STDIN_FILENO, &c, 1) > 0)
    ;
  return 0;
}

static int
kept (uint8_t byte)
{
  int r = 0;

  for (unsigned i = 0; r == 0 && i < nr_grants; i++)
    r = check_slab (i, byte, 0, 0);
  return r;
}

static void
scribble (uint8_t byte)
{
  for (unsigned i = 0; i < nr_grants; i++)
    memset (remotes[i].map, byte, remotes[i].length);
}

static int
zero (const char *args)
{
  struct fp_zero q = { .slab = grants[0].slab };
  unsigned long long offset, length;

  if (sscanf (args, "%llu:%llu", &offset, &length) != 2)
    return -EINVAL;
  q.offset = offset;
  q.length = length;
  return fp_ctl_zero (ctl, &q, deadline ());
}

static int
check_zeroed (const char *args)
{
  unsigned long long offset, length;
  unsigned byte;

  if (sscanf (args, "%llu:%llu:%u", &offset, &length, &byte) != 3)
    return -EINVAL;
  return check_slab (0, (uint8_t) byte, offset, offset + length);
}

static int
do_word (const char *word)
{
  const char *args = strchr (word, ':');
  size_t len = args ? (size_t) (args++ - word) : strlen (word);
  unsigned long n = args ? strtoul (args, NULL, 0) : 0;
  struct fp_bye bye = { .discard = false };
  struct fp_ping_reply pong;

#define IS(w) (len == strlen (w) && strncmp (word, w, len) == 0)
  if (IS ("open"))
    return args ? open_volume (args) : -EINVAL;
  if (IS ("grant"))
    return grant (n);
  if (IS ("grant-all"))
    return grant_all ();
  if (IS ("expect-slabs"))
    return nr_grants == n ? 0 : -ERANGE;
  if (IS ("label"))
    return label (n);
  if (IS ("list"))
    return list (n);
  if (IS ("fill"))
    return fill ((uint8_t) n);
  if (IS ("check"))
    return check ((uint8_t) n);
  if (IS ("zero"))
    return args ? zero (args) : -EINVAL;
  if (IS ("check-zeroed"))
    return args ? check_zeroed (args) : -EINVAL;
  if (IS ("release"))
    return release ();
  if (IS ("stale"))
    return stale ();
  if (IS ("replaced"))
    return replaced ();
  if (IS ("late"))
    return late ();
  if (IS ("data"))
    return bad_data (args);
  if (IS ("ping"))
    return fp_ctl_ping (ctl, &pong, deadline ());
  if (IS ("stat"))
    return stat_ ();
  if (IS ("hang"))
    hang ();
  if (IS ("hold"))
    return hold ();
  if (IS ("kept"))
    return kept ((uint8_t) n);
  if (IS ("scribble") && ops->direct) {
    scribble ((uint8_t) n);
    return 0;
  }
  if (IS ("wait-end"))
    return wait_end ();
  bye.discard = IS ("discard");
  if (IS ("bye") || IS ("discard"))
    return fp_ctl_bye (ctl, &bye, deadline ());
#undef IS
  fprintf (stderr, "memclient: no such word: %s\n", word);
  exit (2);
}

static int
errno_by_name (const char *name)
{
  static const struct {
    const char *name;
    int err;
  } names[] = { { "EBUSY", EBUSY },           { "EEXIST", EEXIST },
                { "ENOENT", ENOENT },         { "EINVAL", EINVAL },
                { "ENOSPC", ENOSPC },         { "EPERM", EPERM },
                { "EACCES", EACCES },         { "EPROTO", EPROTO },
                { "EOPNOTSUPP", EOPNOTSUPP }, { "ECONNRESET", ECONNRESET } };

  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp (names[i].name, name) == 0)
      return names[i].err;
  fprintf (stderr, "memclient: no such error: %s\n", name);
  exit (2);
}

static int
run (char *words[])
{
  int expected = 0;

  for (; *words; words++) {
    int r;

    if (strncmp (*words, "fails:", 6) == 0) {
      expected = -errno_by_name (*words + 6);
      continue;
    }
    r = do_word (*words);
    if (r != expected) {
      fprintf (stderr, "memclient: %s: expected '%s', got '%s': %s\n", *words,
               strerror (-expected), strerror (-r), fp_ctl_why (ctl));
      return -1;
    }
    if (r < 0)
      printf ("%s: %s\n", *words, fp_ctl_why (ctl));
    expected = 0;
  }
  return 0;
}

int
main (int argc, char *argv[])
{
  struct fp_hello hello = { .version_min = FP_VERSION,
                            .version_max = FP_VERSION,
                            .transports = FP_TRANSPORT_WIRE_MASK };
  const char *why, *uuid = getenv ("MEMCLIENT_UUID");
  int r;

  if (argc < 3 || fp_addr_parse (&addr, argv[1], &why) < 0) {
    fprintf (stderr, "usage: memclient ADDR NAME WORD...\n");
    return 2;
  }
  buffer = aligned_alloc (4096, CHUNK);
  if (!buffer)
    return 1;
  snprintf (hello.name, sizeof hello.name, "%s", argv[2]);
  r = uuid ? fp_uuid_parse (&hello.client, uuid)
           : fp_uuid_generate (&hello.client);
  if (r == 0)
    r = fp_ctl_open (&ctl, &addr, deadline ());
  if (r < 0) {
    fprintf (stderr, "memclient: %s: %s\n", argv[1], strerror (-r));
    return 1;
  }
  r = fp_ctl_hello (ctl, &hello, &server, deadline ());
  if (r < 0)
    return say (r, "HELLO") ? 1 : 0;
  r = run (argv + 3);
  if (conn) {
    ops->conn_break (conn);
    ops->conn_free (conn);
  }
  if (queue)
    ops->queue_free (queue);
  fp_ctl_free (ctl);
  free (buffer);
  return r < 0 ? 1 : 0;
}
