/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics.h - the Prometheus metrics of this server, and the counters that
 * only they need.  Their names are in farpage-memserver(1), and must not
 * change.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_METRICS_H
#define MEMSERVER_METRICS_H

#include <stdint.h>

#include "proto/messages.h"

#define METRICS_MESSAGES (FP_MSG_TOKEN + 1) /* index 0: unknown messages */
#define METRICS_REASONS 10

struct metrics;
struct server;

struct metrics_counts {
  uint64_t sessions; /* begun since the start */
  uint64_t granted, released;
  uint64_t requests[METRICS_MESSAGES]; /* answered, by message type */
  uint64_t refused[METRICS_REASONS];   /* answered with an error, by reason */
};

/* Count a message of this type that is answered with r. */
void metrics_request (struct server *srv, unsigned type, int r);

/* Listen for Prometheus, if the options say where.  On failure why says what
 * is wrong.
 */
int metrics_start (struct metrics **out, struct server *srv, char *why);
void metrics_free (struct metrics *m); /* m may be NULL */

#endif /* MEMSERVER_METRICS_H */
