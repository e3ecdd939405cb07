/* SPDX-License-Identifier: BSD-3-Clause */
/* mailbox.h - how other threads tell the event loop that something is done.
 *
 * A note is the poster's memory.  It runs once on the event loop for each
 * post, unless it was waiting already.  A note that is posted by a note runs
 * after the loop has looked at everything else.  Long work is done in parts
 * that way.  After TURN_MS the rest of the list waits in the same way.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  mailbox_post from any; the rest on the loop's thread.
 * Memory:   only mailbox_new allocates.
 */

#ifndef MEMSERVER_MAILBOX_H
#define MEMSERVER_MAILBOX_H

#include <stdbool.h>

#define TURN_MS 50 /* after that other events of the loop have their turn */

struct event_base;
struct mailbox;

struct note {
  void (*run) (struct note *note);
  struct note *next; /* for the mailbox only */
  bool waiting;      /* for the mailbox only */
};

int mailbox_new (struct mailbox **out, struct event_base *base);

/* Free the mailbox; no thread may post any more.  Waiting notes do not run. */
void mailbox_free (struct mailbox *m);

void mailbox_post (struct mailbox *m, struct note *note);

#endif /* MEMSERVER_MAILBOX_H */
