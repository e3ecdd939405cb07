/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_queue.c - see verbs_queue.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "transport/op_queue.h"
#include "transport/verbs_err.h"
#include "transport/verbs_queue.h"

/* Bytes: a whole page, because the server may write to it. */
#define FENCE_SIZE 4096

static void
queue_freep (struct fp_verbs_queue **qp)
{
  fp_verbs_queue_free (*qp);
}

int
fp_verbs_queue_new (struct fp_verbs_queue **out,
                    const struct fp_queue_params *p)
{
  FP_CLEANUP (queue_freep) struct fp_verbs_queue *q = NULL;
  int err;

  if (p->depth == 0 || p->memory == NULL || p->memory_size == 0 ||
      p->max_conns == 0 || p->max_conns > UINT16_MAX)
    return -EINVAL;
  q = calloc (1, sizeof *q);
  if (q == NULL)
    return -ENOMEM;
  q->depth = p->depth;
  q->memory = p->memory;
  q->memory_size = p->memory_size;
  q->done_tail = &q->done;
  q->timer = -1;
  q->epoll = p->epoll;
  err = pthread_mutex_init (&q->lock, NULL);
  if (err != 0)
    abort (); /* a default mutex cannot fail */
  q->max_conns = p->max_conns;
  q->conns = calloc (q->max_conns, sizeof *q->conns);
  if (q->conns == NULL)
    return -ENOMEM;
  q->timer = timerfd_create (CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (q->timer == -1)
    return -errno;
  err = fp_queue_watch (q->epoll, &fp_transport_rdma, q->timer);
  if (err != 0)
    return err;
  *out = FP_STEAL (q);
  return 0;
}

/* Undo bind, even if it stopped half-way.  All queue pairs are gone, so
 * objects that the device does not release are unused, and are leaked.
 */
static void
unbind (struct fp_verbs_queue *q, struct ibv_cq *cq)
{
  /* A channel that is leaked must not wake the lane. */
  if (q->channel != NULL)
    fp_queue_unwatch (q->epoll, q->channel->fd);
  if (q->mr != NULL)
    (void) fp_verbs_ret (ibv_dereg_mr (q->mr));
  if (q->fence_mr != NULL)
    (void) fp_verbs_ret (ibv_dereg_mr (q->fence_mr));
  if (cq != NULL)
    (void) fp_verbs_ret (ibv_destroy_cq (cq));
  if (q->channel != NULL)
    (void) fp_verbs_ret (ibv_destroy_comp_channel (q->channel));
  fp_verbs_device_put (q->device);
  free (q->fence);
  q->fence = NULL;
  q->fence_mr = NULL;
  q->mr = NULL;
  q->channel = NULL;
  q->device = NULL;
}

void
fp_verbs_queue_free (struct fp_verbs_queue *q)
{
  if (q == NULL)
    return;
  unbind (q, atomic_load (&q->cq));
  if (q->timer != -1)
    close (q->timer);
  pthread_mutex_destroy (&q->lock);
  free (q->conns);
  free (q);
}

static int
make_channel (struct fp_verbs_queue *q, struct ibv_context *context)
{
  int flags;

  q->channel = ibv_create_comp_channel (context);
  if (q->channel == NULL)
    return fp_verbs_null ();
  flags = fcntl (q->channel->fd, F_GETFL);
  if (flags == -1 || fcntl (q->channel->fd, F_SETFL, flags | O_NONBLOCK) == -1)
    return -errno;
  return fp_queue_watch (q->epoll, &fp_transport_rdma, q->channel->fd);
}

static int
bind_parts (struct fp_verbs_queue *q, struct ibv_context *context,
            struct ibv_cq **cq)
{
  uint64_t cqe;
  int err;

  err = fp_verbs_device_get (&q->device, context);
  if (err == 0)
    err = fp_verbs_device_pd (q->device, &q->pd);
  if (err == 0)
    err = make_channel (q, context);
  if (err != 0)
    return err;
  /* On iWARP, a WRITE that fails and its fence both have a completion. */
  cqe = q->device->iwarp ? 2 * (uint64_t) q->depth : q->depth;
  if (cqe > q->device->max_cqe)
    return -EINVAL;
  *cq = ibv_create_cq (context, (int) cqe, NULL, q->channel, 0);
  if (*cq == NULL)
    return fp_verbs_null ();
  q->mr = ibv_reg_mr (q->pd, q->memory, q->memory_size,
                      fp_verbs_local_access (q->device));
  if (q->mr == NULL)
    return fp_verbs_null ();
  if (q->device->iwarp) {
    q->fence = aligned_alloc (FENCE_SIZE, FENCE_SIZE);
    if (q->fence == NULL)
      return -ENOMEM;
    q->fence_mr = ibv_reg_mr (q->pd, q->fence, FENCE_SIZE,
                              fp_verbs_local_access (q->device));
    if (q->fence_mr == NULL)
      return fp_verbs_null ();
  }
  /* Request an event now: a thread may sleep on the fd already. */
  q->armed = true;
  q->polled = false;
  return fp_verbs_ret (ibv_req_notify_cq (*cq, 0));
}

int
fp_verbs_queue_bind (struct fp_verbs_queue *q, struct ibv_context *device)
{
  struct ibv_cq *cq = NULL;
  int err;

  FP_LOCK_SCOPE (&q->lock);
  if (atomic_load (&q->cq) != NULL)
    return q->device->context == device ? 0 : -EXDEV;
  err = bind_parts (q, device, &cq);
  if (err != 0)
    unbind (q, cq);
  else {
    atomic_store (&q->base.sleep_at_once, q->device->software);
    atomic_store (&q->cq, cq);
  }
  return err;
}

int
fp_verbs_queue_rearm (struct fp_verbs_queue *q)
{
  struct ibv_cq *cq = atomic_load_explicit (&q->cq, memory_order_acquire);
  struct ibv_cq *event_cq;
  void *context;
  int err;

  if (cq == NULL)
    return 0;
  err = fp_rdma_ret (ibv_get_cq_event (q->channel, &event_cq, &context));
  if (err == 0)
    ibv_ack_cq_events (event_cq, 1);
  else if (err != -EAGAIN && err != -EINTR)
    return err;
  else if (q->armed && !q->polled)
    return 0;
  q->polled = false;
  err = fp_verbs_ret (ibv_req_notify_cq (cq, 0));
  q->armed = err == 0;
  return err;
}

void
fp_verbs_queue_timer (struct fp_verbs_queue *q, unsigned ms)
{
  struct itimerspec t = { 0 };

  t.it_value.tv_sec = t.it_interval.tv_sec = ms / 1000;
  t.it_value.tv_nsec = t.it_interval.tv_nsec = (long) (ms % 1000) * 1000000;
  if (timerfd_settime (q->timer, 0, &t, NULL) != 0)
    abort (); /* only a bad argument can fail */
}
