/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_stream.c - see tcp_stream.h. */

#include <config.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/checked.h"
#include "proto/messages.h"
#include "transport/tcp/tcp_stream.h"

#define LARGE 16384 /* bytes; a READ this large is received without a copy */
#define BATCH 32    /* requests in one sendmsg at most */

void
fp_tcp_stream_init (struct fp_tcp_stream *s, int fd, uint8_t *buf)
{
  s->fd = fd;
  s->buf = buf;
  fp_op_list_init (&s->to_send);
  fp_op_list_init (&s->to_answer);
}

/* Do as sendmsg and recvmsg, with or without TLS, but return -errno. */
static ssize_t
stream_send (struct fp_tcp_stream *s, const struct msghdr *msg)
{
  ssize_t r;

  if (s->tls != NULL)
    return fp_tls_send (s->tls, msg->msg_iov, msg->msg_iovlen);
  do
    r = sendmsg (s->fd, msg, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (r == -1 && errno == EINTR);
  return r == -1 ? -errno : r;
}

static ssize_t
stream_receive (struct fp_tcp_stream *s, struct msghdr *msg)
{
  ssize_t r;

  if (s->tls != NULL)
    return fp_tls_recv (s->tls, msg->msg_iov, msg->msg_iovlen);
  do
    r = recvmsg (s->fd, msg, MSG_DONTWAIT);
  while (r == -1 && errno == EINTR);
  return r == -1 ? -errno : r;
}

static size_t
frame_size (const struct fp_op *op)
{
  return FP_DATA_REQ_SIZE + (op->kind == FP_OP_WRITE ? op->length : 0);
}

int
fp_tcp_stream_send (struct fp_tcp_stream *s)
{
  while (s->to_send.head != NULL) {
    uint8_t header[BATCH][FP_DATA_REQ_SIZE];
    struct iovec iov[2 * BATCH];
    struct msghdr msg = { .msg_iov = iov };
    size_t skip = s->sent, total = 0;
    unsigned n = 0;
    ssize_t r;

    for (struct fp_op *op = s->to_send.head; op != NULL && n < BATCH;
         op = op->next, n++) {
      const struct fp_data_req q = { .op = op->kind == FP_OP_READ
                                               ? FP_DATA_READ
                                               : FP_DATA_WRITE,
                                     .cookie = op->cookie,
                                     .length = op->length,
                                     .rkey = op->rkey,
                                     .raddr = op->raddr };

      fp_data_req_encode (header[n], &q);
      iov[msg.msg_iovlen++] = (struct iovec) { header[n], FP_DATA_REQ_SIZE };
      if (op->kind == FP_OP_WRITE)
        iov[msg.msg_iovlen++] = (struct iovec) { op->local, op->length };
      total += frame_size (op);
    }
    total -= skip;
    while (skip >= msg.msg_iov->iov_len) { /* skip is less than one frame */
      skip -= msg.msg_iov->iov_len;
      msg.msg_iov++;
      msg.msg_iovlen--;
    }
    msg.msg_iov->iov_base = (uint8_t *) msg.msg_iov->iov_base + skip;
    msg.msg_iov->iov_len -= skip;

    /* After -EAGAIN the next call builds the same bytes again, as fp_tls_send
     * requires.
     */
    r = stream_send (s, &msg);
    if (r < 0)
      return (int) r;
    s->sent += (size_t) r;
    while (s->to_send.head != NULL &&
           s->sent >= frame_size (s->to_send.head)) {
      s->sent -= frame_size (s->to_send.head);
      fp_op_list_add (&s->to_answer, fp_op_list_take (&s->to_send));
    }
    if ((size_t) r < total)
      return -EAGAIN;
  }
  return 0;
}

static void
answered (struct fp_tcp_stream *s, struct fp_op_list *done, unsigned *nr,
          int status)
{
  struct fp_op *op = fp_op_list_take (&s->to_answer);

  op->status = status;
  fp_op_list_add (done, op);
  ++*nr;
}

/* Handle the buffered replies.  Return -EPROTO if they do not match the
 * requests.
 */
static int
parse (struct fp_tcp_stream *s, struct fp_op_list *done, unsigned *nr)
{
  for (;;) {
    struct fp_op *op = s->to_answer.head;
    size_t have = s->end - s->pos;

    if (have == 0)
      return 0;
    if (op == NULL)
      return -EPROTO;
    if (s->in_payload) {
      size_t n = FP_MIN (have, op->length - s->received);

      memcpy ((uint8_t *) op->local + s->received, s->buf + s->pos, n);
      s->pos += n;
      s->received += n;
      if (s->received < op->length)
        return 0;
      s->in_payload = false;
      answered (s, done, nr, 0);
    }
    else {
      struct fp_data_reply p;

      if (have < FP_DATA_REPLY_SIZE)
        return 0;
      if (fp_data_reply_decode (&p, s->buf + s->pos) < 0 ||
          p.cookie != op->cookie)
        return -EPROTO;
      s->pos += FP_DATA_REPLY_SIZE;
      if (p.status != FP_STATUS_OK)
        answered (s, done, nr, fp_status_to_errno (p.status));
      else if (p.length != (op->kind == FP_OP_READ ? op->length : 0))
        return -EPROTO;
      else if (op->kind == FP_OP_READ) {
        s->in_payload = true;
        s->received = 0;
      }
      else
        answered (s, done, nr, 0);
    }
  }
}

/* Return how many bytes of replies to receive into the buffer, up to and
 * including the header of the next large READ.  With skip_first, count from
 * behind the first op, whose payload goes elsewhere.
 */
static size_t
buffer_want (const struct fp_tcp_stream *s, bool skip_first)
{
  const struct fp_op *op = s->to_answer.head;
  size_t want = 0;

  if (skip_first)
    op = op->next;
  for (; op != NULL && want < FP_TCP_STREAM_BUFFER; op = op->next) {
    want += FP_DATA_REPLY_SIZE;
    if (op->kind == FP_OP_READ) {
      if (op->length >= LARGE)
        break;
      want += op->length;
    }
  }
  return FP_MIN (want, (size_t) FP_TCP_STREAM_BUFFER);
}

static int
receive (struct fp_tcp_stream *s, struct fp_op_list *done, unsigned *nr)
{
  bool more = true;

  while (more) {
    struct iovec iov[2];
    struct msghdr msg = { .msg_iov = iov };
    struct fp_op *op = s->to_answer.head;
    size_t direct = 0, want, asked;
    ssize_t r;
    int ret;

    if (s->in_payload) { /* the buffer is empty here */
      direct = op->length - s->received;
      iov[msg.msg_iovlen++] =
          (struct iovec) { (uint8_t *) op->local + s->received, direct };
      s->pos = s->end = 0;
    }
    else if (s->pos > 0) { /* only part of a header is left */
      memmove (s->buf, s->buf + s->pos, s->end - s->pos);
      s->end -= s->pos;
      s->pos = 0;
    }
    /* If no reply is due, ask for one byte, to detect a hang-up or a
     * violation.
     */
    want = op == NULL ? 1 : buffer_want (s, s->in_payload);
    asked = direct + want - s->end;
    if (want > s->end)
      iov[msg.msg_iovlen++] =
          (struct iovec) { s->buf + s->end, want - s->end };

    r = stream_receive (s, &msg);
    if (r == -EAGAIN)
      return 0;
    if (r <= 0)
      return r == 0 ? -ECONNRESET : (int) r;
    if (direct > 0) {
      size_t n = FP_MIN ((size_t) r, direct);

      s->received += n;
      if (n == direct) {
        s->in_payload = false;
        answered (s, done, nr, 0);
      }
      s->end = (size_t) r - n;
    }
    else
      s->end += (size_t) r;
    ret = parse (s, done, nr);
    if (ret < 0)
      return ret;
    /* A short read means that the socket is empty for now. */
    more = (size_t) r == asked && s->to_answer.head != NULL;
  }
  return 0;
}

int
fp_tcp_stream_receive (struct fp_tcp_stream *s, struct fp_op_list *done,
                       unsigned *nr)
{
  int r;

  memcpy (s->buf, s->rest, s->end);
  r = receive (s, done, nr);
  /* Keep a partial header, unless the stream has failed. */
  s->end = r < 0 ? 0 : s->end - s->pos;
  memcpy (s->rest, s->buf + s->pos, s->end);
  s->pos = 0;
  return r;
}
