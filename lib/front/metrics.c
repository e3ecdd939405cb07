/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics.c - see metrics.h. */

#include <config.h>

#include "front/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/memory.h"
#include "metrics/prom.h"
#include "volume/status_fields.h"

struct fp_metrics {
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

#define OF_SERVER(m, i, ...)                                                  \
  FP_LABELS ({ "server", (m)->places[i] }, __VA_ARGS__)

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
                           : FP_LABELS ({ f->label, f->value }));
  }
}

/* ---- other metrics of the volume ---- */

static void
gauge (struct fp_prom *p, const char *name, uint64_t value, const char *help)
{
  fp_prom_family (p, name, FP_PROM_GAUGE, help);
  fp_prom_value (p, value, NULL);
}

static void
put_volume (const struct fp_metrics *m, struct fp_prom *p)
{
  const struct fp_volume_status *v = &m->now.volume;
  char uuid[FP_UUID_STR_MAX], width[16];

  fp_prom_family (p, "farpage_build_info", FP_PROM_GAUGE,
                  "Program and version that serve it; always 1.");
  fp_prom_value (p, 1,
                 FP_LABELS ({ "program", "nbdkit-farpage-plugin" },
                            { "version", PACKAGE_VERSION }));
  fp_uuid_format (&v->uuid, uuid);
  snprintf (width, sizeof width, "%u", v->stripe.width);
  fp_prom_family (p, "farpage_volume_info", FP_PROM_GAUGE,
                  "Name, UUID and stripe width of the volume; always 1.");
  fp_prom_value (p, 1,
                 FP_LABELS ({ "name", v->name }, { "uuid", uuid },
                            { "stripe_width", width }));
  gauge (p, "farpage_volume_allocated_bytes",
         v->extents_allocated * v->slab_size,
         "Size of the extents that have memory.");
  fp_prom_family (p, "farpage_volume_extent_copies", FP_PROM_GAUGE,
                  "Copies of extents, by state.");
  for (unsigned i = 0; i < NR_EXTENT_STATES; i++)
    fp_prom_value (p, m->census.extents[i],
                   FP_LABELS ({ "state", extent_states[i] }));
  gauge (p, "farpage_volume_migrating_extents", m->census.moving,
         "1: an extent is being moved to another server.");
  gauge (p, "farpage_volume_encrypted", v->seal.encrypt != FP_ENCRYPT_NONE,
         "1: the data on the servers is encrypted.");
  gauge (p, "farpage_volume_checked",
         v->seal.integrity || v->seal.checksum != FP_CHECKSUM_NONE,
         "1: blocks are verified when they are read.");
  fp_prom_family (
      p, "farpage_volume_request_duration_seconds", FP_PROM_HISTOGRAM,
      "Duration of reads and writes (of all, or of one in eight).");
  fp_prom_hist (p, &m->census.read_ns, FP_LABELS ({ "op", "read" }));
  fp_prom_hist (p, &m->census.write_ns, FP_LABELS ({ "op", "write" }));
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
gather (struct fp_metrics *m, struct fp_volume *volume, bool io_flusher)
{
  unsigned n = 0;

  fp_volume_status (volume, &m->now.volume);
  fp_volume_census (volume, &m->census);
  for (unsigned i = 0; i < m->now.volume.nr_servers; i++) {
    fp_volume_server_status (volume, i, &m->now.servers[n]);
    if (m->now.servers[n].gone)
      continue;
    m->inflight[n++] = m->census.inflight[i];
  }
  m->now.nr_servers = n;
  m->now.io_flusher = io_flusher;
  m->now.locked_bytes = fp_memory_locked ();
}

char *
fp_metrics_page (struct fp_metrics *m, struct fp_volume *volume,
                 bool io_flusher)
{
  struct fp_prom page = { .used = 0 };
  char *text = NULL;

  gather (m, volume, io_flusher);
  name_places (m);
  put_volume (m, &page);
  put_fields (m, &page, fp_status_fields, (const char *) &m->now, 1, 0, false);
  put_servers (m, &page);
  if (fp_prom_ok (&page))
    text = realloc (page.text, page.used + sizeof FP_PROM_END);
  if (text == NULL)
    free (page.text);
  else
    memcpy (text + page.used, FP_PROM_END, sizeof FP_PROM_END);
  return text;
}

struct fp_metrics *
fp_metrics_new (void)
{
  return calloc (1, sizeof (struct fp_metrics));
}

void
fp_metrics_free (struct fp_metrics *m)
{
  free (m);
}
