/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_client.c - transport "rdma", active side: one-sided READ and WRITE
 * on reliable queue pairs made with rdma_cm.
 *
 *   post   fills a work request of the connection and hangs it on its chain
 *   kick   one ibv_post_send for each connection: one doorbell
 *   poll   completions to ops; wr_id is the op
 *
 * Every op in flight stands in its connection's table (conn->ops), and
 * leaves it exactly once: when its completion came; when ibv_post_send
 * refused it; or, if a broken queue pair does not flush it within FLUSH_MS,
 * after that queue pair was destroyed, because then nothing touches its
 * memory any more.  (soft-iWARP drops what is posted just after the queue
 * pair went to the error state.)
 *
 * The first completion with an error is the cause and breaks the
 * connection; the others follow as flushes.
 *
 * What a connection may find out about its peer: DISCONNECTED on the event
 * channel, or an ACK timeout (verbs_connect.h) if something is in flight.
 * A port that goes down shows as an error of the next transfer.
 *
 * The program must ignore SIGPIPE: soft-iWARP raises it in the thread that
 * posts to a connection which the server has closed.
 *
 * Nothing here but available may run before a fork: a device's doorbells
 * are not inherited.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "transport/transport.h"
#include "transport/verbs_client.h"
#include "transport/verbs_cm.h"
#include "transport/verbs_connect.h"
#include "transport/verbs_device.h"
#include "transport/verbs_err.h"
#include "transport/verbs_queue.h"

#define MAX_TRANSFER (1u << 20)
/* How long a queue pair in the error state may take to flush; soft-RoCE
 * takes 1 ms.
 */
#define FLUSH_MS 200
#define POLL_BATCH 16

/* Inline sizes to ask for, the first that the device takes; it copies them
 * into the work request, which saves it a read of our memory.  More than
 * this makes every work request large.
 */
static const unsigned inline_sizes[] = { 256, 128, 64, 0 };

struct fp_verbs_conn {
  struct fp_conn base;
  struct rdma_event_channel *channel;
  struct rdma_cm_id *id;
  uint32_t lkey;
  unsigned max_inline;

  /* These belong to the thread that posts and polls. */
  unsigned depth;
  unsigned nr_free;
  uint32_t *free;     /* stack of the free slots */
  struct fp_op **ops; /* slot -> op in flight, or NULL */
  struct ibv_send_wr *wrs;
  struct ibv_sge *sges;
  struct ibv_send_wr *chain; /* posted, not yet kicked */
  struct ibv_send_wr **chain_tail;
  bool is_dirty;
  struct fp_verbs_conn *next_dirty;

  /* Taken to break, and to destroy the queue pair.  Not held together with
   * queue->lock.
   */
  pthread_mutex_t lock;
  struct ibv_qp *qp; /* NULL once destroyed */
  atomic_bool broken;
  _Atomic uint64_t flush_by_ns;

  struct fp_verbs_conn *next; /* under queue->lock */
};

static struct fp_verbs_queue *
to_queue (struct fp_queue *q)
{
  return (struct fp_verbs_queue *) q;
}

static struct fp_verbs_conn *
to_conn (struct fp_conn *c)
{
  return (struct fp_verbs_conn *) c;
}

static int
rdma_queue_new (struct fp_queue **out, const struct fp_queue_params *p)
{
  struct fp_verbs_queue *q;
  int err;

  err = fp_verbs_queue_new (&q, p);
  if (err != 0)
    return err;
  q->base.ops = &fp_transport_rdma;
  *out = &q->base;
  return 0;
}

static void
rdma_queue_free (struct fp_queue *q)
{
  fp_verbs_queue_free (to_queue (q));
}

/* ---- ending ---- */

