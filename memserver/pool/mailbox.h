/* SPDX-License-Identifier: BSD-3-Clause */
/* mailbox.h - how the other threads tell the event loop that something is
 * done.
 *
 * A note is memory of whoever posts it; it runs once on the loop for each
 * time it was posted while it was not waiting already.  A note that is posted
 * by a note runs when the loop has looked at everything else: that is how long
 * work is done in parts.  So does the rest of the list when TURN_MS are over.
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
  struct note *next; /* the mailbox's */
  bool waiting;      /* the mailbox's */
};

int mailbox_new (struct mailbox **out, struct event_base *base);

/* Nobody posts any more.  Notes that are waiting do not run. */
void mailbox_free (struct mailbox *m);

void mailbox_post (struct mailbox *m, struct note *note);

#endif /* MEMSERVER_MAILBOX_H */
