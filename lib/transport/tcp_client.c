/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_client.c - the tcp transport, active side: READ and WRITE frames on
 * one socket for each connection, many in flight, answered in order.
 *
 *   post -> to_send -> kick, poll: sendmsg -> to_answer -> poll: recvmsg
 *        -> done -> poll's result
 *
 * Many requests go into one sendmsg, payloads straight from op->local.
 * Replies to small READs come through a buffer, as many as fit in one call;
 * a large READ is received straight into op->local, together with no more
 * than the header of the next reply.
 *
 * conns[] is written by conn_open (any thread, one compare-and-swap) and by
 * conn_free (the queue's thread); all else belongs to the queue's thread but
 * for conn->broken and shutdown(2), which break uses from anywhere.
 */

#include <config.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "transport/ctl_channel.h"
#include "transport/transport.h"

#define BUFFER 65536
#define LARGE 16384 /* a READ worth receiving without a copy */
#define BATCH 32    /* requests in one sendmsg */
#define EVENTS 16

struct list {
  struct fp_op *head, **tail;
};

struct tcp_conn {
  struct fp_conn base;
  int fd;
  int event_fd; /* an epoll of its own, for the hang-up alone */
  atomic_bool broken;
  bool wants_out; /* EPOLLOUT is on */
  bool gone;      /* out of the queue's epoll */
  unsigned index; /* in the queue's conns */
  unsigned depth, inflight;
  uint32_t next_cookie;

  struct list to_send;
  size_t sent; /* bytes of to_send.head's frame */
  struct list to_answer;
  bool in_payload; /* of to_answer.head; else in a header */
  size_t received; /* bytes of that payload */

  size_t pos, end; /* received and not yet handled: buf[pos, end) */
  uint8_t buf[BUFFER];
};

/* A place in conns[] whose connection is being entered. */
static char reserved;
#define RESERVED ((struct tcp_conn *) &reserved)

struct tcp_queue {
  struct fp_queue base;
  int fd;
  bool armed; /* the next poll asks epoll, for idle connections' sake */
  unsigned depth, inflight;
  struct list done;
  unsigned max_conns;
  _Atomic (struct tcp_conn *) conns[];
};

static void
list_init (struct list *l)
{
  l->head = NULL;
  l->tail = &l->head;
}

static void
list_add (struct list *l, struct fp_op *op)
{
  op->next = NULL;
  *l->tail = op;
  l->tail = &op->next;
}

static struct fp_op *
list_take (struct list *l)
{
  struct fp_op *op = l->head;

  l->head = op->next;
  if (l->head == NULL)
    l->tail = &l->head;
  return op;
}

static struct tcp_queue *
queue_of (const struct tcp_conn *c)
{
  return (struct tcp_queue *) c->base.queue;
}

static void
complete (struct tcp_conn *c, struct list *from, int status)
{
  struct tcp_queue *q = queue_of (c);
  struct fp_op *op = list_take (from);

  op->status = status;
  c->inflight--;
  q->inflight--;
  list_add (&q->done, op);
}

static void
tcp_conn_break (struct fp_conn *base)
{
  struct tcp_conn *c = (struct tcp_conn *) base;

  atomic_store (&c->broken, true);
  (void) shutdown (c->fd, SHUT_RDWR); /* may be so already */
}

/* After a break: nothing is received any more, so each op can go back. */
static void
flush (struct tcp_conn *c)
{
  if (!c->gone) {
    /* A dead socket stays readable and would keep the sleeper awake. */
    (void) epoll_ctl (queue_of (c)->fd, EPOLL_CTL_DEL, c->fd, NULL);
    c->gone = true;
  }
  while (c->to_answer.head != NULL)
    complete (c, &c->to_answer, -ECONNRESET);
  while (c->to_send.head != NULL)
    complete (c, &c->to_send, -ECONNRESET);
}

static size_t
frame_size (const struct fp_op *op)
{
  return FP_DATA_REQ_SIZE + (op->kind == FP_OP_WRITE ? op->length : 0);
}

/* Have the queue's epoll say that the socket takes more, or no longer. */
static int
watch_out (struct tcp_conn *c, bool on)
{
  struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP,
                           .data.u32 = c->index };

  if (c->gone || c->wants_out == on)
    return 0;
  if (on)
    e.events |= EPOLLOUT;
  if (epoll_ctl (queue_of (c)->fd, EPOLL_CTL_MOD, c->fd, &e) == -1)
    return -errno;
  c->wants_out = on;
  return 0;
}

