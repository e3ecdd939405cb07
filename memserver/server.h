/* SPDX-License-Identifier: BSD-3-Clause */
/* server.h - the memory server: it makes and owns the pool, the records of
 * volumes, the sessions and the listeners.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the event loop's.
 */

#ifndef MEMSERVER_SERVER_H
#define MEMSERVER_SERVER_H

#include "base/error.h"
#include "memserver/options.h"
#include "memserver/session/sessions.h"
#include "memserver/store/records.h"

#define NR_SIGNALS 4

struct event;
struct event_base;
struct listener;
struct mailbox;
struct metrics;
struct pool;
struct pressure;
struct stop;

struct server {
  const struct options *options;
  struct event_base *base;
  struct mailbox *mailbox;
  struct pool *pool;
  struct records records;
  struct sessions sessions;
  struct pressure *pressure; /* NULL until all else has started */
  struct metrics *metrics;   /* NULL: no --metrics */
  struct listener *listeners[MAX_LISTEN];
  unsigned nr_listeners;
  struct event *signals[NR_SIGNALS];
  struct stop *stop;
};

/* Start the server.  On failure the text of error is "", or says what failed
 * and what to do.  Call server_end in any case.
 */
int server_start (struct server *srv, const struct options *o,
                  struct fp_error *error);

/* Log how many slabs are lent, and which client has each volume. */
void server_log (struct server *srv);

/* Run until it is told to stop (server_stop.h), and until all sessions have
 * ended. */
int server_run (struct server *srv);

void server_end (struct server *srv);

#endif /* MEMSERVER_SERVER_H */
