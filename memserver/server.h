/* SPDX-License-Identifier: BSD-3-Clause */
/* server.h - the memory server: what it lends, where it listens, who is
 * there.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  everything here belongs to the event loop's thread.
 * Memory:   bounded by the limits below, whoever connects.
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
#include "proto/messages.h"

#define MAX_SESSIONS 1024
#define MAX_FRESH 128 /* connections that have not said HELLO */
/* Of those, of sessions and of data connections one peer (peer.h) has a half
 * at most.
 */
#define MAX_FRESH_PEER (MAX_FRESH / 2)
#define MAX_SESSIONS_PEER (MAX_SESSIONS / 2)
#define MAX_DATA_PEER (MAX_DATA_ALL / 2)
#define MAX_RECORDS 4096
#define MAX_RECORDS_OWNER (MAX_RECORDS / 4) /* of one, with an access file */
#define MAX_EXTENTS (UINT32_C (1) << 20)    /* of one volume */
#define MAX_MAP_WORDS (UINT32_C (8) << 20)  /* of all volumes: 64 MiB */
#define MAX_MAP_WORDS_OWNER (MAX_MAP_WORDS / 4) /* see MAX_RECORDS_OWNER */
#define MAX_DATA 128 /* data connections of one session */
#define MAX_DATA_ALL 1024
#define HELLO_MS 10000  /* to say HELLO in */
#define ANSWER_MS 60000 /* longer than any answer takes */
#define WAIT_MS 5000    /* that a request waits for a slab, or for its turn */
#define STALL_MS 10000  /* silence in the middle of a frame */
#define RETURN_MS 3000  /* that a volume waits for a client that hung up */

struct access;
struct event;
struct event_base;
struct guard_reread;
struct fp_tls;
struct listener;
struct persist;
struct pressure;
struct rdma;
struct session;
struct record;
TAILQ_HEAD (session_list, session);
TAILQ_HEAD (record_list, record);

#define NR_SIGNALS 4

struct server {
  const struct options *options;
  struct fp_uuid uuid;
  uint64_t start_ns;
  struct event_base *base;
  struct mailbox *mailbox;
  struct pool *pool;
  struct fp_tls *tls;          /* NULL: not spoken */
  struct access *access;       /* NULL: everybody may do everything */
  struct guard_reread *reread; /* of that; NULL: it was never needed */
  struct persist *persist;     /* NULL: nothing outlives this process */
  struct pressure *pressure;   /* NULL in tests: nobody watches */
  struct metrics *metrics;     /* NULL: nobody is told */
  struct metrics_counts counts;
  struct rdma *rdma;
  struct listener *listeners[MAX_LISTEN];
  unsigned nr_listeners;
  struct event *signals[NR_SIGNALS];
  bool stopping;

  struct session_list fresh;    /* oldest first */
  struct session_list sessions; /* after HELLO, until drained */
  struct session_list waiting;  /* for a slab, or for their turn */
  unsigned nr_fresh, nr_sessions, nr_waiting, nr_data;
  struct record_list records;
  unsigned nr_records;
  uint64_t map_words; /* allocated */

  struct note poke;
  _Atomic bool poked; /* something changed: another round is due */
  unsigned poke_left; /* sessions that are still to be tried in this round */
};

/* On failure *why, if not "", says what to do about it. */
#define WHY_MAX 512
int server_start (struct server *srv, const struct options *o,
                  char why[WHY_MAX]);

/* Until SIGTERM or SIGINT, and everybody is gone. */
int server_run (struct server *srv);

void server_end (struct server *srv);

/* Something changed that requests wait for: try them again, soon.  From any
 * thread.
 */
void server_poke (struct server *srv);

/* A session is gone. */
void server_session_gone (struct server *srv);

/* NULL: there is none. */
struct session *server_find_session (struct server *srv, uint64_t id);

/* Say in the log what is lent, and to whom. */
void server_log_state (struct server *srv);

#endif /* MEMSERVER_SERVER_H */
