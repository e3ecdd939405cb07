/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics.h - export the state of the volume and its servers to Prometheus:
 * all of the status document, and a little more.  nbdkit-farpage-plugin(1)
 * documents the names, which are stable.
 *
 * The sockets are made before the fork, where the user sees an error.  After
 * the fork a thread answers; no I/O waits for it.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  one thread owns the struct.
 * Memory:   the thread allocates, as scrape.h says.
 */

#ifndef FP_METRICS_H
#define FP_METRICS_H

#include <stdbool.h>

#include "base/error.h"
#include "metrics/scrape.h"
#include "volume/volume.h"

struct fp_metrics;

/* Answer on these sockets.  Takes them over: closing *sockets later is
 * harmless, also if this fails.  The volume must live until fp_metrics_free.
 */
int fp_metrics_start (struct fp_metrics **out,
                      struct fp_scrape_sockets *sockets,
                      struct fp_volume *volume, bool io_flusher,
                      struct fp_error *error);
void fp_metrics_free (struct fp_metrics *m); /* m may be NULL */

#endif /* FP_METRICS_H */
