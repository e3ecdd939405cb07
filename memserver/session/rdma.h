/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma.h - RDMA in the memory server (verbs_server.h): where it listens, and
 * which queue pairs belong to which session.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_RDMA_H
#define MEMSERVER_RDMA_H

#include <stdbool.h>

#include "base/addr.h"
#include "proto/messages.h"

struct rdma;
struct session;
struct sessions;
struct slab;

/* Listen beside a TCP listener, on the same address and, if it is free, port.
 * -ENODEV: no device has that address.
 */
int rdma_serve_at (struct sessions *all, const struct fp_addr *addr);

/* Return true if RDMA listens anywhere. */
bool rdma_works (const struct sessions *all);

/* Count the addresses where RDMA listens now, and those whose device was taken
 * away.
 */
void rdma_count (const struct sessions *all, unsigned *listens,
                 unsigned *away);

/* Free it; no queue pair may be left. */
void rdma_free (struct rdma *rdma);

/* Put the addresses where clients may connect into a HELLO reply. */
void rdma_addresses (const struct sessions *all, bool unix_client,
                     struct fp_hello_reply *p);

int rdma_register (struct session *s, struct slab *slab);

/* Deregister the slab.  -errno: the device may still reach the memory. */
int rdma_unregister (struct slab *slab);

/* Destroy the session's queue pairs. */
void rdma_end_peers (struct session *s);

/* Destroy the session's protection domain.  All slabs must be deregistered. */
void rdma_end_domain (struct session *s);

#endif /* MEMSERVER_RDMA_H */
