/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics.c - the thread that answers Prometheus. */

#include <config.h>

#include "front/metrics.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "front/memory.h"
#include "volume/volume.h"

struct fp_metrics {
  struct fp_scrape_sockets sockets;
  struct event_base *base;
  struct fp_scrape *scrape;
  int stop_fd; /* eventfd, readable: stop */
  struct event *stop;
  struct fp_thread thread;
  bool started;
  bool io_flusher;
  struct fp_volume *volume;

  /* Data of the page that is being written. */
  char title[FP_UUID_STR_MAX + FP_NAME_MAX + 1];
  struct fp_volume_status now;
  struct fp_server_status servers[FP_MAX_SERVERS];
  char places[FP_MAX_SERVERS][FP_ADDR_MAX + 16];
  struct fp_census census;
};

static const char *const extent_states[] = {
  [FP_EXTENT_EMPTY] = "empty",     [FP_EXTENT_READY] = "ready",
  [FP_EXTENT_BUSY] = "busy",       [FP_EXTENT_FROZEN] = "frozen",
  [FP_EXTENT_OFFLINE] = "offline", [FP_EXTENT_LOST] = "lost",
};
#define NR_EXTENT_STATES (sizeof extent_states / sizeof extent_states[0])

static const enum fp_server_state server_states[] = {
  FP_SERVER_DOWN,     FP_SERVER_CONNECTING, FP_SERVER_UP,
  FP_SERVER_DRAINING, FP_SERVER_LOST,
};
#define NR_SERVER_STATES (sizeof server_states / sizeof server_states[0])

static const unsigned transports[] = { FP_TRANSPORT_RDMA, FP_TRANSPORT_SHM,
                                       FP_TRANSPORT_TCP };
#define NR_TRANSPORTS (sizeof transports / sizeof transports[0])

static const char *const drain_states[] = {
  [FP_DRAIN_NONE] = "none",
  [FP_DRAIN_MOVING] = "draining",
  [FP_DRAIN_DONE] = "drained",
};

/* ---- the volume ---- */

#define OF_VOLUME(m, ...) FP_LABELS ({ "volume", (m)->title }, __VA_ARGS__)
#define VOLUME(m) FP_LABELS ({ "volume", (m)->title })

static void
gauge (const struct fp_metrics *m, struct fp_prom *p, const char *name,
       uint64_t value, const char *help)
{
  fp_prom_family (p, name, FP_PROM_GAUGE, help);
  fp_prom_value (p, value, VOLUME (m));
}

static void
counter (const struct fp_metrics *m, struct fp_prom *p, const char *name,
         uint64_t value, const char *help)
{
  fp_prom_family (p, name, FP_PROM_COUNTER, help);
  fp_prom_value (p, value, VOLUME (m));
}

static void
put_infos (const struct fp_metrics *m, struct fp_prom *p)
{
  const struct fp_volume_status *v = &m->now;
  char uuid[FP_UUID_STR_MAX], width[16];

  fp_prom_family (p, "farpage_build_info", FP_PROM_GAUGE,
                  "Which program this is; always 1.");
  fp_prom_value (p, 1,
                 FP_LABELS ({ "program", "nbdkit-farpage-plugin" },
                            { "version", PACKAGE_VERSION }));
  fp_uuid_format (&v->uuid, uuid);
  snprintf (width, sizeof width, "%u", v->stripe.width);
  fp_prom_family (p, "farpage_volume_info", FP_PROM_GAUGE,
                  "UUID and stripe width of the volume; always 1.");
  fp_prom_value (p, 1,
                 OF_VOLUME (m, { "uuid", uuid }, { "stripe_width", width }));
  gauge (m, p, "farpage_plugin_locked_bytes", fp_memory_locked (),
         "Memory of this process that cannot be swapped out.");
  gauge (m, p, "farpage_plugin_io_flusher", m->io_flusher,
         "1: the kernel knows that this process must not wait for block I/O.");
}