static void
rdma_conn_break (struct fp_conn *base)
{
  struct fp_verbs_conn *c = to_conn (base);
  struct fp_verbs_queue *q = to_queue (base->queue);
  struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

  {
    FP_LOCK_SCOPE (&c->lock);
    if (atomic_load (&c->broken))
      return;
    atomic_store (&c->flush_by_ns, fp_deadline_in_ms (FLUSH_MS));
    atomic_store (&c->broken, true);
    /* By hand, because rdma_disconnect fails on a connection that is
     * already ending, and then flushes nothing; and that, so that the
     * server learns of it.  If both fail, destroying flushes.
     */
    (void) fp_verbs_ret (ibv_modify_qp (c->qp, &attr, IBV_QP_STATE));
    (void) fp_rdma_ret (rdma_disconnect (c->id));
  }
  FP_LOCK_SCOPE (&q->lock);
  atomic_store (&q->flushing, true);
  fp_verbs_queue_timer (q, FLUSH_MS);
}

static unsigned
rdma_conn_inflight (const struct fp_conn *base)
{
  const struct fp_verbs_conn *c = (const struct fp_verbs_conn *) base;

  return c->depth - c->nr_free;
}

static bool
rdma_conn_broken (const struct fp_conn *base)
{
  return atomic_load (&((const struct fp_verbs_conn *) base)->broken);
}

static int
rdma_conn_event_fd (const struct fp_conn *base)
{
  return ((const struct fp_verbs_conn *) base)->channel->fd;
}

static void
rdma_conn_event (struct fp_conn *base)
{
  struct fp_cm_event e;
  int err;

  while ((err = fp_cm_next (to_conn (base)->channel, &e)) == 0)
    if (fp_cm_meaning (e.type) == FP_CM_DEAD)
      rdma_conn_break (base);
  if (err != -EAGAIN)
    rdma_conn_break (base);
}

/* Unlink from the list at *at; it need not be there. */
static void
unlink_conn (struct fp_verbs_conn **at, const struct fp_verbs_conn *c)
{
  for (; *at != NULL; at = &(*at)->next)
    if (*at == c) {
      *at = c->next;
      return;
    }
}

static int
destroy_qp (struct fp_verbs_conn *c)
{
  int err;

  FP_LOCK_SCOPE (&c->lock);
  if (c->qp == NULL)
    return 0;
  err = fp_verbs_ret (ibv_destroy_qp (c->qp));
  if (err == 0)
    c->qp = c->id->qp = NULL;
  return err;
}

/* Also undoes a connection that was only half made. */
static void
conn_destroy (struct fp_verbs_conn *c)
{
  struct fp_verbs_queue *q;

  if (c == NULL)
    return;
  q = to_queue (c->base.queue);
  {
    FP_LOCK_SCOPE (&q->lock);
    unlink_conn (&q->conns, c);
  }
  if (destroy_qp (c) != 0)
    abort (); /* nothing is in flight: it cannot fail but by a bug */
  if (c->id != NULL)
    rdma_destroy_id (c->id);
  fp_cm_channel_freep (&c->channel);
  pthread_mutex_destroy (&c->lock);
  free (c->free);
  free (c->ops);
  free (c->wrs);
  free (c->sges);
  free (c);
}

static void
conn_destroyp (struct fp_verbs_conn **cp)
{
  conn_destroy (*cp);
}

static void
rdma_conn_free (struct fp_conn *base)
{
  if (base == NULL)
    return;
  assert (rdma_conn_inflight (base) == 0);
  rdma_conn_break (base); /* says good-bye, if nobody has */
  conn_destroy (to_conn (base));
}

/* ---- making ---- */

