/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_client.c - transport "rdma", active side: one-sided READ and WRITE on
 * reliable queue pairs made with rdma_cm.
 *
 *   post   adds a work request to its connection's chain
 *   kick   does one ibv_post_send (doorbell) per connection
 *   poll   turns completions into ops
 *
 * Every op in flight is in its connection's table (conn->ops).  It leaves the
 * table exactly once: when its completion arrives, or when ibv_post_send
 * refuses it.  If a broken queue pair does not flush it within
 * FP_VERBS_FLUSH_MS, it leaves after the queue pair was destroyed.  Then
 * nothing accesses its memory any more.  (soft-iWARP drops ops that are posted
 * just after the queue pair enters the error state.)
 *
 * The first completion with an error is the cause and breaks the connection;
 * the others follow as flushes.
 *
 * A connection learns of a lost server by DISCONNECTED on the event channel
 * or, with ops in flight, by an ACK timeout (verbs_connect.h).  If a port goes
 * down, the next transfer fails.
 *
 * The program must ignore SIGPIPE: soft-iWARP raises it in the thread that
 * posts to a connection which the server has closed.
 *
 * Only the call `available` may run before a fork: a child process cannot use
 * a device's doorbells.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "transport/transport.h"
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

/* Make a work request's id from its slot and a number (pass) that the queue
 * uses for one request at a time.  A pointer to the op would not do:
 * soft-iWARP completes some flushed requests twice.  By then the op's memory
 * and the slot may have another use.
 *
 *   63          32 31    16 15     0
 *   |    pass     | conn  |  slot  |
 */
static uint64_t
make_wr_id (const struct fp_verbs_conn *c, uint32_t slot)
{
  return (uint64_t) c->passes[slot] << 32 | c->index << 16 | slot;
}

/* Return the op of a work request, or NULL if it completed before. */
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

/* Add a READ behind an iWARP WRITE, and complete the op by the READ.  A WRITE
 * completes when TCP has taken it, whether or not it ever reaches the server's
 * memory (RFC 5040, 5.3).  A READ behind it on the same queue pair is answered
 * only after the WRITE was placed.  The WRITE itself has a completion only if
 * it fails.
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

/* Finish wr and the requests behind it, which the device did not take.  If wr
 * is a fence, the device took its WRITE: that WRITE's flush or reap finishes
 * the op.
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

/* Return the connection at entry i, or NULL.  The polling thread needs no lock
 * here: other threads only add entries, and it alone frees them.
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
    q->polled |= n > 0;
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
 * and finish their ops.
 */
static void
reap (struct fp_verbs_queue *q)
{
  const uint64_t now = fp_now_ns ();
  struct fp_verbs_conn *c;
  bool more = false;
  unsigned i;

  rdma_kick (&q->base); /* so that no op remains on a chain */
  for (i = 0; i < q->max_conns; i++) {
    c = nth_conn (q, i);
    if (is_flushing (c) && now >= atomic_load (&c->flush_by_ns))
      (void) fp_verbs_conn_destroy_qp (c); /* else tried again */
  }

  /* A destroyed queue pair adds no completions.  Take those that it left, then
   * finish the remaining ops.
   */
  poll_cq (q);
  for (i = 0; i < q->max_conns; i++) {
    c = nth_conn (q, i);
    if (is_flushing (c) && c->qp == NULL)
      finish_all (q, c);
  }

  /* Hold the lock, so that a concurrent break is not missed. */
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
    break_all (q); /* the device is gone: no completion would wake us */
  poll_cq (q);
  return q->done != NULL;
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
