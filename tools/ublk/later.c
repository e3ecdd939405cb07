/* SPDX-License-Identifier: BSD-3-Clause */
/* later.c - see later.h. */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sync.h"
#include "base/thread.h"
#include "tools/ublk/later.h"

struct list {
  struct later_item *head, **tail;
};

struct later {
  struct fp_lane *lane;
  int fd;
  pthread_mutex_t lock;
  pthread_cond_t cond; /* todo has items, or it ends */
  struct list todo, done;
  bool ending;
  unsigned nr;
  struct fp_thread threads[];
};

static void
add (struct list *l, struct later_item *item)
{
  item->next = NULL;
  *l->tail = item;
  l->tail = &item->next;
}

static struct later_item *
take_first (struct list *l)
{
  struct later_item *item = l->head;

  l->head = item->next;
  if (l->head == NULL)
    l->tail = &l->head;
  return item;
}

static int
do_item (struct fp_lane *lane, const struct later_item *i)
{
  switch (i->kind) {
  case LATER_READ:
    return fp_lane_read (lane, i->buf, (uint32_t) i->length, i->offset);
  case LATER_WRITE:
    return fp_lane_write (lane, i->buf, (uint32_t) i->length, i->offset);
  case LATER_FLUSH:
    return fp_lane_flush (lane);
  case LATER_ZERO:
  case LATER_TRIM:
    return fp_lane_zero (lane, i->length, i->offset, i->kind == LATER_TRIM);
  }
  return -EINVAL;
}

static void
run (void *arg)
{
  struct later *l = arg;
  const uint64_t one = 1;

  fp_lock (&l->lock);
  for (;;) {
    struct later_item *item;

    while (l->todo.head == NULL && !l->ending)
      pthread_cond_wait (&l->cond, &l->lock);
    if (l->todo.head == NULL)
      break;
    item = take_first (&l->todo);
    pthread_mutex_unlock (&l->lock);
    item->status = do_item (l->lane, item);
    fp_lock (&l->lock);
    add (&l->done, item);
    if (write (l->fd, &one, sizeof one) == -1)
      assert (errno == EAGAIN); /* full, so it is readable already */
  }
  pthread_mutex_unlock (&l->lock);
}

int
later_new (struct later **out, struct fp_lane *lane, unsigned threads,
           const char *name)
{
  struct later *l = calloc (1, sizeof *l + threads * sizeof l->threads[0]);
  int r = 0;

  if (l == NULL)
    return -ENOMEM;
  l->lane = lane;
  fp_mutex_init (&l->lock);
  fp_cond_init (&l->cond);
  l->todo.tail = &l->todo.head;
  l->done.tail = &l->done.head;
  l->fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (l->fd == -1)
    r = -errno;
  for (; r == 0 && l->nr < threads; l->nr += r == 0)
    r = fp_thread_create (&l->threads[l->nr], name, run, l);
  if (r < 0) {
    later_free (l);
    return r;
  }
  *out = l;
  return 0;
}

void
later_free (struct later *l)
{
  if (l == NULL)
    return;
  fp_lock (&l->lock);
  l->ending = true;
  pthread_cond_broadcast (&l->cond);
  pthread_mutex_unlock (&l->lock);
  for (unsigned i = 0; i < l->nr; i++)
    fp_thread_join (&l->threads[i]);
  if (l->fd != -1)
    close (l->fd);
  pthread_cond_destroy (&l->cond);
  pthread_mutex_destroy (&l->lock);
  free (l);
}

void
later_push (struct later *l, struct later_item *item)
{
  FP_LOCK_SCOPE (&l->lock);
  add (&l->todo, item);
  pthread_cond_signal (&l->cond);
}

struct later_item *
later_take (struct later *l)
{
  struct later_item *all;
  uint64_t ignored;

  if (read (l->fd, &ignored, sizeof ignored) == -1)
    return NULL; /* none, or interrupted: the descriptor stays readable */
  FP_LOCK_SCOPE (&l->lock);
  all = l->done.head;
  l->done.head = NULL;
  l->done.tail = &l->done.head;
  return all;
}

int
later_fd (const struct later *l)
{
  return l->fd;
}