static int
make_qp (struct fp_verbs_conn *c, struct fp_verbs_queue *q)
{
  struct ibv_cq *cq = atomic_load (&q->cq);
  struct ibv_qp_init_attr attr;
  size_t i;
  int err = -EINVAL;

  for (i = 0; err != 0 && i < sizeof inline_sizes / sizeof inline_sizes[0];
       i++) {
    memset (&attr, 0, sizeof attr);
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = cq;
    attr.cap.max_send_wr = c->depth;
    attr.cap.max_recv_wr = 1;
    /* iWARP takes a READ with one SGE only; we never need more. */
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    attr.cap.max_inline_data = inline_sizes[i];
    err = fp_rdma_ret (rdma_create_qp (c->id, q->pd, &attr));
  }
  if (err != 0)
    return err;
  c->qp = c->id->qp;
  c->max_inline = attr.cap.max_inline_data;
  c->lkey = q->mr->lkey;
  return 0;
}

static int
make_tables (struct fp_verbs_conn *c)
{
  unsigned i;

  c->free = calloc (c->depth, sizeof *c->free);
  c->ops = calloc (c->depth, sizeof *c->ops);
  c->wrs = calloc (c->depth, sizeof *c->wrs);
  c->sges = calloc (c->depth, sizeof *c->sges);
  if (c->free == NULL || c->ops == NULL || c->wrs == NULL || c->sges == NULL)
    return -ENOMEM;
  for (i = 0; i < c->depth; i++)
    c->free[i] = c->depth - 1 - i;
  c->nr_free = c->depth;
  return 0;
}

static int
rdma_conn_open (struct fp_conn **out, struct fp_queue *base,
                const struct fp_conn_params *p, uint64_t deadline_ns)
{
  FP_CLEANUP (conn_destroyp) struct fp_verbs_conn *c = NULL;
  struct fp_verbs_queue *q = to_queue (base);
  struct fp_data_hello hello = { .session = p->session, .lane = p->lane };
  int err;

  if (p->depth == 0)
    return -EINVAL;
  memcpy (hello.token, p->token, sizeof hello.token);
  c = calloc (1, sizeof *c);
  if (c == NULL)
    return -ENOMEM;
  c->base.ops = &fp_transport_rdma;
  c->base.queue = base;
  c->depth = p->depth;
  c->chain_tail = &c->chain;
  err = pthread_mutex_init (&c->lock, NULL);
  if (err != 0)
    abort (); /* of a default mutex it cannot fail */

  err = make_tables (c);
  if (err == 0)
    err = fp_cm_channel_new (&c->channel);
  if (err == 0)
    err = fp_verbs_resolve (&c->id, c->channel, p->addr, p->timeout_ms,
                            deadline_ns);
  if (err == 0)
    err = fp_verbs_queue_bind (q, c->id->verbs);
  if (err == 0)
    err = make_qp (c, q);
  if (err == 0)
    err = fp_verbs_establish (c->id, q->device, &hello, deadline_ns);
  if (err != 0)
    return err;

  {
    FP_LOCK_SCOPE (&q->lock);
    c->next = q->conns;
    q->conns = c;
  }
  *out = &FP_STEAL (c)->base;
  return 0;
}

/* ---- transfers ---- */

static void
finish (struct fp_verbs_queue *q, struct fp_op *op, int status)
{
  struct fp_verbs_conn *c = to_conn (op->conn);

  assert (c->ops[op->cookie] == op);
  c->ops[op->cookie] = NULL;
  c->free[c->nr_free++] = op->cookie;
  q->inflight--;
  op->status = status;
  op->next = NULL;
  *q->done_tail = op;
  q->done_tail = &op->next;
}

static bool
inside_memory (const struct fp_verbs_queue *q, const struct fp_op *op)
{
  uintptr_t at = (uintptr_t) op->local, start = (uintptr_t) q->memory;

  return at >= start && op->length <= q->memory_size &&
         at - start <= q->memory_size - op->length;
}

