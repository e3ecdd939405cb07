/* SPDX-License-Identifier: BSD-3-Clause */
/* session.c - one client: from its connection until nothing of it is left. */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "memserver/session/data.h"
#include "memserver/session/guard.h"
#include "memserver/session/keys.h"
#include "memserver/session/rdma.h"
#include "memserver/session/session.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"
#include "transport/tls/tls.h"

static const char *
title (const struct session *s)
{
  return s->name[0] ? s->name : conn_address (s->conn);
}

void
session_close_sent (struct session *s)
{
  while (s->nr_sent_fds > 0)
    close (s->sent_fds[--s->nr_sent_fds]);
}

void
session_move (struct session *s, enum session_state to)
{
  static const unsigned allowed[] = {
    [SESSION_FRESH] = 1u << SESSION_READY,
    [SESSION_READY] = 1u << SESSION_OPEN | 1u << SESSION_ENDING,
    [SESSION_OPEN] = 1u << SESSION_READY | 1u << SESSION_ENDING,
    [SESSION_ENDING] = 0,
  };

  assert (allowed[s->state] & 1u << to);
  s->state = to;
}

static void
set_closing (struct session *s, enum closing to)
{
  static const unsigned allowed[] = {
    [CLOSING_NOT] = 1u << CLOSING_NOW,
    [CLOSING_NOW] = 1u << CLOSING_LATER | 1u << CLOSING_DONE,
    [CLOSING_LATER] = 1u << CLOSING_NOW,
    [CLOSING_DONE] = 1u << CLOSING_NOT,
  };

  assert (allowed[s->closing] & 1u << to);
  s->closing = to;
}

void
session_part (struct session *s, enum parting to)
{
  static const unsigned allowed[] = {
    [PARTING_NONE] = 1u << PARTING_NONE | 1u << PARTING_DISMISSED |
                     1u << PARTING_HUNG_UP | 1u << PARTING_UNMAPPED |
                     1u << PARTING_ORDERLY,
    [PARTING_DISMISSED] = 1u << PARTING_DISMISSED | 1u << PARTING_ORDERLY,
    [PARTING_HUNG_UP] = 0,
    [PARTING_UNMAPPED] = 0,
    [PARTING_ORDERLY] = 1u << PARTING_ORDERLY, /* BYE is tried again */
  };

  assert (allowed[s->parting] & 1u << to);
  s->parting = to;
}

void
session_set_zeroing (struct session *s, enum zeroing to)
{
  static const unsigned allowed[] = {
    [ZEROING_NONE] = 1u << ZEROING_RUNS,
    [ZEROING_RUNS] = 1u << ZEROING_DONE,
    [ZEROING_DONE] = 1u << ZEROING_NONE,
  };

  assert (allowed[s->zeroing] & 1u << to);
  s->zeroing = to;
}

static void
set_patience (struct session *s, enum patience to)
{
  static const unsigned allowed[] = {
    [PATIENCE_NEW] = 1u << PATIENCE_NEW | 1u << PATIENCE_RUNS,
    [PATIENCE_RUNS] = 1u << PATIENCE_NEW | 1u << PATIENCE_OVER,
    [PATIENCE_OVER] = 1u << PATIENCE_NEW,
  };

  assert (allowed[s->patience] & 1u << to);
  s->patience = to;
}

static void
session_free (struct session *s)
{
  session_close_sent (s);
  conn_free (s->conn);
  if (s->wait_timer)
    event_free (s->wait_timer);
  free (s);
}

static void
stop_waiting (struct session *s)
{
  if (!s->waiting)
    return;
  s->waiting = false;
  TAILQ_REMOVE (&s->sessions->waiting, s, wait_entry);
  s->sessions->nr_waiting--;
  event_del (s->wait_timer);
}

/* Free a session that never was more than a connection. */
static void
drop_fresh (struct session *s)
{
  TAILQ_REMOVE (&s->sessions->fresh, s, entry);
  s->sessions->nr_fresh--;
  session_free (s);
}

