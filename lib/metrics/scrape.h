/* SPDX-License-Identifier: BSD-3-Clause */
/* scrape.h - HTTP server for a page of Prometheus metrics: GET /metrics, on a
 * TCP port or a Unix socket.  The clients are unknown, so everything is
 * bounded.  There are SCRAPE_CLIENTS connections at most, each for one small
 * request, and for SCRAPE_MS in all.  If none is free, connections older than
 * SCRAPE_CROWDED_MS are closed.  A page is rendered once for all clients that
 * ask while it is new.  So rendering takes about a twentieth of a CPU at most,
 * however often clients ask.  Time in which it waits makes no page old.
 *
 * Units:    as the names say.
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  the one of the event loop, except for fp_scrape_listen and
 *           fp_scrape_close.
 * Memory:   allocates a page, and some KiB for each connection.
 */

#ifndef FP_SCRAPE_H
#define FP_SCRAPE_H

#include "base/addr.h"
#include "base/error.h"
#include "metrics/prom.h"

#define SCRAPE_CLIENTS 8
#define SCRAPE_MS 10000
#define SCRAPE_CROWDED_MS 1000

struct event_base;
struct fp_scrape;

/* Sockets that listen, and nothing else.  They may be made before a fork. */
struct fp_scrape_sockets {
  unsigned nr;
  int fds[FP_MAX_SOCKADDRS];
  /* address of the first one, with the port that the kernel picked for 0 */
  struct fp_addr addr;
};

/* Parse HOST:PORT, [V6]:PORT or unix:PATH.  The port is required, as there is
 * no default.  Return 0 or -EINVAL.
 */
int fp_scrape_parse (struct fp_addr *addr, const char *text, const char **why);

/* Listen at addr.  A socket file on which no process listens is replaced. */
int fp_scrape_listen (struct fp_scrape_sockets *s, const struct fp_addr *addr,
                      struct fp_error *error);
/* Close sockets that are not served (any more), and remove the socket file. */
void fp_scrape_close (struct fp_scrape_sockets *s);

/* Answer requests on the sockets with the page that render writes.  The
 * sockets stay the caller's.
 */
int fp_scrape_new (struct fp_scrape **out, struct event_base *base,
                   const struct fp_scrape_sockets *s,
                   void (*render) (void *ctx, struct fp_prom *page),
                   void *ctx);
void fp_scrape_free (struct fp_scrape *s); /* s may be NULL */

#endif /* FP_SCRAPE_H */
