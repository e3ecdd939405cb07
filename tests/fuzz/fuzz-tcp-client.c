/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-tcp-client.c - replies of a server on a TCP data connection, as the
 * client reads them (fp_tcp_stream).  The fake network here gives and takes as
 * few bytes at a time as the input says.
 *
 * Input is `pieces` (1), the number of requests (1), a byte for each request,
 * and steps.
 *   - `pieces`: how replies come in, 0 = as much as there is room for; with
 *     bit 7, requests go out in these pieces, too
 *   - a request: its length, and bit 7 for WRITE; long ones, from 96 on, are
 *     received without a copy
 *
 * A step is `what` (1).  With bit 7, raw bytes follow, as length (2), bytes.
 * Else the reply to the next request is made.  Other bits of `what`:
 *   - bits 0-3: status of the reply
 *   - bit 4: with another cookie
 *   - bit 5: of another length
 *   - bit 6: receive now
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/checked.h"
#include "fuzz.h"
#include "transport/tcp/tcp_stream.h"

const char fuzz_name[] = "fuzz-tcp-client";
const unsigned fuzz_runs = 30000;

#define SOCKET 4000 /* not a real descriptor */
#define MAX_OPS 40u
#define LENGTH_MAX (1 + 127 * 257u)
#define ROOM (LENGTH_MAX + FUZZ_FENCE)
#define PAYLOAD 0x5a
#define SMALL 60u    /* small pieces per input; then all there is */
#define SMALL_OUT 6u /* fewer: each one rebuilds the requests left */
#define QUEUE (1u << 20)

static struct fp_op ops[MAX_OPS];
static uint8_t *buffer, *memory;
static unsigned nr_done;
static bool done[MAX_OPS];

static struct wire {
  uint8_t answers[QUEUE];
  size_t sent, taken; /* by the server; by the client */
  bool hung_up;
  bool dry; /* EAGAIN was returned since the last byte */
  uint64_t dice;
  unsigned pieces, small, small_out;

  unsigned nr_asked; /* requests that have come in whole */
  size_t at, end;    /* bytes of the current request; its size */
  uint8_t header[FP_DATA_REQ_SIZE];
} wire;

/* ---- the network ---- */

