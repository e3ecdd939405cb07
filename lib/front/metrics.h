/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics.h - the state of the volume and its servers as a page for
 * Prometheus: all of the status document, and a little more.
 * farpage-exporter(8) documents the names, which are stable.  The exporter
 * adds the labels device and volume.
 *
 * Threads:  one thread owns the struct.
 * Memory:   allocates the page.
 */

#ifndef FP_METRICS_H
#define FP_METRICS_H

#include <stdbool.h>

#include "volume/volume.h"

struct fp_metrics; /* data of a page; too large for a stack */

struct fp_metrics *fp_metrics_new (void);    /* NULL: out of memory */
void fp_metrics_free (struct fp_metrics *m); /* m may be NULL */

/* Return the page as a string that ends with FP_PROM_END, or NULL if out of
 * memory.  The caller frees it.  io_flusher: the process is PR_SET_IO_FLUSHER.
 */
char *fp_metrics_page (struct fp_metrics *m, struct fp_volume *volume,
                       bool io_flusher);

#endif /* FP_METRICS_H */
