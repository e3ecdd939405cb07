/* SPDX-License-Identifier: BSD-3-Clause */
/* prom.h - a page of metrics as Prometheus reads it, text format 0.0.4:
 *
 *   fp_prom_family (&page, "farpage_x_bytes", FP_PROM_GAUGE, "What it is.");
 *   fp_prom_value (&page, 17, FP_LABELS ({ "state", "free" }));
 *
 * All samples of a family follow its name.  A value of a label may be any
 * text: what would break the page is escaped, and what is not UTF-8 is
 * replaced, as one such byte would cost the whole page.
 *
 * Units:    what the name of the family says; base units, so that times are
 *           seconds there, and nanoseconds here.
 * Errors:   kept in the page, and told by fp_prom_ok at the end.
 * Threads:  a page belongs to one.
 * Memory:   allocates, FP_PROM_MAX at most.
 */

#ifndef FP_PROM_H
#define FP_PROM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hist.h"

#define FP_PROM_MAX ((size_t) 32 << 20) /* bytes of a page */
#define FP_PROM_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum fp_prom_type { FP_PROM_COUNTER, FP_PROM_GAUGE, FP_PROM_HISTOGRAM };

/* All zero: empty. */
struct fp_prom {
  char *text; /* free () it; no NUL at its end */
  size_t used, room;
  bool failed;
  const char *family;
};

/* The last one's name is NULL. */
struct fp_prom_label {
  const char *name, *value;
};
#define FP_LABELS(...)                                                        \
  (const struct fp_prom_label[])                                              \
  {                                                                           \
    __VA_ARGS__, { NULL, NULL }                                               \
  }

/* name and help are constants: they are not escaped, nor copied. */
void fp_prom_family (struct fp_prom *p, const char *name,
                     enum fp_prom_type type, const char *help);

/* A sample of the last family; labels NULL: none. */
void fp_prom_value (struct fp_prom *p, uint64_t value,
                    const struct fp_prom_label *labels);
/* Likewise a time, in seconds. */
void fp_prom_ns (struct fp_prom *p, uint64_t ns,
                 const struct fp_prom_label *labels);
/* One sample for each of the names: 1 for the one at index is, 0 for the
 * others.  The last of the labels, whose value is NULL, is what the name is
 * put in.
 */
void fp_prom_states (struct fp_prom *p, const char *const *names, unsigned nr,
                     unsigned is, const struct fp_prom_label *labels);
/* All samples of a histogram of nanoseconds, in seconds: buckets from 1 us to
 * 17 s, two for each power of two.  A value of just the bound of a bucket is
 * counted in the next one.  Nobody adds to h meanwhile.
 */
void fp_prom_hist (struct fp_prom *p, const struct fp_hist *h,
                   const struct fp_prom_label *labels);

/* Nothing is missing. */
bool fp_prom_ok (const struct fp_prom *p);

#endif /* FP_PROM_H */
