/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_client.c - transport "rdma", active side: one-sided READ and WRITE
 * on reliable queue pairs made with rdma_cm.
 *
 *   post   fills a work request of the connection and hangs it on its chain
 *   kick   one ibv_post_send for each connection: one doorbell
 *   poll   completions to ops
 *
 * Every op in flight stands in its connection's table (conn->ops), and
 * leaves it exactly once: when its completion came; when ibv_post_send
 * refused it; or, if a broken queue pair does not flush it within
 * FP_VERBS_FLUSH_MS, after that queue pair was destroyed, because then nothing
 * touches its memory any more.  (soft-iWARP drops what is posted just after
 * the queue pair went to the error state.)
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
#include "transport/verbs_conn.h"
#include "transport/verbs_device.h"
#include "transport/verbs_err.h"
#include "transport/verbs_queue.h"

#define MAX_TRANSFER (1u << 20)
#define POLL_BATCH 16

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
  fp_verbs_queue_free (fp_verbs_to_queue (q));
}

/* ---- transfers ---- */

/* A work request is known by its place and by a number that the queue gives
 * to one at a time, not by its op: soft-iWARP completes some of what it
 * flushes twice, and by then the op may be another one's memory, and the place
 * another connection's.
 *
 *   63          32 31    16 15     0
 *   |    pass     | conn  |  slot  |
 */
static uint64_t
make_wr_id (const struct fp_verbs_conn *c, uint32_t slot)
{
  return (uint64_t) c->passes[slot] << 32 | c->index << 16 | slot;
}

/* NULL: it completed before. */
static struct fp_op *
op_of (struct fp_verbs_queue *q, uint64_t wr_id)
{
  const uint32_t index = wr_id >> 16 & 0xffff, slot = wr_id & 0xffff;
  const struct fp_verbs_conn *c;

  if (index >= q->max_conns)
    return NULL;
  c = atomic_load_explicit (&q->conns[index], memory_order_acquire);
  if (c == NULL || slot >= c->depth || c->passes[slot] != wr_id >> 32)
    return NULL;
  return c->ops[slot];
}

