/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_report.c - print the results: a table, ratios, or JSON. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json.h>

#include "tools/bench/bench.h"

#define GIB 1073741824.0

static int
compare (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

static double
median (const double *v, unsigned nr)
{
  double sorted[BENCH_MAX_ROUNDS];

  if (nr == 0)
    return 0;
  memcpy (sorted, v, nr * sizeof *v);
  qsort (sorted, nr, sizeof *sorted, compare);
  return nr % 2 ? sorted[nr / 2] : (sorted[nr / 2 - 1] + sorted[nr / 2]) / 2;
}

/* The figures of a line, for the table and for JSON. */
struct figures {
  double iops, mb_per_s, mean_us, p50_us, p99_us, p999_us;
  bool donor_known;
  double donor_ms_per_gib;
};

static void
figures (const struct bench_entry *e, unsigned row, struct figures *f)
{
  const struct bench_row *r = &e->layer->rows[row];
  const struct bench_line *l = &e->lines[row];
  double ns = median (l->ns_per_op, l->rounds);
  struct fp_hist_summary h;

  fp_hist_summary (&l->latency, &h);
  *f = (struct figures) {
    .iops = ns > 0 ? 1e9 / ns : 0,
    .mb_per_s = ns > 0 ? r->size * 1e3 / ns : 0,
    .mean_us = (double) h.mean / 1e3,
    .p50_us = (double) h.p50 / 1e3,
    .p99_us = (double) h.p99 / 1e3,
    .p999_us = (double) h.p999 / 1e3,
    .donor_known = l->donor_known && l->ops > 0,
  };
  if (f->donor_known)
    f->donor_ms_per_gib =
        (double) l->donor_ns / 1e6 / ((double) l->ops * r->size / GIB);
}

void
bench_report_header (void)
{
  printf ("%-13s %-5s %5s %5s %10s %9s %10s %10s %10s %10s %9s\n", "layer",
          "op", "size", "depth", "IOPS", "MB/s", "mean us", "p50 us", "p99 us",
          "p99.9 us", "donor CPU");
  printf ("%-13s %-5s %5s %5s %10s %9s %10s %10s %10s %10s %9s\n", "", "", "",
          "", "", "", "", "", "", "", "ms/GiB");
}

void
bench_report_line (const struct bench_entry *e, unsigned row)
{
  const struct bench_row *r = &e->layer->rows[row];
  char size[16], donor[32] = "-";
  struct figures f;

  figures (e, row, &f);
  bench_size_name (r->size, size);
  if (f.donor_known)
    snprintf (donor, sizeof donor, "%.1f", f.donor_ms_per_gib);
  printf ("%-13s %-5s %5s %5u %10.0f %9.1f %10.2f %10.2f %10.2f %10.2f %9s\n",
          e->layer->name, bench_op_name (r->op), size, r->depth, f.iops,
          f.mb_per_s, f.mean_us, f.p50_us, f.p99_us, f.p999_us, donor);
  fflush (stdout);
}

void
bench_report_skipped (const struct bench_entry *e)
{
  printf ("%-13s skipped: %s\n", e->layer->name, e->error.text);
}

/* Ratios to print: a row of one layer against the same row of another. */
enum quantity { TIME, RATE };

static const struct ratio {
  const char *layer, *against;
  enum bench_op op;
  uint32_t size;
  unsigned depth;
  enum quantity of;
  /* 0: none.  A time must be at most this, a rate at least. */
  double goal;
} ratios[] = {
  { "engine-shm", "memcpy", BENCH_READ, 4096, 1, TIME, 1.5 },
  { "engine-shm", "memcpy", BENCH_WRITE, 4096, 1, TIME, 0 },
  { "engine-rdma", "raw-rdma", BENCH_READ, 4096, 1, TIME, 1.15 },
  { "engine-rdma", "raw-rdma", BENCH_READ, 4096, 32, RATE, 0.9 },
  { "engine-rdma", "raw-rdma", BENCH_WRITE, 4096, 32, RATE, 0 },
  { "raw-rdma", "two-sided", BENCH_READ, 4096, 1, TIME, 0 },
  { "raw-rdma", "two-sided", BENCH_READ, 4096, 32, RATE, 0 },
  { "nbd-farpage", "nbd-memory", BENCH_READ, 4096, 1, TIME, 0 },
  { "nbd-farpage", "nbd-memory", BENCH_READ, 4096, 32, RATE, 0.95 },
  { "nbd-farpage", "nbd-memory", BENCH_WRITE, 4096, 32, RATE, 0.95 },
};
#define NR_RATIOS (sizeof ratios / sizeof ratios[0])

static const struct bench_line *
find_line (const struct bench_entry *entries, unsigned nr, const char *layer,
           const struct ratio *r)
{
  for (unsigned i = 0; i < nr; i++) {
    const struct bench_layer *l = entries[i].layer;

    if (strcmp (l->name, layer) != 0)
      continue;
    for (unsigned row = 0; row < l->nr_rows; row++) {
      if (l->rows[row].op == r->op && l->rows[row].size == r->size &&
          l->rows[row].depth == r->depth && entries[i].lines[row].rounds > 0)
        return &entries[i].lines[row];
    }
  }
  return NULL;
}

/* Get the median of the ratios of each round, because a disturbance in a round
 * slows both layers.
 */
static bool
ratio_value (const struct bench_entry *entries, unsigned nr,
             const struct ratio *r, double *value)
{
  const struct bench_line *a = find_line (entries, nr, r->layer, r);
  const struct bench_line *b = find_line (entries, nr, r->against, r);
  double v[BENCH_MAX_ROUNDS];

  if (a == NULL || b == NULL || a->rounds != b->rounds)
    return false;
  for (unsigned i = 0; i < a->rounds; i++)
    v[i] = r->of == TIME ? a->ns_per_op[i] / b->ns_per_op[i]
                         : b->ns_per_op[i] / a->ns_per_op[i];
  *value = median (v, a->rounds);
  return true;
}

static bool
reached (const struct ratio *r, double value)
{
  return r->of == TIME ? value <= r->goal : value >= r->goal;
}

void
bench_report_ratios (const struct bench_entry *entries, unsigned nr)
{
  bool any = false;

  for (size_t i = 0; i < NR_RATIOS; i++) {
    const struct ratio *r = &ratios[i];
    char size[16];
    double value;

    if (!ratio_value (entries, nr, r, &value))
      continue;
    if (!any)
      printf ("\n");
    any = true;
    bench_size_name (r->size, size);
    printf ("%s %s %s depth %u / %s: %.2f of the %s", r->layer,
            bench_op_name (r->op), size, r->depth, r->against, value,
            r->of == TIME ? "time" : "rate");
    if (r->goal > 0)
      printf (" (goal: at %s %.2f%s)", r->of == TIME ? "most" : "least",
              r->goal, reached (r, value) ? "" : ", missed");
    printf ("\n");
  }
}

/* ---- JSON ---- */

static int
add (struct json_object *o, const char *key, struct json_object *value)
{
  if (value == NULL)
    return -ENOMEM;
  return json_object_object_add (o, key, value) == 0 ? 0 : -ENOMEM;
}

static int
add_double (struct json_object *o, const char *key, double value)
{
  char text[64];

  snprintf (text, sizeof text, "%.4g", value);
  if (value >= 1000)
    snprintf (text, sizeof text, "%.1f", value);
  return add (o, key, json_object_new_double_s (value, text));
}

static int
add_row_name (struct json_object *o, const struct bench_row *r)
{
  int err = add (o, "op", json_object_new_string (bench_op_name (r->op)));

  if (err == 0)
    err = add (o, "size", json_object_new_int64 (r->size));
  if (err == 0)
    err = add (o, "depth", json_object_new_int64 (r->depth));
  return err;
}

static int
json_line (struct json_object *list, const struct bench_entry *e, unsigned row)
{
  struct json_object *o = json_object_new_object ();
  struct figures f;
  int r;

  if (o == NULL || json_object_array_add (list, o) != 0) {
    json_object_put (o);
    return -ENOMEM;
  }
  figures (e, row, &f);
  r = add (o, "layer", json_object_new_string (e->layer->name));
  if (r == 0)
    r = add_row_name (o, &e->layer->rows[row]);
  if (r == 0)
    r = add_double (o, "iops", f.iops);
  if (r == 0)
    r = add_double (o, "mb_per_s", f.mb_per_s);
  if (r == 0)
    r = add_double (o, "mean_us", f.mean_us);
  if (r == 0)
    r = add_double (o, "p50_us", f.p50_us);
  if (r == 0)
    r = add_double (o, "p99_us", f.p99_us);
  if (r == 0)
    r = add_double (o, "p999_us", f.p999_us);
  if (r == 0 && f.donor_known)
    r = add_double (o, "donor_cpu_ms_per_gib", f.donor_ms_per_gib);
  if (r == 0)
    r = add (o, "rounds", json_object_new_int64 (e->lines[row].rounds));
  return r;
}

static int
json_skipped (struct json_object *list, const struct bench_entry *e)
{
  struct json_object *o = json_object_new_object ();
  int r;

  if (o == NULL || json_object_array_add (list, o) != 0) {
    json_object_put (o);
    return -ENOMEM;
  }
  r = add (o, "layer", json_object_new_string (e->layer->name));
  if (r == 0)
    r = add (o, "why", json_object_new_string (e->error.text));
  return r;
}

static int
json_ratio (struct json_object *list, const struct ratio *r, double value)
{
  struct json_object *o = json_object_new_object ();
  struct bench_row row = { r->op, r->size, r->depth };
  int err;

  if (o == NULL || json_object_array_add (list, o) != 0) {
    json_object_put (o);
    return -ENOMEM;
  }
  err = add (o, "layer", json_object_new_string (r->layer));
  if (err == 0)
    err = add (o, "against", json_object_new_string (r->against));
  if (err == 0)
    err = add_row_name (o, &row);
  if (err == 0)
    err = add (o, "of",
               json_object_new_string (r->of == TIME ? "time" : "rate"));
  if (err == 0)
    err = add_double (o, "ratio", value);
  if (err == 0 && r->goal > 0)
    err = add_double (o, "goal", r->goal);
  if (err == 0 && r->goal > 0)
    err = add (o, "reached", json_object_new_boolean (reached (r, value)));
  return err;
}

static int
add_array (struct json_object *o, const char *key, struct json_object **out)
{
  *out = json_object_new_array ();
  return add (o, key, *out);
}

int
bench_report_json (const struct bench *b, const struct bench_entry *entries,
                   unsigned nr)
{
  struct json_object *root = json_object_new_object ();
  struct json_object *rows = NULL, *skipped = NULL, *list = NULL;
  int r = root == NULL ? -ENOMEM : 0;

  if (r == 0)
    r = add (root, "version", json_object_new_int (1));
  if (r == 0)
    r = add (root, "size", json_object_new_int64 ((int64_t) b->size));
  if (r == 0)
    r = add (root, "rounds", json_object_new_int64 (b->rounds));
  if (r == 0)
    r = add_double (root, "seconds", b->seconds);
  if (r == 0)
    r = add_array (root, "rows", &rows);
  if (r == 0)
    r = add_array (root, "skipped", &skipped);
  if (r == 0)
    r = add_array (root, "ratios", &list);
  for (unsigned i = 0; r == 0 && i < nr; i++) {
    if (entries[i].skipped)
      r = json_skipped (skipped, &entries[i]);
    for (unsigned row = 0; r == 0 && row < entries[i].layer->nr_rows; row++) {
      if (entries[i].lines[row].rounds > 0)
        r = json_line (rows, &entries[i], row);
    }
  }
  for (size_t i = 0; r == 0 && i < NR_RATIOS; i++) {
    double value;

    if (ratio_value (entries, nr, &ratios[i], &value))
      r = json_ratio (list, &ratios[i], value);
  }
  if (r == 0)
    printf ("%s\n",
            json_object_to_json_string_ext (root, JSON_C_TO_STRING_PRETTY));
  json_object_put (root);
  return r;
}
