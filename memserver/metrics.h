/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics.h - the Prometheus metrics of this server.  Their names are in
 * farpage-memserver(8), and must not change.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_METRICS_H
#define MEMSERVER_METRICS_H

#include "base/error.h"

struct metrics;
struct server;

/* If the options name an address, listen there for Prometheus.  On failure the
 * text of error says what is wrong, or is unchanged.
 */
int metrics_start (struct metrics **out, struct server *srv,
                   struct fp_error *error);
void metrics_free (struct metrics *m); /* m may be NULL */

#endif /* MEMSERVER_METRICS_H */
