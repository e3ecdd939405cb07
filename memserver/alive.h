/* SPDX-License-Identifier: BSD-3-Clause */
/* alive.h - notify systemd, if it started this server, that the server is
 * ready, or stops.  With WatchdogSec=, also notify it that the event loop
 * still runs.
 *
 * Threads:  the event loop's.
 */

#ifndef MEMSERVER_ALIVE_H
#define MEMSERVER_ALIVE_H

struct event;
struct event_base;

/* Report that the server is ready, and start the watchdog's timer.  *out is a
 * timer for event_free, or NULL if systemd does not watch.  Return 0 or
 * -ENOMEM.
 */
int alive_start (struct event **out, struct event_base *base);

/* Report that the server stops, and that it needs so many seconds for it:
 * systemd waits for longer than TimeoutStopSec=.
 */
void alive_drains (unsigned seconds);

#endif /* MEMSERVER_ALIVE_H */
