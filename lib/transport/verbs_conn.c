/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_conn.c - see verbs_conn.h. */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "transport/control/resolve.h"
#include "transport/transport.h"
#include "transport/verbs_cm.h"
#include "transport/verbs_conn.h"
#include "transport/verbs_connect.h"
#include "transport/verbs_err.h"

/* Inline sizes to request; the first that the device accepts is used.  Inline
 * data is copied into the work request, which saves the device a read of our
 * memory.  A larger size would make every work request large.
 */
static const unsigned inline_sizes[] = { 256, 128, 64, 0 };

/* ---- ending ---- */

void
fp_verbs_conn_break (struct fp_conn *base)
{
  struct fp_verbs_conn *c = fp_verbs_to_conn (base);
  struct fp_verbs_queue *q = fp_verbs_to_queue (base->queue);
  struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

  {
    FP_LOCK_SCOPE (&c->lock);
    if (atomic_load (&c->broken))
      return;
    atomic_store (&c->flush_by_ns, fp_deadline_in_ms (FP_VERBS_FLUSH_MS));
    atomic_store (&c->broken, true);
    /* Change the state by hand, because on a connection that is already ending
     * rdma_disconnect fails and flushes nothing.  Call rdma_disconnect too, so
     * that the server learns of it.  If both fail, destroying the queue pair
     * flushes.
     */
    (void) fp_verbs_ret (ibv_modify_qp (c->qp, &attr, IBV_QP_STATE));
    (void) fp_rdma_ret (rdma_disconnect (c->id));
  }
  FP_LOCK_SCOPE (&q->lock);
  atomic_store (&q->flushing, true);
  fp_verbs_queue_timer (q, FP_VERBS_FLUSH_MS);
}

unsigned
fp_verbs_conn_inflight (const struct fp_conn *base)
{
  const struct fp_verbs_conn *c = (const struct fp_verbs_conn *) base;

  return c->depth - c->nr_free;
}

bool
fp_verbs_conn_broken (const struct fp_conn *base)
{
  return atomic_load (&((const struct fp_verbs_conn *) base)->broken);
}

int
fp_verbs_conn_event_fd (const struct fp_conn *base)
{
  return ((const struct fp_verbs_conn *) base)->channel->fd;
}

void
fp_verbs_conn_event (struct fp_conn *base)
{
  struct fp_cm_event e;
  int err;

  while ((err = fp_cm_next (fp_verbs_to_conn (base)->channel, &e)) == 0)
    if (fp_cm_meaning (e.type) == FP_CM_DEAD)
      fp_verbs_conn_break (base);
  if (err != -EAGAIN)
    fp_verbs_conn_break (base);
}

int
fp_verbs_conn_destroy_qp (struct fp_verbs_conn *c)
{
  int err;

  FP_LOCK_SCOPE (&c->lock);
  if (c->qp == NULL)
    return 0;
  err = fp_verbs_destroy_ret (c->qp->context, ibv_destroy_qp (c->qp));
  if (err == 0)
    c->qp = c->id->qp = NULL;
  return err;
}

/* Free c, which may be only partly set up. */
static void
conn_destroy (struct fp_verbs_conn *c)
{
  struct fp_verbs_queue *q;

  if (c == NULL)
    return;
  q = fp_verbs_to_queue (c->base.queue);
  {
    FP_LOCK_SCOPE (&q->lock);
    if (c->index < q->max_conns && atomic_load (&q->conns[c->index]) == c)
      atomic_store (&q->conns[c->index], NULL);
  }
  /* Nothing is in flight, so a queue pair that the device does not release is
   * harmless.  It is leaked, together with its id.
   */
  if (fp_verbs_conn_destroy_qp (c) == 0) {
    if (c->id != NULL)
      rdma_destroy_id (c->id);
    fp_cm_channel_freep (&c->channel);
  }
  pthread_mutex_destroy (&c->lock);
  free (c->free);
  free (c->ops);
  free (c->passes);
  free (c->wrs);
  free (c->sges);
  free (c);
}

static void
conn_destroyp (struct fp_verbs_conn **cp)
{
  conn_destroy (*cp);
}

void
fp_verbs_conn_free (struct fp_conn *base)
{
  if (base == NULL)
    return;
  assert (fp_verbs_conn_inflight (base) == 0);
  fp_verbs_conn_break (base); /* tell the server, unless broken already */
  conn_destroy (fp_verbs_to_conn (base));
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
    attr.cap.max_send_wr = q->device->iwarp ? 2 * c->depth : c->depth;
    attr.cap.max_recv_wr = 1;
    /* iWARP allows only one SGE for a READ; we never need more. */
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    attr.cap.max_inline_data = inline_sizes[i];
    err = fp_rdma_ret (rdma_create_qp (c->id, q->pd, &attr));
  }
  if (err != 0)
    return err;
  c->qp = c->id->qp;
  c->max_inline = attr.cap.max_inline_data;
  c->lkey = q->mr->lkey;
  c->fenced = q->device->iwarp;
  if (c->fenced) {
    c->fence.addr = (uintptr_t) q->fence;
    c->fence.length = 1;
    c->fence.lkey = q->fence_mr->lkey;
  }
  return 0;
}

static int
make_tables (struct fp_verbs_conn *c)
{
  unsigned i;

  c->free = calloc (c->depth, sizeof *c->free);
  c->ops = calloc (c->depth, sizeof *c->ops);
  c->passes = calloc (c->depth, sizeof *c->passes);
  c->wrs = calloc (2 * c->depth, sizeof *c->wrs);
  c->sges = calloc (2 * c->depth, sizeof *c->sges);
  if (c->free == NULL || c->ops == NULL || c->passes == NULL ||
      c->wrs == NULL || c->sges == NULL)
    return -ENOMEM;
  for (i = 0; i < c->depth; i++)
    c->free[i] = c->depth - 1 - i;
  c->nr_free = c->depth;
  return 0;
}

/* Add c to the queue's table. */
static int
enter (struct fp_verbs_conn *c, struct fp_verbs_queue *q)
{
  FP_LOCK_SCOPE (&q->lock);
  for (c->index = 0; c->index < q->max_conns; c->index++)
    if (atomic_load (&q->conns[c->index]) == NULL) {
      atomic_store (&q->conns[c->index], c);
      return 0;
    }
  return -EMFILE;
}

int
fp_verbs_conn_open (struct fp_conn **out, struct fp_queue *base,
                    const struct fp_conn_params *p, uint64_t deadline_ns)
{
  FP_CLEANUP (conn_destroyp) struct fp_verbs_conn *c = NULL;
  struct fp_verbs_queue *q = fp_verbs_to_queue (base);
  struct fp_data_hello hello = { .session = p->session, .lane = p->lane };
  int err;

  if (p->depth == 0 || p->depth > UINT16_MAX)
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
    abort (); /* a default mutex cannot fail */

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
  if (err == 0) {
    err = fp_verbs_establish (c->id, q->device, &hello, deadline_ns);
    if (err != 0)
      (void) fp_addr_doubt (p->addr); /* the name may lead elsewhere now */
  }
  if (err != 0)
    return err;

  err = enter (c, q);
  if (err != 0)
    return err;
  *out = &FP_STEAL (c)->base;
  return 0;
}
