/* SPDX-License-Identifier: BSD-3-Clause */
/* alive.h - tells systemd, if it started this server, that it serves, and from
 * then on, with WatchdogSec=, that its event loop goes round.
 *
 * Threads: the event loop's.
 */

#ifndef MEMSERVER_ALIVE_H
#define MEMSERVER_ALIVE_H

struct event;
struct event_base;

/* Says it once.  *out is a timer for event_free, or NULL: nobody watches.
 * Returns 0 or -ENOMEM.
 */
int alive_start (struct event **out, struct event_base *base);

#endif /* MEMSERVER_ALIVE_H */
