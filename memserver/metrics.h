/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics.h - the Prometheus metrics of this server.  Their names are in
 * farpage-memserver(1), and must not change.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_METRICS_H
#define MEMSERVER_METRICS_H

#include "base/error.h"

struct metrics;
struct server;

/* Listen for Prometheus, if the options say where.  On failure error says
 * what is wrong.
 */
int metrics_start (struct metrics **out, struct server *srv,
                   struct fp_error *error);
void metrics_free (struct metrics *m); /* m may be NULL */

#endif /* MEMSERVER_METRICS_H */
