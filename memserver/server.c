/* SPDX-License-Identifier: BSD-3-Clause */
/* server.c - start, run and stop the server: listeners, signals, and requests
 * that wait.
 */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "memserver/auth/access.h"
#include "memserver/event_loop.h"
#include "memserver/auth/guard.h"
#include "memserver/pool/host.h"
#include "memserver/session/listener.h"
#include "memserver/store/persist.h"
#include "memserver/pressure.h"
#include "memserver/session/rdma.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"
#include "memserver/server.h"
#include "memserver/session/session.h"
#include "transport/tls.h"

_Static_assert(WHY_MAX >= ACCESS_WHY_MAX, "why is long enough for both");

#define STOP_MS 10000 /* time limit for the threads to end */

/* ---- waiting requests ---- */

static void
on_poke (struct note *note)
{
  struct server *srv =
      (struct server *) ((char *) note - offsetof (struct server, poke));
  uint64_t until = fp_deadline_in_ms (TURN_MS);
  struct session *s;

  /* A session that has to wait again goes to the end: one round is enough. */
  if (atomic_exchange (&srv->poked, false))
    srv->poke_left = srv->nr_waiting;
  for (; srv->poke_left > 0; srv->poke_left--) {
    s = TAILQ_FIRST (&srv->waiting);
    if (!s)
      break;
    if (fp_deadline_passed (until)) {
      /* Other events have their turn before the rest of the round. */
      mailbox_post (srv->mailbox, &srv->poke);
      return;
    }
    s->waiting = false;
    TAILQ_REMOVE (&srv->waiting, s, wait_entry);
    srv->nr_waiting--;
    session_dispatch (s);
  }
  srv->poke_left = 0;
}

void
server_poke (struct server *srv)
{
  atomic_store (&srv->poked, true);
  mailbox_post (srv->mailbox, &srv->poke);
}

static void
on_slab_freed (void *ctx)
{
  server_poke (ctx);
}

static enum pool_left
on_slab_left (void *ctx, uint32_t slab, uint32_t *serial)
{
  const struct server *srv = ctx;

  return records_left (&srv->records, slab, serial);
}

/* ---- sessions and volumes ---- */

struct session *
server_find_session (struct server *srv, uint64_t id)
{
  struct session *s;

  TAILQ_FOREACH (s, &srv->sessions, entry)
  if (s->id == id)
    return s;
  return NULL;
}

void
server_log_state (struct server *srv)
{
  struct pool_counts c = pool_count (srv->pool);
  struct record *r;

  fp_log (FP_LOG_INFO,
          "%u slabs: %u free, %u lent, %u being scrubbed, %u not populated, "
          "%u lost; %u sessions, %u data connections",
          c.total, c.in[SLAB_FREE], c.in[SLAB_LENT], c.in[SLAB_SCRUBBING],
          c.in[SLAB_UNPOPULATED], c.in[SLAB_LOST], srv->nr_sessions,
          srv->nr_data);
  if (pool_is_pressed (srv->pool))
    fp_log (FP_LOG_INFO,
            "this host is short of memory: lending is stopped; clients are "
            "asked for %u slabs",
            pressure_wanted (srv->pressure));
  TAILQ_FOREACH (r, &srv->records.list, entry)
  {
    char title[FP_NAME_MAX + 1];

    record_title (r, title);
    fp_log (FP_LOG_INFO, "volume %s: %u slabs %s %s for %llu s", title,
            r->nr_slabs, r->holder ? "held by" : "left by", r->client,
            (unsigned long long) ((uint64_t) time (NULL) - r->since));
  }
  guard_log (srv);
}

/* ---- stopping ---- */

/* Log which volumes the next server will find, and which are lost. */
static void
log_what_becomes (const struct server *srv)
{
  const struct record *r;

  TAILQ_FOREACH (r, &srv->records.list, entry)
  if (srv->records.persist) {
    char title[FP_NAME_MAX + 1];

    record_title (r, title);
    fp_log (FP_LOG_INFO, "volume %s: kept in %s, with %u slabs", title,
            srv->options->backing, r->nr_slabs);
  }
  else if (r->kept)
    fp_log (FP_LOG_WARN,
            "volume %s: this server forgets it, and its data in %u slabs is "
            "lost",
            r->name, r->nr_slabs);
}

void
server_session_gone (struct server *srv)
{
  server_poke (srv); /* another client may wait for its volume */
  if (srv->stopping && srv->nr_sessions == 0)
    event_base_loopbreak (srv->base);
}

