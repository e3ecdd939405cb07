/* SPDX-License-Identifier: BSD-3-Clause */
/* event_loop.h - the event loop of the server, with two priorities (libevent,
 * event_priority_set).  Signals, the watchdog and memory pressure are urgent.
 * They wait for at most EVENT_LOOP_TURN other callbacks, however many
 * connections are ready.
 *
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_EVENT_LOOP_H
#define MEMSERVER_EVENT_LOOP_H

#define EVENT_LOOP_TURN 16

struct event;
struct event_base;

/* Return a new event base, or NULL if there is no memory. */
struct event_base *event_loop_new (void);

/* Make ev urgent.  Call this before event_add. */
void event_loop_urgent (struct event *ev);

#endif /* MEMSERVER_EVENT_LOOP_H */
