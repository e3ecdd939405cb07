/* SPDX-License-Identifier: BSD-3-Clause */
/* sessions.h - all sessions of this server, and the limits on them.
 *
 * The server embeds one, zeroed, and sets the first fields before it accepts a
 * connection.  Only `wanted` and `drain` change later (pressure.c, drain.c),
 * and access_reread.c replaces `access`.  The server frees what they point to,
 * and rdma.  Other threads read mailbox, pool and access_file.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's, except sessions_poke.
 * Memory:   bounded by the limits below and MAX_DATA (tokens.h), however many
 *           clients connect.
 */

#ifndef MEMSERVER_SESSIONS_H
#define MEMSERVER_SESSIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/uuid.h"
#include "memserver/pool/mailbox.h"
#include "proto/messages.h"

#define MAX_SESSIONS 1024
#define MAX_FRESH 128 /* connections that have not said HELLO */
#define MAX_DATA_ALL 1024
/* One origin (origin.h) has at most half of the fresh connections, half of the
 * sessions and half of the data connections.
 */
#define MAX_FRESH_ORIGIN (MAX_FRESH / 2)
#define MAX_SESSIONS_ORIGIN (MAX_SESSIONS / 2)
#define MAX_DATA_ORIGIN (MAX_DATA_ALL / 2)
#define HELLO_MS 10000  /* time limit for HELLO */
#define ANSWER_MS 60000 /* time limit for answering a request */
#define WAIT_MS 5000    /* longest wait of a request for a slab or its turn */
#define STALL_MS 10000  /* longest silence in the middle of a data frame */
#define RETURN_MS 3000  /* longest wait for a client gone without BYE */

struct access;
struct event_base;
struct fp_tls;
struct access_reread;
struct origin;
struct pool;
struct rdma;
struct records;
struct session;
TAILQ_HEAD (session_list, session);

/* See drain.h. */
enum drain {
  DRAIN_NOT,
  DRAIN_ASKED, /* until it is cancelled */
  DRAIN_LAST   /* the server stops afterwards */
};

/* Numbers since the start. */
struct sessions_counts {
  uint64_t sessions;
  uint64_t granted, released;          /* slabs */
  uint64_t requests[FP_MSG_DRAIN + 1]; /* answered, by type; 0: unknown */
  uint64_t refused[FP_STATUS_IO + 1];  /* answered with an error, by status */
};

struct sessions {
  struct event_base *base;
  struct mailbox *mailbox;
  struct pool *pool;
  struct records *records;
  struct fp_tls *tls;      /* NULL: no TLS */
  struct access *access;   /* NULL: no access file, all is allowed */
  const char *access_file; /* path of that file */
  struct fp_uuid uuid;     /* UUID of this server */
  const char *name;        /* name of this server */
  uint64_t start_ns;
  bool insecure;   /* other machines can connect without TLS */
  uint32_t wanted; /* slabs that this host needs back from clients */
  enum drain drain;

  struct rdma *rdma;            /* NULL: RDMA listens nowhere */
  struct access_reread *reread; /* NULL until the first reread */
  struct session_list fresh;    /* oldest first */
  struct session_list list;     /* after HELLO, until drained */
  struct session_list waiting;  /* their requests wait for a slab or a turn */
  unsigned nr_fresh, nr, nr_waiting, nr_data;
  struct sessions_counts counts;

  void (*dispatch) (struct session *s); /* see sessions_init */

  bool stopping;
  void (*stopped) (void *ctx); /* see sessions_stop */
  void *stopped_ctx;

  struct note poke;
  _Atomic bool poked; /* something changed: another round is due */
  unsigned poke_left; /* sessions left to try in this round */
};

/* Make empty lists; the fields that the server sets stay.  dispatch (s)
 * answers the request that s waits with (ctl_dispatch).
 */
void sessions_init (struct sessions *all,
                    void (*dispatch) (struct session *s));

/* End all sessions, and open no volume any more.  Call stopped once, when the
 * last session is gone, perhaps at once.  It must free nothing: a function of
 * a session may be running.
 */
void sessions_stop (struct sessions *all, void (*stopped) (void *ctx),
                    void *ctx);

/* Retry the waiting requests soon: something that they wait for has changed.
 * May be called from any thread.
 */
void sessions_poke (struct sessions *all);

/* Return the session with this id, or NULL. */
struct session *sessions_find (const struct sessions *all, uint64_t id);

/* Note that a session was freed: poke, and end sessions_stop with the last. */
void sessions_gone (struct sessions *all);

/* Make room for a connection that has not said HELLO.  If there are too many,
 * one of them goes.  It is the oldest of the same origin if that has more than
 * its share, else of the origin with most.
 */
void sessions_make_room (struct sessions *all, const struct origin *origin);

/* Drop a connection that has not said HELLO, because descriptors have run out.
 * Return false if there is none.
 */
bool sessions_shed (struct sessions *all);

/* Return how many sessions an origin has.  Set *nr_data to the number of their
 * data connections.
 */
unsigned sessions_of_origin (const struct sessions *all,
                             const struct origin *origin, unsigned *nr_data);

#endif /* MEMSERVER_SESSIONS_H */
