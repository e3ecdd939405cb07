/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "memserver/auth/peer.h"

struct peer
peer_of_addr (const struct sockaddr *sa)
{
  struct peer p = { .family = AF_UNSPEC };
  struct sockaddr_in in;
  struct sockaddr_in6 in6;

  if (sa->sa_family == AF_INET) {
    memcpy (&in, sa, sizeof in);
    p.family = AF_INET;
    memcpy (p.addr, &in.sin_addr, 4);
  }
  else if (sa->sa_family == AF_INET6) {
    memcpy (&in6, sa, sizeof in6);
    p.family = AF_INET6;
    if (IN6_IS_ADDR_V4MAPPED (&in6.sin6_addr)) {
      p.family = AF_INET;
      memcpy (p.addr, in6.sin6_addr.s6_addr + 12, 4);
    }
    /* All hosts on a link share its link-local network: take the address. */
    else
      memcpy (p.addr, &in6.sin6_addr,
              IN6_IS_ADDR_LINKLOCAL (&in6.sin6_addr) ? 16 : 8);
  }
  return p;
}

struct peer
peer_of_socket (int fd)
{
  struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
  socklen_t len = sizeof sa;
  struct peer p = { .family = AF_UNSPEC };
  struct ucred cred;

  if (getpeername (fd, (struct sockaddr *) &sa, &len) < 0)
    return p;
  if (sa.ss_family != AF_UNIX)
    return peer_of_addr ((const struct sockaddr *) &sa);
  len = sizeof cred;
  if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
    p.family = AF_UNIX;
    memcpy (p.addr, &cred.uid, sizeof cred.uid);
  }
  return p;
}

bool
peer_eq (const struct peer *a, const struct peer *b)
{
  return a->family == b->family &&
         memcmp (a->addr, b->addr, sizeof a->addr) == 0;
}
