/* SPDX-License-Identifier: BSD-3-Clause */
/* scrape.h - where Prometheus gets a page of metrics: GET /metrics, on a TCP
 * port or a Unix socket.  Who connects is nobody that is known, so all of it
 * is bounded: SCRAPE_CLIENTS connections, each for one request of few bytes
 * and SCRAPE_MS in all; when there is no place left, who has been there for
 * SCRAPE_CROWDED_MS has to leave.  A page is written once for all who ask for
 * it while it is new, so that not more than about a twentieth of a CPU goes
 * into that, however often they ask.
 *
 * Units:    as their names say.
 * Errors:   0 or a negative errno value; why then has one sentence.
 * Threads:  all but fp_scrape_listen and fp_scrape_close: that of the loop.
 * Memory:   allocates; a page, and some KiB for each connection.
 */

#ifndef FP_SCRAPE_H
#define FP_SCRAPE_H

#include "base/addr.h"
#include "base/prom.h"

#define SCRAPE_CLIENTS 8
#define SCRAPE_MS 10000
#define SCRAPE_CROWDED_MS 1000
#define SCRAPE_WHY_MAX 512

struct event_base;
struct fp_scrape;

/* Sockets that listen, and nothing else: may be made before a fork. */
struct fp_scrape_sockets {
  unsigned nr;
  int fds[FP_MAX_SOCKADDRS];
  struct fp_addr addr; /* of the first; port 0 has become the one there is */
};

/* HOST:PORT, [V6]:PORT or unix:PATH: there is no port that it would be unless
 * one is said.  -EINVAL.
 */
int fp_scrape_parse (struct fp_addr *addr, const char *text, const char **why);

/* A socket file that nobody listens on is replaced. */
int fp_scrape_listen (struct fp_scrape_sockets *s, const struct fp_addr *addr,
                      char why[SCRAPE_WHY_MAX]);
/* Those that nobody serves (any more); the file is removed. */
void fp_scrape_close (struct fp_scrape_sockets *s);

/* Answer there, with what render writes.  The sockets stay the caller's. */
int fp_scrape_new (struct fp_scrape **out, struct event_base *base,
                   const struct fp_scrape_sockets *s,
                   void (*render) (void *ctx, struct fp_prom *page),
                   void *ctx);
void fp_scrape_free (struct fp_scrape *s); /* NULL: there is none */

#endif /* FP_SCRAPE_H */