static void
on_message (struct conn *c)
{
  struct session *s = conn_owner (c);

  conn_set_deadline (c, ANSWER_MS, "a request was not answered in time");
  s->sessions->dispatch (s);
}

/* Return how the session and its client part now that c has ended.  Over TCP
 * nothing is mapped.  A hang-up there may come from the network, except after
 * a dismissal: then it is the client's answer.
 */
static enum parting
part (enum parting before, const struct conn *c)
{
  bool left = conn_closed_by_client (c), hung_up = conn_hung_up (c);

  if (before == PARTING_ORDERLY || (before == PARTING_DISMISSED && !hung_up))
    return before;
  if (before == PARTING_DISMISSED)
    return PARTING_ORDERLY;
  if (conn_is_unix (c) && hung_up)
    return left ? PARTING_UNMAPPED : PARTING_ORDERLY;
  return left ? PARTING_HUNG_UP : PARTING_NONE;
}

static void
on_conn_ended (struct conn *c, const char *why)
{
  struct session *s = conn_owner (c);

  session_part (s, part (s->parting, c));
  session_end (s, why);
}

/* Make the socket a data connection: the reply to DATA_HELLO is written. */
static void
on_give_away (struct conn *c)
{
  struct session *s = conn_owner (c), *owner;
  struct fp_tls_session *tls;
  int fd = conn_take_fd (c, &tls), r;

  owner = sessions_find (s->sessions, s->data_for);
  if (!owner || owner->state != SESSION_OPEN ||
      owner->closing != CLOSING_NOT) {
    fp_tls_end (tls);
    close (fd);
  }
  else if ((r = data_start (owner, s->data_lane, fd, tls, session_drained)) <
           0)
    fp_log (FP_LOG_WARN, "%s: data connection: %s", owner->name,
            strerror (-r));
  drop_fresh (s);
}

static const struct conn_events conn_events = {
  .message = on_message,
  .ended = on_conn_ended,
  .give_away = on_give_away,
};

static void
on_wait_over (evutil_socket_t fd, short what, void *arg)
{
  struct session *s = arg;

  (void) fd;
  (void) what;
  stop_waiting (s);
  set_patience (s, PATIENCE_OVER);
  s->sessions->dispatch (s);
}

static void
on_zeroed (struct note *note)
{
  struct session *s =
      (struct session *) ((char *) note -
                          offsetof (struct session, zero.done));

  session_set_zeroing (s, ZEROING_DONE);
  sessions_poke (s->sessions);
  session_drained (s);
}

static void
on_moved (struct note *note)
{
  struct session *s =
      (struct session *) ((char *) note -
                          offsetof (struct session, move.done));
  int r = pool_moved (&s->move);

  if (r < 0)
    fp_log (FP_LOG_WARN,
            "slab %u: a client may still have it mapped, and there is no "
            "memory to copy it to: %s",
            s->move.slab->index, strerror (-r));
  else
    fp_log (FP_LOG_INFO,
            "slab %u: copied, as a client may still have it mapped",
            s->move.slab->index);
  s->moving = false;
  sessions_poke (s->sessions);
  session_drained (s);
}

int
session_new (struct sessions *all, int fd)
{
  struct origin origin = origin_of_socket (fd);
  struct session *s;
  int r;

  sessions_make_room (all, &origin);
  s = calloc (1, sizeof *s);
  if (!s) {
    close (fd);
    return -ENOMEM;
  }
  s->sessions = all;
  s->origin = origin;
  s->state = SESSION_FRESH;
  s->zero.done.run = on_zeroed;
  s->move.done.run = on_moved;
  TAILQ_INIT (&s->data);
  r = conn_new (&s->conn, all->base, fd, all->tls, &conn_events, s);
  if (r == 0)
    r = conn_set_deadline (s->conn, HELLO_MS, "sent no HELLO in time");
  s->wait_timer = evtimer_new (all->base, on_wait_over, s);
  if (r == 0 && !s->wait_timer)
    r = -ENOMEM;
  if (r < 0) {
    session_free (s);
    return r;
  }
  TAILQ_INSERT_TAIL (&all->fresh, s, entry);
  all->nr_fresh++;
  return 0;
}

