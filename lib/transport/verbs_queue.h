/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_queue.h - where a lane's completions arrive: one completion queue, its
 * channel, and the registration of the lane's memory.
 *
 * The device is unknown until the first address is resolved.  The first
 * connection binds the queue to its device.  A connection over another device
 * is refused with -EXDEV.
 *
 * The lane's epoll set gets the channel, and a timer for verbs_client.c.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  bind may run beside the other calls, which belong to one thread at
 *           a time.
 * Memory:   new and bind allocate.
 */

#ifndef FP_VERBS_QUEUE_H
#define FP_VERBS_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"
#include "transport/verbs_device.h"

struct fp_verbs_conn;

struct fp_verbs_queue {
  struct fp_queue base;
  unsigned depth;
  void *memory;
  size_t memory_size;
  int epoll; /* the lane's: transport.h */
  int timer;

  /* Used only by the thread that posts and polls. */
  unsigned inflight;
  uint32_t next_pass;
  struct fp_op *done; /* completed, not yet returned by poll */
  struct fp_op **done_tail;
  struct fp_verbs_conn *dirty; /* posted to since the last kick */
  bool armed;  /* an event was requested, and was not taken off the channel */
  bool polled; /* a completion was polled, which may have made that event */

  atomic_bool flushing; /* a broken connection may have ops in flight */

  /* Set by bind.  cq is set last, once: if it is set, the others are too. */
  _Atomic (struct ibv_cq *) cq;
  struct ibv_comp_channel *channel;
  struct ibv_mr *mr;
  void *fence; /* iWARP: page for the bytes of fences; never read */
  struct ibv_mr *fence_mr;
  struct fp_verbs_device *device;
  struct ibv_pd *pd;

  pthread_mutex_t lock; /* for bind, changes of conns, and the timer */
  unsigned max_conns;
  _Atomic (struct fp_verbs_conn *) *conns; /* NULL: free entry */
};

int fp_verbs_queue_new (struct fp_verbs_queue **out,
                        const struct fp_queue_params *p);
void fp_verbs_queue_free (struct fp_verbs_queue *q);

/* Create the completion queue on this device, unless it exists.  Return -EXDEV
 * if it exists on another device.
 */
int fp_verbs_queue_bind (struct fp_verbs_queue *q, struct ibv_context *device);

/* Take the event off the channel, if it is there, and request the next one.
 * A request is good for one event (ibv_req_notify_cq(3)).  So if there is no
 * event, it is still to come, and nothing is requested.  But the kernel drops
 * an event for which it has no memory (ib_uverbs_comp_handler in
 * uverbs_main.c).  So if a completion was polled meanwhile, request an event
 * in any case.  The caller must poll the completion queue after this, before
 * it sleeps.
 */
int fp_verbs_queue_rearm (struct fp_verbs_queue *q);

/* Wake the lane every ms milliseconds from now on; 0: stop.  The caller holds
 * the lock.
 */
void fp_verbs_queue_timer (struct fp_verbs_queue *q, unsigned ms);

#endif /* FP_VERBS_QUEUE_H */
