/* SPDX-License-Identifier: BSD-3-Clause */
/* op_queue.c - see op_queue.h. */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "transport/op_queue.h"

int
fp_op_queue_new (struct fp_op_queue **out, size_t size,
                 const struct fp_transport_ops *ops,
                 const struct fp_queue_params *p)
{
  struct fp_op_queue *q = calloc (1, size);

  if (q == NULL)
    return -ENOMEM;
  q->base.ops = ops;
  q->fd = -1;
  q->depth = p->depth;
  fp_op_list_init (&q->done);
  *out = q;
  return 0;
}

int
fp_queue_watch (int epoll, const struct fp_transport_ops *ops, int fd)
{
  struct epoll_event e = { .events = EPOLLIN,
                           .data.u64 = (uint64_t) ops->bit << 32 };

  if (epoll == 0)
    return 0;
  return epoll_ctl (epoll, EPOLL_CTL_ADD, fd, &e) == -1 ? -errno : 0;
}

void
fp_queue_unwatch (int epoll, int fd)
{
  if (epoll != 0)
    (void) epoll_ctl (epoll, EPOLL_CTL_DEL, fd, NULL);
}

int
fp_op_queue_wakes (struct fp_op_queue *q, const struct fp_queue_params *p,
                   int fd)
{
  q->fd = fd;
  return fd == -1 ? -errno : fp_queue_watch (p->epoll, q->base.ops, fd);
}

void
fp_op_queue_free (struct fp_queue *base)
{
  struct fp_op_queue *q = (struct fp_op_queue *) base;

  if (q->fd != -1)
    close (q->fd);
  free (q);
}