ssize_t __wrap_recvmsg (int fd, struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg (int fd, const struct msghdr *msg, int flags);

static size_t
some (size_t most, unsigned *small)
{
  unsigned how = wire.pieces & 0x7f;

  if (how == 0 || most <= 1 || *small == 0)
    return most;
  --*small;
  wire.dice = wire.dice * UINT64_C (6364136223846793005) + 1442695040888963407;
  return FP_MIN (most,
                 1 + (size_t) (wire.dice >> 33) % ((size_t) 1 << (how % 17)));
}

ssize_t
__wrap_recvmsg (int fd, struct msghdr *msg, int flags)
{
  size_t n = 0, most = 0;

  FUZZ_CHECK (fd == SOCKET && msg->msg_iovlen > 0 && flags & MSG_DONTWAIT);
  for (size_t i = 0; i < msg->msg_iovlen; i++)
    most += msg->msg_iov[i].iov_len;
  FUZZ_CHECK (most > 0);
  most = FP_MIN (most, wire.sent - wire.taken);
  if (most == 0 && wire.hung_up)
    return 0;
  if (most == 0) {
    FUZZ_CHECK (!wire.dry); /* the client does not retry by itself */
    wire.dry = true;
    errno = EAGAIN;
    return -1;
  }
  most = some (most, &wire.small);
  for (size_t i = 0; n < most; i++) {
    size_t part = FP_MIN (most - n, msg->msg_iov[i].iov_len);

    memcpy (msg->msg_iov[i].iov_base, wire.answers + wire.taken, part);
    wire.taken += part;
    n += part;
  }
  return (ssize_t) n;
}

/* Check that these bytes continue the requests, whole and in order. */
static void
look (const uint8_t *p, size_t n)
{
  while (n > 0) {
    const struct fp_op *op = &ops[wire.nr_asked];
    struct fp_data_req q;
    size_t part;

    FUZZ_CHECK (wire.nr_asked < MAX_OPS && op->local != NULL);
    if (wire.at < sizeof wire.header) {
      part = FP_MIN (n, sizeof wire.header - wire.at);
      memcpy (wire.header + wire.at, p, part);
      if (wire.at + part == sizeof wire.header) {
        FUZZ_CHECK (fp_data_req_decode (&q, wire.header) == 0);
        FUZZ_CHECK (q.cookie == op->cookie && q.length == op->length &&
                    (q.op == FP_DATA_WRITE) == (op->kind == FP_OP_WRITE));
      }
    }
    else {
      part = FP_MIN (n, wire.end - wire.at);
      FUZZ_CHECK (p == (uint8_t *) op->local + wire.at - sizeof wire.header);
    }
    wire.end = sizeof wire.header +
               (op->kind == FP_OP_WRITE ? (size_t) op->length : 0);
    p += part;
    n -= part;
    wire.at += part;
    if (wire.at == wire.end) {
      wire.nr_asked++;
      wire.at = 0;
    }
  }
}

ssize_t
__wrap_sendmsg (int fd, const struct msghdr *msg, int flags)
{
  size_t n = 0, most = 0;

  FUZZ_CHECK (fd == SOCKET && msg->msg_iovlen > 0);
  FUZZ_CHECK (flags & MSG_NOSIGNAL && flags & MSG_DONTWAIT);
  for (size_t i = 0; i < msg->msg_iovlen; i++)
    most += msg->msg_iov[i].iov_len;
  if (wire.pieces & 0x80)
    most = some (most, &wire.small_out);
  for (size_t i = 0; n < most; i++) {
    size_t part = FP_MIN (most - n, msg->msg_iov[i].iov_len);

    look (msg->msg_iov[i].iov_base, part);
    n += part;
  }
  return (ssize_t) n;
}

static void
push (const void *data, size_t n)
{
  n = FP_MIN (n, QUEUE - wire.sent);
  memcpy (wire.answers + wire.sent, data, n);
  wire.sent += n;
  if (n > 0)
    wire.dry = false;
}

/* ---- the client ---- */

static int
receive (struct fp_tcp_stream *s)
{
  struct fp_op_list list;
  unsigned nr = 0, counted = 0;
  int r;

  fp_op_list_init (&list);
  wire.dry = false;
  r = fp_tcp_stream_receive (s, &list, &nr);
  FUZZ_CHECK (r <= 0);
  for (struct fp_op *op = list.head; op; op = op->next) {
    FUZZ_CHECK (!done[op - ops] && op->status <= 0);
    done[op - ops] = true;
    counted++;
  }
  FUZZ_CHECK (counted == nr);
  nr_done += nr;
  return r;
}

/* Send a reply to op, the next one to be answered. */
static void
answer (const struct fp_op *op, unsigned what)
{
  static uint8_t payload[LENGTH_MAX + 1];
  struct fp_data_reply p = { .cookie = op->cookie, .status = what & 15 };
  uint8_t header[FP_DATA_REPLY_SIZE];

  if (op->kind == FP_OP_READ && p.status == FP_STATUS_OK)
    p.length = op->length;
  if (what & 0x20)
    p.length++;
  if (what & 0x10)
    p.cookie++;
  fp_data_reply_encode (header, &p);
  push (header, sizeof header);
  if (payload[0] == 0)
    memset (payload, PAYLOAD, sizeof payload);
  push (payload, p.length);
}

static uint32_t
length_of (uint32_t n)
{
  return n < 96 ? 1 + n * 5 : 1 + n * 257;
}

static unsigned
begin (struct fp_tcp_stream *s, struct fuzz_input *in)
{
  unsigned n;

  wire.pieces = (unsigned) fuzz_take (in, 1);
  wire.dice = wire.pieces;
  wire.small = SMALL;
  wire.small_out = SMALL_OUT;
  wire.sent = wire.taken = wire.at = 0;
  wire.nr_asked = 0;
  wire.hung_up = false;
  n = (unsigned) fuzz_take (in, 1) % (MAX_OPS + 1);
  nr_done = 0;
  memset (done, 0, sizeof done);
  memset (ops, 0, sizeof ops);
  fp_tcp_stream_init (s, SOCKET, buffer);
  for (unsigned i = 0; i < n; i++) {
    unsigned what = (unsigned) fuzz_take (in, 1);

    ops[i] = (struct fp_op) { .kind = what & 0x80 ? FP_OP_WRITE : FP_OP_READ,
                              .length = length_of (what & 0x7f),
                              .cookie = i };
    ops[i].local = memory + i * ROOM;
    memory[i * ROOM] = memory[i * ROOM + ops[i].length - 1] = 0;
    fuzz_fence (memory + i * ROOM + ops[i].length, FUZZ_FENCE);
    fp_op_list_add (&s->to_send, &ops[i]);
  }
  return n;
}

/* Check the state at the end.  right: the server sent only valid replies, as
 * raw bytes may say anything.
 */
static void
check_end (const struct fp_tcp_stream *s, unsigned n, bool right)
{
  unsigned left = 0;

  /* Ops that were not answered are still on a list of the stream. */
  for (struct fp_op *op = s->to_answer.head; op; op = op->next, left++)
    FUZZ_CHECK (!done[op - ops]);
  for (struct fp_op *op = s->to_send.head; op; op = op->next, left++)
    FUZZ_CHECK (!done[op - ops]);
  FUZZ_CHECK (nr_done + left == n);
  for (unsigned i = 0; right && i < n; i++) {
    const uint8_t *p = ops[i].local;

    if (ops[i].kind == FP_OP_READ && done[i] && ops[i].status == 0)
      FUZZ_CHECK (p[0] == PAYLOAD && p[ops[i].length - 1] == PAYLOAD);
  }
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz_input in = { data, size };
  struct fp_tcp_stream s = { .fd = -1 };
  unsigned next = 0, n, answered;
  bool right = true;
  int r;

  if (!buffer) {
    buffer = malloc (FP_TCP_STREAM_BUFFER);
    memory = calloc (MAX_OPS, ROOM);
  }
  FUZZ_CHECK (buffer && memory);
  n = begin (&s, &in);
  do
    r = fp_tcp_stream_send (&s);
  while (r == -EAGAIN);
  FUZZ_CHECK (r == 0 && wire.nr_asked == n && wire.at == 0);
  while (r == 0 && in.left > 0) {
    unsigned what = (unsigned) fuzz_take (&in, 1);

    if (what & 0x80) {
      size_t bytes = (size_t) fuzz_take (&in, 2);
      const uint8_t *p = fuzz_take_bytes (&in, &bytes);

      push (p, bytes);
      right = right && bytes == 0;
    }
    else if (next < n) {
      answer (&ops[next++], what);
      right = right && (what & 0x30) == 0 && wire.sent < QUEUE;
    }
    if (what & 0x40)
      r = receive (&s);
  }
  answered = next;
  while (r == 0 && wire.taken < wire.sent)
    r = receive (&s);
  wire.hung_up = true;
  if (r == 0) {
    r = receive (&s);
    FUZZ_CHECK (r < 0);
  }
  check_end (&s, n, right);
  /* a reply with an error has no payload, so nothing is left over */
  if (right)
    FUZZ_CHECK (nr_done <= answered);
  for (unsigned i = 0; i < n; i++)
    fuzz_unfence ((uint8_t *) ops[i].local + ops[i].length, FUZZ_FENCE);
  return 0;
}

size_t
fuzz_seed (unsigned nr, uint8_t *out)
{
  static const uint8_t ways[] = { 0, 1, 0x83, 14, 0x8b };
  static const uint8_t seeds[][16] = {
    /* small, large, WRITE; all answered, in one go or one by one */
    { 3, 1, 100, 0x81, 0, 0, 0 },
    { 3, 1, 100, 0x81, 0x40, 0x40, 0x40 },
    /* an error in between */
    { 4, 1, 100, 100, 0x81, 0x40, 0x48, 0, 0x48 },
    /* a wrong length, a wrong cookie */
    { 2, 1, 100, 0x40, 0x60 },
    { 2, 1, 100, 0x40, 0x50 },
    /* half a header, then the end; a reply without a request */
    { 1, 3, 0xc0, 0, 5, 'F', 'P', 'g', 'R', 0 },
    { 0, 0x80, 0, 4, 'F', 'P', 'g', 'R' },
  };
  const unsigned nr_seeds = sizeof seeds / sizeof seeds[0];

  out[0] = ways[nr % sizeof ways];
  nr /= sizeof ways;
  if (nr < nr_seeds) {
    memcpy (out + 1, seeds[nr], sizeof seeds[nr]);
    return 1 + sizeof seeds[nr];
  }
  if (nr > nr_seeds)
    return 0;
  out[1] = MAX_OPS;
  for (unsigned i = 0; i < MAX_OPS; i++) {
    out[2 + i] = (uint8_t) (i % 3 == 2 ? 0x80 + i : i);
    out[2 + MAX_OPS + i] = i % 5 ? 0 : 0x40;
  }
  return 2 + 2 * MAX_OPS;
}
