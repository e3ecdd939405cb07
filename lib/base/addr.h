/* SPDX-License-Identifier: BSD-3-Clause */
/* addr.h - server addresses: HOST, HOST:PORT, [V6]:PORT, [V6] or unix:PATH.
 * Only this module parses addresses.
 *
 * Errors:   as each function says.  If why is not NULL, *why is then a static
 *           string.
 * Threads:  any.  Only fp_addr_resolve allocates, and it may wait for DNS.
 */

#ifndef FP_ADDR_H
#define FP_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define FP_DEFAULT_PORT 7471
/* Characters of the longest printed address, without the NUL. */
#define FP_ADDR_MAX 128

struct fp_addr {
  bool is_unix;
  uint16_t port; /* 0 if is_unix; for a listener, 0 lets the kernel pick */
  char host[FP_ADDR_MAX + 1]; /* without brackets; the path if is_unix */
};

/* Parse s.  Return 0, or -EINVAL if s has none of the five forms. */
int fp_addr_parse (struct fp_addr *out, const char *s, const char **why);

/* Write addr in the form that fp_addr_parse reads back as addr. */
void fp_addr_format (const struct fp_addr *addr, char out[FP_ADDR_MAX + 1]);

/* Return true if a and b have the same text, ignoring the case of a host.  A
 * name and its number differ, although they mean the same machine.
 */
bool fp_addr_eq (const struct fp_addr *a, const struct fp_addr *b);

/* Return true for 0.0.0.0 and ::, at which a server can listen but to which no
 * client can connect.
 */
bool fp_addr_is_wildcard (const struct fp_addr *addr);

/* Return true if addr can be resolved without a name server. */
bool fp_addr_is_number (const struct fp_addr *addr);

#define FP_MAX_SOCKADDRS 16

struct fp_sockaddrs {
  unsigned nr; /* at least 1 */
  struct {
    socklen_t len;
    struct sockaddr_storage addr;
  } list[FP_MAX_SOCKADDRS];
};

/* Find the stream socket addresses of addr, in the order to try them.  For a
 * name this may take long, allocate and read files: see
 * transport/control/resolve.h.  Return -ENOENT if there is no such host, or
 * -EAGAIN if the resolver has no answer for now.
 */
int fp_addr_resolve (const struct fp_addr *addr, struct fp_sockaddrs *out,
                     const char **why);

/* Convert an address from getsockname(2) or getpeername(2).  An unnamed Unix
 * socket gets an empty path.  Return -EAFNOSUPPORT if the address is neither
 * IP nor Unix.
 */
int fp_addr_from_sockaddr (struct fp_addr *out, const struct sockaddr *sa,
                           socklen_t len);

/* Return true if traffic with sa stays on this machine: a Unix socket,
 * 127.0.0.0/8 (also mapped to IPv6) or ::1.
 */
bool fp_sockaddr_is_local (const struct sockaddr *sa);

#endif /* FP_ADDR_H */