static void
put_space (const struct fp_metrics *m, struct fp_prom *p)
{
  const struct fp_volume_status *v = &m->now;

  gauge (m, p, "farpage_volume_size_bytes", v->size,
         "The size of the volume.");
  gauge (m, p, "farpage_volume_slab_size_bytes", v->slab_size,
         "The size of an extent of the volume.");
  gauge (m, p, "farpage_volume_allocated_bytes",
         v->extents_allocated * v->slab_size,
         "Size of the extents that have memory.");
  fp_prom_family (p, "farpage_volume_pieces", FP_PROM_GAUGE,
                  "Copies of extents, by state.");
  for (unsigned i = 0; i < NR_EXTENT_STATES; i++)
    fp_prom_value (p, m->census.extents[i],
                   OF_VOLUME (m, { "state", extent_states[i] }));
  gauge (m, p, "farpage_volume_lost_pieces", v->extents_lost,
         "Extents that are lost: reads and writes of them fail.");
  gauge (m, p, "farpage_volume_degraded_pieces", v->extents_degraded,
         "Extents with fewer copies than they should have.");
  gauge (m, p, "farpage_volume_rebuild_bytes", v->bytes_to_resync,
         "Bytes to copy until no extent is degraded.");
  gauge (m, p, "farpage_volume_marked_bytes", v->bytes_marked,
         "Bytes in which copies may differ if this client dies now.");
  gauge (m, p, "farpage_volume_resync_bytes", v->resync_bytes,
         "Bytes to resync when it was attached, as its last client had died.");
  gauge (m, p, "farpage_volume_moving_pieces", m->census.moving,
         "Extents that are being moved to another server.");
  gauge (m, p, "farpage_volume_taken", v->fenced,
         "1: fenced: another client has taken it over; all requests fail.");
  gauge (m, p, "farpage_volume_frozen", v->frozen,
         "1: frozen: too many servers were down at attach; no memory is "
         "allocated.");
  gauge (m, p, "farpage_volume_members_version", v->members_version,
         "Version of the volume's list of servers.");
}

static void
put_seal (const struct fp_metrics *m, struct fp_prom *p)
{
  const struct fp_seal_status *s = &m->now.seal;

  gauge (m, p, "farpage_volume_encrypted", s->encrypt != FP_ENCRYPT_NONE,
         "1: the data on the servers is encrypted.");
  gauge (m, p, "farpage_volume_checked",
         s->integrity || s->checksum != FP_CHECKSUM_NONE,
         "1: blocks are verified when they are read.");
  gauge (m, p, "farpage_volume_unchecked_bytes", s->unchecked,
         "Bytes that an earlier client wrote, which are not verified.");
  counter (m, p, "farpage_volume_wrong_blocks_total", s->wrong,
           "Blocks from a server that failed verification.");
  counter (m, p, "farpage_volume_repaired_blocks_total", s->repaired,
           "Blocks that failed verification, repaired from another copy.");
  counter (m, p, "farpage_volume_unreadable_blocks_total", s->unreadable,
           "Reads of blocks without a valid copy: I/O errors.");
}

