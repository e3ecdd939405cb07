/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics.h - what Prometheus is told of this server, and what is counted for
 * that alone.  The names are in farpage-memserver(1), and stay.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_METRICS_H
#define MEMSERVER_METRICS_H

#include <stdint.h>

#include "proto/messages.h"

#define METRICS_MESSAGES (FP_MSG_TOKEN + 1) /* 0: no such message */
#define METRICS_REASONS 10

struct metrics;
struct server;

struct metrics_counts {
  uint64_t sessions; /* that began */
  uint64_t granted, released;
  uint64_t requests[METRICS_MESSAGES]; /* that were answered */
  uint64_t refused[METRICS_REASONS];   /* those that got an error */
};

/* A message of this type is answered with r. */
void metrics_request (struct server *srv, unsigned type, int r);

/* Listen where the options say, if they say it.  why says what is wrong. */
int metrics_start (struct metrics **out, struct server *srv, char *why);
void metrics_free (struct metrics *m); /* NULL: there is none */

#endif /* MEMSERVER_METRICS_H */
