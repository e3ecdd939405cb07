/* SPDX-License-Identifier: BSD-3-Clause */
/* peer.h - the origin of a connection, to share limits out fairly.  The origin
 * is the IPv4 address, the /64 network of an IPv6 address, or the user of a
 * Unix socket.  A host that has one address of a /64 mostly has all of them.
 * With a limit for each origin, one stranger leaves something for the others.
 */

#ifndef MEMSERVER_PEER_H
#define MEMSERVER_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct sockaddr;

struct peer {
  uint16_t family; /* AF_UNSPEC: unknown; all unknown ones are equal */
  uint8_t addr[16];
};

/* Return the origin of the other end of a socket, or of an address. */
struct peer peer_of_socket (int fd);
struct peer peer_of_addr (const struct sockaddr *sa);

bool peer_eq (const struct peer *a, const struct peer *b);

#endif /* MEMSERVER_PEER_H */
