/* SPDX-License-Identifier: BSD-3-Clause */
/* op_queue.c - see op_queue.h. */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "transport/op_queue.h"

int
fp_op_queue_new (struct fp_op_queue **out, size_t size,
                 const struct fp_transport_ops *ops,
                 const struct fp_queue_params *p, int fd)
{
  struct fp_op_queue *q;

  if (fd == -1)
    return -errno;
  q = calloc (1, size);
  if (q == NULL) {
    close (fd);
    return -ENOMEM;
  }
  q->base.ops = ops;
  q->fd = fd;
  q->depth = p->depth;
  fp_op_list_init (&q->done);
  *out = q;
  return 0;
}

void
fp_op_queue_free (struct fp_queue *base)
{
  struct fp_op_queue *q = (struct fp_op_queue *) base;

  close (q->fd);
  free (q);
}

int
fp_op_queue_fd (const struct fp_queue *base)
{
  return ((const struct fp_op_queue *) base)->fd;
}