int
session_begin (struct session *s, const struct fp_hello *q)
{
  struct sessions *all = s->sessions;
  int r = fp_random (&s->id, sizeof s->id);

  if (r < 0)
    return r;
  s->client = q->client;
  s->tails = q->features & FP_FEATURE_TAIL;
  s->lost_bits = q->features & FP_FEATURE_LOST;
  snprintf (s->name, sizeof s->name, "%s", q->name);
  s->since = (uint64_t) time (NULL);
  session_move (s, SESSION_READY);
  TAILQ_REMOVE (&all->fresh, s, entry);
  all->nr_fresh--;
  TAILQ_INSERT_TAIL (&all->list, s, entry);
  all->nr++;
  all->counts.sessions++;
  fp_log (FP_LOG_DEBUG, "%s: session begins, from %s%s%s%s", s->name,
          conn_address (s->conn), conn_is_tls (s->conn) ? ", over TLS" : "",
          conn_user (s->conn)[0] ? " as " : "", conn_user (s->conn));
  return 0;
}

void
session_renew (struct session *s)
{
  s->renewed_ns = fp_now_ns ();
  conn_set_deadline (s->conn, s->sessions->records->lease_s * 1000,
                     "was silent for its whole lease");
}

int
session_wait (struct session *s)
{
  struct timeval tv = { .tv_sec = WAIT_MS / 1000 };

  /* WAIT_MS runs from the first try. */
  if (s->patience == PATIENCE_NEW) {
    if (event_add (s->wait_timer, &tv) < 0)
      return -ENOMEM;
    set_patience (s, PATIENCE_RUNS);
  }
  s->waiting = true;
  TAILQ_INSERT_TAIL (&s->sessions->waiting, s, wait_entry);
  s->sessions->nr_waiting++;
  return 0;
}

void
session_waited (struct session *s)
{
  event_del (s->wait_timer);
  set_patience (s, PATIENCE_NEW);
  s->reclaimed = false;
}

/* Return until when the client can believe in its lease (lib/peer/peer.c). */
static uint64_t
believes_until (const struct session *s)
{
  return s->renewed_ns + s->sessions->records->lease_s * FP_NS_PER_S * 15 / 16;
}

/* Note what a client that did not end in order may still do.  It may write at
 * any time to what it has mapped.  Over any transport it answers reads of what
 * was never written by itself, while it believes in its lease.  It stops when
 * it hears that its session is over.  Over TCP it may not hear that, if
 * somebody in between has reset the connection.
 */
static void
abandon (struct session *s)
{
  struct record *r = s->record;

  for (uint32_t i = 0; i < r->nr_slabs; i++)
    if (r->slabs[i]->exposed && fp_uuid_eq (&r->slabs[i]->mapper, &s->client))
      r->slabs[i]->abandoned = true;
  /* No writer waits for a client that may only read. */
  if (guard_gives_way (s))
    return;
  /* While the server stops, a client without network hears nothing. */
  if (r->transport == FP_TRANSPORT_SHM || s->sessions->stopping ||
      s->parting != PARTING_HUNG_UP)
    r->fenced_ns = believes_until (s);
}

/* Keep the volume for its client, which closes its old connection before it
 * reconnects.  Else a client that polls OPEN could take the volume in between.
 * (Without a name, any client that knows the UUID may ask for it, such as the
 * next nbdkit of the same device.)
 */
static void
await_return (struct session *s)
{
  uint64_t lease_ms = s->sessions->records->lease_s * UINT64_C (1000);

  s->record->awaited_ns =
      fp_now_ns () + FP_MIN (lease_ms, (uint64_t) RETURN_MS) * FP_NS_PER_MS;
}

