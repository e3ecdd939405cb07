/* SPDX-License-Identifier: BSD-3-Clause */
/* server_stop.h - end the server: first drain it if --drain says so, then end
 * all sessions.
 *
 *    NOT -------------> DRAINING --drained, or over--> NOW --signal--> exit
 *     |                    |                            ^
 *     |                    +----- another signal -------+
 *     +--- nothing is lent, or a restart keeps it ------+
 *
 * Draining is over after --drain, or when no client could move anything for
 * STOP_SETTLE_MS.  A client can come back in that time after a lost
 * connection.  It also hears how much room other servers have, as it asks
 * every 5 s.
 *
 * Errors:   0 or -ENOMEM.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_SERVER_STOP_H
#define MEMSERVER_SERVER_STOP_H

struct server;
struct stop;

#define STOP_SETTLE_MS 8000

enum stop_how {
  STOP_FOR_GOOD,
  STOP_FOR_RESTART /* the next server takes up what --backing keeps */
};

int stop_new (struct stop **out, struct server *srv);

/* Stop, or go on to the next state if that is under way. */
void stop_request (struct stop *stop, enum stop_how how);

void stop_free (struct stop *stop); /* stop may be NULL */

#endif /* MEMSERVER_SERVER_STOP_H */