static void
finish (struct fp_verbs_queue *q, struct fp_op *op, int status)
{
  struct fp_verbs_conn *c = fp_verbs_to_conn (op->conn);

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

/* On iWARP a WRITE completes when TCP has taken it, long before it is in the
 * server's memory, and whether or not it ever gets there (RFC 5040, 5.3).  A
 * READ behind it on the same queue pair is answered after it was placed, so
 * that is what completes the op; the WRITE only speaks up if it fails.
 */
static struct ibv_send_wr *
add_fence (struct fp_verbs_conn *c, struct ibv_send_wr *write, uint32_t slot)
{
  struct ibv_send_wr *read = &c->wrs[c->depth + slot];

  c->sges[c->depth + slot] = c->fence;
  read->wr_id = write->wr_id;
  read->next = NULL;
  read->sg_list = &c->sges[c->depth + slot];
  read->num_sge = 1;
  read->opcode = IBV_WR_RDMA_READ;
  read->send_flags = IBV_SEND_SIGNALED;
  read->wr.rdma = write->wr.rdma;
  write->send_flags &= ~(unsigned) IBV_SEND_SIGNALED;
  write->next = read;
  return read;
}

static int
rdma_post (struct fp_conn *base, struct fp_op *op)
{
  struct fp_verbs_conn *c = fp_verbs_to_conn (base);
  struct fp_verbs_queue *q = fp_verbs_to_queue (base->queue);
  struct ibv_send_wr *wr, *last;
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
  c->passes[slot] = q->next_pass++;
  op->conn = base;
  op->cookie = slot;
  op->next = NULL;

  c->sges[slot].addr = (uintptr_t) op->local;
  c->sges[slot].length = op->length;
  c->sges[slot].lkey = c->lkey;
  wr = &c->wrs[slot];
  wr->wr_id = make_wr_id (c, slot);
  wr->next = NULL;
  wr->sg_list = &c->sges[slot];
  wr->num_sge = 1;
  wr->send_flags = IBV_SEND_SIGNALED;
  last = wr;
  wr->wr.rdma.remote_addr = op->raddr;
  wr->wr.rdma.rkey = (uint32_t) op->rkey;
  if (op->kind == FP_OP_READ)
    wr->opcode = IBV_WR_RDMA_READ;
  else {
    wr->opcode = IBV_WR_RDMA_WRITE;
    if (op->length <= c->max_inline)
      wr->send_flags |= IBV_SEND_INLINE;
    if (c->fenced)
      last = add_fence (c, wr, slot);
  }
  *c->chain_tail = wr;
  c->chain_tail = &last->next;

  if (!c->is_dirty) {
    c->is_dirty = true;
    c->next_dirty = q->dirty;
    q->dirty = c;
  }
  return 0;
}

/* wr and what hangs on it were not taken by the device.  If a fence is the
 * first, its WRITE was: that one is finished by its flush, or by reap.
 */
static void
finish_chain (struct fp_verbs_queue *q, const struct fp_verbs_conn *c,
              struct ibv_send_wr *wr, int status)
{
  struct ibv_send_wr *next;

  for (; wr != NULL; wr = next) {
    next = wr->next;
    if (wr < c->wrs + c->depth) /* not a fence */
      finish (q, op_of (q, wr->wr_id), status);
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
    finish_chain (q, c, chain, -ECONNRESET);
    return;
  }
  err = fp_verbs_ret (ibv_post_send (c->qp, chain, &bad));
  if (err != 0) {
    fp_verbs_conn_break (&c->base);
    finish_chain (q, c, bad, err);
  }
}

static void
rdma_kick (struct fp_queue *base)
{
  struct fp_verbs_queue *q = fp_verbs_to_queue (base);
  struct fp_verbs_conn *c;

  while ((c = q->dirty) != NULL) {
    q->dirty = c->next_dirty;
    kick_conn (q, c);
  }
}

/* Walks without the lock, as the thread that polls may: others only put new
 * ones in, and it alone frees.
 */
static struct fp_verbs_conn *
nth_conn (struct fp_verbs_queue *q, unsigned i)
{
  return atomic_load_explicit (&q->conns[i], memory_order_acquire);
}

static void
break_all (struct fp_verbs_queue *q)
{
  unsigned i;

  for (i = 0; i < q->max_conns; i++)
    if (nth_conn (q, i) != NULL)
      fp_verbs_conn_break (&nth_conn (q, i)->base);
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
      op = op_of (q, wc[i].wr_id);
      if (op == NULL)
        continue;
      err = fp_wc_errno (wc[i].status);
      if (err != 0)
        fp_verbs_conn_break (op->conn);
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
  return c != NULL && atomic_load (&c->broken) && c->nr_free < c->depth;
}

static void
finish_all (struct fp_verbs_queue *q, struct fp_verbs_conn *c)
{
  unsigned i;

  for (i = 0; i < c->depth; i++)
    if (c->ops[i] != NULL)
      finish (q, c->ops[i], -ECONNRESET);
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
  for (i = 0; i < q->max_conns; i++) {
    c = nth_conn (q, i);
    if (is_flushing (c) && now >= atomic_load (&c->flush_by_ns))
      (void) fp_verbs_conn_destroy_qp (c); /* else it is tried again */
  }

  /* What they completed before they went is in the completion queue;
   * nothing more can come.
   */
  poll_cq (q);
  for (i = 0; i < q->max_conns; i++) {
    c = nth_conn (q, i);
    if (is_flushing (c) && c->qp == NULL)
      finish_all (q, c);
  }

  /* Under the lock, so that a break beside this is not forgotten. */
  FP_LOCK_SCOPE (&q->lock);
  for (i = 0; i < q->max_conns; i++)
    more |= is_flushing (nth_conn (q, i));
  if (!more) {
    atomic_store (&q->flushing, false);
    fp_verbs_queue_timer (q, 0);
  }
}

static struct fp_op *
rdma_poll (struct fp_queue *base)
{
  struct fp_verbs_queue *q = fp_verbs_to_queue (base);
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
  struct fp_verbs_queue *q = fp_verbs_to_queue (base);

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
rdma_import (struct fp_remote *out, const struct fp_grant *g, int fd,
             bool read_only)
{
  (void) read_only;
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
  .conn_open = fp_verbs_conn_open,
  .post = rdma_post,
  .kick = rdma_kick,
  .conn_break = fp_verbs_conn_break,
  .conn_inflight = fp_verbs_conn_inflight,
  .conn_broken = fp_verbs_conn_broken,
  .conn_free = fp_verbs_conn_free,
  .conn_event_fd = fp_verbs_conn_event_fd,
  .conn_event = fp_verbs_conn_event,
  .import = rdma_import,
  .unimport = rdma_unimport,
};
