/* SPDX-License-Identifier: BSD-3-Clause */
/* event_loop.h - the event loop of the server, with two priorities (libevent,
 * event_priority_set).  Signals, the watchdog and memory pressure are
 * urgent: they wait for EVENT_LOOP_TURN other callbacks at most, however many
 * connections are ready.
 *
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_EVENT_LOOP_H
#define MEMSERVER_EVENT_LOOP_H

#define EVENT_LOOP_TURN 16

struct event;
struct event_base;

/* Return a new event base; NULL: no memory. */
struct event_base *event_loop_new (void);

/* Make it urgent; before event_add. */
void event_loop_urgent (struct event *ev);

#endif /* MEMSERVER_EVENT_LOOP_H */
