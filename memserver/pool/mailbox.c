/* SPDX-License-Identifier: BSD-3-Clause */
/* mailbox.c - how other threads tell the event loop that something is done: a
 * list, and an eventfd that the loop watches.
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
#include "base/clock.h"
#include "memserver/pool/mailbox.h"

struct mailbox {
  pthread_mutex_t lock; /* guards first, last and all notes in the list */
  struct note *first;
  struct note **last;
  int fd;
  struct event *ev;
};

static void
wake (struct mailbox *m)
{
  static const uint64_t one = 1;

  /* A write fails only if the counter is full, and then the loop will look. */
  if (write (m->fd, &one, sizeof one) < 0)
    return;
}

/* Take the first note; it may be posted again from now on.  Set *is_end if it
 * was the last one when end was read.  Return NULL if the list is empty.
 */
static struct note *
take_first (struct mailbox *m, struct note *const *end, bool *is_end)
{
  FP_LOCK_SCOPE (&m->lock);
  struct note *note = m->first;

  if (!note)
    return NULL;
  *is_end = &note->next == end;
  note->waiting = false;
  m->first = note->next;
  if (!m->first)
    m->last = &m->first;
  return note;
}

static struct note **
end_of (struct mailbox *m)
{
  FP_LOCK_SCOPE (&m->lock);

  return m->last;
}

/* Run the notes that are listed now.  Later ones, and the rest after TURN_MS,
 * run in the next turn of the loop.
 */
static void
on_readable (evutil_socket_t fd, short what, void *arg)
{
  uint64_t count, until = fp_deadline_in_ms (TURN_MS);
  struct mailbox *m = arg;
  struct note *const *end;
  bool is_end = false;
  struct note *note;

  (void) what;
  if (read (fd, &count, sizeof count) < 0 && errno != EAGAIN)
    return;
  end = end_of (m); /* after the read, so that later posts wake the loop */
  while (!is_end && (note = take_first (m, end, &is_end)) != NULL) {
    note->run (note);
    if (!is_end && fp_deadline_passed (until)) {
      wake (m);
      return;
    }
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
  {
    FP_LOCK_SCOPE (&m->lock);

    if (note->waiting)
      return;
    note->waiting = true;
    note->next = NULL;
    *m->last = note;
    m->last = &note->next;
  }
  wake (m);
}
