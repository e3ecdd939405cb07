/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics.h - what Prometheus is told of the volume and its servers: what the
 * status document says, and a little more.  The names are in
 * nbdkit-farpage-plugin(1), and stay.
 *
 * The sockets are made before the fork, where an error is seen; a thread
 * answers after it, which is not on the path of any I/O.
 *
 * Errors:   0 or a negative errno value; why then has one sentence.
 * Threads:  one thread owns the struct.
 * Memory:   the thread allocates, as scrape.h says.
 */

#ifndef FP_METRICS_H
#define FP_METRICS_H

#include <stdbool.h>

#include "base/scrape.h"
#include "volume/volume.h"

struct fp_metrics;

/* Answer on these sockets, which are the struct's from now on, also if this
 * fails.  The volume must live until fp_metrics_free.
 */
int fp_metrics_start (struct fp_metrics **out,
                      struct fp_scrape_sockets *sockets,
                      struct fp_volume *volume, bool io_flusher,
                      char why[FP_WHY_MAX]);
void fp_metrics_free (struct fp_metrics *m); /* NULL: there is none */

#endif /* FP_METRICS_H */
