/* SPDX-License-Identifier: BSD-3-Clause */
/* mailbox.c - how the other threads tell the event loop that something is
 * done: a list, and an eventfd that the loop watches.
 */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "mailbox.h"

struct mailbox {
  pthread_mutex_t lock; /* over first, last and every note in the list */
  struct note *first;
  struct note **last;
  int fd;
  struct event *ev;
};

static struct note *
take_all (struct mailbox *m)
{
  FP_LOCK_SCOPE (&m->lock);
  struct note *first = m->first;

  m->first = NULL;
  m->last = &m->first;
  return first;
}

/* From here on it can be posted again; returns the one after it. */
static struct note *
take_out (struct mailbox *m, struct note *note)
{
  FP_LOCK_SCOPE (&m->lock);

  note->waiting = false;
  return note->next;
}

/* What is posted meanwhile has to wait until the loop comes by again. */
static void
on_readable (evutil_socket_t fd, short what, void *arg)
{
  struct mailbox *m = arg;
  uint64_t count;
  struct note *note, *next;

  (void) what;
  if (read (fd, &count, sizeof count) < 0 && errno != EAGAIN)
    return;
  for (note = take_all (m); note != NULL; note = next) {
    next = take_out (m, note);
    note->run (note);
  }
}

int
mailbox_new (struct mailbox **out, struct event_base *base)
{
  struct mailbox *m = calloc (1, sizeof *m);

  if (!m)
    return -ENOMEM;
  m->last = &m->first;
  if (pthread_mutex_init (&m->lock, NULL) != 0) {
    free (m);
    return -ENOMEM;
  }
  m->fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (m->fd >= 0)
    m->ev = event_new (base, m->fd, EV_READ | EV_PERSIST, on_readable, m);
  if (!m->ev || event_add (m->ev, NULL) < 0) {
    int err = m->fd < 0 ? -errno : -ENOMEM;

    mailbox_free (m);
    return err;
  }
  *out = m;
  return 0;
}

void
mailbox_free (struct mailbox *m)
{
  if (!m)
    return;
  if (m->ev)
    event_free (m->ev);
  if (m->fd >= 0)
    close (m->fd);
  pthread_mutex_destroy (&m->lock);
  free (m);
}

void
mailbox_post (struct mailbox *m, struct note *note)
{
  static const uint64_t one = 1;

  {
    FP_LOCK_SCOPE (&m->lock);

    if (note->waiting)
      return;
    note->waiting = true;
    note->next = NULL;
    *m->last = note;
    m->last = &note->next;
  }
  /* It fails only when the counter is full, and then the loop will look. */
  if (write (m->fd, &one, sizeof one) < 0)
    return;
}
