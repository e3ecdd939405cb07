/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_client.c - the tcp transport, active side: one socket per connection,
 * with READ and WRITE frames on it (tcp_stream.h).
 *
 * conn_open writes to conns[] by compare-and-swap, from any thread; conn_free
 * does from the queue's thread.  All else belongs to the queue's thread,
 * except what break uses from any thread: conn->broken, and connect(2) and
 * shutdown(2) on the socket.
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
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "transport/control/ctl_channel.h"
#include "transport/op_queue.h"
#include "transport/tcp/tcp_stream.h"
#include "transport/transport.h"

#define EVENTS 16

struct tcp_conn {
  struct fp_conn base;
  int event_fd; /* epoll that reports only a hang-up */
  atomic_bool broken;
  bool wants_out; /* EPOLLOUT is on */
  bool gone;      /* removed from the epoll set */
  unsigned index; /* position in the queue's conns */
  unsigned depth, inflight;
  uint32_t next_cookie;
  struct fp_tcp_stream stream;
};

/* Placeholder in conns[] for a connection that is being added. */
static char reserved;
#define RESERVED ((struct tcp_conn *) &reserved)

struct tcp_queue {
  struct fp_op_queue common;
  int epoll; /* the lane's: transport.h */
  /* The poller may have slept.  If the next poll finds no answer, it asks
   * epoll which connection was readable: an idle one may have broken.
   */
  bool armed;
  uint8_t *buffer; /* shared: only one thread receives */
  unsigned max_conns;
  _Atomic unsigned used; /* entries from here on were never used: poll stops */
  _Atomic (struct tcp_conn *) conns[];
};

static struct tcp_queue *
queue_of (const struct tcp_conn *c)
{
  return (struct tcp_queue *) c->base.queue;
}

/* Discard unsent data and reset the connection.  shutdown alone would still
 * send the socket's buffered WRITEs, long after they were reported as failed.
 * Connecting to AF_UNSPEC discards them and keeps the fd open, so any thread
 * may do it.  A Unix socket refuses that, but its buffered data has already
 * reached the server.
 */
static void
tcp_conn_break (struct fp_conn *base)
{
  static const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
  struct tcp_conn *c = (struct tcp_conn *) base;

  atomic_store (&c->broken, true);
  (void) connect (c->stream.fd, &nowhere, sizeof nowhere);
  (void) shutdown (c->stream.fd, SHUT_RDWR); /* may be down already */
}

static void
count_done (struct tcp_conn *c, unsigned nr)
{
  c->inflight -= nr;
  queue_of (c)->common.inflight -= nr;
}

static void
give_back (struct tcp_conn *c, struct fp_op_list *l)
{
  while (l->head != NULL) {
    struct fp_op *op = fp_op_list_take (l);

    op->status = -ECONNRESET;
    fp_op_list_add (&queue_of (c)->common.done, op);
    count_done (c, 1);
  }
}

/* Give all ops back after a break.  Nothing is received any more. */
static void
flush (struct tcp_conn *c)
{
  if (!c->gone) {
    /* A dead socket stays readable and would keep waking the poller. */
    fp_queue_unwatch (queue_of (c)->epoll, c->stream.fd);
    c->gone = true;
  }
  give_back (c, &c->stream.to_answer);
  give_back (c, &c->stream.to_send);
}

/* Add the socket of entry i to the epoll set, or change what it reports. */
static int
watch (const struct tcp_queue *q, int op, int fd, unsigned i, uint32_t events)
{
  struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP | events,
                           .data.u64 = (uint64_t) FP_TRANSPORT_TCP << 32 | i };

  if (q->epoll == 0)
    return 0;
  return epoll_ctl (q->epoll, op, fd, &e) == -1 ? -errno : 0;
}

/* Make the socket wake the lane when it has room, or stop that. */
static int
watch_out (struct tcp_conn *c, bool on)
{
  int r;

  if (c->gone || c->wants_out == on)
    return 0;
  r = watch (queue_of (c), EPOLL_CTL_MOD, c->stream.fd, c->index,
             on ? EPOLLOUT : 0);
  if (r == 0)
    c->wants_out = on;
  return r;
}

