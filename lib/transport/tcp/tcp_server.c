/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_server.c - answer the frames of one tcp data connection.
 *
 * Requests are read through a buffer that may hold many of them.  Bytes of a
 * large WRITE that are not in the buffer go straight into the slab.  READ
 * replies are sent from the slab itself.  They are collected while more
 * complete requests are buffered, so that many small requests share two system
 * calls.
 *
 * Frames are handled in the order of arrival, but a WRITE may change a slab
 * before the reply to an earlier READ is sent.  So frames in flight together
 * are not ordered.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/tsan.h"
#include "proto/messages.h"
#include "transport/tcp/tcp_server.h"

#define BUFFER 32768 /* bytes; on the thread's stack, which is small */
#define BATCH 32     /* replies collected at most */
#define BATCH_BYTES (1u << 20)
#define LARGE 16384 /* bytes; larger WRITEs avoid a copy */

struct server {
  int fd;
  struct fp_tls_session *tls; /* NULL: no encryption */
  const struct fp_tcp_memory *memory;
  unsigned stall_ms;
  bool expect_large; /* last frame was large: read the next header alone */

  /* Range of buf that is received but not handled: [pos, end). */
  size_t pos, end;

  /* Collected replies, not yet sent. */
  unsigned nr, nr_iov;
  size_t bytes;
  void *hold[BATCH]; /* NULL: nothing to put */
  struct iovec iov[2 * BATCH];
  uint8_t header[BATCH][FP_DATA_REPLY_SIZE];

  uint8_t buf[BUFFER];
};

static int
wait_for (const struct server *s, short events, uint64_t deadline_ns)
{
  struct pollfd p = { .fd = s->fd, .events = events };

  for (;;) {
    int ms = deadline_ns != 0 ? fp_deadline_left_ms (deadline_ns) : -1;
    int n;

    if (ms == 0)
      return -ETIMEDOUT;
    n = poll (&p, 1, ms);
    if (n > 0)
      return 0;
    if (n == -1 && errno != EINTR)
      return -errno;
  }
}

/* Receive at least one byte into iov.  If deadline_ns is 0, wait without
 * limit: between frames a client may stay silent, and shutdown(2) ends the
 * wait.
 */
static ssize_t
receive (struct server *s, struct iovec *iov, size_t nr, uint64_t deadline_ns)
{
  struct msghdr msg = { .msg_iov = iov, .msg_iovlen = nr };

  for (;;) {
    ssize_t r;

    if (s->tls != NULL)
      r = fp_tls_recv (s->tls, iov, nr);
    else {
      r = recvmsg (s->fd, &msg, deadline_ns ? MSG_DONTWAIT : 0);
      r = r == -1 ? -errno : r;
    }
    if (r > 0)
      return r;
    if (r == 0)
      return -ECONNRESET;
    if (r == -EAGAIN) {
      int ret = wait_for (s, POLLIN, deadline_ns);
      if (ret < 0)
        return ret;
    }
    else if (r != -EINTR)
      return r;
  }
}

static void
put_all (struct server *s)
{
  for (unsigned i = 0; i < s->nr; i++)
    if (s->hold[i] != NULL)
      s->memory->put (s->memory->ctx, s->hold[i]);
  s->nr = s->nr_iov = 0;
  s->bytes = 0;
}