/* The socket is full.  Who polls for all may be asleep already, since before
 * there was anything to send, and must wake up when there is room again.
 */
static void
send_later (struct tcp_conn *c)
{
  if (watch_out (c, true) < 0)
    tcp_conn_break (&c->base); /* that wakes it, too */
}

/* Send as much of to_send as the socket takes. */
static void
send_some (struct tcp_conn *c)
{
  while (c->to_send.head != NULL) {
    uint8_t header[BATCH][FP_DATA_REQ_SIZE];
    struct iovec iov[2 * BATCH];
    struct msghdr msg = { .msg_iov = iov };
    size_t skip = c->sent, total = 0;
    unsigned n = 0;
    ssize_t r;

    for (struct fp_op *op = c->to_send.head; op != NULL && n < BATCH;
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
    while (skip >= msg.msg_iov->iov_len) { /* sent > 0: not all of a frame */
      skip -= msg.msg_iov->iov_len;
      msg.msg_iov++;
      msg.msg_iovlen--;
    }
    msg.msg_iov->iov_base = (uint8_t *) msg.msg_iov->iov_base + skip;
    msg.msg_iov->iov_len -= skip;

    r = sendmsg (c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (r == -1) {
      if (errno == EINTR)
        continue;
      if (errno == EAGAIN)
        send_later (c);
      else
        tcp_conn_break (&c->base);
      return;
    }
    c->sent += (size_t) r;
    while (c->to_send.head != NULL &&
           c->sent >= frame_size (c->to_send.head)) {
      c->sent -= frame_size (c->to_send.head);
      list_add (&c->to_answer, list_take (&c->to_send));
    }
    if ((size_t) r < total) {
      send_later (c);
      return;
    }
  }
}

/* Handle what is buffered.  -EPROTO: the server does not answer what it
 * was asked.
 */
static int
parse (struct tcp_conn *c)
{
  for (;;) {
    struct fp_op *op = c->to_answer.head;
    size_t have = c->end - c->pos;

    if (have == 0)
      return 0;
    if (op == NULL)
      return -EPROTO;
    if (c->in_payload) {
      size_t n = FP_MIN (have, op->length - c->received);

      memcpy ((uint8_t *) op->local + c->received, c->buf + c->pos, n);
      c->pos += n;
      c->received += n;
      if (c->received < op->length)
        return 0;
      c->in_payload = false;
      complete (c, &c->to_answer, 0);
    }
    else {
      struct fp_data_reply p;

      if (have < FP_DATA_REPLY_SIZE)
        return 0;
      if (fp_data_reply_decode (&p, c->buf + c->pos) < 0 ||
          p.cookie != op->cookie)
        return -EPROTO;
      c->pos += FP_DATA_REPLY_SIZE;
      if (p.status != FP_STATUS_OK)
        complete (c, &c->to_answer, fp_status_to_errno (p.status));
      else if (p.length != (op->kind == FP_OP_READ ? op->length : 0))
        return -EPROTO;
      else if (op->kind == FP_OP_READ) {
        c->in_payload = true;
        c->received = 0;
      }
      else
        complete (c, &c->to_answer, 0);
    }
  }
}

/* How many bytes of replies to take into the buffer behind the payload of
 * the first op (skip_first) or from here: up to and with the header of the
 * next large READ.
 */
static size_t
buffer_want (const struct tcp_conn *c, bool skip_first)
{
  const struct fp_op *op = c->to_answer.head;
  size_t want = 0;

  if (skip_first)
    op = op->next;
  for (; op != NULL && want < BUFFER; op = op->next) {
    want += FP_DATA_REPLY_SIZE;
    if (op->kind == FP_OP_READ) {
      if (op->length >= LARGE)
        break;
      want += op->length;
    }
  }
  return FP_MIN (want, (size_t) BUFFER);
}

static void
receive_some (struct tcp_conn *c)
{
  bool more = true;

  while (more) {
    struct iovec iov[2];
    struct msghdr msg = { .msg_iov = iov };
    struct fp_op *op = c->to_answer.head;
    size_t direct = 0, want, asked;
    ssize_t r;

    if (c->in_payload) { /* the buffer is empty then */
      direct = op->length - c->received;
      iov[msg.msg_iovlen++] =
          (struct iovec) { (uint8_t *) op->local + c->received, direct };
      c->pos = c->end = 0;
    }
    else if (c->pos > 0) { /* at most a part of a header is left */
      memmove (c->buf, c->buf + c->pos, c->end - c->pos);
      c->end -= c->pos;
      c->pos = 0;
    }
    /* Nothing is awaited: one byte, to see a hang-up, or a violation. */
    want = op == NULL ? 1 : buffer_want (c, c->in_payload);
    asked = direct + want - c->end;
    if (want > c->end)
      iov[msg.msg_iovlen++] =
          (struct iovec) { c->buf + c->end, want - c->end };

    r = recvmsg (c->fd, &msg, MSG_DONTWAIT);
    if (r == -1 && errno == EINTR)
      continue;
    if (r == -1 && errno == EAGAIN)
      return;
    if (r <= 0) {
      tcp_conn_break (&c->base);
      return;
    }
    if (direct > 0) {
      size_t n = FP_MIN ((size_t) r, direct);

      c->received += n;
      if (n == direct) {
        c->in_payload = false;
        complete (c, &c->to_answer, 0);
      }
      c->end = (size_t) r - n;
    }
    else
      c->end += (size_t) r;
    if (parse (c) < 0) {
      tcp_conn_break (&c->base);
      return;
    }
    /* Less than asked for: there is no more, now. */
    more = (size_t) r == asked && c->to_answer.head != NULL;
  }
}

/* Both directions of one connection; then what a break left. */
static void
progress (struct tcp_conn *c)
{
  if (!atomic_load (&c->broken) && c->to_send.head != NULL)
    send_some (c);
  if (!atomic_load (&c->broken))
    receive_some (c);
  if (atomic_load (&c->broken))
    flush (c);
}

/* NULL: there is none in this place. */
static struct tcp_conn *
conn_at (struct tcp_queue *q, unsigned i)
{
  struct tcp_conn *c =
      atomic_load_explicit (&q->conns[i], memory_order_acquire);

  return c == RESERVED ? NULL : c;
}

static struct fp_op *
tcp_poll (struct fp_queue *base)
{
  struct tcp_queue *q = (struct tcp_queue *) base;
  struct fp_op *list;

  for (unsigned i = 0; i < q->max_conns; i++) {
    struct tcp_conn *c = conn_at (q, i);

    if (c != NULL && c->inflight > 0)
      progress (c);
  }
  if (q->armed) {
    struct epoll_event events[EVENTS];
    int n = epoll_wait (q->fd, events, EVENTS, 0);

    for (int i = 0; i < n; i++) {
      struct tcp_conn *c = conn_at (q, events[i].data.u32);

      if (c != NULL)
        progress (c);
    }
    q->armed = false;
  }
  list = q->done.head;
  list_init (&q->done);
  return list;
}

static void
tcp_kick (struct fp_queue *base)
{
  struct tcp_queue *q = (struct tcp_queue *) base;

  for (unsigned i = 0; i < q->max_conns; i++) {
    struct tcp_conn *c = conn_at (q, i);

    if (c != NULL && c->to_send.head != NULL && !atomic_load (&c->broken))
      send_some (c);
  }
}

static bool
tcp_arm (struct fp_queue *base)
{
  struct tcp_queue *q = (struct tcp_queue *) base;

  for (unsigned i = 0; i < q->max_conns; i++) {
    struct tcp_conn *c = conn_at (q, i);

    if (c != NULL && watch_out (c, c->to_send.head != NULL) < 0)
      return true; /* it would not wake up: keep polling */
  }
  q->armed = true;
  return q->done.head != NULL;
}

static int
tcp_fd (const struct fp_queue *base)
{
  return ((const struct tcp_queue *) base)->fd;
}

static int
tcp_available (const char **why)
{
  (void) why;
  return 0;
}

static int
tcp_queue_new (struct fp_queue **out, const struct fp_queue_params *p)
{
  struct tcp_queue *q =
      calloc (1, sizeof *q + p->max_conns * sizeof q->conns[0]);

  if (q == NULL)
    return -ENOMEM;
  q->base.ops = &fp_transport_tcp;
  q->depth = p->depth;
  q->max_conns = p->max_conns;
  list_init (&q->done);
  q->fd = epoll_create1 (EPOLL_CLOEXEC);
  if (q->fd == -1) {
    int err = -errno;

    free (q);
    return err;
  }
  *out = &q->base;
  return 0;
}

static void
tcp_queue_free (struct fp_queue *base)
{
  struct tcp_queue *q = (struct tcp_queue *) base;

  close (q->fd);
  free (q);
}

/* Only epoll may still know it. */
static void
conn_destroy (struct tcp_conn *c)
{
  if (c->event_fd >= 0)
    close (c->event_fd);
  if (c->fd >= 0)
    close (c->fd);
  free (c);
}

static void
conn_destroyp (struct tcp_conn **cp)
{
  if (*cp != NULL)
    conn_destroy (*cp);
}

/* A control connection that says DATA_HELLO and becomes ours. */
static int
handshake (struct tcp_conn *c, const struct fp_conn_params *p,
           uint64_t deadline_ns)
{
  FP_CLEANUP (fp_ctl_freep) struct fp_ctl *ctl = NULL;
  struct fp_data_hello hello = { .session = p->session, .lane = p->lane };
  const int timeout = (int) FP_MIN (p->timeout_ms, 3600u * 1000);
  const int idle = FP_MAX (timeout / 3000, 1);
  int ret;

  memcpy (hello.token, p->token, sizeof hello.token);
  ret = fp_ctl_open (&ctl, p->addr, deadline_ns);
  if (ret == 0)
    ret = fp_ctl_data_hello (ctl, &hello, deadline_ns);
  if (ret < 0)
    return ret == -EPERM ? -EACCES : ret;
  c->fd = fp_ctl_steal_fd (ctl);

  /* Not there on a Unix socket, whose peer cannot vanish. */
  (void) setsockopt (c->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout,
                     sizeof timeout);
  (void) setsockopt (c->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  (void) setsockopt (c->fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof idle);
  return 0;
}

/* Enter c into its queue.  Its place is reserved first, so that poll, which
 * may be running, never sees a connection that is taken away again.
 */
static int
enter (struct tcp_queue *q, struct tcp_conn *c)
{
  for (unsigned i = 0; i < q->max_conns; i++) {
    struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP, .data.u32 = i };
    struct tcp_conn *none = NULL;

    if (!atomic_compare_exchange_strong (&q->conns[i], &none, RESERVED))
      continue;
    if (epoll_ctl (q->fd, EPOLL_CTL_ADD, c->fd, &e) == -1) {
      int err = -errno;

      atomic_store (&q->conns[i], NULL);
      return err;
    }
    c->index = i;
    atomic_store_explicit (&q->conns[i], c, memory_order_release);
    return 0;
  }
  return -EMFILE;
}

static int
tcp_conn_open (struct fp_conn **out, struct fp_queue *base,
               const struct fp_conn_params *p, uint64_t deadline_ns)
{
  FP_CLEANUP (conn_destroyp) struct tcp_conn *c = calloc (1, sizeof *c);
  struct epoll_event e = { .events = EPOLLRDHUP | EPOLLONESHOT };
  int ret;

  if (c == NULL)
    return -ENOMEM;
  c->base.ops = &fp_transport_tcp;
  c->base.queue = base;
  c->fd = -1;
  c->depth = p->depth;
  list_init (&c->to_send);
  list_init (&c->to_answer);
  c->event_fd = epoll_create1 (EPOLL_CLOEXEC);
  if (c->event_fd == -1)
    return -errno;
  ret = handshake (c, p, deadline_ns);
  if (ret < 0)
    return ret;
  if (epoll_ctl (c->event_fd, EPOLL_CTL_ADD, c->fd, &e) == -1)
    return -errno;
  ret = enter ((struct tcp_queue *) base, c);
  if (ret < 0)
    return ret;
  *out = &FP_STEAL (c)->base;
  return 0;
}

static int
tcp_post (struct fp_conn *base, struct fp_op *op)
{
  struct tcp_conn *c = (struct tcp_conn *) base;
  struct tcp_queue *q = queue_of (c);

  if (atomic_load (&c->broken))
    return -ENOTCONN;
  if (op->length == 0 || op->length > FP_DATA_MAX)
    return -EINVAL;
  if (c->inflight == c->depth || q->inflight == q->depth)
    return -EAGAIN;
  op->conn = base;
  op->cookie = c->next_cookie++;
  list_add (&c->to_send, op);
  c->inflight++;
  q->inflight++;
  return 0;
}

static unsigned
tcp_conn_inflight (const struct fp_conn *base)
{
  return ((const struct tcp_conn *) base)->inflight;
}

static bool
tcp_conn_broken (const struct fp_conn *base)
{
  return atomic_load (&((const struct tcp_conn *) base)->broken);
}

static void
tcp_conn_free (struct fp_conn *base)
{
  struct tcp_conn *c = (struct tcp_conn *) base;
  struct tcp_queue *q = queue_of (c);

  for (unsigned i = 0; i < q->max_conns; i++)
    if (conn_at (q, i) == c)
      atomic_store (&q->conns[i], NULL);
  conn_destroy (c); /* closing takes it out of epoll */
}

static int
tcp_conn_event_fd (const struct fp_conn *base)
{
  return ((const struct tcp_conn *) base)->event_fd;
}

static void
tcp_conn_event (struct fp_conn *base)
{
  struct tcp_conn *c = (struct tcp_conn *) base;
  struct epoll_event e;

  if (epoll_wait (c->event_fd, &e, 1, 0) == 1)
    tcp_conn_break (base);
}

static int
tcp_import (struct fp_remote *out, const struct fp_grant *g, int fd)
{
  (void) fd;
  *out = (struct fp_remote) { .raddr = g->raddr,
                              .rkey = g->rkey,
                              .length = g->length };
  return 0;
}

static void
tcp_unimport (struct fp_remote *r)
{
  *r = (struct fp_remote) { 0 };
}

const struct fp_transport_ops fp_transport_tcp = {
  .name = "tcp",
  .bit = FP_TRANSPORT_TCP,
  .max_transfer = FP_DATA_MAX,
  .available = tcp_available,
  .queue_new = tcp_queue_new,
  .queue_free = tcp_queue_free,
  .poll = tcp_poll,
  .arm = tcp_arm,
  .fd = tcp_fd,
  .conn_open = tcp_conn_open,
  .post = tcp_post,
  .kick = tcp_kick,
  .conn_break = tcp_conn_break,
  .conn_inflight = tcp_conn_inflight,
  .conn_broken = tcp_conn_broken,
  .conn_free = tcp_conn_free,
  .conn_event_fd = tcp_conn_event_fd,
  .conn_event = tcp_conn_event,
  .import = tcp_import,
  .unimport = tcp_unimport,
};
