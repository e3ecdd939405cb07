/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics.c - the Prometheus metrics of this server. */

#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "metrics/scrape.h"
#include "memserver/listener.h"
#include "memserver/metrics.h"
#include "memserver/pool/host.h"
#include "memserver/server.h"
#include "memserver/session/drain.h"
#include "memserver/session/guard.h"
#include "memserver/session/rdma.h"
#include "memserver/session/session.h"
#include "memserver/store/record.h"

struct metrics {
  struct fp_scrape_sockets sockets;
  struct fp_scrape *scrape;
  uint64_t since; /* seconds since 1970 */
};

/* Reasons for refusing a request; NULL: counted as "other". */
static const char *const reasons[] = {
  [FP_STATUS_PROTO] = "malformed",    [FP_STATUS_VERSION] = "version",
  [FP_STATUS_INVAL] = "invalid",      [FP_STATUS_NOSPC] = "no_space",
  [FP_STATUS_BUSY] = "busy",          [FP_STATUS_NOENT] = "not_found",
  [FP_STATUS_PERM] = "not_permitted", [FP_STATUS_NOMEM] = "no_memory",
  [FP_STATUS_SHUTDOWN] = "stopping",  [FP_STATUS_IO] = NULL,
};
#define NR_STATUSES (sizeof reasons / sizeof reasons[0])
_Static_assert(NR_STATUSES ==
                   sizeof ((struct sessions_counts *) 0)->refused /
                       sizeof ((struct sessions_counts *) 0)->refused[0],
               "one name for each status");

static const unsigned transports[] = { FP_TRANSPORT_RDMA, FP_TRANSPORT_SHM,
                                       FP_TRANSPORT_TCP };
#define NR_TRANSPORTS (sizeof transports / sizeof transports[0])

static const char *const slab_states[SLAB_NR_STATES] = {
  [SLAB_UNPOPULATED] = "unpopulated",
  [SLAB_FREE] = "free",
  [SLAB_LENT] = "lent",
  [SLAB_SCRUBBING] = "scrubbing",
  [SLAB_LOST] = "lost",
};

static void
gauge (struct fp_prom *p, const char *name, uint64_t value, const char *help)
{
  fp_prom_family (p, name, FP_PROM_GAUGE, help);
  fp_prom_value (p, value, NULL);
}

static void
counter (struct fp_prom *p, const char *name, uint64_t value, const char *help)
{
  fp_prom_family (p, name, FP_PROM_COUNTER, help);
  fp_prom_value (p, value, NULL);
}

static void
put_server (struct fp_prom *p, const struct server *srv)
{
  char uuid[FP_UUID_STR_MAX];

  fp_prom_family (p, "farpage_build_info", FP_PROM_GAUGE,
                  "Which program this is; always 1.");
  fp_prom_value (p, 1,
                 FP_LABELS ({ "program", "farpage-memserver" },
                            { "version", PACKAGE_VERSION }));
  fp_uuid_format (&srv->sessions.uuid, uuid);
  fp_prom_family (p, "farpage_memserver_info", FP_PROM_GAUGE,
                  "Name of this server for clients; always 1.");
  fp_prom_value (p, 1,
                 FP_LABELS ({ "name", srv->options->name }, { "uuid", uuid }));
  fp_prom_family (p, "farpage_memserver_start_time_seconds", FP_PROM_GAUGE,
                  "Start time of the server, in seconds since 1970.");
  fp_prom_value (p, srv->metrics->since, NULL);
  gauge (p, "farpage_memserver_insecure", listener_is_insecure (srv),
         "1: other machines may connect without TLS.");
}

static void
put_slabs (struct fp_prom *p, const struct server *srv)
{
  struct pool_counts c = pool_count (srv->pool);
  uint64_t size = pool_slab_size (srv->pool);

  gauge (p, "farpage_memserver_slab_size_bytes", size,
         "Size of a slab, the unit of lending.");
  fp_prom_family (p, "farpage_memserver_slabs", FP_PROM_GAUGE,
                  "Slabs, by state.");
  for (unsigned i = 0; i < SLAB_NR_STATES; i++)
    fp_prom_value (p, c.in[i], FP_LABELS ({ "state", slab_states[i] }));
  fp_prom_family (p, "farpage_memserver_memory_bytes", FP_PROM_GAUGE,
                  "Memory of the slabs, by state.");
  for (unsigned i = 0; i < SLAB_NR_STATES; i++)
    fp_prom_value (p, c.in[i] * size, FP_LABELS ({ "state", slab_states[i] }));
  gauge (p, "farpage_memserver_orphan_slabs",
         records_reclaimable (&srv->records, NULL),
         "Lent slabs that are freed when another client needs them.");
  counter (p, "farpage_memserver_slabs_granted_total",
           srv->sessions.counts.granted,
           "Slabs that were granted to clients.");
  counter (p, "farpage_memserver_slabs_released_total",
           srv->sessions.counts.released, "Slabs that clients gave back.");
  counter (p, "farpage_memserver_scrubbed_bytes_total", c.scrubbed * size,
           "Memory that was zeroed before it is lent again.");
}

