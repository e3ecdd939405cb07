/* SPDX-License-Identifier: BSD-3-Clause */
/* session.h - one client: from its connection until nothing of it is left.
 *
 *   FRESH --HELLO--> READY --OPEN--> OPEN --BYE--> READY
 *     |                |               |
 *     +----------------+---------------+-- its connection ended --> ENDING
 *
 * A session that is ENDING has no connection and no access any more; it is
 * there until the threads of its data connections are.
 *
 * Whatever ends it (a reset that only the network sent, too, of which the
 * client knows nothing), no write of it lands after another client has the
 * volume: keys are closed first, so that a frame that comes later is refused
 * (tcp), and queue pairs are ended and memory is deregistered (rdma); a frame
 * that is just being received holds its slab, and its thread is waited for;
 * and only then has the volume no holder (session_close_volume).  So over tcp
 * and rdma nothing has to be fenced by time; that a volume whose client hung
 * up without BYE waits for it (record.awaited_ns) is a courtesy.  What is not
 * covered: until its next heartbeat such a client may answer reads of what was
 * never written with zeros by itself, while another one has attached (not
 * taken over) and written there.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_SESSION_H
#define MEMSERVER_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "memserver/auth/access.h"
#include "memserver/auth/peer.h"
#include "memserver/pool/pool.h"
#include "memserver/server.h"
#include "memserver/session/conn.h"
#include "memserver/session/tokens.h"
#include "proto/messages.h"

#define SESSION_FRESH 1u
#define SESSION_READY 2u
#define SESSION_OPEN 4u
#define SESSION_ENDING 8u

struct data_conn;
struct event;
struct fp_verbs_domain;
struct fp_verbs_peer;
struct record;
struct server;
TAILQ_HEAD (data_list, data_conn);

struct session {
  TAILQ_ENTRY (session) entry; /* of server.fresh or server.sessions */
  TAILQ_ENTRY (session) wait_entry;
  struct server *server;
  struct conn *conn; /* NULL while ENDING */
  struct peer peer;
  unsigned state;

  /* Since HELLO. */
  uint64_t id;
  struct tokens tokens;  /* told, and not shown yet */
  struct fp_uuid client; /* the same again: nothing is mapped any more */
  char name[FP_NAME_MAX + 1];
  uint64_t since;      /* seconds since 1970 */
  uint64_t renewed_ns; /* when its lease began anew */
  uint32_t transports; /* that it was offered */
  bool tails;          /* it knows FP_FEATURE_TAIL */
  struct who who;      /* as guard_hello found */

  /* While OPEN, and ENDING until it is drained. */
  struct record *record;
  bool read_only;    /* it changes nothing of that */
  bool stranger;     /* and shall not share what others have mapped */
  bool closing;      /* access is being ended, or was */
  uint32_t to_close; /* so many of the record's slabs may have keys */
  struct note more;  /* goes on with that */
  bool more_posted;
  bool discard;   /* and so is the volume, now */
  bool orderly;   /* the client has nothing mapped any more */
  bool left;      /* the client knows that the session is over */
  bool returns;   /* it hung up without BYE, and may reconnect */
  bool dismissed; /* see session_dismiss */

  /* FRESH, after DATA_HELLO: whose data connection it will be.  Its token is
   * taken by then.
   */
  bool proved;
  uint64_t data_for;
  uint32_t data_lane;

  /* Sent with the last reply, and closed before the next. */
  int sent_fds[FP_MAX_GRANTS];
  unsigned nr_sent_fds;

  struct data_list data;
  unsigned nr_data;
  struct fp_verbs_domain *domain;
  struct {
    struct fp_verbs_peer *verbs;
    uint32_t lane;
  } peers[MAX_DATA];
  unsigned nr_peers;

  struct pool_zero zero;
  bool zeroing; /* the worker has it */
  bool zeroed;  /* and is done */
  struct pool_move move;
  bool moving; /* likewise */

  bool waiting;
  bool wait_over; /* the request was tried for long enough */
  bool retried;   /* the request waited before */
  bool reclaimed; /* it has had an orphan forgotten that has to get memory */
  struct event *wait_timer;
};

/* Takes fd.  If there are too many that have not said HELLO, one that came
 * before goes: of the same peer, if that has more than its share, else of the
 * one that has most; the oldest.
 */
int session_new (struct server *srv, int fd);

/* Descriptors have run out: one that has not said HELLO goes.  False: there is
 * none.
 */
bool session_shed (struct server *srv);

/* What the peer of s has, s itself too: sessions, and data connections. */
unsigned session_count_of_peer (const struct session *s, unsigned *nr_data);

/* End its access now; the rest follows. */
void session_end (struct session *s, const char *why);

/* Another client takes its volume: end its access.  It is told by the end of
 * the stream, and its session ends when it hangs up, as it does when nothing
 * of it is under way any more; or when it cannot believe in its lease any
 * longer. Before that it may touch what it has mapped (shm), and answer by
 * itself what it knows as never written (fp_volume_is_leased).
 */
void session_dismiss (struct session *s, const char *why);

/* It has its volume no more, or soon. */
bool session_is_leaving (const struct session *s);

/* After HELLO: it is a session now.  -errno: no random bytes. */
int session_begin (struct session *s, const struct fp_hello *q);

/* End access to the volume, then let go of it.  False: there are keys left to
 * close, or threads are still in its memory; call again after a poke.
 */
bool session_close_volume (struct session *s);

/* If it is ENDING and nothing keeps it: it is gone. */
void session_drained (struct session *s);

/* The request waits until the server is poked, or WAIT_MS. */
int session_wait (struct session *s);

/* It is answered now. */
void session_waited (struct session *s);

/* Its lease begins anew. */
void session_renew (struct session *s);

/* What was opened only to be sent. */
void session_close_sent (struct session *s);

/* Call the handler of the message that is waiting for an answer. */
void session_dispatch (struct session *s);

#endif /* MEMSERVER_SESSION_H */
