/* SPDX-License-Identifier: BSD-3-Clause */
/* nic.h - RDMA between simulated hosts.  Clients have the transport "rdma"
 * (transport.h).  For memory servers nic.c defines the functions of
 * verbs_server.h.
 *
 * A connection is a reliable queue pair.  Its transfers go through these steps
 * in the order of posts.  Those of two queue pairs overtake each other.
 *
 *   depart     The bytes of a WRITE have left the client's memory.
 *   arrive     A WRITE is in the server's memory.  A READ has been read there.
 *   complete   The bytes of a READ are in the client's memory.
 *
 * If the client breaks the connection, or dies, transfers that have departed
 * still arrive, unless the server has destroyed its queue pair by then.  While
 * the network is cut a transfer is sent again.  It fails with -ETIMEDOUT after
 * a time between half of timeout_ms and timeout_ms, and so do those behind it.
 * A wrong key breaks the connection with -EACCES.
 *
 * Nothing here takes a server's processor: a stopped host still answers READ
 * and WRITE.
 *
 * Threads:  the one that has the turn.
 */

#ifndef SIM_NIC_H
#define SIM_NIC_H

#include <stdbool.h>

#include "transport/transport.h"

/* Takes the place of fp_transport_rdma. */
extern const struct fp_transport_ops nic_transport;

/* Add transfers to the trace, too. */
extern bool nic_traced;

/* End what a killed process had.  With power = false the others are not told.
 */
void nic_kill (unsigned host, bool power);

/* Break the queue pairs between two machines: both ends learn of it when they
 * use them, or by an event.
 */
void nic_reset (unsigned a, unsigned b);

/* While a machine is starved, half of its new connections and memory regions
 * fail with -ENOMEM.
 */
void nic_starve (unsigned machine, bool starved);

/* Return the number of transfers that have completed well. */
unsigned long nic_transfers (void);

#endif /* SIM_NIC_H */
