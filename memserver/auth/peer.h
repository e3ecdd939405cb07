/* SPDX-License-Identifier: BSD-3-Clause */
/* peer.h - who connects, as far as a stranger can be told from another one:
 * its address; of IPv6 the network of 64 bits, as who has one of its addresses
 * mostly has all; of a Unix socket, the user.  What there is of something is
 * shared out by this, so that one stranger leaves some of it for the others.
 */

#ifndef MEMSERVER_PEER_H
#define MEMSERVER_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct sockaddr;

struct peer {
  uint16_t family; /* AF_UNSPEC: unknown, and the same as all of those */
  uint8_t addr[16];
};

/* Who is at the other end of a socket. */
struct peer peer_of_socket (int fd);
struct peer peer_of_addr (const struct sockaddr *sa);

bool peer_eq (const struct peer *a, const struct peer *b);

#endif /* MEMSERVER_PEER_H */
