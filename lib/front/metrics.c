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
#include "volume/status_fields.h"

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
  struct fp_status_doc now;
  char places[FP_MAX_SERVERS][FP_ADDR_MAX + 16];
  uint64_t inflight[FP_MAX_SERVERS];
  struct fp_census census;
};

static const char *const extent_states[] = {
  [FP_EXTENT_EMPTY] = "empty",     [FP_EXTENT_READY] = "ready",
  [FP_EXTENT_BUSY] = "busy",       [FP_EXTENT_FROZEN] = "frozen",
  [FP_EXTENT_OFFLINE] = "offline", [FP_EXTENT_LOST] = "lost",
};
#define NR_EXTENT_STATES (sizeof extent_states / sizeof extent_states[0])

#define OF_VOLUME(m, ...) FP_LABELS ({ "volume", (m)->title }, __VA_ARGS__)
#define OF_SERVER(m, i, ...)                                                  \
  FP_LABELS ({ "volume", (m)->title }, { "server", (m)->places[i] },          \
             __VA_ARGS__)

/* ---- fields of the status document ---- */

static enum fp_prom_type
type_of (const char *metric)
{
  static const char total[] = "_total";
  size_t n = strlen (metric), end = sizeof total - 1;

  return n > end && strcmp (metric + n - end, total) == 0 ? FP_PROM_COUNTER
                                                          : FP_PROM_GAUGE;
}

static void
put_samples (const struct fp_field *f, struct fp_prom *p, const void *of,
             const struct fp_prom_label *labels)
{
  if (f->type == FP_FIELD_ENUM)
    fp_prom_states (p, f->names, f->nr_names,
                    (unsigned) fp_field_number (f, of), labels);
  else
    fp_prom_value (p, fp_field_number (f, of), labels);
}

/* Put the metrics of nr structs of `each` bytes, the first one at `of`.  If
 * servers, they are the servers, otherwise nr is 1.
 */
static void
put_fields (const struct fp_metrics *m, struct fp_prom *p,
            const struct fp_field *fields, const char *of, unsigned nr,
            size_t each, bool servers)
{
  for (const struct fp_field *f = fields; f->type != FP_FIELD_END; f++) {
    unsigned count;

    if (f->type == FP_FIELD_TABLE)
      put_fields (m, p, f->fields, of + f->offset, nr, each, servers);
    if (f->type == FP_FIELD_LIST && f->fields != NULL) {
      memcpy (&count, of + f->count, sizeof count);
      put_fields (m, p, f->fields, of + f->offset, count, f->each, true);
    }
    if (f->metric == NULL)
      continue;
    if (p->family == NULL || strcmp (p->family, f->metric) != 0)
      fp_prom_family (p, f->metric, type_of (f->metric), f->help);
    for (unsigned i = 0; i < nr; i++)
      put_samples (f, p, of + i * each,
                   servers ? OF_SERVER (m, i, { f->label, f->value })
                           : OF_VOLUME (m, { f->label, f->value }));
  }
}

/* ---- other metrics of the volume ---- */

static void
gauge (const struct fp_metrics *m, struct fp_prom *p, const char *name,
       uint64_t value, const char *help)
{
  fp_prom_family (p, name, FP_PROM_GAUGE, help);
  fp_prom_value (p, value, OF_VOLUME (m, { NULL, NULL }));
}

static void
put_volume (const struct fp_metrics *m, struct fp_prom *p)
{
  const struct fp_volume_status *v = &m->now.volume;
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
  gauge (m, p, "farpage_volume_allocated_bytes",
         v->extents_allocated * v->slab_size,
         "Size of the extents that have memory.");
  fp_prom_family (p, "farpage_volume_extent_copies", FP_PROM_GAUGE,
                  "Copies of extents, by state.");
  for (unsigned i = 0; i < NR_EXTENT_STATES; i++)
    fp_prom_value (p, m->census.extents[i],
                   OF_VOLUME (m, { "state", extent_states[i] }));
  gauge (m, p, "farpage_volume_migrating_extents", m->census.moving,
         "1: an extent is being moved to another server.");
  gauge (m, p, "farpage_volume_encrypted", v->seal.encrypt != FP_ENCRYPT_NONE,
         "1: the data on the servers is encrypted.");
  gauge (m, p, "farpage_volume_checked",
         v->seal.integrity || v->seal.checksum != FP_CHECKSUM_NONE,
         "1: blocks are verified when they are read.");
  fp_prom_family (
      p, "farpage_volume_request_duration_seconds", FP_PROM_HISTOGRAM,
      "Duration of reads and writes: of all, or of one in eight (see "
      "STATUS).");
  fp_prom_hist (p, &m->census.read_ns, OF_VOLUME (m, { "op", "read" }));
  fp_prom_hist (p, &m->census.write_ns, OF_VOLUME (m, { "op", "write" }));
}