static void
put_requests (const struct fp_metrics *m, struct fp_prom *p)
{
  const struct fp_volume_status *v = &m->now;
  const struct {
    const char *op;
    uint64_t value;
  } requests[] = { { "read", v->reads },
                   { "write", v->writes },
                   { "zero", v->zeros },
                   { "trim", v->trims },
                   { "flush", v->flushes } };

  fp_prom_family (p, "farpage_volume_requests_total", FP_PROM_COUNTER,
                  "Requests that were answered.");
  for (unsigned i = 0; i < sizeof requests / sizeof requests[0]; i++)
    fp_prom_value (p, requests[i].value,
                   OF_VOLUME (m, { "op", requests[i].op }));
  fp_prom_family (p, "farpage_volume_bytes_total", FP_PROM_COUNTER,
                  "Bytes that were read and written.");
  fp_prom_value (p, v->bytes_read, OF_VOLUME (m, { "op", "read" }));
  fp_prom_value (p, v->bytes_written, OF_VOLUME (m, { "op", "write" }));
  counter (m, p, "farpage_volume_errors_total", v->errors,
           "Requests that failed.");
  gauge (m, p, "farpage_volume_inflight_requests", v->inflight,
         "Requests that are not answered yet.");
  fp_prom_family (
      p, "farpage_volume_request_duration_seconds", FP_PROM_HISTOGRAM,
      "Duration of reads and writes: of all, or of one in eight (see "
      "STATUS).");
  fp_prom_hist (p, &m->census.read_ns, OF_VOLUME (m, { "op", "read" }));
  fp_prom_hist (p, &m->census.write_ns, OF_VOLUME (m, { "op", "write" }));
  counter (m, p, "farpage_volume_check_compared_blocks_total",
           v->check.all_compared,
           "Blocks whose copies were all compared (farpage check).");
  counter (m, p, "farpage_volume_check_differing_blocks_total",
           v->check.all_differ, "Compared blocks whose copies differed.");
  counter (m, p, "farpage_volume_check_repaired_blocks_total",
           v->check.all_repaired,
           "Blocks whose copies differed, and were repaired.");
  fp_prom_family (p, "farpage_volume_waits_total", FP_PROM_COUNTER,
                  "Waits for servers, by how they ended.");
  fp_prom_value (p, v->poll_hits, OF_VOLUME (m, { "ended", "polling" }));
  fp_prom_value (p, v->sleeps, OF_VOLUME (m, { "ended", "asleep" }));
  counter (m, p, "farpage_volume_hedges_total", v->hedges.sent,
           "Reads that were also sent to another copy (hedge=p99).");
  counter (m, p, "farpage_volume_hedges_won_total", v->hedges.won,
           "Hedged reads that the other copy answered first.");
  counter (m, p, "farpage_volume_hedges_lost_total", v->hedges.lost,
           "Hedged reads that the other copy did not answer first.");
  counter (m, p, "farpage_volume_hedges_refused_total", v->hedges.refused,
           "Reads that were not hedged, as too many others were.");
}

/* ---- the servers ---- */

#define OF_SERVER(m, i, ...)                                                  \
  FP_LABELS ({ "volume", (m)->title }, { "server", (m)->places[i] },          \
             __VA_ARGS__)
#define SERVER(m, i)                                                          \
  FP_LABELS ({ "volume", (m)->title }, { "server", (m)->places[i] })

/* A metric with one number per server. */
struct of_server {
  const char *name;
  enum fp_prom_type type;
  const char *help;
  uint64_t (*get) (const struct fp_metrics *m, unsigned i);
};

#define GETTER(name, value)                                                   \
  static uint64_t get_##name (const struct fp_metrics *m, unsigned i)         \
  {                                                                           \
    return value;                                                             \
  }
GETTER (up, m->servers[i].state == FP_SERVER_UP)
GETTER (current, m->servers[i].current)
GETTER (joining, m->servers[i].joining)
GETTER (reconnects, m->servers[i].reconnects)
GETTER (slabs, m->servers[i].slabs_total)
GETTER (free, m->servers[i].slabs_free)
GETTER (extents, m->servers[i].extents)
GETTER (lent, m->servers[i].extents * m->now.slab_size)
GETTER (ops, m->servers[i].ops)
GETTER (errors, m->servers[i].errors)
GETTER (inflight, m->census.inflight[i])
GETTER (wanted, m->servers[i].reclaim.wanted)
GETTER (reclaimed, m->servers[i].reclaim.reclaimed)
GETTER (drain_left, m->servers[i].drain.left)
GETTER (drain_bytes, m->servers[i].drain.bytes)

