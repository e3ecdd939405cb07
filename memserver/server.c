/* SPDX-License-Identifier: BSD-3-Clause */
/* server.c - start, run and stop the server, and handle signals. */

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
#include "base/error.h"
#include "base/log.h"
#include "base/size.h"
#include "memserver/auth/access.h"
#include "memserver/event_loop.h"
#include "memserver/listener.h"
#include "memserver/metrics.h"
#include "memserver/pool/host.h"
#include "memserver/pool/mailbox.h"
#include "memserver/pool/pool.h"
#include "memserver/pressure.h"
#include "memserver/server.h"
#include "memserver/session/access_reread.h"
#include "memserver/session/ctl.h"
#include "memserver/session/drain.h"
#include "memserver/session/guard.h"
#include "memserver/session/rdma.h"
#include "memserver/server_stop.h"
#include "memserver/store/persist.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"
#include "transport/tls/tls.h"

static void
on_slab_freed (void *ctx)
{
  struct server *srv = ctx;

  sessions_poke (&srv->sessions);
}

static enum pool_left
on_slab_left (void *ctx, uint32_t slab, uint32_t *serial)
{
  const struct server *srv = ctx;

  return records_left (&srv->records, slab, serial);
}

void
server_log (struct server *srv)
{
  struct pool_counts c = pool_count (srv->pool);
  struct record *r;

  fp_log (FP_LOG_INFO,
          "%u slabs: %u free, %u lent, %u being scrubbed, %u not populated, "
          "%u lost; %u sessions, %u data connections",
          c.total, c.in[SLAB_FREE], c.in[SLAB_LENT], c.in[SLAB_SCRUBBING],
          c.in[SLAB_UNPOPULATED], c.in[SLAB_LOST], srv->sessions.nr,
          srv->sessions.nr_data);
  if (pool_is_pressed (srv->pool))
    fp_log (FP_LOG_INFO,
            "this host is short of memory: lending is stopped; clients are "
            "asked for %u slabs",
            srv->sessions.wanted);
  if (srv->sessions.drain != DRAIN_NOT)
    fp_log (
        FP_LOG_INFO,
        "this server is being drained: lending is stopped; clients are asked "
        "for %u slabs",
        drain_asked (&srv->sessions));
  TAILQ_FOREACH (r, &srv->records.list, entry)
  {
    char title[FP_NAME_MAX + 1];

    record_title (r, title);
    fp_log (FP_LOG_INFO, "volume %s: %u slabs %s %s for %llu s", title,
            r->nr_slabs, r->holder ? "held by" : "left by", r->client,
            (unsigned long long) ((uint64_t) time (NULL) - r->since));
  }
  guard_log (&srv->sessions);
}

/* ---- signals ---- */

/* Read the TLS keys again.  A client whose key is gone keeps its sessions. */
static void
read_keys (struct server *srv)
{
  struct fp_error error;

  if (fp_tls_reload (srv->sessions.tls, &srv->options->tls, &error) < 0)
    fp_log (FP_LOG_ERROR, "SIGHUP: the keys are unchanged: %s", error.text);
  else
    fp_log (FP_LOG_INFO, "SIGHUP: read the keys in %s", srv->options->tls.psk);
}

static void
on_signal (evutil_socket_t signo, short what, void *arg)
{
  struct server *srv = arg;

  (void) what;
  if (signo == SIGUSR1)
    server_log (srv);
  else if (signo == SIGHUP) {
    if (srv->sessions.tls)
      read_keys (srv);
    if (srv->sessions.access)
      access_reread (&srv->sessions);
  }
  else
    stop_request (srv->stop,
                  signo == SIGTERM ? STOP_FOR_GOOD : STOP_FOR_RESTART);
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
     * closed: leave it at its default, unless systemd is there instead.
     */
    if (signals[i] == SIGHUP && !srv->sessions.tls && !srv->sessions.access &&
        !getenv ("NOTIFY_SOCKET"))
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
start_persist (struct server *srv, struct fp_error *error)
{
  const struct options *o = srv->options;
  struct persist_params p = { .dir = o->backing,
                              .slab_size = o->slab,
                              .slabs = (uint32_t) (o->size / o->slab),
                              .lease_s = o->lease_s };
  int r;

  if (o->backing[0] == '\0')
    return fp_uuid_generate (&srv->sessions.uuid);
  r = persist_open (&srv->records.persist, &p, error);
  if (r == 0)
    srv->sessions.uuid = persist_server (srv->records.persist);
  return r;
}

static int
start_pool (struct server *srv, struct fp_error *error)
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

  srv->records.pool = srv->sessions.pool = srv->pool;
  if (r == 0 && (store && !store_is_sealed (store)
                     ? store_page (store) > STORE_SMALL_PAGE
                     : o->hugepages != HUGEPAGES_OFF))
    log_pages (srv->pool, made);

  if (r < 0 && (o->hugepages == HUGEPAGES_2M || o->hugepages == HUGEPAGES_1G))
    fp_fail (error, r,
             "memory: only %u of %u slabs fit in huge pages of %s: reserve "
             "more (/sys/kernel/mm/hugepages), or lend less",
             made, p.slabs, o->hugepages == HUGEPAGES_2M ? "2M" : "1G");
  else if (r < 0)
    fp_fail (error, r, "memory: slab %u of %u: %s", made + 1, p.slabs,
             strerror (-r));
  return r;
}

