/* SPDX-License-Identifier: BSD-3-Clause */
/* pressure.h - watch how short of memory this host is, and make the server
 * lend less or ask clients for slabs back: the donor comes first.
 *
 *               available < reserve, or tasks wait for memory
 *    NORMAL ------------------------------------------------> PRESSED
 *       ^                                                        |
 *       +---- available >= reserve + margin, for PRESSURE_CALM_S -+
 *
 * While PRESSED, no slab is lent or populated (pool_press).  Memory goes back
 * to the host in this order:
 *
 * - Free slabs, until the margin is there, too; that costs no client anything.
 * - Orphans (record.h), which are forgotten.
 * - Lent slabs.  Each PING reply asks the client to move some to other
 *   servers, until the reserve is there.
 *
 * The client chooses which: one-sided I/O is not seen here, so this server
 * does not know which slabs were used last.  Nothing is ever taken by force:
 * it may be the only copy.
 *
 * A stall of tasks (PSI) counts only while less than twice the reserve is
 * available.  Else a cgroup has reached its limit, or another node is short,
 * and giving memory back here would not help.
 *
 * Huge pages are left alone: they were set aside, and the rest of the host
 * would gain nothing from them.
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
#define PRESSURE_BATCH 16 /* most slabs to ask for at a time */

struct pressure;
struct server;

/* The decision.  It depends on its parameters only: no clock, no file. */

struct pressure_rules {
  uint64_t reserve;
  uint64_t slab;
};

struct pressure_state {
  bool pressed;
  uint64_t calm_ns; /* enough is available since then; 0: it is not */
};

struct pressure_sample {
  uint64_t now_ns;
  uint64_t available;
  bool stalled; /* tasks wait for memory */
  /* Numbers of slabs in ordinary pages: */
  uint32_t free;
  uint32_t going; /* on their way back to the host */
  uint32_t lent;
};

struct pressure_verdict {
  uint32_t shed;   /* free slabs to give to the host now */
  uint32_t wanted; /* lent slabs to ask clients for */
};

/* Return the bytes above the reserve that must be available before more slabs
 * are populated.  They are at least one slab, so that populating one does not
 * bring the pressure back at once.
 */
uint64_t pressure_margin (const struct pressure_rules *rules);

struct pressure_verdict pressure_decide (struct pressure_state *state,
                                         const struct pressure_rules *rules,
                                         const struct pressure_sample *sample);

/* The watcher: samples the host's memory, decides and acts. */

int pressure_start (struct pressure **out, struct server *srv);
void pressure_free (struct pressure *p); /* p may be NULL */

#endif /* MEMSERVER_PRESSURE_H */