static int
rdma_post (struct fp_conn *base, struct fp_op *op)
{
  struct fp_verbs_conn *c = to_conn (base);
  struct fp_verbs_queue *q = to_queue (base->queue);
  struct ibv_send_wr *wr;
  uint32_t slot;

  if (atomic_load_explicit (&c->broken, memory_order_relaxed))
    return -ENOTCONN;
  if (op->length == 0 || op->length > MAX_TRANSFER || op->rkey > UINT32_MAX ||
      !inside_memory (q, op))
    return -EINVAL;
  if (c->nr_free == 0 || q->inflight == q->depth)
    return -EAGAIN;

  slot = c->free[--c->nr_free];
  q->inflight++;
  c->ops[slot] = op;
  op->conn = base;
  op->cookie = slot;
  op->next = NULL;

  c->sges[slot].addr = (uintptr_t) op->local;
  c->sges[slot].length = op->length;
  c->sges[slot].lkey = c->lkey;
  wr = &c->wrs[slot];
  wr->wr_id = (uintptr_t) op;
  wr->next = NULL;
  wr->sg_list = &c->sges[slot];
  wr->num_sge = 1;
  wr->send_flags = IBV_SEND_SIGNALED;
  wr->wr.rdma.remote_addr = op->raddr;
  wr->wr.rdma.rkey = (uint32_t) op->rkey;
  if (op->kind == FP_OP_READ)
    wr->opcode = IBV_WR_RDMA_READ;
  else {
    wr->opcode = IBV_WR_RDMA_WRITE;
    if (op->length <= c->max_inline)
      wr->send_flags |= IBV_SEND_INLINE;
  }
  *c->chain_tail = wr;
  c->chain_tail = &wr->next;

  if (!c->is_dirty) {
    c->is_dirty = true;
    c->next_dirty = q->dirty;
    q->dirty = c;
  }
  return 0;
}

/* wr and what hangs on it were not taken by the device. */
static void
finish_chain (struct fp_verbs_queue *q, struct ibv_send_wr *wr, int status)
{
  struct ibv_send_wr *next;

  for (; wr != NULL; wr = next) {
    next = wr->next;
    finish (q, (struct fp_op *) (uintptr_t) wr->wr_id, status);
  }
}

static void
kick_conn (struct fp_verbs_queue *q, struct fp_verbs_conn *c)
{
  struct ibv_send_wr *chain = c->chain, *bad = NULL;
  int err;

  c->is_dirty = false;
  c->chain = NULL;
  c->chain_tail = &c->chain;
  if (atomic_load (&c->broken)) {
    finish_chain (q, chain, -ECONNRESET);
    return;
  }
  err = fp_verbs_ret (ibv_post_send (c->qp, chain, &bad));
  if (err != 0) {
    rdma_conn_break (&c->base);
    finish_chain (q, bad, err);
  }
}

static void
rdma_kick (struct fp_queue *base)
{
  struct fp_verbs_queue *q = to_queue (base);
  struct fp_verbs_conn *c;

  while ((c = q->dirty) != NULL) {
    q->dirty = c->next_dirty;
    kick_conn (q, c);
  }
}

/* Where to start to walk over the connections without the lock, as the
 * thread that polls may: others only put new ones in front, and it alone
 * frees.
 */
static struct fp_verbs_conn *
first_conn (struct fp_verbs_queue *q)
{
  FP_LOCK_SCOPE (&q->lock);
  return q->conns;
}

static void
break_all (struct fp_verbs_queue *q)
{
  struct fp_verbs_conn *c;

  for (c = first_conn (q); c != NULL; c = c->next)
    rdma_conn_break (&c->base);
}

static void
poll_cq (struct fp_verbs_queue *q)
{
  struct ibv_cq *cq = atomic_load_explicit (&q->cq, memory_order_acquire);
  struct ibv_wc wc[POLL_BATCH];
  struct fp_op *op;
  int n, i, err;

  if (cq == NULL)
    return;
  do {
    n = ibv_poll_cq (cq, POLL_BATCH, wc);
    for (i = 0; i < n; i++) {
      op = (struct fp_op *) (uintptr_t) wc[i].wr_id;
      err = fp_wc_errno (wc[i].status);
      if (err != 0)
        rdma_conn_break (op->conn);
      finish (q, op, err);
    }
  } while (n == POLL_BATCH);
  /* The completion queue itself is broken: the device is gone. */
  if (n < 0)
    break_all (q);
}

