/* SPDX-License-Identifier: BSD-3-Clause */
/* op_queue.h - what the queues of the transports without hardware share: ops
 * in lists, and a queue with a descriptor and a list of completed ops.
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

/* Linked by op->next. */
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

/* Take out the op that *at points to. */
static inline struct fp_op *
fp_op_list_take_at (struct fp_op_list *l, struct fp_op **at)
{
  struct fp_op *op = *at;

  *at = op->next;
  if (l->tail == &op->next)
    l->tail = at;
  return op;
}

/* The first; there is one. */
static inline struct fp_op *
fp_op_list_take (struct fp_op_list *l)
{
  return fp_op_list_take_at (l, &l->head);
}

/* All, linked; NULL: none. */
static inline struct fp_op *
fp_op_list_take_all (struct fp_op_list *l)
{
  struct fp_op *all = l->head;

  fp_op_list_init (l);
  return all;
}

struct fp_op_queue {
  struct fp_queue base;
  int fd; /* what fp_transport_ops.fd hands out */
  unsigned depth, inflight;
  struct fp_op_list done; /* completed, not yet yielded */
};

/* *out is of size bytes, this at its start and zeros behind it.  Takes fd
 * over, also if it fails: -1 if making it failed, errno says why.
 */
int fp_op_queue_new (struct fp_op_queue **out, size_t size,
                     const struct fp_transport_ops *ops,
                     const struct fp_queue_params *p, int fd);

/* These are calls of fp_transport_ops. */
void fp_op_queue_free (struct fp_queue *base);
int fp_op_queue_fd (const struct fp_queue *base);

#endif /* FP_OP_QUEUE_H */