/* Listen on the loopback addresses, because no --listen is given. */
static int
listen_here (struct server *srv, struct fp_error *error)
{
  static const struct fp_addr both[] = {
    { .port = FP_DEFAULT_PORT, .host = "127.0.0.1" },
    { .port = FP_DEFAULT_PORT, .host = "::1" }
  };
  int r = listener_open (srv, &both[0], error), r6;

  if (r < 0)
    return r;
  r6 = listener_open (srv, &both[1], error);
  return r6 == -EAFNOSUPPORT || r6 == -EADDRNOTAVAIL ? 0 : r6;
}

static int
listen_everywhere (struct server *srv, struct fp_error *error)
{
  const struct options *o = srv->options;
  struct fp_addr any = { .port = FP_DEFAULT_PORT, .host = "::" };
  int r;

  if (o->nr_listen == 0 && o->tls.mode != FP_TLS_REQUIRE && !o->insecure)
    return listen_here (srv, error);
  for (unsigned i = 0; i < o->nr_listen; i++) {
    r = listener_open (srv, &o->listen[i], error);
    if (r < 0)
      return r;
  }
  if (o->nr_listen > 0)
    return 0;
  r = listener_open (srv, &any, error);
  if (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL) {
    /* There is no IPv6 here. */
    snprintf (any.host, sizeof any.host, "0.0.0.0");
    error->text[0] = '\0';
    r = listener_open (srv, &any, error);
  }
  return r;
}

int
server_start (struct server *srv, const struct options *o,
              struct fp_error *error)
{
  int r = 0;

  memset (srv, 0, sizeof *srv);
  error->text[0] = '\0';
  srv->options = o;
  srv->sessions.start_ns = fp_now_ns ();
  srv->sessions.name = o->name;
  srv->sessions.access_file = o->access;
  srv->sessions.records = &srv->records;
  srv->records.lease_s = o->lease_s;
  srv->records.orphan_s = o->orphan_s;
  sessions_init (&srv->sessions, ctl_dispatch);
  records_init (&srv->records);
  if (o->access[0])
    r = access_read (&srv->sessions.access, o->access, error);
  if (r == 0)
    r = fp_tls_new (&srv->sessions.tls, &o->tls, true, error);
  if (r == 0)
    r = start_persist (srv, error);
  if (r < 0)
    return r;
  srv->base = event_loop_new ();
  if (!srv->base)
    return -ENOMEM;
  srv->records.base = srv->sessions.base = srv->base;
  r = mailbox_new (&srv->mailbox, srv->base);
  srv->sessions.mailbox = srv->mailbox;
  if (r == 0)
    r = stop_new (&srv->stop, srv);
  if (r == 0)
    r = start_signals (srv);
  if (r == 0)
    r = start_pool (srv, error);
  if (r == 0 && srv->records.persist)
    r = records_take_up (&srv->records);
  if (r == 0)
    r = listen_everywhere (srv, error);
  srv->sessions.insecure = listener_is_insecure (srv);
  if (r == 0)
    r = metrics_start (&srv->metrics, srv, error);
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

  if (srv->sessions.nr > 0) {
    /* Do not free anything: their threads still use it. */
    fp_log (FP_LOG_ERROR, "%u sessions did not end in time", srv->sessions.nr);
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
  rdma_free (srv->sessions.rdma);
  pool_free (srv->pool);
  persist_close (srv->records.persist);
  access_reread_end (&srv->sessions);
  mailbox_free (srv->mailbox);
  for (unsigned i = 0; i < NR_SIGNALS; i++)
    if (srv->signals[i])
      event_free (srv->signals[i]);
  stop_free (srv->stop);
  if (srv->base)
    event_base_free (srv->base);
  fp_tls_free (srv->sessions.tls);
  access_free (srv->sessions.access);
}
