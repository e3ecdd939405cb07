/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_queue.h - where the completions of a lane arrive: one completion
 * queue, its channel, and the registration of the lane's memory.
 *
 * Which device that is, nobody knows before the first address is resolved:
 * the first connection binds the queue to its device, and one that leads
 * over another device is refused with -EXDEV.
 *
 * The fd is an epoll set, so that it can be handed out before there is a
 * completion channel to put into it; a timer is in it too, for
 * verbs_client.c.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  bind may run beside the other calls, which belong to one thread
 *           at a time.
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
  int epoll;
  int timer;

  /* These belong to the thread that posts and polls. */
  unsigned inflight;
  uint32_t next_pass;
  struct fp_op *done; /* completed, not yet yielded */
  struct fp_op **done_tail;
  struct fp_verbs_conn *dirty; /* posted to since the last kick */

  atomic_bool flushing; /* a broken connection may have ops in flight */

  /* cq is set last, once, and is the sign that the others are there. */
  _Atomic (struct ibv_cq *) cq;
  struct ibv_comp_channel *channel;
  struct ibv_mr *mr;
  void *fence; /* iWARP: a page that nobody reads, and its registration */
  struct ibv_mr *fence_mr;
  struct fp_verbs_device *device;
  struct ibv_pd *pd;

  pthread_mutex_t lock; /* bind, changes of conns, the timer */
  unsigned max_conns;
  _Atomic (struct fp_verbs_conn *) *conns; /* NULL: a free place */
};

int fp_verbs_queue_new (struct fp_verbs_queue **out,
                        const struct fp_queue_params *p);
void fp_verbs_queue_free (struct fp_verbs_queue *q);

/* Make the completion queue on this device, unless that was done; -EXDEV:
 * it was done on another one.
 */
int fp_verbs_queue_bind (struct fp_verbs_queue *q, struct ibv_context *device);

/* Take waiting events off the channel and ask for the next one.  The caller
 * polls the completion queue after it, and only then sleeps.
 */
int fp_verbs_queue_rearm (struct fp_verbs_queue *q);

/* The fd becomes readable every ms from now on; 0: not any more.  Call it
 * with the lock held.
 */
void fp_verbs_queue_timer (struct fp_verbs_queue *q, unsigned ms);

#endif /* FP_VERBS_QUEUE_H */