static bool
is_flushing (const struct fp_verbs_conn *c)
{
  return atomic_load (&c->broken) && c->nr_free < c->depth;
}

/* Destroy the queue pairs of broken connections that did not flush in time,
 * and finish what they held.
 */
static void
reap (struct fp_verbs_queue *q)
{
  const uint64_t now = fp_now_ns ();
  struct fp_verbs_conn *c;
  bool more = false;
  unsigned i;

  rdma_kick (&q->base); /* so that nothing hangs on a chain */
  for (c = first_conn (q); c != NULL; c = c->next)
    if (is_flushing (c) && now >= atomic_load (&c->flush_by_ns))
      (void) destroy_qp (c); /* else it is tried again */

  /* What they completed before they went is in the completion queue;
   * nothing more can come.
   */
  poll_cq (q);
  for (c = first_conn (q); c != NULL; c = c->next)
    if (c->qp == NULL)
      for (i = 0; i < c->depth; i++)
        if (c->ops[i] != NULL)
          finish (q, c->ops[i], -ECONNRESET);

  /* Under the lock, so that a break beside this is not forgotten. */
  FP_LOCK_SCOPE (&q->lock);
  for (c = q->conns; c != NULL; c = c->next)
    more |= is_flushing (c);
  if (!more) {
    atomic_store (&q->flushing, false);
    fp_verbs_queue_timer (q, 0);
  }
}

static struct fp_op *
rdma_poll (struct fp_queue *base)
{
  struct fp_verbs_queue *q = to_queue (base);
  struct fp_op *ops;

  poll_cq (q);
  if (atomic_load_explicit (&q->flushing, memory_order_relaxed))
    reap (q);
  ops = q->done;
  q->done = NULL;
  q->done_tail = &q->done;
  return ops;
}

static bool
rdma_arm (struct fp_queue *base)
{
  struct fp_verbs_queue *q = to_queue (base);

  if (fp_verbs_queue_rearm (q) != 0)
    break_all (q); /* no completion would wake us: the device is gone */
  poll_cq (q);
  return q->done != NULL;
}

static int
rdma_fd (const struct fp_queue *base)
{
  return ((const struct fp_verbs_queue *) base)->epoll;
}

static int
rdma_import (struct fp_remote *out, const struct fp_grant *g, int fd)
{
  (void) fd;
  if (g->rkey > UINT32_MAX || g->length == 0 ||
      g->raddr > UINT64_MAX - g->length)
    return -EPROTO;
  out->raddr = g->raddr;
  out->rkey = g->rkey;
  out->length = g->length;
  out->map = NULL;
  return 0;
}

static void
rdma_unimport (struct fp_remote *r)
{
  (void) r;
}

const struct fp_transport_ops fp_transport_rdma = {
  .name = "rdma",
  .bit = FP_TRANSPORT_RDMA,
  .registered = true,
  .direct = false,
  .max_transfer = MAX_TRANSFER,
  .available = fp_verbs_device_any,
  .queue_new = rdma_queue_new,
  .queue_free = rdma_queue_free,
  .poll = rdma_poll,
  .arm = rdma_arm,
  .fd = rdma_fd,
  .conn_open = rdma_conn_open,
  .post = rdma_post,
  .kick = rdma_kick,
  .conn_break = rdma_conn_break,
  .conn_inflight = rdma_conn_inflight,
  .conn_broken = rdma_conn_broken,
  .conn_free = rdma_conn_free,
  .conn_event_fd = rdma_conn_event_fd,
  .conn_event = rdma_conn_event,
  .import = rdma_import,
  .unimport = rdma_unimport,
};