static const struct of_server of_servers[] = {
  { "farpage_server_up", FP_PROM_GAUGE, "1: the server can be used.", get_up },
  { "farpage_server_current", FP_PROM_GAUGE,
    "1: the server has missed no change of the volume's metadata.",
    get_current },
  { "farpage_server_joining", FP_PROM_GAUGE,
    "1: the server was added, and is not a full member yet.", get_joining },
  { "farpage_server_reconnects_total", FP_PROM_COUNTER,
    "Reconnections to the server.", get_reconnects },
  { "farpage_server_slabs", FP_PROM_GAUGE,
    "Slabs of the server, free or in use.", get_slabs },
  { "farpage_server_free_slabs", FP_PROM_GAUGE,
    "Free slabs of the server, as it last reported.", get_free },
  { "farpage_server_pieces", FP_PROM_GAUGE,
    "Extents of this volume on the server.", get_extents },
  { "farpage_server_lent_bytes", FP_PROM_GAUGE,
    "Memory that the server lends to this volume.", get_lent },
  { "farpage_server_transfers_total", FP_PROM_COUNTER,
    "Transfers from and to the server.", get_ops },
  { "farpage_server_errors_total", FP_PROM_COUNTER, "Transfers that failed.",
    get_errors },
  { "farpage_server_inflight_transfers", FP_PROM_GAUGE,
    "Transfers in progress.", get_inflight },
  { "farpage_server_slabs_asked_back", FP_PROM_GAUGE,
    "Slabs that the server wants back, as its host is short of memory.",
    get_wanted },
  { "farpage_server_pieces_given_total", FP_PROM_COUNTER,
    "Extents that moved away, as the server's host was short of memory.",
    get_reclaimed },
  { "farpage_server_drain_left_pieces", FP_PROM_GAUGE,
    "Extents that the drain has not moved yet.", get_drain_left },
  { "farpage_server_drain_copied_bytes", FP_PROM_GAUGE,
    "Bytes that the drain has copied.", get_drain_bytes },
};

static void
put_server_states (const struct fp_metrics *m, struct fp_prom *p, unsigned i)
{
  for (unsigned j = 0; j < NR_SERVER_STATES; j++)
    fp_prom_value (
        p, m->servers[i].state == server_states[j],
        OF_SERVER (m, i,
                   { "state", fp_server_state_name (server_states[j]) }));
}

static void
put_server_transports (const struct fp_metrics *m, struct fp_prom *p,
                       unsigned i)
{
  for (unsigned j = 0; j < NR_TRANSPORTS; j++)
    fp_prom_value (
        p, m->servers[i].transport == transports[j],
        OF_SERVER (m, i, { "transport", fp_transport_name (transports[j]) }));
}

static void
put_server_info (const struct fp_metrics *m, struct fp_prom *p, unsigned i)
{
  fp_prom_value (p, 1, OF_SERVER (m, i, { "name", m->servers[i].name }));
}

static void
put_server_bytes (const struct fp_metrics *m, struct fp_prom *p, unsigned i)
{
  fp_prom_value (p, m->servers[i].bytes_read,
                 OF_SERVER (m, i, { "op", "read" }));
  fp_prom_value (p, m->servers[i].bytes_written,
                 OF_SERVER (m, i, { "op", "write" }));
}

static void
put_server_drain (const struct fp_metrics *m, struct fp_prom *p, unsigned i)
{
  fp_prom_states (
      p, drain_states, sizeof drain_states / sizeof drain_states[0],
      m->servers[i].drain.state, OF_SERVER (m, i, { "state", NULL }));
}

static void
put_each (const struct fp_metrics *m, struct fp_prom *p,
          void (*put) (const struct fp_metrics *m, struct fp_prom *p,
                       unsigned i))
{
  for (unsigned i = 0; i < m->now.nr_servers; i++)
    if (!m->servers[i].gone)
      put (m, p, i);
}

static void
put_servers (const struct fp_metrics *m, struct fp_prom *p)
{
  fp_prom_family (p, "farpage_server_info", FP_PROM_GAUGE,
                  "Name of the server; always 1.");
  put_each (m, p, put_server_info);
  fp_prom_family (p, "farpage_server_state", FP_PROM_GAUGE,
                  "1 for the state of the server.");
  put_each (m, p, put_server_states);
  fp_prom_family (p, "farpage_server_transport", FP_PROM_GAUGE,
                  "1 for the transport to the server.");
  put_each (m, p, put_server_transports);
  fp_prom_family (p, "farpage_server_bytes_total", FP_PROM_COUNTER,
                  "Bytes that were read from and written to the server.");
  put_each (m, p, put_server_bytes);
  fp_prom_family (p, "farpage_server_drain_state", FP_PROM_GAUGE,
                  "1 for the state of the server's drain.");
  put_each (m, p, put_server_drain);
  for (unsigned n = 0; n < sizeof of_servers / sizeof of_servers[0]; n++) {
    fp_prom_family (p, of_servers[n].name, of_servers[n].type,
                    of_servers[n].help);
    for (unsigned i = 0; i < m->now.nr_servers; i++)
      if (!m->servers[i].gone)
        fp_prom_value (p, of_servers[n].get (m, i), SERVER (m, i));
  }
}

