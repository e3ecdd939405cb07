/* SPDX-License-Identifier: BSD-3-Clause */
/* addr.h - where a server listens: HOST, HOST:PORT, [V6]:PORT, [V6] or
 * unix:PATH.  Nothing else parses addresses.
 *
 * Errors:   as each function says; *why, if why is not NULL, is then a
 *           string that never goes away.
 * Threads:  any.  Only fp_addr_resolve allocates, and it may wait for DNS.
 */

#ifndef FP_ADDR_H
#define FP_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define FP_DEFAULT_PORT 7471
#define FP_ADDR_MAX                                                           \
  128 /* characters of a printed address, without the NUL                     \
       */

struct fp_addr {
  bool is_unix;
  uint16_t port; /* 0 if is_unix.  0 for a listener: the kernel picks */
  char host[FP_ADDR_MAX + 1]; /* without brackets; the path if is_unix */
};

/* -EINVAL: not one of the five forms. */
int fp_addr_parse (struct fp_addr *out, const char *s, const char **why);

/* The form that parses to the same address again. */
void fp_addr_format (const struct fp_addr *addr, char out[FP_ADDR_MAX + 1]);

/* The same text, not the same machine: a name and its number differ.  The
 * case of letters in a host does not count.
 */
bool fp_addr_eq (const struct fp_addr *a, const struct fp_addr *b);

/* 0.0.0.0 and ::, which say where to listen and never where to connect. */
bool fp_addr_is_wildcard (const struct fp_addr *addr);

/* No name server is needed to resolve it. */
bool fp_addr_is_number (const struct fp_addr *addr);

#define FP_MAX_SOCKADDRS 16

struct fp_sockaddrs {
  unsigned nr; /* at least 1 */
  struct {
    socklen_t len;
    struct sockaddr_storage addr;
  } list[FP_MAX_SOCKADDRS];
};

/* Stream socket addresses of addr, in the order to try them.  May wait for a
 * long time, allocate and read files, unless it is a number: see resolve.h.
 * -ENOENT: no such host.  -EAGAIN: the resolver had no answer, for now.
 */
int fp_addr_resolve (const struct fp_addr *addr, struct fp_sockaddrs *out,
                     const char **why);

/* What getsockname(2) or getpeername(2) returned.  -EAFNOSUPPORT: neither IP
 * nor Unix.  An unnamed Unix socket has an empty path.
 */
int fp_addr_from_sockaddr (struct fp_addr *out, const struct sockaddr *sa,
                           socklen_t len);

/* What is said there stays on this machine: a Unix socket, 127.0.0.0/8 (also
 * as IPv6 has it) or ::1.
 */
bool fp_sockaddr_is_local (const struct sockaddr *sa);

#endif /* FP_ADDR_H */