static void
stop (struct server *srv)
{
  struct timeval limit = { .tv_sec = STOP_MS / 1000 };
  struct session *s, *next;

  srv->stopping = true;
  fp_log (FP_LOG_INFO, "stopping");
  server_log_state (srv);
  log_what_becomes (srv);
  for (unsigned i = 0; i < srv->nr_listeners; i++)
    listener_free (srv->listeners[i]);
  srv->nr_listeners = 0;
  while (!TAILQ_EMPTY (&srv->fresh))
    session_end (TAILQ_FIRST (&srv->fresh), "the server stops");
  for (s = TAILQ_FIRST (&srv->sessions); s; s = next) {
    next = TAILQ_NEXT (s, entry);
    session_end (s, "the server stops");
  }
  if (srv->nr_sessions == 0)
    event_base_loopbreak (srv->base);
  else
    event_base_loopexit (srv->base, &limit);
}

/* Read the TLS keys again.  A client whose key is gone keeps its sessions. */
static void
read_keys (struct server *srv)
{
  char why[FP_TLS_WHY_MAX];

  if (fp_tls_reload (srv->tls, &srv->options->tls, why) < 0)
    fp_log (FP_LOG_ERROR, "SIGHUP: the keys are unchanged: %s", why);
  else
    fp_log (FP_LOG_INFO, "SIGHUP: read the keys in %s", srv->options->tls.psk);
}

static void
on_signal (evutil_socket_t signo, short what, void *arg)
{
  struct server *srv = arg;

  (void) what;
  if (signo == SIGUSR1)
    server_log_state (srv);
  else if (signo == SIGHUP) {
    if (srv->tls)
      read_keys (srv);
    if (srv->access)
      guard_reread (srv);
  }
  else if (srv->stopping)
    _exit (1);
  else
    stop (srv);
}

/* ---- start and end ---- */

static int
start_signals (struct server *srv)
{
  static const int signals[] = { SIGTERM, SIGINT, SIGUSR1, SIGHUP };

  if (signal (SIGPIPE, SIG_IGN) == SIG_ERR)
    return -errno;
  for (unsigned i = 0; i < NR_SIGNALS; i++) {
    /* Without keys and access file SIGHUP only means that a terminal was
     * closed: leave it at its default.
     */
    if (signals[i] == SIGHUP && !srv->tls && !srv->access)
      continue;
    srv->signals[i] = evsignal_new (srv->base, signals[i], on_signal, srv);
    if (!srv->signals[i])
      return -ENOMEM;
    event_loop_urgent (srv->signals[i]);
    if (event_add (srv->signals[i], NULL) < 0)
      return -ENOMEM;
  }
  return 0;
}

/* Log in which pages the slabs are: --hugepages auto takes the largest that
 * there are.
 */
static void
log_pages (struct pool *pool, uint32_t slabs)
{
  static const uint64_t sizes[] = { UINT64_C (1) << 30, UINT64_C (2) << 20 };
  uint32_t ordinary = slabs;

  for (unsigned i = 0; i < 2; i++) {
    uint32_t n = 0;

    for (uint32_t j = 0; j < slabs; j++)
      n += pool_slab (pool, j)->backing.page_size == sizes[i];
    if (n > 0)
      fp_log (FP_LOG_INFO, "%u of %u slabs are in huge pages of %s", n, slabs,
              i == 0 ? "1G" : "2M");
    ordinary -= n;
  }
  if (ordinary > 0)
    fp_log (FP_LOG_INFO,
            "%u of %u slabs are in ordinary pages: no more huge pages are "
            "reserved (/sys/kernel/mm/hugepages)",
            ordinary, slabs);
}

/* Set the server's UUID.  With --backing, take up what it had before. */
static int
start_persist (struct server *srv, char *why)
{
  const struct options *o = srv->options;
  struct persist_params p = { .dir = o->backing,
                              .slab_size = o->slab,
                              .slabs = (uint32_t) (o->size / o->slab),
                              .lease_s = o->lease_s };
  int r;

  if (o->backing[0] == '\0')
    return fp_uuid_generate (&srv->uuid);
  r = persist_open (&srv->records.persist, &p, why);
  if (r == 0)
    srv->uuid = persist_server (srv->records.persist);
  return r;
}

static int
start_pool (struct server *srv, char *why)
{
  const struct options *o = srv->options;
  struct store *store =
      srv->records.persist ? persist_store (srv->records.persist) : NULL;
  struct pool_params p = { .slab = { .size = o->slab,
                                     .tail = true,
                                     .hugepages = o->hugepages,
                                     .numa = o->numa,
                                     .store = store },
                           .slabs = (uint32_t) (o->size / o->slab),
                           .reserve = o->reserve,
                           .mailbox = srv->mailbox,
                           .freed = on_slab_freed,
                           .ctx = srv,
                           .left = on_slab_left,
                           .moved = record_moved };
  uint32_t made;
  int r = pool_new (&srv->pool, &p, &made);

  srv->records.pool = srv->pool;
  if (r == 0 && (store && !store_is_sealed (store)
                     ? store_page (store) > STORE_SMALL_PAGE
                     : o->hugepages != HUGEPAGES_OFF))
    log_pages (srv->pool, made);

  if (r < 0 && (o->hugepages == HUGEPAGES_2M || o->hugepages == HUGEPAGES_1G))
    snprintf (why, WHY_MAX,
              "memory: only %u of %u slabs fit in huge pages of %s: reserve "
              "more (/sys/kernel/mm/hugepages), or lend less",
              made, p.slabs, o->hugepages == HUGEPAGES_2M ? "2M" : "1G");
  else if (r < 0)
    snprintf (why, WHY_MAX, "memory: slab %u of %u: %s", made + 1, p.slabs,
              strerror (-r));
  return r;
}