static void
put_pressure (struct fp_prom *p, const struct server *srv)
{
  struct pool_counts c = pool_count (srv->pool);
  struct host_memory memory;
  uint64_t stalled;

  gauge (p, "farpage_memserver_pressed", pool_is_pressed (srv->pool),
         "1: this host is short of memory, and nothing is lent.");
  gauge (p, "farpage_memserver_reserve_bytes", srv->options->reserve,
         "Memory that is reserved for this host.");
  fp_prom_family (p, "farpage_memserver_host_available_bytes", FP_PROM_GAUGE,
                  "MemAvailable of this host, or of the NUMA node.");
  if (host_memory (&memory, srv->options->numa) == 0)
    fp_prom_value (p, memory.available, NULL);
  fp_prom_family (p, "farpage_memserver_host_stalled_seconds_total",
                  FP_PROM_COUNTER,
                  "Time for which a task of this host waited for memory "
                  "(PSI).");
  if (host_stalled_us (&stalled) == 0)
    fp_prom_ns (p, stalled * 1000, NULL);
  gauge (p, "farpage_memserver_draining", srv->sessions.drain != DRAIN_NOT,
         "1: this server is being drained, by a command or before it "
         "stops.");
  gauge (p, "farpage_memserver_slabs_asked_back", drain_asked (&srv->sessions),
         "Slabs that clients are asked to move to other servers.");
  counter (p, "farpage_memserver_slabs_returned_total", c.given,
           "Slabs given back to this host while it was short of memory.");
}

static void
put_clients (struct fp_prom *p, const struct server *srv)
{
  uint64_t attached[NR_TRANSPORTS] = { 0 }, rdma = 0, open = 0, ending = 0;
  unsigned listens, away;
  const struct session *s;

  TAILQ_FOREACH (s, &srv->sessions.list, entry)
  {
    rdma += s->nr_peers;
    open += s->state == SESSION_OPEN;
    ending += s->state == SESSION_ENDING;
    for (unsigned i = 0; i < NR_TRANSPORTS; i++)
      attached[i] += s->record && s->record->transport == transports[i];
  }
  fp_prom_family (p, "farpage_memserver_sessions", FP_PROM_GAUGE,
                  "Control connections, by state.");
  fp_prom_value (p, srv->sessions.nr_fresh, FP_LABELS ({ "state", "fresh" }));
  fp_prom_value (p, srv->sessions.nr - open - ending,
                 FP_LABELS ({ "state", "ready" }));
  fp_prom_value (p, open, FP_LABELS ({ "state", "open" }));
  fp_prom_value (p, ending, FP_LABELS ({ "state", "ending" }));
  counter (p, "farpage_memserver_sessions_total",
           srv->sessions.counts.sessions, "Sessions that were started.");
  fp_prom_family (p, "farpage_memserver_data_connections", FP_PROM_GAUGE,
                  "Data connections, by transport; shm needs none.");
  fp_prom_value (p, rdma, FP_LABELS ({ "transport", "rdma" }));
  fp_prom_value (p, srv->sessions.nr_data, FP_LABELS ({ "transport", "tcp" }));
  rdma_count (&srv->sessions, &listens, &away);
  fp_prom_family (p, "farpage_memserver_rdma_listeners", FP_PROM_GAUGE,
                  "Addresses that RDMA listens on; away: the device is gone.");
  fp_prom_value (p, listens, FP_LABELS ({ "state", "up" }));
  fp_prom_value (p, away, FP_LABELS ({ "state", "away" }));
  fp_prom_family (p, "farpage_memserver_attached_volumes", FP_PROM_GAUGE,
                  "Attached volumes, by transport.");
  for (unsigned i = 0; i < NR_TRANSPORTS; i++)
    fp_prom_value (
        p, attached[i],
        FP_LABELS ({ "transport", fp_transport_name (transports[i]) }));
}

/* Write the metrics of each identity of --access; without --access there are
 * none.
 */
static void
put_identities (struct fp_prom *p, const struct server *srv)
{
  unsigned nr = srv->sessions.access ? access_count (srv->sessions.access) : 0,
           volumes;

  fp_prom_family (p, "farpage_memserver_identity_bytes", FP_PROM_GAUGE,
                  "Memory lent to the volumes of an identity of --access.");
  for (unsigned i = 0; i < nr; i++) {
    const struct access_rights *r = access_at (srv->sessions.access, i);
    char who[WHO_STR_MAX];

    who_format (&r->who, who);
    fp_prom_value (p,
                   guard_lent (&srv->sessions, &r->who, &volumes) *
                       pool_slab_size (srv->pool),
                   FP_LABELS ({ "identity", who }));
  }
  fp_prom_family (p, "farpage_memserver_identity_quota_bytes", FP_PROM_GAUGE,
                  "Quota of an identity of --access, if it has one.");
  for (unsigned i = 0; i < nr; i++) {
    const struct access_rights *r = access_at (srv->sessions.access, i);
    char who[WHO_STR_MAX];

    who_format (&r->who, who);
    if (r->quota != UINT64_MAX)
      fp_prom_value (p, r->quota, FP_LABELS ({ "identity", who }));
  }
}

