/* SPDX-License-Identifier: BSD-3-Clause */
/* op_queue.h - queue code shared by the transports: what wakes a lane.  For
 * those without hardware also lists of ops, and a queue with one of them.
 *
 *   struct NAME_queue { struct fp_op_queue common; ... };
 *
 * Errors:   0 or a negative errno value.
 * Threads:  as fp_queue.
 * Memory:   only new allocates.
 */

#ifndef FP_OP_QUEUE_H
#define FP_OP_QUEUE_H

#include "transport/transport.h"

/* List of ops, linked by op->next. */
struct fp_op_list {
  struct fp_op *head, **tail;
};

static inline void
fp_op_list_init (struct fp_op_list *l)
{
  l->head = NULL;
  l->tail = &l->head;
}

static inline void
fp_op_list_add (struct fp_op_list *l, struct fp_op *op)
{
  op->next = NULL;
  *l->tail = op;
  l->tail = &op->next;
}

/* Remove and return the op that *at points to. */
static inline struct fp_op *
fp_op_list_take_at (struct fp_op_list *l, struct fp_op **at)
{
  struct fp_op *op = *at;

  *at = op->next;
  if (l->tail == &op->next)
    l->tail = at;
  return op;
}

/* Remove and return the first op.  The list must not be empty. */
static inline struct fp_op *
fp_op_list_take (struct fp_op_list *l)
{
  return fp_op_list_take_at (l, &l->head);
}

/* Remove and return all ops, linked by next; NULL if there are none. */
static inline struct fp_op *
fp_op_list_take_all (struct fp_op_list *l)
{
  struct fp_op *all = l->head;

  fp_op_list_init (l);
  return all;
}

struct fp_op_queue {
  struct fp_queue base;
  int fd; /* wakes the lane, and is closed by free; -1: none */
  unsigned depth, inflight;
  struct fp_op_list done; /* completed, not yet returned by poll */
};

/* Allocate size bytes, with a struct fp_op_queue at the start and zeros behind
 * it.
 */
int fp_op_queue_new (struct fp_op_queue **out, size_t size,
                     const struct fp_transport_ops *ops,
                     const struct fp_queue_params *p);
/* Let fd wake the lane.  Take it over, also on failure.  If it is -1, return
 * -errno: the caller's attempt to create it failed.
 */
int fp_op_queue_wakes (struct fp_op_queue *q, const struct fp_queue_params *p,
                       int fd);

/* Let fd wake the lane that sleeps on this epoll set, unless that is 0. */
int fp_queue_watch (int epoll, const struct fp_transport_ops *ops, int fd);
/* Undo that.  A descriptor that is closed does not need it. */
void fp_queue_unwatch (int epoll, int fd);

/* Implementation of the call of fp_transport_ops. */
void fp_op_queue_free (struct fp_queue *base);

#endif /* FP_OP_QUEUE_H */
