/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-tcp-client.c - what a server answers on a tcp data connection, as the
 * client reads it (fp_tcp_stream).
 *
 *   number of requests (1), then for each its kind (bit 7: WRITE) and length
 *   (1): small ones, and from 96 on such as are received without a copy
 *   steps of: what (1): bit 7: raw bytes follow, else the reply to the next
 *             request is made, with status bits 0-3; bit 6: receive now;
 *             bit 5: of another length; bit 4: with another cookie
 *   raw: length (2), bytes
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "fuzz.h"
#include "transport/tcp_stream.h"

const char fuzz_name[] = "fuzz-tcp-client";
const unsigned fuzz_runs = 10000;

#define MAX_OPS 40u

static struct fp_op ops[MAX_OPS];
static uint8_t *buffer;
static unsigned nr_done;
static bool done[MAX_OPS];

static int
receive (struct fp_tcp_stream *s)
{
  struct fp_op_list list;
  unsigned nr = 0, counted = 0;
  int r;

  fp_op_list_init (&list);
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

static void
push (int fd, const void *data, size_t n)
{
  (void) send (fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A reply to the op that is the next one to be answered. */
static void
answer (int fd, const struct fp_op *op, unsigned what)
{
  static const uint8_t payload[64 << 10];
  struct fp_data_reply p = { .cookie = op->cookie, .status = what & 15 };
  uint8_t header[FP_DATA_REPLY_SIZE];

  if (op->kind == FP_OP_READ && p.status == FP_STATUS_OK)
    p.length = op->length;
  if (what & 0x20)
    p.length++;
  if (what & 0x10)
    p.cookie++;
  fp_data_reply_encode (header, &p);
  push (fd, header, sizeof header);
  if (p.length > 0 && p.length <= sizeof payload)
    push (fd, payload, p.length);
}

static uint32_t
length_of (uint32_t n)
{
  return n < 96 ? 1 + n * 5 : 1 + n * 257;
}

static int
begin (struct fp_tcp_stream *s, int fd, struct fuzz_input *in)
{
  unsigned n = (unsigned) fuzz_take (in, 1) % (MAX_OPS + 1);

  nr_done = 0;
  memset (done, 0, sizeof done);
  fp_tcp_stream_init (s, fd, buffer);
  for (unsigned i = 0; i < n; i++) {
    unsigned what = (unsigned) fuzz_take (in, 1);

    ops[i] = (struct fp_op) { .kind = what & 0x80 ? FP_OP_WRITE : FP_OP_READ,
                              .length = length_of (what & 0x7f),
                              .cookie = i };
    ops[i].local = malloc (ops[i].length);
    FUZZ_CHECK (ops[i].local != NULL);
    fp_op_list_add (&s->to_send, &ops[i]);
  }
  return (int) n;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz_input in = { data, size };
  struct fp_tcp_stream s = { .fd = -1 };
  static const int room = 4 << 20;
  int sv[2], r = 0, n;
  unsigned next = 0;

  if (!buffer)
    buffer = malloc (FP_TCP_STREAM_BUFFER);
  FUZZ_CHECK (buffer != NULL);
  FUZZ_CHECK (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
  (void) setsockopt (sv[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  (void) setsockopt (sv[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  n = begin (&s, sv[0], &in);
  r = fp_tcp_stream_send (&s);
  while ((r == 0 || r == -EAGAIN) && in.left > 0) {
    unsigned what = (unsigned) fuzz_take (&in, 1);

    if (what & 0x80) {
      size_t bytes = (size_t) fuzz_take (&in, 2);
      const uint8_t *p = fuzz_take_bytes (&in, &bytes);

      push (sv[1], p, bytes);
    }
    else if (next < (unsigned) n)
      answer (sv[1], &ops[next++], what);
    if (what & 0x40)
      r = receive (&s);
  }
  if (r == 0 || r == -EAGAIN)
    r = receive (&s);
  close (sv[1]);
  if (r == 0 || r == -EAGAIN)
    r = receive (&s);
  /* What was not answered is still on a list, for who owns the stream. */
  for (struct fp_op *op = s.to_answer.head; op; op = op->next)
    FUZZ_CHECK (!done[op - ops] && ++nr_done <= (unsigned) n);
  for (struct fp_op *op = s.to_send.head; op; op = op->next)
    FUZZ_CHECK (!done[op - ops] && ++nr_done <= (unsigned) n);
  FUZZ_CHECK (nr_done == (unsigned) n);
  close (sv[0]);
  for (int i = 0; i < n; i++)
    free (ops[i].local);
  return 0;
}

size_t
fuzz_seed (unsigned nr, uint8_t *out)
{
  static const uint8_t seeds[][16] = {
    /* small, large, WRITE; all answered, in one go or one by one */
    { 3, 1, 100, 0x81, 0, 0, 0 },
    { 3, 1, 100, 0x81, 0x40, 0x40, 0x40 },
    /* an error between */
    { 4, 1, 100, 100, 0x81, 0x40, 0x48, 0, 0x48 },
    /* another length, another cookie */
    { 2, 1, 100, 0x40, 0x60 },
    { 2, 1, 100, 0x40, 0x50 },
    /* half a header, then no more; and what nobody asked for */
    { 1, 3, 0xc0, 0, 5, 'F', 'P', 'g', 'R', 0 },
    { 0, 0x80, 0, 4, 'F', 'P', 'g', 'R' },
  };

  if (nr < sizeof seeds / sizeof seeds[0]) {
    memcpy (out, seeds[nr], sizeof seeds[nr]);
    return sizeof seeds[nr];
  }
  if (nr > sizeof seeds / sizeof seeds[0])
    return 0;
  out[0] = MAX_OPS;
  for (unsigned i = 0; i < MAX_OPS; i++) {
    out[1 + i] = (uint8_t) (i % 3 == 2 ? 0x80 + i : i);
    out[1 + MAX_OPS + i] = i % 5 ? 0 : 0x40;
  }
  return 1 + 2 * MAX_OPS;
}