static bool close_access (struct session *s);

/* Close more keys.  They are closed a few at a time, so that other events have
 * their turn between.
 */
static void
on_more_to_close (struct note *note)
{
  struct session *s =
      (struct session *) ((char *) note - offsetof (struct session, more));

  set_closing (s, CLOSING_NOW);
  if (s->parting == PARTING_DISMISSED && s->state != SESSION_ENDING)
    (void) close_access (s); /* nothing else is left to do */
  sessions_poke (s->sessions);
  session_drained (s);
}

/* End access.  Return false if keys are left to close. */
static bool
close_access (struct session *s)
{
  struct record *r = s->record;
  uint64_t until = fp_now_ns () + KEYS_NS;

  if (s->closing == CLOSING_NOT) {
    set_closing (s, CLOSING_NOW);
    s->to_close = r->nr_slabs;
    /* Over rdma a key opens a slab only to these queue pairs. */
    rdma_end_peers (s);
  }
  while (s->to_close > 0) {
    struct slab *slab = r->slabs[s->to_close - 1];
    bool slow = slab->region != NULL;

    if (slow && fp_deadline_passed (until)) {
      s->more.run = on_more_to_close;
      set_closing (s, CLOSING_LATER);
      mailbox_post (s->sessions->mailbox, &s->more);
      return false;
    }
    s->to_close--;
    if (keys_close (slab) < 0)
      record_lose (r, slab);
  }
  set_closing (s, CLOSING_DONE);
  data_stop_all (s);
  return true;
}

bool
session_close_volume (struct session *s)
{
  if (!s->record) {
    rdma_end_peers (s);
    rdma_end_domain (s);
    return true;
  }
  if (s->closing == CLOSING_LATER ||
      (s->closing != CLOSING_DONE && !close_access (s)))
    return false;
  if (s->nr_data > 0 || s->zeroing == ZEROING_RUNS || s->moving)
    return false;
  rdma_end_domain (s);
  if (s->parting < PARTING_UNMAPPED)
    abandon (s);
  if ((s->parting == PARTING_HUNG_UP || s->parting == PARTING_UNMAPPED) &&
      !s->read_only && s->record->kept)
    await_return (s);
  record_detach (s->record, s->discard);
  s->record = NULL;
  set_closing (s, CLOSING_NOT);
  return true;
}

void
session_drained (struct session *s)
{
  struct sessions *all = s->sessions;

  if (s->state != SESSION_ENDING || !session_close_volume (s))
    return;
  TAILQ_REMOVE (&all->list, s, entry);
  all->nr--;
  session_free (s);
  sessions_gone (all);
}

void
session_end (struct session *s, const char *why)
{
  static struct fp_log_limit limit;

  if (s->state == SESSION_ENDING)
    return;
  stop_waiting (s);
  if (s->state == SESSION_FRESH) {
    fp_log_limited (&limit, FP_LOG_DEBUG, "%s: dropped: %s", title (s), why);
    drop_fresh (s);
    return;
  }
  fp_log (s->record ? FP_LOG_INFO : FP_LOG_DEBUG, "%s: session ends: %s",
          title (s), why);
  session_move (s, SESSION_ENDING);
  conn_free (s->conn);
  s->conn = NULL;
  session_drained (s);
}

bool
session_is_leaving (const struct session *s)
{
  return s->state == SESSION_ENDING || s->parting == PARTING_DISMISSED ||
         s->closing != CLOSING_NOT;
}

void
session_dismiss (struct session *s, const char *why)
{
  uint64_t until;

  if (session_is_leaving (s))
    return;
  stop_waiting (s);
  if (s->parting == PARTING_NONE)
    session_part (s, PARTING_DISMISSED);
  (void) close_access (s);
  until = believes_until (s);
  if (s->parting == PARTING_ORDERLY || fp_deadline_passed (until))
    session_end (s, why);
  else
    conn_dismiss (s->conn, (unsigned) fp_deadline_left_ms (until), why);
}
