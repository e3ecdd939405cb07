/* SPDX-License-Identifier: BSD-3-Clause */
/* session.h - one client: from its connection until nothing of it is left.
 *
 *   FRESH --HELLO--> READY --OPEN--> OPEN --BYE--> READY
 *     |                |               |
 *     +----------------+---------------+-- its connection ended --> ENDING
 *
 * An ENDING session has no connection and no access any more.  It is there
 * until the threads of its data connections have ended.
 *
 * However a session ends, none of its writes lands after another client has
 * the volume.  That includes a reset that only the network sent, which the
 * client does not know of.  Access ends like this:
 *
 * - tcp: keys are closed, so that a later frame is refused.  A frame that is
 *   being received holds its slab, and its thread is waited for.
 * - rdma: queue pairs are ended, and memory is deregistered.
 *
 * Only then does the volume have no holder (session_close_volume).  So over
 * tcp and rdma nothing must be fenced by time.  If a client hung up without
 * BYE, its volume waits for it (record.awaited_ns) only as a courtesy.
 *
 * Not covered: until its next heartbeat, this client may answer reads of what
 * was never written with zeros by itself.  Meanwhile another client may have
 * attached (not taken over) and written there.
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
#include "memserver/auth/origin.h"
#include "memserver/pool/pool.h"
#include "memserver/session/conn.h"
#include "memserver/session/sessions.h"
#include "memserver/session/tokens.h"
#include "proto/messages.h"

enum session_state {
  SESSION_FRESH,
  SESSION_READY,
  SESSION_OPEN,
  SESSION_ENDING,
};

/* How far the session's access to its volume is ended.
 *
 *   NOT --> NOW --> DONE --> NOT, when the volume is let go
 *           ^ |
 *           | v
 *          LATER
 */
enum closing {
  CLOSING_NOT,
  CLOSING_NOW,   /* some keys are closed */
  CLOSING_LATER, /* as NOW, and `more` is posted to go on */
  CLOSING_DONE,  /* all keys are closed; threads may still be in its memory */
};

/* How the session and its client part.  After the first three, memory that the
 * client has mapped counts as still in use (slab.abandoned).  After the others
 * nothing is mapped any more.  Over a Unix socket a client hangs up only then,
 * as the kernel does when the client dies.
 */
enum parting {
  PARTING_NONE,      /* not yet, or the client may not know it */
  PARTING_DISMISSED, /* by session_dismiss; the client may not know it */
  PARTING_HUNG_UP,   /* over TCP, without BYE: the client knows */
  PARTING_UNMAPPED,  /* as HUNG_UP, over a Unix socket */
  PARTING_ORDERLY,   /* by BYE, or hung up when dismissed, or EPIPE */
};

/* A long ZERO, which the worker does: NONE --> RUNS --> DONE --> NONE. */
enum zeroing {
  ZEROING_NONE,
  ZEROING_RUNS,
  ZEROING_DONE, /* the request that waits for it takes the result */
};

/* Patience with the request that is being answered: NEW --> RUNS --> OVER.
 * Each answer makes it NEW.
 */
enum patience {
  PATIENCE_NEW,  /* no wait so far */
  PATIENCE_RUNS, /* wait_timer runs */
  PATIENCE_OVER, /* waited for long enough */
};

struct data_conn;
struct event;
struct fp_verbs_domain;
struct fp_verbs_peer;
struct record;
TAILQ_HEAD (data_list, data_conn);

struct session {
  TAILQ_ENTRY (session) entry; /* in sessions.fresh or sessions.list */
  TAILQ_ENTRY (session) wait_entry;
  struct sessions *sessions;
  struct conn *conn; /* NULL while ENDING */
  struct origin origin;
  enum session_state state;

  /* Set at HELLO. */
  uint64_t id;
  struct tokens tokens; /* sent to the client, not used yet */
  /* UUID.  A client that says HELLO by it again has unmapped everything. */
  struct fp_uuid client;
  char name[FP_NAME_MAX + 1];
  uint64_t since;      /* seconds since 1970 */
  uint64_t renewed_ns; /* start of its lease */
  uint32_t transports; /* offered to it */
  bool tails;          /* the client knows FP_FEATURE_TAIL */
  bool lost_bits;      /* and FP_FEATURE_LOST */
  bool stuck;          /* see struct fp_ping, as it said last */
  struct who who;      /* identity, as guard_hello found it */

  /* While OPEN, and while ENDING until it is drained. */
  struct record *record;
  bool read_only; /* the session does not change the volume */
  bool stranger;  /* must not share what others have mapped */
  enum closing closing;
  uint32_t to_close; /* slabs of the record that may still have keys */
  struct note more;  /* continues closing keys */
  bool discard;      /* scrub and forget the volume when it is closed */
  enum parting parting;

  /* FRESH, after DATA_HELLO: the session that this will be a data connection
   * of.  The token is used up by then.
   */
  bool proved;
  uint64_t data_for;
  uint32_t data_lane;

  /* Opened only to be sent with the last reply; closed before the next. */
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
  enum zeroing zeroing;
  struct pool_move move;
  bool moving; /* the worker has the job */

  bool waiting; /* in sessions.waiting */
  enum patience patience;
  /* An orphan was forgotten for the request, whose slabs need other memory. */
  bool reclaimed;
  struct event *wait_timer;
};

/* Make a session for a new connection, and room for it (sessions_make_room).
 * Takes fd, also on failure.
 */
int session_new (struct sessions *all, int fd);

/* Change one of the states.  The move must be a legal one. */
void session_move (struct session *s, enum session_state to);
void session_part (struct session *s, enum parting to);
void session_set_zeroing (struct session *s, enum zeroing to);

/* End the session.  It is freed once its access and its threads have ended. */
void session_end (struct session *s, const char *why);

/* End the session's access, because another client takes its volume.  The
 * client sees the end of the stream.  The session ends when the client hangs
 * up, which it does when nothing of it is under way any more.  It also ends
 * when the client cannot believe in its lease any longer.  Before that the
 * client may touch what it has mapped (shm), and answer reads of what it knows
 * as never written (fp_peers_are_leased).
 */
void session_dismiss (struct session *s, const char *why);

/* Return true if the session has lost its volume or is losing it. */
bool session_is_leaving (const struct session *s);

/* Begin the session after HELLO.  -errno: no random bytes. */
int session_begin (struct session *s, const struct fp_hello *q);

/* End access to the volume, then let go of it.  Return false if keys are left
 * to close, or threads are still in its memory.  Then call again after a poke.
 */
bool session_close_volume (struct session *s);

/* Free the session if it is ENDING and nothing keeps it. */
void session_drained (struct session *s);

/* Let the request wait until sessions_poke, or for WAIT_MS. */
int session_wait (struct session *s);

/* End the waiting of a request that is answered now. */
void session_waited (struct session *s);

/* Start the session's lease again. */
void session_renew (struct session *s);

/* Close the descriptors that were opened only to be sent. */
void session_close_sent (struct session *s);

#endif /* MEMSERVER_SESSION_H */