static void
send_some (struct tcp_conn *c)
{
  int r = fp_tcp_stream_send (&c->stream);

  /* The polling thread may have gone to sleep before there was data to send.
   * Wake it when the socket has room again.
   */
  if (r == -EAGAIN)
    r = watch_out (c, true);
  if (r < 0)
    tcp_conn_break (&c->base); /* this wakes it, too */
}

static void
receive_some (struct tcp_conn *c)
{
  unsigned nr = 0;
  int r = fp_tcp_stream_receive (&c->stream, &queue_of (c)->common.done, &nr);

  count_done (c, nr);
  if (r < 0)
    tcp_conn_break (&c->base);
}

/* Send and receive on one connection; if it broke, give its ops back. */
static void
progress (struct tcp_conn *c)
{
  if (!atomic_load (&c->broken) && c->stream.to_send.head != NULL)
    send_some (c);
  if (!atomic_load (&c->broken))
    receive_some (c);
  if (atomic_load (&c->broken))
    flush (c);
}

/* Return the connection at entry i, or NULL. */
static struct tcp_conn *
conn_at (struct tcp_queue *q, unsigned i)
{
  struct tcp_conn *c =
      atomic_load_explicit (&q->conns[i], memory_order_acquire);

  return c == RESERVED ? NULL : c;
}

/* Look at the connections that are readable, idle ones too. */
static void
progress_ready (struct tcp_queue *q)
{
  struct epoll_event events[EVENTS];
  int n = epoll_wait (q->epoll, events, EVENTS, 0);

  for (int i = 0; i < n; i++) {
    struct tcp_conn *c;

    if (events[i].data.u64 >> 32 != FP_TRANSPORT_TCP)
      continue;
    c = conn_at (q, (uint32_t) events[i].data.u64);
    if (c != NULL)
      progress (c);
  }
}

static struct fp_op *
tcp_poll (struct fp_queue *base)
{
  struct tcp_queue *q = (struct tcp_queue *) base;
  unsigned used = atomic_load_explicit (&q->used, memory_order_acquire);

  for (unsigned i = 0; i < used; i++) {
    struct tcp_conn *c = conn_at (q, i);

    if (c != NULL && c->inflight > 0)
      progress (c);
  }
  /* If an idle connection is readable, it wakes the poller again. */
  if (q->armed && q->common.done.head == NULL)
    progress_ready (q);
  q->armed = false;
  return fp_op_list_take_all (&q->common.done);
}

static void
tcp_kick (struct fp_queue *base)
{
  struct tcp_queue *q = (struct tcp_queue *) base;
  unsigned used = atomic_load_explicit (&q->used, memory_order_acquire);

  for (unsigned i = 0; i < used; i++) {
    struct tcp_conn *c = conn_at (q, i);

    if (c != NULL && c->stream.to_send.head != NULL &&
        !atomic_load (&c->broken))
      send_some (c);
  }
}

static bool
tcp_arm (struct fp_queue *base)
{
  struct tcp_queue *q = (struct tcp_queue *) base;
  unsigned used = atomic_load_explicit (&q->used, memory_order_acquire);

  for (unsigned i = 0; i < used; i++) {
    struct tcp_conn *c = conn_at (q, i);

    if (c != NULL && watch_out (c, c->stream.to_send.head != NULL) < 0)
      return true; /* no wake-up would come: keep polling */
  }
  q->armed = q->epoll != 0;
  return q->common.done.head != NULL;
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
  struct fp_op_queue *common;
  struct tcp_queue *q;
  int r =
      fp_op_queue_new (&common, sizeof *q + p->max_conns * sizeof q->conns[0],
                       &fp_transport_tcp, p);

  if (r < 0)
    return r;
  q = (struct tcp_queue *) common;
  q->epoll = p->epoll;
  q->max_conns = p->max_conns;
  q->buffer = malloc (FP_TCP_STREAM_BUFFER);
  if (q->buffer == NULL) {
    fp_op_queue_free (&common->base);
    return -ENOMEM;
  }
  /* Touch the pages now, so that the first request does not fault them in. */
  memset (q->buffer, 0, FP_TCP_STREAM_BUFFER);
  *out = &common->base;
  return 0;
}

