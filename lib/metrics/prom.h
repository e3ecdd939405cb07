/* SPDX-License-Identifier: BSD-3-Clause */
/* prom.h - a page of metrics in the Prometheus text format 0.0.4:
 *
 *   fp_prom_family (&page, "farpage_x_bytes", FP_PROM_GAUGE, "What it is.");
 *   fp_prom_value (&page, 17, FP_LABELS ({ "state", "free" }));
 *
 * All samples of a family follow its name.  The value of a label may be any
 * text.  Characters that would break the page are escaped.  Bytes that are not
 * UTF-8 are replaced, because a single one would invalidate the whole page.
 *
 * Units:    the base units that the family's name gives.  Times are printed in
 *           seconds, and passed here in nanoseconds.
 * Errors:   kept in the page; fp_prom_ok returns them at the end.
 * Threads:  a page belongs to one thread.
 * Memory:   allocates at most FP_PROM_MAX.
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

/* A page.  All zero is empty. */
struct fp_prom {
  char *text; /* no NUL at its end; free () it */
  size_t used, room;
  bool failed;
  const char *family;
};

/* A label.  The last one of a list has the name NULL. */
struct fp_prom_label {
  const char *name, *value;
};
#define FP_LABELS(...)                                                        \
  (const struct fp_prom_label[])                                              \
  {                                                                           \
    __VA_ARGS__, { NULL, NULL }                                               \
  }

/* Begin a family.  name and help must be constants, because they are neither
 * escaped nor copied.
 */
void fp_prom_family (struct fp_prom *p, const char *name,
                     enum fp_prom_type type, const char *help);

/* Print a sample of the last family.  labels may be NULL. */
void fp_prom_value (struct fp_prom *p, uint64_t value,
                    const struct fp_prom_label *labels);
/* Print a time as a sample, in seconds. */
void fp_prom_ns (struct fp_prom *p, uint64_t ns,
                 const struct fp_prom_label *labels);
/* Print one sample per name that is not NULL: 1 for the one at index is, 0 for
 * the others.  The last label must have the value NULL.  Each sample gets its
 * name as the value of that label.
 */
void fp_prom_states (struct fp_prom *p, const char *const *names, unsigned nr,
                     unsigned is, const struct fp_prom_label *labels);
/* Print all samples of a histogram of nanoseconds, in seconds.  The buckets go
 * from 1 us to 17 s, two for each power of two.  A value equal to the bound of
 * a bucket is counted in the next one.  h must have no writer meanwhile.
 */
void fp_prom_hist (struct fp_prom *p, const struct fp_hist *h,
                   const struct fp_prom_label *labels);

/* The last line of a page on a status socket.  A page without it is
 * incomplete.
 */
#define FP_PROM_END "# EOF\n"

/* A page that another process printed with these functions, without
 * FP_PROM_END.
 */
struct fp_prom_part {
  const char *text;                   /* ends with NUL */
  const struct fp_prom_label *labels; /* or NULL; each sample gets them, too */
};

/* Print each family once, with the samples of all parts.  Its help is that of
 * the first part that has it.
 */
void fp_prom_join (struct fp_prom *p, const struct fp_prom_part *parts,
                   unsigned nr);

/* Return true if nothing is missing from the page. */
bool fp_prom_ok (const struct fp_prom *p);

#endif /* FP_PROM_H */