/* ---- other metrics of the servers ---- */

static void
put_servers (const struct fp_metrics *m, struct fp_prom *p)
{
  const struct fp_server_status *s = m->now.servers;

  fp_prom_family (p, "farpage_server_info", FP_PROM_GAUGE,
                  "Name of the server; always 1.");
  for (unsigned i = 0; i < m->now.nr_servers; i++)
    fp_prom_value (p, 1, OF_SERVER (m, i, { "name", s[i].name }));
  fp_prom_family (p, "farpage_server_up", FP_PROM_GAUGE,
                  "1: the server can be used.");
  for (unsigned i = 0; i < m->now.nr_servers; i++)
    fp_prom_value (p, s[i].state == FP_SERVER_UP,
                   OF_SERVER (m, i, { NULL, NULL }));
  fp_prom_family (p, "farpage_server_lent_bytes", FP_PROM_GAUGE,
                  "Memory that the server lends to this volume.");
  for (unsigned i = 0; i < m->now.nr_servers; i++)
    fp_prom_value (p, s[i].extents * m->now.volume.slab_size,
                   OF_SERVER (m, i, { NULL, NULL }));
  fp_prom_family (p, "farpage_server_inflight_transfers", FP_PROM_GAUGE,
                  "Transfers in progress.");
  for (unsigned i = 0; i < m->now.nr_servers; i++)
    fp_prom_value (p, m->inflight[i], OF_SERVER (m, i, { NULL, NULL }));
}

/* ---- a page ---- */

/* Name each server by its address.  While one server takes the place of
 * another, two may have the same address, and a sample that occurs twice would
 * make the page invalid.  So number the second one.
 */
static void
name_places (struct fp_metrics *m)
{
  const struct fp_server_status *s = m->now.servers;

  for (unsigned i = 0; i < m->now.nr_servers; i++) {
    char addr[sizeof s[i].addr];
    unsigned same = 0;

    for (unsigned j = 0; j < i; j++)
      same += strcmp (s[j].addr, s[i].addr) == 0;
    /* Without this copy, some versions of gcc warn of an overlap. */
    memcpy (addr, s[i].addr, sizeof addr);
    snprintf (m->places[i], sizeof m->places[i], "%s", addr);
    if (same > 0)
      snprintf (m->places[i], sizeof m->places[i], "%s#%u", addr, same + 1);
  }
}

static void
gather (struct fp_metrics *m)
{
  unsigned n = 0;

  fp_volume_status (m->volume, &m->now.volume);
  fp_volume_census (m->volume, &m->census);
  for (unsigned i = 0; i < m->now.volume.nr_servers; i++) {
    fp_volume_server_status (m->volume, i, &m->now.servers[n]);
    if (m->now.servers[n].gone)
      continue;
    m->inflight[n++] = m->census.inflight[i];
  }
  m->now.nr_servers = n;
  m->now.io_flusher = m->io_flusher;
  m->now.locked_bytes = fp_memory_locked ();
}

static void
render (void *ctx, struct fp_prom *p)
{
  struct fp_metrics *m = ctx;

  gather (m);
  name_places (m);
  if (m->now.volume.name[0] != '\0')
    snprintf (m->title, sizeof m->title, "%s", m->now.volume.name);
  else
    fp_uuid_format (&m->now.volume.uuid, m->title);

  put_volume (m, p);
  put_fields (m, p, fp_status_fields, (const char *) &m->now, 1, 0, false);
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