/* Send the collected replies. */
static int
flush (struct server *s)
{
  struct msghdr msg = { .msg_iov = s->iov, .msg_iovlen = s->nr_iov };
  uint64_t deadline;
  int ret = 0;

  if (s->nr == 0)
    return 0;
  deadline = fp_deadline_in_ms (s->stall_ms);
  while (msg.msg_iovlen > 0) {
    ssize_t r;

    if (s->tls != NULL)
      r = fp_tls_send (s->tls, msg.msg_iov, msg.msg_iovlen);
    else {
      r = sendmsg (s->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
      r = r == -1 ? -errno : r;
    }
    if (r < 0) {
      if (r == -EINTR)
        continue;
      ret = r == -EAGAIN ? wait_for (s, POLLOUT, deadline) : (int) r;
      if (ret < 0)
        break;
      continue;
    }
    while (r > 0) {
      size_t n = FP_MIN ((size_t) r, msg.msg_iov->iov_len);

      msg.msg_iov->iov_base = (uint8_t *) msg.msg_iov->iov_base + n;
      msg.msg_iov->iov_len -= n;
      r -= (ssize_t) n;
      if (msg.msg_iov->iov_len == 0) {
        msg.msg_iov++;
        msg.msg_iovlen--;
      }
    }
  }
  put_all (s);
  return ret;
}

/* Add a reply.  Takes over hold, also on failure. */
static int
reply (struct server *s, const struct fp_data_req *q, uint32_t status,
       void *data, void *hold)
{
  const struct fp_data_reply p = { .cookie = q->cookie,
                                   .status = status,
                                   .length = data != NULL ? q->length : 0 };

  fp_data_reply_encode (s->header[s->nr], &p);
  s->iov[s->nr_iov++] =
      (struct iovec) { s->header[s->nr], FP_DATA_REPLY_SIZE };
  if (data != NULL)
    s->iov[s->nr_iov++] = (struct iovec) { data, p.length };
  s->hold[s->nr++] = hold;
  s->bytes += FP_DATA_REPLY_SIZE + p.length;
  if (s->nr == BATCH || s->bytes >= BATCH_BYTES)
    return flush (s);
  return 0;
}

static int
handle_read (struct server *s, const struct fp_data_req *q)
{
  void *hold = NULL;
  void *data = s->memory->get (s->memory->ctx, q->rkey, q->raddr, q->length,
                               false, &hold);

  return reply (s, q, data != NULL ? FP_STATUS_OK : FP_STATUS_PERM, data,
                data != NULL ? hold : NULL);
}

/* Receive the payload of a WRITE into data: first the buffered part, then the
 * rest from the socket.  If data is NULL (the WRITE was refused), discard it.
 */
static int
take_payload (struct server *s, uint8_t *data, size_t length)
{
  size_t n = FP_MIN (length, s->end - s->pos);
  uint64_t deadline = 0;
  int ret;

  if (data != NULL) {
    fp_tsan_client_orders_begin ();
    memcpy (data, s->buf + s->pos, n);
    fp_tsan_client_orders_end ();
  }
  s->pos += n;
  if (n == length)
    return 0;

  /* The client may wait for these replies before it sends more. */
  ret = flush (s);
  if (ret < 0)
    return ret;
  /* One deadline covers the whole payload: the slab is held meanwhile. */
  deadline = fp_deadline_in_ms (s->stall_ms);
  while (n < length) {
    struct iovec iov[2];
    size_t left = length - n;
    size_t over = length >= LARGE ? FP_DATA_REQ_SIZE : BUFFER;
    ssize_t r;

    if (data != NULL) {
      iov[0] = (struct iovec) { data + n, left };
      iov[1] = (struct iovec) { s->buf, over };
      fp_tsan_client_orders_begin ();
      r = receive (s, iov, 2, deadline);
      fp_tsan_client_orders_end ();
    }
    else {
      iov[0] = (struct iovec) { s->buf, FP_MIN (left, (size_t) BUFFER) };
      r = receive (s, iov, 1, deadline);
    }
    if (r < 0)
      return (int) r;
    s->pos = 0;
    s->end = (size_t) r > left ? (size_t) r - left : 0;
    n += FP_MIN ((size_t) r, left);
    /* While a client sends steadily, receive never times out. */
    if (n < length && fp_deadline_passed (deadline))
      return -ETIMEDOUT;
  }
  return 0;
}

static int
handle_write (struct server *s, const struct fp_data_req *q)
{
  void *hold = NULL;
  void *data = s->memory->get (s->memory->ctx, q->rkey, q->raddr, q->length,
                               true, &hold);
  int ret = take_payload (s, data, q->length);

  if (data != NULL && hold != NULL)
    s->memory->put (s->memory->ctx, hold);
  if (ret < 0)
    return ret;
  return reply (s, q, data != NULL ? FP_STATUS_OK : FP_STATUS_PERM, NULL,
                NULL);
}

/* Get one complete request header into the buffer.  Return 0 if it is there, 1
 * if the client hung up between two frames.
 */
static int
take_header (struct server *s)
{
  uint64_t deadline = 0;
  int ret;

  if (s->end - s->pos >= FP_DATA_REQ_SIZE)
    return 0;
  ret = flush (s);
  if (ret < 0)
    return ret;

  memmove (s->buf, s->buf + s->pos, s->end - s->pos);
  s->end -= s->pos;
  s->pos = 0;
  while (s->end < FP_DATA_REQ_SIZE) {
    size_t want = s->expect_large ? FP_DATA_REQ_SIZE : BUFFER;
    struct iovec iov = { s->buf + s->end, want - s->end };
    ssize_t r;

    if (s->end > 0 && deadline == 0)
      deadline = fp_deadline_in_ms (s->stall_ms);
    r = receive (s, &iov, 1, deadline);
    if (r == -ECONNRESET && s->end == 0)
      return 1;
    if (r < 0)
      return (int) r;
    s->end += (size_t) r;
  }
  return 0;
}

static int
serve (struct server *s)
{
  for (;;) {
    struct fp_data_req q;
    int ret = take_header (s);

    if (ret != 0)
      return ret < 0 ? ret : 0;
    if (fp_data_req_decode (&q, s->buf + s->pos) < 0)
      return -EPROTO;
    s->pos += FP_DATA_REQ_SIZE;
    s->expect_large = q.op == FP_DATA_WRITE && q.length >= LARGE;
    ret = q.op == FP_DATA_READ ? handle_read (s, &q) : handle_write (s, &q);
    if (ret < 0)
      return ret;
  }
}

int
fp_tcp_serve (int fd, struct fp_tls_session *tls,
              const struct fp_tcp_memory *memory, unsigned stall_ms)
{
  struct server s; /* no initializer: it would clear the large buffer */
  int flags, ret;

  /* Make the socket block.  Between frames this thread then waits in
   * recvmsg(2) itself, which takes one system call instead of two.
   */
  flags = fcntl (fd, F_GETFL);
  if (flags == -1 || fcntl (fd, F_SETFL, flags & ~O_NONBLOCK) == -1)
    return -errno;

  s.fd = fd;
  s.tls = tls;
  s.memory = memory;
  s.stall_ms = stall_ms;
  s.expect_large = false;
  s.pos = s.end = 0;
  s.nr = s.nr_iov = 0;
  s.bytes = 0;
  ret = serve (&s);
  put_all (&s);
  return ret;
}