/* Listen on the loopback addresses, because no --listen is given. */
static int
listen_here (struct server *srv, char *why)
{
  static const struct fp_addr both[] = {
    { .port = FP_DEFAULT_PORT, .host = "127.0.0.1" },
    { .port = FP_DEFAULT_PORT, .host = "::1" }
  };
  int r = listener_open (srv, &both[0], why), r6;

  if (r < 0)
    return r;
  r6 = listener_open (srv, &both[1], why);
  return r6 == -EAFNOSUPPORT || r6 == -EADDRNOTAVAIL ? 0 : r6;
}

static int
listen_everywhere (struct server *srv, char *why)
{
  const struct options *o = srv->options;
  struct fp_addr any = { .port = FP_DEFAULT_PORT, .host = "::" };
  int r;

  if (o->nr_listen == 0 && o->tls.mode != FP_TLS_REQUIRE && !o->insecure)
    return listen_here (srv, why);
  for (unsigned i = 0; i < o->nr_listen; i++) {
    r = listener_open (srv, &o->listen[i], why);
    if (r < 0)
      return r;
  }
  if (o->nr_listen > 0)
    return 0;
  r = listener_open (srv, &any, why);
  if (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL) {
    /* There is no IPv6 here. */
    snprintf (any.host, sizeof any.host, "0.0.0.0");
    why[0] = '\0';
    r = listener_open (srv, &any, why);
  }
  return r;
}

int
server_start (struct server *srv, const struct options *o, char why[WHY_MAX])
{
  int r = 0;

  memset (srv, 0, sizeof *srv);
  why[0] = '\0';
  srv->options = o;
  srv->start_ns = fp_now_ns ();
  srv->records.lease_s = o->lease_s;
  srv->records.orphan_s = o->orphan_s;
  srv->poke.run = on_poke;
  TAILQ_INIT (&srv->fresh);
  TAILQ_INIT (&srv->sessions);
  TAILQ_INIT (&srv->waiting);
  records_init (&srv->records);
  if (o->access[0])
    r = access_read (&srv->access, o->access, why);
  if (r == 0)
    r = fp_tls_new (&srv->tls, &o->tls, true, why);
  if (r == 0)
    r = start_persist (srv, why);
  if (r < 0)
    return r;
  srv->base = event_loop_new ();
  if (!srv->base)
    return -ENOMEM;
  srv->records.base = srv->base;
  r = mailbox_new (&srv->mailbox, srv->base);
  if (r == 0)
    r = start_signals (srv);
  if (r == 0)
    r = start_pool (srv, why);
  if (r == 0 && srv->records.persist)
    r = records_take_up (&srv->records);
  if (r == 0)
    r = listen_everywhere (srv, why);
  if (r == 0)
    r = metrics_start (&srv->metrics, srv, why);
  if (r == 0)
    r = pool_start (srv->pool);
  if (r == 0)
    r = pressure_start (&srv->pressure, srv);
  return r;
}

int
server_run (struct server *srv)
{
  int r = event_base_dispatch (srv->base);

  if (srv->nr_sessions > 0) {
    /* Do not free anything: their threads still use it. */
    fp_log (FP_LOG_ERROR, "%u sessions did not end in time", srv->nr_sessions);
    _exit (1);
  }
  return r < 0 ? -EIO : 0;
}

void
server_end (struct server *srv)
{
  records_free (&srv->records);
  for (unsigned i = 0; i < srv->nr_listeners; i++)
    listener_free (srv->listeners[i]);
  metrics_free (srv->metrics);
  pressure_free (srv->pressure);
  rdma_free (srv->rdma);
  pool_free (srv->pool);
  persist_close (srv->records.persist);
  guard_reread_end (srv);
  mailbox_free (srv->mailbox);
  for (unsigned i = 0; i < NR_SIGNALS; i++)
    if (srv->signals[i])
      event_free (srv->signals[i]);
  if (srv->base)
    event_base_free (srv->base);
  fp_tls_free (srv->tls);
  access_free (srv->access);
}