/* ---- a page ---- */

/* Name each server by its address.  While one server takes the place of
 * another, two may have the same address, and a sample that occurs twice would
 * make the page invalid.  So number the second one.
 */
static void
name_places (struct fp_metrics *m)
{
  for (unsigned i = 0; i < m->now.nr_servers; i++) {
    char addr[sizeof m->servers[i].addr];
    unsigned same = 0;

    for (unsigned j = 0; j < i; j++)
      same += !m->servers[j].gone &&
              strcmp (m->servers[j].addr, m->servers[i].addr) == 0;
    /* Without this copy, some versions of gcc warn of an overlap. */
    memcpy (addr, m->servers[i].addr, sizeof addr);
    snprintf (m->places[i], sizeof m->places[i], "%s", addr);
    if (same > 0)
      snprintf (m->places[i], sizeof m->places[i], "%s#%u", addr, same + 1);
  }
}

static void
render (void *ctx, struct fp_prom *p)
{
  struct fp_metrics *m = ctx;

  fp_volume_status (m->volume, &m->now);
  for (unsigned i = 0; i < m->now.nr_servers; i++)
    fp_volume_server_status (m->volume, i, &m->servers[i]);
  fp_volume_census (m->volume, &m->census);
  name_places (m);
  if (m->now.name[0] != '\0')
    snprintf (m->title, sizeof m->title, "%s", m->now.name);
  else
    fp_uuid_format (&m->now.uuid, m->title);

  put_infos (m, p);
  put_space (m, p);
  put_seal (m, p);
  put_requests (m, p);
  put_servers (m, p);
}

/* ---- life ---- */

static void
on_stop (evutil_socket_t fd, short what, void *arg)
{
  struct fp_metrics *m = arg;

  (void) fd;
  (void) what;
  (void) event_base_loopbreak (m->base);
}

static void
run (void *arg)
{
  struct fp_metrics *m = arg;

  fp_thread_step_aside ();
  (void) event_base_dispatch (m->base);
}

static int
start (struct fp_metrics *m)
{
  int r;

  m->stop_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (m->stop_fd == -1)
    return -errno;
  m->base = event_base_new ();
  if (m->base == NULL)
    return -ENOMEM;
  m->stop = event_new (m->base, m->stop_fd, EV_READ, on_stop, m);
  if (m->stop == NULL || event_add (m->stop, NULL) < 0)
    return -ENOMEM;
  r = fp_scrape_new (&m->scrape, m->base, &m->sockets, render, m);
  if (r == 0)
    r = fp_thread_create_large (&m->thread, "fp-metrics", run, m);
  m->started = r == 0;
  return r;
}

int
fp_metrics_start (struct fp_metrics **out, struct fp_scrape_sockets *sockets,
                  struct fp_volume *volume, bool io_flusher,
                  struct fp_error *error)
{
  struct fp_metrics *m = calloc (1, sizeof *m);
  char addr[FP_ADDR_MAX + 1];
  int r = -ENOMEM;

  if (m != NULL) {
    m->sockets = *sockets;
    sockets->nr = 0;
    m->stop_fd = -1;
    m->volume = volume;
    m->io_flusher = io_flusher;
    r = start (m);
  }
  if (r < 0) {
    fp_fail (error, r, "metrics: %s", strerror (-r));
    fp_metrics_free (m);
    return r;
  }
  fp_addr_format (&m->sockets.addr, addr);
  fp_log (FP_LOG_INFO, "metrics are at %s", addr);
  *out = m;
  return 0;
}

void
fp_metrics_free (struct fp_metrics *m)
{
  uint64_t one = 1;

  if (m == NULL)
    return;
  if (m->started && write (m->stop_fd, &one, sizeof one) == sizeof one)
    fp_thread_join (&m->thread);
  fp_scrape_free (m->scrape);
  if (m->stop != NULL)
    event_free (m->stop);
  if (m->base != NULL)
    event_base_free (m->base);
  fp_scrape_close (&m->sockets);
  if (m->stop_fd >= 0)
    close (m->stop_fd);
  free (m);
}
