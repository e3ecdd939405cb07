/* SPDX-License-Identifier: BSD-3-Clause */
/* server.h - the memory server: its pool, listeners, sessions and volumes.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  everything here belongs to the event loop's thread, except
 *           server_poke.
 * Memory:   bounded by the limits below, however many clients connect.
 */

#ifndef MEMSERVER_SERVER_H
#define MEMSERVER_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/uuid.h"
#include "memserver/metrics.h"
#include "memserver/options.h"
#include "memserver/pool/mailbox.h"
#include "memserver/pool/pool.h"
#include "memserver/store/records.h"
#include "proto/messages.h"

#define MAX_SESSIONS 1024
#define MAX_FRESH 128 /* connections that have not said HELLO */
/* One origin (origin.h) has at most half of the fresh connections, half of the
 * sessions and half of the data connections.
 */
#define MAX_FRESH_ORIGIN (MAX_FRESH / 2)
#define MAX_SESSIONS_ORIGIN (MAX_SESSIONS / 2)
#define MAX_DATA_ORIGIN (MAX_DATA_ALL / 2)
#define MAX_DATA 128 /* data connections of one session */
#define MAX_DATA_ALL 1024
#define HELLO_MS 10000  /* time limit for HELLO */
#define ANSWER_MS 60000 /* time limit for answering a request */
#define WAIT_MS 5000    /* longest wait of a request for a slab or its turn */
#define STALL_MS 10000  /* longest silence in the middle of a data frame */
#define RETURN_MS 3000  /* longest wait for a client gone without BYE */

struct access;
struct event;
struct event_base;
struct guard_reread;
struct fp_tls;
struct listener;
struct pressure;
struct rdma;
struct session;
TAILQ_HEAD (session_list, session);

#define NR_SIGNALS 4

struct server {
  const struct options *options;
  struct fp_uuid uuid;
  uint64_t start_ns;
  struct event_base *base;
  struct mailbox *mailbox;
  struct pool *pool;
  struct fp_tls *tls;          /* NULL: no TLS */
  struct access *access;       /* NULL: no access file, all is allowed */
  struct guard_reread *reread; /* NULL until the first reread */
  struct pressure *pressure;   /* NULL in tests: pressure is not watched */
  struct metrics *metrics;     /* NULL: no --metrics */
  struct metrics_counts counts;
  struct rdma *rdma;
  struct listener *listeners[MAX_LISTEN];
  unsigned nr_listeners;
  struct event *signals[NR_SIGNALS];
  bool stopping;

  struct records records;
  struct session_list fresh;    /* oldest first */
  struct session_list sessions; /* after HELLO, until drained */
  struct session_list waiting;  /* their requests wait for a slab or a turn */
  unsigned nr_fresh, nr_sessions, nr_waiting, nr_data;

  struct note poke;
  _Atomic bool poked; /* something changed: another round is due */
  unsigned poke_left; /* sessions left to try in this round */
};

/* Start the server.  On failure why is "", or says what failed and what to do.
 * Call server_end in any case.
 */
#define WHY_MAX 512
int server_start (struct server *srv, const struct options *o,
                  char why[WHY_MAX]);

/* Run until SIGTERM or SIGINT, and until all sessions have ended. */
int server_run (struct server *srv);

void server_end (struct server *srv);

/* Retry the waiting requests soon: something that they wait for has changed.
 * May be called from any thread.
 */
void server_poke (struct server *srv);

/* Note that a session is gone.  When the server stops, the last one ends the
 * loop.
 */
void server_session_gone (struct server *srv);

/* Return the session with this id, or NULL. */
struct session *server_find_session (struct server *srv, uint64_t id);

/* Log how many slabs are lent, and which client has each volume. */
void server_log_state (struct server *srv);

#endif /* MEMSERVER_SERVER_H */