static void
tcp_queue_free (struct fp_queue *base)
{
  free (((struct tcp_queue *) base)->buffer);
  fp_op_queue_free (base);
}

/* Free c, which must be out of its queue except for epoll. */
static void
conn_destroy (struct tcp_conn *c)
{
  if (c->event_fd >= 0)
    close (c->event_fd);
  fp_tls_end (c->stream.tls);
  if (c->stream.fd >= 0)
    close (c->stream.fd);
  free (c);
}

static void
conn_destroyp (struct tcp_conn **cp)
{
  if (*cp != NULL)
    conn_destroy (*cp);
}

/* Open a control connection, send DATA_HELLO, and take over its socket. */
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
  c->stream.fd = fp_ctl_steal_fd (ctl);
  c->stream.tls = fp_ctl_steal_tls (ctl);

  /* Unix sockets lack these options, and their server cannot vanish. */
  (void) setsockopt (c->stream.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout,
                     sizeof timeout);
  (void) setsockopt (c->stream.fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle,
                     sizeof idle);
  (void) setsockopt (c->stream.fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle,
                     sizeof idle);
  return 0;
}

static void
raise_used (struct tcp_queue *q, unsigned n)
{
  unsigned now = atomic_load (&q->used);

  while (now < n && !atomic_compare_exchange_weak (&q->used, &now, n))
    ;
}

/* Add c to its queue.  Reserve the entry first, so that a poll that runs
 * meanwhile never sees a connection that is removed again.
 */
static int
enter (struct tcp_queue *q, struct tcp_conn *c)
{
  for (unsigned i = 0; i < q->max_conns; i++) {
    struct tcp_conn *none = NULL;
    int r;

    if (!atomic_compare_exchange_strong (&q->conns[i], &none, RESERVED))
      continue;
    r = watch (q, EPOLL_CTL_ADD, c->stream.fd, i, 0);
    if (r < 0) {
      atomic_store (&q->conns[i], NULL);
      return r;
    }
    c->index = i;
    atomic_store_explicit (&q->conns[i], c, memory_order_release);
    raise_used (q, i + 1);
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
  fp_tcp_stream_init (&c->stream, -1, ((struct tcp_queue *) base)->buffer);
  c->depth = p->depth;
  c->event_fd = epoll_create1 (EPOLL_CLOEXEC);
  if (c->event_fd == -1)
    return -errno;
  ret = handshake (c, p, deadline_ns);
  if (ret < 0)
    return ret;
  if (epoll_ctl (c->event_fd, EPOLL_CTL_ADD, c->stream.fd, &e) == -1)
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
  if (c->inflight == c->depth || q->common.inflight == q->common.depth)
    return -EAGAIN;
  op->conn = base;
  op->cookie = c->next_cookie++;
  fp_op_list_add (&c->stream.to_send, op);
  c->inflight++;
  q->common.inflight++;
  return 0;
}

/* Receive the rest of a READ into local.  The stream reads op->local afresh
 * each time bytes arrive, so changing it is enough.
 */
static void
tcp_divert (struct fp_op *op, void *local)
{
  op->local = local;
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
  conn_destroy (c); /* close removes it from epoll */
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
tcp_import (struct fp_remote *out, const struct fp_grant *g, int fd,
            bool read_only)
{
  (void) read_only;
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
  .conn_open = tcp_conn_open,
  .post = tcp_post,
  .kick = tcp_kick,
  .divert = tcp_divert,
  .conn_break = tcp_conn_break,
  .conn_inflight = tcp_conn_inflight,
  .conn_broken = tcp_conn_broken,
  .conn_free = tcp_conn_free,
  .conn_event_fd = tcp_conn_event_fd,
  .conn_event = tcp_conn_event,
  .import = tcp_import,
  .unimport = tcp_unimport,
};
