/* SPDX-License-Identifier: BSD-3-Clause */
/* top_lines.c - the changes between two answers, as lines of 80 columns. */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/size.h"
#include "tools/top/top.h"

#define WIDTH 80
#define CELL 16

struct row {
  char name[FP_ADDR_MAX + 80];
  double iops, read, written; /* per second */
  uint64_t latency;           /* worst p99, ns */
  bool alert;
  char text[256];
};

const char *
top_sort_name (enum top_sort sort)
{
  static const char *const names[] = { "name", "IOPS", "MB/s", "latency" };

  return names[sort];
}

/* Format a rate with at most five characters: 0, 7.5, 12345, 123k, 12M. */
static const char *
rate (double n, char out[CELL])
{
  if (n < 9.95 && n > 0)
    snprintf (out, CELL, "%.1f", n);
  else if (n < 99999.5)
    snprintf (out, CELL, "%.0f", n);
  else if (n < 9999500)
    snprintf (out, CELL, "%.0fk", n / 1e3);
  else if (n < 9999500e3)
    snprintf (out, CELL, "%.0fM", n / 1e6);
  else
    snprintf (out, CELL, "lots");
  return out;
}

static const char *
count (uint64_t n, char out[CELL])
{
  snprintf (out, CELL, n < 10000 ? "%" PRIu64 : "many", n);
  return out;
}

/* Format a time with at most four characters: microseconds, 9.9m, 999m, 9.9s,
 * 999s.
 */
static const char *
time_of (uint64_t ns, char out[CELL])
{
  double us = (double) ns / 1e3;

  if (ns == 0)
    snprintf (out, CELL, "-");
  else if (us < 999.5)
    snprintf (out, CELL, "%.0f", us);
  else if (us < 9950)
    snprintf (out, CELL, "%.1fm", us / 1e3);
  else if (us < 999500)
    snprintf (out, CELL, "%.0fm", us / 1e3);
  else
    snprintf (out, CELL, us < 9950e3 ? "%.1fs" : "%.0fs", us / 1e6);
  return out;
}

static const char *
pair (const char *a, const char *b, char out[2 * CELL])
{
  snprintf (out, 2 * CELL, "%s/%s", a, b);
  return out;
}

/* Return the rate of a counter.  If it went back, the plugin was started
 * again.
 */
static double
per_second (uint64_t now, uint64_t before, const struct top_seen *s)
{
  if (s->nr_answers < 2 || s->at_ns[0] <= s->at_ns[1] || now < before)
    return 0;
  return (double) (now - before) * 1e9 / (double) (s->at_ns[0] - s->at_ns[1]);
}

static struct top_line *
add (struct top_lines *out, enum top_kind kind)
{
  struct top_line *l = &out->line[out->nr];

  if (out->nr == sizeof out->line / sizeof out->line[0])
    return l - 1;
  out->nr++;
  l->kind = kind;
  l->text[0] = '\0';
  return l;
}

static void __attribute__ ((format (printf, 3, 4)))
say (struct top_lines *out, enum top_kind kind, const char *fmt, ...)
{
  struct top_line *l = add (out, kind);
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (l->text, WIDTH + 1, fmt, ap);
  va_end (ap);
  /* Some of the text comes from other processes, and it goes to a terminal. */
  for (char *p = l->text; *p; p++)
    if (*p < ' ' || *p > '~')
      *p = '?';
}

/* ---- volumes ---- */

static const char volume_heading[] =
    "VOLUME         IOPS  rMB/s  wMB/s   p50 r/w   p99 r/w INFL      MEMORY "
    "STATE";

static const char *
volume_state (const struct fp_status_doc *doc, char out[32])
{
  const struct fp_volume_status *v = &doc->volume;
  char left[FP_SIZE_STR_MAX];
  unsigned away = 0;

  for (unsigned i = 0; i < doc->nr_servers; i++)
    away += doc->servers[i].state != FP_SERVER_UP;
  if (v->fenced)
    return "FENCED";
  if (v->extents_lost > 0)
    snprintf (out, 32, "LOST %" PRIu64, v->extents_lost);
  else if (v->frozen)
    return "FROZEN";
  else if (v->bytes_to_resync > 0) {
    fp_format_size (v->bytes_to_resync, left);
    snprintf (out, 32, "+%s", left);
  }
  else if (v->extents_degraded > 0)
    snprintf (out, 32, "-%" PRIu64, v->extents_degraded);
  else if (away > 0)
    snprintf (out, 32, "%u down", away);
  else
    return "ok";
  return out;
}

/* Format the label of a device and the name of its volume.  A path is replaced
 * by the name, or cut to its end, which differs most.
 */
static void
name_of (char *out, size_t size, const char *label, const char *name)
{
  size_t n = strlen (label);

  if (strchr (label, '/'))
    snprintf (out, size, "%s", *name ? name : label + (n > 12 ? n - 12 : 0));
  else
    snprintf (out, size, "%s%s%s", label, *name ? " " : "", name);
}

static uint64_t
requests (const struct fp_volume_status *v)
{
  return v->reads + v->writes + v->flushes + v->trims + v->zeros;
}

