/* SPDX-License-Identifier: BSD-3-Clause */
/* drain.h - ask clients to move slabs to other servers: as many as this host
 * needs (pressure.h), or all of them, to empty this server.  Then it lends
 * nothing.
 *
 *                DRAIN, begin             SIGTERM (server_stop.h)
 *    NOT -----------------------> ASKED ------------------> LAST
 *     ^ |                           |                        ^
 *     | +--------------------------------- SIGTERM ----------+
 *     +-------- DRAIN, cancel ------+
 *
 * The clients hear of it in the reply to PING.  Nothing is taken by force.
 *
 * Units:    slabs.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_DRAIN_H
#define MEMSERVER_DRAIN_H

#include <stdint.h>

#include "memserver/session/sessions.h"

/* Change sessions.drain.  The transition must be a legal one. */
void drain_move (struct sessions *all, enum drain to);

/* Lent slabs, as in struct fp_drain_reply. */
struct drain_left {
  uint32_t moving, stuck, kept;
};
struct drain_left drain_look (const struct sessions *all);

/* Return how many slabs all clients together are asked for. */
uint32_t drain_asked (const struct sessions *all);

/* Return this session's part of them. */
uint32_t drain_share (const struct sessions *all, const struct session *s);

#endif /* MEMSERVER_DRAIN_H */
