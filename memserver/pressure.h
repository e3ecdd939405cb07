/* SPDX-License-Identifier: BSD-3-Clause */
/* pressure.h - the donor comes first: watches how short of memory this host
 * is, and has the server lend less, or ask for what it lent.
 *
 *               available < reserve, or tasks wait for memory
 *    NORMAL ------------------------------------------------> PRESSED
 *       ^                                                        |
 *       +---- available >= reserve + margin, for PRESSURE_CALM_S -+
 *
 * While PRESSED nothing more is lent or populated (pool_press).  Free slabs go
 * back to the host, which costs nobody anything, until the margin is there,
 * too.  If that is not enough orphans are forgotten (record.h), and if that is
 * not enough the clients are asked, with each answer to a
 * PING, to move so many slabs to other servers, until the reserve is there.
 * Which ones is for them to say: one-sided I/O is not seen here, so that this
 * server does not know what was used last.  Nothing is ever taken: it may be
 * the only copy.
 *
 * That tasks wait (PSI) counts only while less than twice the reserve is
 * available: else it is a cgroup that has reached its limit, or another node,
 * and what is given back here would not help it.
 *
 * Huge pages are left alone: they were set aside, and nobody else on the host
 * has more without them.
 *
 * Units:    bytes, slabs, nanoseconds of fp_now_ns.
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_PRESSURE_H
#define MEMSERVER_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#define PRESSURE_CALM_S 5
#define PRESSURE_BATCH 16 /* slabs that are asked for at a time */

struct pressure;
struct server;
struct session;

/* What is decided, and from what: no clock, no file. */

struct pressure_rules {
  uint64_t reserve;
  uint64_t slab;
};

struct pressure_state {
  bool pressed;
  uint64_t calm_ns; /* since when there is enough; 0: there is not */
};

struct pressure_sample {
  uint64_t now_ns;
  uint64_t available;
  bool stalled; /* tasks wait for memory */
  /* In ordinary pages: */
  uint32_t free;
  uint32_t going; /* on their way to the host */
  uint32_t lent;
};

struct pressure_verdict {
  uint32_t shed;   /* free ones to give to the host now */
  uint32_t wanted; /* lent ones to ask for */
};

/* Above the reserve: so much has to be there, too, before more is populated.
 * A slab at least, so that one that was given back is not wanted at once.
 */
uint64_t pressure_margin (const struct pressure_rules *rules);

struct pressure_verdict pressure_decide (struct pressure_state *state,
                                         const struct pressure_rules *rules,
                                         const struct pressure_sample *sample);

/* The watch. */

int pressure_start (struct pressure **out, struct server *srv);
void pressure_free (struct pressure *p); /* NULL: there is none */

/* So many slabs are asked back, of all clients and of this one. */
uint32_t pressure_wanted (const struct pressure *p);
uint32_t pressure_share (const struct session *s);

#endif /* MEMSERVER_PRESSURE_H */
