/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma.h - the memory server's use of verbs_server.h: where it listens, and
 * which queue pairs belong to which session.  Without librdmacm all of it is
 * there and does nothing.
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
struct server;
struct session;
struct slab;

/* Listen beside a TCP listener, on the same address and port.  -ENODEV: no
 * device has that address.
 */
int rdma_serve_at (struct server *srv, const struct fp_addr *addr);

/* Does it listen anywhere? */
bool rdma_works (const struct server *srv);

/* At so many addresses it listens now; at the others the device was taken
 * away.
 */
void rdma_count (const struct server *srv, unsigned *listens, unsigned *away);

/* No peers left. */
void rdma_free (struct rdma *rdma);

/* Put into a HELLO reply where clients may connect. */
void rdma_addresses (const struct server *srv, bool unix_client,
                     struct fp_hello_reply *p);

int rdma_register (struct session *s, struct slab *slab);

/* -errno: the device may still reach the memory. */
int rdma_unregister (struct slab *slab);

/* Destroy the session's queue pairs. */
void rdma_end_peers (struct session *s);

/* And its protection domain, when every slab is unregistered. */
void rdma_end_domain (struct session *s);

#endif /* MEMSERVER_RDMA_H */