static void
volume_row (struct row *r, const struct top_source *source,
            const struct top_seen *s)
{
  const struct fp_volume_status *v = &s->answer[0]->plugin.volume,
                                *before = &s->answer[1]->plugin.volume;
  char a[CELL], b[CELL], c[CELL], d[CELL], e[CELL], f[CELL], g[CELL];
  char p50[2 * CELL], p99[2 * CELL], memory[2 * FP_SIZE_STR_MAX];
  char has[FP_SIZE_STR_MAX], all[FP_SIZE_STR_MAX], state_buf[32], queue[CELL];
  const char *state;

  name_of (r->name, sizeof r->name, source->label, v->name);
  r->alert = s->silent;
  if (!s->answers) {
    snprintf (r->text, sizeof r->text, "%-12.12s %*s %s", r->name, 57, "",
              s->failed == -EPROTO ? "no status"
              : s->silent          ? "no answer"
                                   : "...");
    return;
  }
  r->iops = per_second (requests (v), requests (before), s);
  r->read = per_second (v->bytes_read, before->bytes_read, s);
  r->written = per_second (v->bytes_written, before->bytes_written, s);
  r->latency = FP_MAX (v->read_ns.p99, v->write_ns.p99);
  state = volume_state (&s->answer[0]->plugin, state_buf);
  r->alert = strcmp (state, "ok") != 0;
  fp_format_size (v->extents_allocated * v->slab_size, has);
  fp_format_size (v->size, all);
  snprintf (memory, sizeof memory, "%s/%s", has, all);
  snprintf (
      r->text, sizeof r->text, "%-12.12s %6s %6s %6s %9s %9s %4s %11s %s",
      r->name, rate (r->iops, a), rate (r->read / 1e6, b),
      rate (r->written / 1e6, c),
      pair (time_of (v->read_ns.p50, d), time_of (v->write_ns.p50, e), p50),
      pair (time_of (v->read_ns.p99, f), time_of (v->write_ns.p99, g), p99),
      count (v->inflight, queue), memory, state);
}

/* ---- servers ---- */

static const char server_heading[] =
    "SERVER               VIA    IOPS  rMB/s  wMB/s    FREE    LENT STATE";

/* A server as all plugins report it, added up. */
struct uses {
  double ops, read, written;
  enum fp_server_state state; /* if one cannot use it, why not */
  unsigned transport;         /* 0: none */
  uint64_t wanted, drain_extents, drain_left, free, slab;
  bool stale, drains, draining, seen;
};

static void
add_use (struct uses *u, const struct top_seen *s,
         const struct fp_server_status *now)
{
  const struct fp_status_doc *before = &s->answer[1]->plugin;
  const struct fp_server_status *was = NULL;

  for (unsigned i = 0; s->nr_answers > 1 && i < before->nr_servers; i++)
    if (strcmp (before->servers[i].addr, now->addr) == 0)
      was = &before->servers[i];
  if (was && s->answers) {
    u->ops += per_second (now->ops, was->ops, s);
    u->read += per_second (now->bytes_read, was->bytes_read, s);
    u->written += per_second (now->bytes_written, was->bytes_written, s);
  }
  if (!u->seen || now->state != FP_SERVER_UP)
    u->state = now->state;
  u->seen = true;
  if (now->transport != 0)
    u->transport = now->transport;
  u->wanted += now->reclaim.wanted;
  u->draining = u->draining || now->reclaim.draining;
  u->drains = u->drains || now->drain.state != FP_DRAIN_NONE;
  u->drain_extents += now->drain.extents;
  u->drain_left += now->drain.left;
  u->stale = u->stale || plugin_server_is_stale (&s->answer[0]->plugin, now);
  u->free = now->slabs_free;
  u->slab = s->answer[0]->plugin.volume.slab_size;
}

static void
gather_uses (struct uses *u, struct top *t, const char *addr,
             struct top_seen *seen)
{
  const struct fp_status_doc *doc;

  memset (u, 0, sizeof *u);
  for (unsigned i = 0; i < t->nr_volumes; i++) {
    if (!t->volumes[i]->wanted)
      continue;
    top_look (t->volumes[i], seen);
    doc = &seen->answer[0]->plugin;
    for (unsigned k = 0; seen->nr_answers > 0 && k < doc->nr_servers; k++)
      if (strcmp (doc->servers[k].addr, addr) == 0)
        add_use (u, seen, &doc->servers[k]);
  }
}

static void
server_state (const struct uses *u, const struct top_seen *s, char *out,
              size_t size, bool *alert)
{
  const struct top_server *server = &s->answer[0]->server;

  *alert = true;
  if (s->silent)
    snprintf (out, size, "no answer");
  else if (!u->seen)
    snprintf (out, size, "...");
  else if (u->state != FP_SERVER_UP)
    snprintf (out, size, "%s", fp_server_state_name (u->state));
  else if (u->drains && u->drain_left > 0)
    snprintf (out, size, "moving %" PRIu64 "/%" PRIu64,
              u->drain_extents - u->drain_left, u->drain_extents);
  else if (u->drains)
    snprintf (out, size, "drained");
  else if (s->answers && server->pressed)
    snprintf (out, size, "PRESSED, -%" PRIu64, server->wanted);
  else if (u->draining)
    snprintf (out, size, "DRAINING, -%" PRIu64, u->wanted);
  else if (u->wanted > 0)
    snprintf (out, size, "wants %" PRIu64, u->wanted);
  else if (u->stale)
    snprintf (out, size, "stale");
  else if (s->answers && server->stopping)
    snprintf (out, size, "stopping");
  else {
    snprintf (out, size, "%s", s->answers ? "ok" : "...");
    *alert = false;
  }
}

