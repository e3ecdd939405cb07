/* SPDX-License-Identifier: BSD-3-Clause */
/* server_stop.c - end the server. */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "memserver/alive.h"
#include "memserver/event_loop.h"
#include "memserver/listener.h"
#include "memserver/options.h"
#include "memserver/pool/store.h"
#include "memserver/server.h"
#include "memserver/session/drain.h"
#include "memserver/server_stop.h"
#include "memserver/store/persist.h"
#include "memserver/store/record.h"

#define STOP_MS 10000 /* time limit for the threads to end */
#define TICK_MS 250

enum stop_state { STOP_NOT, STOP_DRAINING, STOP_NOW };

struct stop {
  struct server *server;
  enum stop_state state;
  enum stop_how how;  /* as the first signal says */
  struct event *tick; /* checks the progress of the drain */
  uint64_t begin_ns, end_ns;
  uint64_t settled_ns; /* since then no client can move anything; or 0 */
};

/* Log which volumes the next server will find, and which are lost. */
static void
log_what_becomes (const struct stop *stop)
{
  const struct server *srv = stop->server;
  bool sealed = srv->records.persist &&
                store_is_sealed (persist_store (srv->records.persist));
  const struct record *r;

  if (sealed && stop->how == STOP_FOR_GOOD && srv->records.nr > 0)
    fp_log (FP_LOG_WARN,
            "the volumes are lost unless this is a restart, or systemd has "
            "FileDescriptorStorePreserve=yes");
  TAILQ_FOREACH (r, &srv->records.list, entry)
  if (srv->records.persist) {
    char title[FP_NAME_MAX + 1];

    record_title (r, title);
    fp_log (FP_LOG_INFO, "volume %s: kept in %s, with %u slabs", title,
            srv->options->backing, r->nr_slabs);
  }
  else if (r->kept && r->nr_slabs > 0)
    fp_log (FP_LOG_WARN,
            "volume %s: this server forgets it, and its data in %u slabs is "
            "lost",
            r->name, r->nr_slabs);
}

static void
on_sessions_stopped (void *ctx)
{
  struct server *srv = ctx;

  event_base_loopbreak (srv->base);
}

static void
stop_now (struct stop *stop)
{
  struct timeval limit = { .tv_sec = STOP_MS / 1000 };
  struct server *srv = stop->server;

  stop->state = STOP_NOW;
  event_del (stop->tick);
  fp_log (FP_LOG_INFO, "stopping");
  server_log (srv);
  log_what_becomes (stop);
  for (unsigned i = 0; i < srv->nr_listeners; i++)
    listener_free (srv->listeners[i]);
  srv->nr_listeners = 0;
  sessions_stop (&srv->sessions, on_sessions_stopped, srv);
  if (srv->sessions.nr > 0)
    event_base_loopexit (srv->base, &limit);
}

/* Return true if the drain is over. */
static bool
is_over (struct stop *stop, const struct drain_left *left)
{
  uint64_t now = fp_now_ns ();

  if (left->moving + left->stuck + left->kept == 0 || now >= stop->end_ns)
    return true;
  if (left->moving > 0)
    stop->settled_ns = 0;
  else if (stop->settled_ns == 0)
    stop->settled_ns = now;
  return stop->settled_ns != 0 &&
         now - stop->settled_ns >= STOP_SETTLE_MS * FP_NS_PER_MS;
}

static void
on_tick (evutil_socket_t fd, short what, void *arg)
{
  struct stop *stop = arg;
  struct drain_left left = drain_look (&stop->server->sessions);

  (void) fd;
  (void) what;
  if (!is_over (stop, &left))
    return;
  if (left.moving + left.stuck + left.kept == 0)
    fp_log (FP_LOG_INFO, "drained in %.1f s",
            (double) (fp_now_ns () - stop->begin_ns) / FP_NS_PER_S);
  else
    fp_log (FP_LOG_WARN,
            "not drained: %u slabs could still be moved, %u have no room on "
            "other servers, and no client has attached the volumes of %u to "
            "write",
            left.moving, left.stuck, left.kept);
  stop_now (stop);
}

static void
drain_first (struct stop *stop)
{
  const struct timeval tick = { .tv_usec = TICK_MS * 1000 };
  struct server *srv = stop->server;
  const struct drain_left left = drain_look (&srv->sessions);

  if (left.moving + left.stuck + left.kept == 0 ||
      event_add (stop->tick, &tick) < 0) {
    stop_now (stop);
    return;
  }
  drain_move (&srv->sessions, DRAIN_LAST);
  stop->state = STOP_DRAINING;
  stop->begin_ns = fp_now_ns ();
  stop->end_ns = stop->begin_ns + srv->options->drain_s * FP_NS_PER_S;
  alive_drains (srv->options->drain_s + 3 * STOP_MS / 1000);
  fp_log (FP_LOG_INFO,
          "told to stop: clients are asked to move %u slabs to other servers, "
          "within %u s (--drain)",
          left.moving + left.stuck, srv->options->drain_s);
}

void
stop_request (struct stop *stop, enum stop_how how)
{
  const struct server *srv = stop->server;
  bool keeps = how == STOP_FOR_RESTART && srv->records.persist;

  if (stop->state == STOP_NOW)
    _exit (1);
  if (stop->state == STOP_NOT)
    stop->how = how;
  if (stop->state == STOP_NOT && !keeps && srv->options->drain_s > 0)
    drain_first (stop);
  else
    stop_now (stop);
}

int
stop_new (struct stop **out, struct server *srv)
{
  struct stop *stop = calloc (1, sizeof *stop);

  *out = stop;
  if (!stop)
    return -ENOMEM;
  stop->server = srv;
  stop->tick = event_new (srv->base, -1, EV_PERSIST, on_tick, stop);
  if (!stop->tick)
    return -ENOMEM;
  event_loop_urgent (stop->tick);
  return 0;
}

void
stop_free (struct stop *stop)
{
  if (stop && stop->tick)
    event_free (stop->tick);
  free (stop);
}
