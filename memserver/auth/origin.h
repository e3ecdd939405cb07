/* SPDX-License-Identifier: BSD-3-Clause */
/* origin.h - where a connection comes from, to share limits out fairly.  This
 * is the IPv4 address, the /64 network of an IPv6 address, or the user of a
 * Unix socket.  A host that has one address of a /64 mostly has all of them.
 * With a limit for each origin, one stranger leaves something for the others.
 */

#ifndef MEMSERVER_ORIGIN_H
#define MEMSERVER_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

struct sockaddr;

struct origin {
  uint16_t family; /* AF_UNSPEC: unknown; all unknown ones are equal */
  uint8_t addr[16];
};

/* Return the origin of the other end of a socket, or of an address. */
struct origin origin_of_socket (int fd);
struct origin origin_of_addr (const struct sockaddr *sa);

bool origin_eq (const struct origin *a, const struct origin *b);

#endif /* MEMSERVER_ORIGIN_H */