static void
server_row (struct row *r, const struct top_source *source,
            const struct uses *u, const struct top_seen *s)
{
  const struct top_server *server = &s->answer[0]->server;
  char a[CELL], b[CELL], c[CELL], state[32];
  char free_size[FP_SIZE_STR_MAX], lent[FP_SIZE_STR_MAX] = "-";

  fp_format_size (u->free * u->slab, free_size);
  if (s->answers) {
    fp_format_size (server->free * server->slab_size, free_size);
    fp_format_size (server->lent * server->slab_size, lent);
  }
  server_state (u, s, state, sizeof state, &r->alert);
  snprintf (r->name, sizeof r->name, "%s", source->label);
  r->iops = u->ops;
  r->read = u->read;
  r->written = u->written;
  snprintf (r->text, sizeof r->text, "%-20.20s %-4.4s %6s %6s %6s %7s %7s %s",
            source->label,
            u->transport ? fp_transport_name (u->transport) : "",
            rate (u->ops, a), rate (u->read / 1e6, b),
            rate (u->written / 1e6, c), free_size, lent, state);
}

/* ---- the page ---- */

static int
compare (const struct row *a, const struct row *b, enum top_sort sort)
{
  double x = 0, y = 0;

  if (sort == TOP_BY_IOPS) {
    x = a->iops;
    y = b->iops;
  }
  else if (sort == TOP_BY_BYTES) {
    x = a->read + a->written;
    y = b->read + b->written;
  }
  else if (sort == TOP_BY_LATENCY) {
    x = (double) a->latency;
    y = (double) b->latency;
  }
  if (x != y)
    return x > y ? -1 : 1;
  return strcmp (a->name, b->name);
}

static void
show (struct top_lines *out, struct row *rows, unsigned n, enum top_sort sort)
{
  /* Insertion sort: a few dozen rows at most, mostly in order. */
  for (unsigned i = 1; i < n; i++)
    for (unsigned k = i; k > 0 && compare (&rows[k - 1], &rows[k], sort) > 0;
         k--) {
      struct row swap = rows[k];

      rows[k] = rows[k - 1];
      rows[k - 1] = swap;
    }
  for (unsigned i = 0; i < n; i++)
    say (out, rows[i].alert ? TOP_ALERT : TOP_PLAIN, "%s", rows[i].text);
}

static unsigned
volume_rows (struct top *t, struct row *rows, struct top_seen *seen)
{
  unsigned n = 0;

  for (unsigned i = 0; i < t->nr_volumes; i++)
    if (t->volumes[i]->wanted) {
      top_look (t->volumes[i], seen);
      memset (&rows[n], 0, sizeof rows[n]);
      volume_row (&rows[n++], t->volumes[i], seen);
    }
  return n;
}

static unsigned
server_rows (struct top *t, struct row *rows, struct top_seen *seen)
{
  struct uses u;
  unsigned n = 0;

  for (unsigned i = 0; i < t->nr_servers; i++)
    if (t->servers[i]->wanted) {
      gather_uses (&u, t, t->servers[i]->label, seen);
      top_look (t->servers[i], seen);
      memset (&rows[n], 0, sizeof rows[n]);
      server_row (&rows[n++], t->servers[i], &u, seen);
    }
  return n;
}

int
top_lines (struct top *t, enum top_sort sort, struct top_lines *out)
{
  static struct row volumes[TOP_VOLUMES], servers[TOP_SERVERS];
  struct top_seen *seen = top_seen_new ();
  unsigned nr_volumes, nr_servers;
  char when[16] = "";
  time_t now = time (NULL);
  struct tm tm;

  if (!seen)
    return -ENOMEM;
  nr_volumes = volume_rows (t, volumes, seen);
  nr_servers = server_rows (t, servers, seen);
  top_seen_free (seen);
  if (localtime_r (&now, &tm))
    (void) strftime (when, sizeof when, "%H:%M:%S", &tm);
  out->nr = 0;
  say (out, TOP_PLAIN,
       "farpage top  %s  volumes: %u  servers: %u  sorted by %s", when,
       nr_volumes, nr_servers, top_sort_name (sort));
  say (out, TOP_PLAIN, "%s", nr_volumes ? "" : "Nothing is attached.");
  if (nr_volumes) {
    say (out, TOP_HEADING, "%s", volume_heading);
    show (out, volumes, nr_volumes, sort);
  }
  if (nr_servers) {
    say (out, TOP_PLAIN, "%s", "");
    say (out, TOP_HEADING, "%s", server_heading);
    show (out, servers, nr_servers, sort);
  }
  return 0;
}
