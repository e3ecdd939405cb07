/* SPDX-License-Identifier: BSD-3-Clause */
/* session.c - one client: from its connection until nothing of it is left. */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "data.h"
#include "keys.h"
#include "rdma.h"
#include "record.h"
#include "session.h"

static const char *
title (const struct session *s)
{
  return s->name[0] ? s->name : conn_peer (s->conn);
}

static void
session_free (struct session *s)
{
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
  TAILQ_REMOVE (&s->server->waiting, s, wait_entry);
  s->server->nr_waiting--;
  event_del (s->wait_timer);
}

/* It was never more than a connection. */
static void
drop_fresh (struct session *s)
{
  TAILQ_REMOVE (&s->server->fresh, s, entry);
  s->server->nr_fresh--;
  session_free (s);
}

static void
on_message (struct conn *c)
{
  struct session *s = conn_owner (c);

  conn_set_deadline (c, ANSWER_MS, "was not answered in time");
  session_dispatch (s);
}

static void
on_conn_ended (struct conn *c, const char *why)
{
  struct session *s = conn_owner (c);

  /* Over TCP nothing is mapped, and a hang-up may be the network's. */
  s->orderly = s->orderly || (conn_is_unix (c) && conn_hung_up (c));
  session_end (s, why);
}

/* The reply to DATA_HELLO is written: the socket is a data connection now. */
static void
on_give_away (struct conn *c)
{
  struct session *s = conn_owner (c), *owner;
  int fd = conn_take_fd (c), r;

  TAILQ_FOREACH (owner, &s->server->sessions, entry)
  if (owner->id == s->data_for)
    break;
  if (!owner || owner->state != SESSION_OPEN || owner->closing)
    close (fd);
  else if ((r = data_start (owner, s->data_lane, fd)) < 0)
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
  s->wait_over = true;
  session_dispatch (s);
}

static void
on_zeroed (struct note *note)
{
  struct session *s =
      (struct session *) ((char *) note -
                          offsetof (struct session, zero.done));

  s->zeroing = false;
  s->zeroed = true;
  server_poke (s->server);
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
            "slab %u: another client may have it mapped, and there is no "
            "memory to copy it to: %s",
            s->move.slab->index, strerror (-r));
  else
    fp_log (FP_LOG_INFO,
            "slab %u: copied, as another client may have it mapped",
            s->move.slab->index);
  s->moving = false;
  server_poke (s->server);
  session_drained (s);
}

int
session_new (struct server *srv, int fd)
{
  struct session *s;
  int r;

  if (srv->nr_fresh >= MAX_FRESH)
    session_end (TAILQ_FIRST (&srv->fresh), "too many others came after it");
  s = calloc (1, sizeof *s);
  if (!s) {
    close (fd);
    return -ENOMEM;
  }
  s->server = srv;
  s->state = SESSION_FRESH;
  s->zero.done.run = on_zeroed;
  s->move.done.run = on_moved;
  TAILQ_INIT (&s->data);
  r = conn_new (&s->conn, srv->base, fd, &conn_events, s);
  if (r == 0)
    r = conn_set_deadline (s->conn, HELLO_MS, "said no HELLO in time");
  s->wait_timer = evtimer_new (srv->base, on_wait_over, s);
  if (r == 0 && !s->wait_timer)
    r = -ENOMEM;
  if (r < 0) {
    session_free (s);
    return r;
  }
  TAILQ_INSERT_TAIL (&srv->fresh, s, entry);
  srv->nr_fresh++;
  return 0;
}

int
session_begin (struct session *s, const struct fp_hello *q)
{
  struct server *srv = s->server;
  int r = fp_random (&s->id, sizeof s->id);

  if (r == 0)
    r = fp_random (s->token, sizeof s->token);
  if (r < 0)
    return r;
  s->client = q->client;
  snprintf (s->name, sizeof s->name, "%s", q->name);
  s->since = (uint64_t) time (NULL);
  s->state = SESSION_READY;
  TAILQ_REMOVE (&srv->fresh, s, entry);
  srv->nr_fresh--;
  TAILQ_INSERT_TAIL (&srv->sessions, s, entry);
  srv->nr_sessions++;
  fp_log (FP_LOG_DEBUG, "%s: session begins, from %s", s->name,
          conn_peer (s->conn));
  return 0;
}

void
session_renew (struct session *s)
{
  s->renewed_ns = fp_now_ns ();
  conn_set_deadline (s->conn, s->server->options->lease_s * 1000,
                     "was silent for its whole lease");
}

int
session_wait (struct session *s)
{
  struct timeval tv = { .tv_sec = WAIT_MS / 1000 };

  /* The time runs from the first try. */
  if (!s->retried && event_add (s->wait_timer, &tv) < 0)
    return -ENOMEM;
  s->retried = true;
  s->waiting = true;
  TAILQ_INSERT_TAIL (&s->server->waiting, s, wait_entry);
  s->server->nr_waiting++;
  return 0;
}

void
session_waited (struct session *s)
{
  event_del (s->wait_timer);
  s->wait_over = false;
  s->retried = false;
}

/* What it has mapped, it may write to at any time. */
static void
abandon (struct session *s)
{
  struct record *r = s->record;

  for (uint32_t i = 0; i < r->nr_slabs; i++)
    if (r->slabs[i]->exposed && fp_uuid_eq (&r->slabs[i]->mapper, &s->client))
      r->slabs[i]->abandoned = true;
  /* A client believes in its lease for so long at most (link.c). */
  if (r->transport == FP_TRANSPORT_SHM)
    r->fenced_ns =
        s->renewed_ns + s->server->options->lease_s * FP_NS_PER_S * 15 / 16;
}

/* The keys open nothing from here on. */
static void
close_access (struct session *s)
{
  struct record *r = s->record;

  s->closing = true;
  rdma_end_peers (s);
  for (uint32_t i = r->nr_slabs; i-- > 0;)
    if (keys_close (r->slabs[i]) < 0)
      record_lose (r, r->slabs[i]);
  data_stop_all (s);
}

bool
session_close_volume (struct session *s)
{
  if (!s->record) {
    rdma_end_peers (s);
    rdma_end_domain (s);
    return true;
  }
  if (!s->closing)
    close_access (s);
  if (s->nr_data > 0 || s->zeroing || s->moving)
    return false;
  rdma_end_domain (s);
  if (!s->orderly)
    abandon (s);
  record_detach (s->record, s->discard);
  s->record = NULL;
  s->closing = false;
  return true;
}

void
session_drained (struct session *s)
{
  struct server *srv = s->server;

  if (s->state != SESSION_ENDING || !session_close_volume (s))
    return;
  TAILQ_REMOVE (&srv->sessions, s, entry);
  srv->nr_sessions--;
  session_free (s);
  server_session_gone (srv);
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
  s->state = SESSION_ENDING;
  conn_free (s->conn);
  s->conn = NULL;
  session_drained (s);
}