static void
put_requests (struct fp_prom *p, const struct sessions_counts *counts)
{
  const unsigned types = sizeof counts->requests / sizeof counts->requests[0];
  uint64_t other = 0;

  fp_prom_family (p, "farpage_memserver_requests_total", FP_PROM_COUNTER,
                  "Control messages that were answered.");
  for (unsigned i = 0; i < types; i++) {
    char name[32] = "unknown";

    if (i > 0)
      snprintf (name, sizeof name, "%s", fp_msg_name (i));
    for (char *c = name; *c != '\0'; c++)
      *c = (char) tolower ((unsigned char) *c);
    fp_prom_value (p, counts->requests[i], FP_LABELS ({ "message", name }));
  }
  fp_prom_family (p, "farpage_memserver_refused_total", FP_PROM_COUNTER,
                  "Control messages that were refused, by reason.");
  for (unsigned i = FP_STATUS_OK + 1; i < NR_STATUSES; i++)
    if (reasons[i])
      fp_prom_value (p, counts->refused[i],
                     FP_LABELS ({ "reason", reasons[i] }));
    else
      other += counts->refused[i];
  fp_prom_value (p, other, FP_LABELS ({ "reason", "other" }));
}

/* Write one sample for each volume.  The UUID tells them apart: a name may
 * look like the title of another volume.
 */
static void
put_each (struct fp_prom *p, const struct server *srv,
          void (*put) (struct fp_prom *p, const struct record *r,
                       const struct fp_prom_label *labels))
{
  const struct record *r;

  TAILQ_FOREACH (r, &srv->records.list, entry)
  {
    char title[FP_NAME_MAX + 1], uuid[FP_UUID_STR_MAX];

    record_title (r, title);
    fp_uuid_format (&r->uuid, uuid);
    put (p, r, FP_LABELS ({ "volume", title }, { "uuid", uuid }));
  }
}

static void
put_volume_slabs (struct fp_prom *p, const struct record *r,
                  const struct fp_prom_label *labels)
{
  fp_prom_value (p, r->nr_slabs, labels);
}

static void
put_volume_bytes (struct fp_prom *p, const struct record *r,
                  const struct fp_prom_label *labels)
{
  fp_prom_value (p, r->nr_slabs * pool_slab_size (r->records->pool), labels);
}

static void
put_volume_attached (struct fp_prom *p, const struct record *r,
                     const struct fp_prom_label *labels)
{
  fp_prom_value (p, r->holder != NULL, labels);
}

static void
put_volume_lease (struct fp_prom *p, const struct record *r,
                  const struct fp_prom_label *labels)
{
  if (r->holder != NULL)
    fp_prom_ns (p, fp_now_ns () - r->holder->renewed_ns, labels);
}

static void
put_volumes (struct fp_prom *p, const struct server *srv)
{
  gauge (p, "farpage_memserver_volumes", srv->records.nr,
         "Volumes that this server has.");
  fp_prom_family (p, "farpage_memserver_volume_slabs", FP_PROM_GAUGE,
                  "Slabs of a volume on this server.");
  put_each (p, srv, put_volume_slabs);
  fp_prom_family (p, "farpage_memserver_volume_bytes", FP_PROM_GAUGE,
                  "Memory of a volume on this server.");
  put_each (p, srv, put_volume_bytes);
  fp_prom_family (p, "farpage_memserver_volume_attached", FP_PROM_GAUGE,
                  "1: a client has the volume attached.");
  put_each (p, srv, put_volume_attached);
  fp_prom_family (p, "farpage_memserver_volume_lease_age_seconds",
                  FP_PROM_GAUGE,
                  "Time since the last message from the volume's client.");
  put_each (p, srv, put_volume_lease);
}

static void
render (void *ctx, struct fp_prom *p)
{
  const struct server *srv = ctx;

  put_server (p, srv);
  put_slabs (p, srv);
  put_pressure (p, srv);
  put_clients (p, srv);
  put_requests (p, &srv->sessions.counts);
  put_identities (p, srv);
  put_volumes (p, srv);
}

int
metrics_start (struct metrics **out, struct server *srv,
               struct fp_error *error)
{
  char addr[FP_ADDR_MAX + 1];
  struct metrics *m;
  int r;

  if (!srv->options->has_metrics)
    return 0;
  m = calloc (1, sizeof *m);
  if (!m)
    return -ENOMEM;
  m->since = (uint64_t) time (NULL);
  r = fp_scrape_listen (&m->sockets, &srv->options->metrics, error);
  if (r == 0)
    r = fp_scrape_new (&m->scrape, srv->base, &m->sockets, render, srv);
  if (r < 0) {
    metrics_free (m);
    return r;
  }
  fp_addr_format (&m->sockets.addr, addr);
  fp_log (FP_LOG_INFO, "metrics are at %s", addr);
  *out = m;
  return 0;
}

void
metrics_free (struct metrics *m)
{
  if (!m)
    return;
  fp_scrape_free (m->scrape);
  fp_scrape_close (&m->sockets);
  free (m);
}
