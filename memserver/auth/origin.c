/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "memserver/auth/origin.h"

struct origin
origin_of_addr (const struct sockaddr *sa)
{
  struct origin o = { .family = AF_UNSPEC };
  struct sockaddr_in in;
  struct sockaddr_in6 in6;

  if (sa->sa_family == AF_INET) {
    memcpy (&in, sa, sizeof in);
    o.family = AF_INET;
    memcpy (o.addr, &in.sin_addr, 4);
  }
  else if (sa->sa_family == AF_INET6) {
    memcpy (&in6, sa, sizeof in6);
    o.family = AF_INET6;
    if (IN6_IS_ADDR_V4MAPPED (&in6.sin6_addr)) {
      o.family = AF_INET;
      memcpy (o.addr, in6.sin6_addr.s6_addr + 12, 4);
    }
    /* All hosts on a link share its link-local network: take the address. */
    else
      memcpy (o.addr, &in6.sin6_addr,
              IN6_IS_ADDR_LINKLOCAL (&in6.sin6_addr) ? 16 : 8);
  }
  return o;
}

struct origin
origin_of_socket (int fd)
{
  struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
  socklen_t len = sizeof sa;
  struct origin o = { .family = AF_UNSPEC };
  struct ucred cred;

  if (getpeername (fd, (struct sockaddr *) &sa, &len) < 0)
    return o;
  if (sa.ss_family != AF_UNIX)
    return origin_of_addr ((const struct sockaddr *) &sa);
  len = sizeof cred;
  if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
    o.family = AF_UNIX;
    memcpy (o.addr, &cred.uid, sizeof cred.uid);
  }
  return o;
}

bool
origin_eq (const struct origin *a, const struct origin *b)
{
  return a->family == b->family &&
         memcmp (a->addr, b->addr, sizeof a->addr) == 0;
}
