/* SPDX-License-Identifier: BSD-3-Clause */
/* addr.c - server addresses: parse, format and resolve them. */

#include <config.h>

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "base/addr.h"
#include "base/cleanup.h"

#define UNIX_PREFIX "unix:"
/* Longest host for which "[" HOST "]:65535" fits FP_ADDR_MAX. */
#define HOST_MAX (FP_ADDR_MAX - 8)

static int
refuse (int err, const char *reason, const char **why)
{
  if (why)
    *why = reason;
  return -err;
}

static int
parse_port (const char *s, uint16_t *port, const char **why)
{
  unsigned v = 0;

  if (*s == '\0')
    return refuse (EINVAL, "there is no port after the colon", why);
  for (; *s; s++) {
    if (*s < '0' || *s > '9')
      return refuse (EINVAL, "the port is not a number", why);
    v = v * 10 + (unsigned) (*s - '0');
    if (v > 65535)
      return refuse (EINVAL, "the port is greater than 65535", why);
  }
  *port = (uint16_t) v;
  return 0;
}

/* Return true if host is an IPv6 address, with or without a scope
 * (fe80::1%eth0).
 */
static bool
is_v6 (const char *host)
{
  char number[INET6_ADDRSTRLEN];
  struct in6_addr in6;
  size_t len = strcspn (host, "%");

  if (len >= sizeof number || (host[len] == '%' && host[len + 1] == '\0'))
    return false;
  memcpy (number, host, len);
  number[len] = '\0';
  return inet_pton (AF_INET6, number, &in6) == 1;
}

static bool
is_host_char (char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

static int
parse_unix (struct fp_addr *addr, const char *path, const char **why)
{
  size_t len = strlen (path);

  if (len == 0)
    return refuse (EINVAL, "there is no path after unix:", why);
  /* Refuse control characters, because files and logs hold one address per
   * line.
   */
  for (size_t i = 0; i < len; i++)
    if ((unsigned char) path[i] < 0x20 || path[i] == 0x7f)
      return refuse (EINVAL, "the path has a control character", why);
  if (len >= sizeof ((struct sockaddr_un *) NULL)->sun_path)
    return refuse (EINVAL, "the path of a Unix socket has at most 107 bytes",
                   why);
  addr->is_unix = true;
  memcpy (addr->host, path, len + 1);
  return 0;
}

/* Parse [V6] or [V6]:PORT. */
static int
parse_brackets (struct fp_addr *addr, const char *s, const char **why)
{
  const char *end = strchr (s, ']');
  size_t len;

  if (end == NULL)
    return refuse (EINVAL, "there is no ] after the [", why);
  len = (size_t) (end - s - 1);
  if (len > HOST_MAX)
    return refuse (EINVAL, "the host is too long", why);
  memcpy (addr->host, s + 1, len);
  if (!is_v6 (addr->host))
    return refuse (EINVAL, "there is no IPv6 address in the brackets", why);
  if (end[1] == '\0')
    return 0;
  if (end[1] != ':')
    return refuse (EINVAL, "only :PORT may follow the ]", why);
  return parse_port (end + 2, &addr->port, why);
}

/* Parse HOST or HOST:PORT. */
static int
parse_host (struct fp_addr *addr, const char *s, const char **why)
{
  size_t len = strcspn (s, ":");

  if (strchr (s, '/'))
    return refuse (EINVAL,
                   "a path is not an address: for a Unix socket use unix:PATH",
                   why);
  if (s[len] == ':' && strchr (s + len + 1, ':'))
    return refuse (EINVAL, "an IPv6 address needs brackets: [V6]:PORT", why);
  if (len == 0)
    return refuse (EINVAL, "there is no host", why);
  if (len > HOST_MAX)
    return refuse (EINVAL, "the host is too long", why);
  for (size_t i = 0; i < len; i++) {
    if (!is_host_char (s[i]))
      return refuse (EINVAL, "the host has an invalid character", why);
  }
  memcpy (addr->host, s, len);
  return s[len] ? parse_port (s + len + 1, &addr->port, why) : 0;
}

int
fp_addr_parse (struct fp_addr *out, const char *s, const char **why)
{
  struct fp_addr addr = { .port = FP_DEFAULT_PORT };
  int r;

  if (strncmp (s, UNIX_PREFIX, strlen (UNIX_PREFIX)) == 0) {
    addr.port = 0;
    r = parse_unix (&addr, s + strlen (UNIX_PREFIX), why);
  }
  else if (*s == '[')
    r = parse_brackets (&addr, s, why);
  else
    r = parse_host (&addr, s, why);
  if (r == 0)
    *out = addr;
  return r;
}

void
fp_addr_format (const struct fp_addr *addr, char out[FP_ADDR_MAX + 1])
{
  /* No parsed address reaches these precisions.  They show the compiler that
   * the text fits.
   */
  if (addr->is_unix)
    snprintf (out, FP_ADDR_MAX + 1, UNIX_PREFIX "%.*s", HOST_MAX, addr->host);
  else if (strchr (addr->host, ':'))
    snprintf (out, FP_ADDR_MAX + 1, "[%.*s]:%u", HOST_MAX, addr->host,
              addr->port);
  else
    snprintf (out, FP_ADDR_MAX + 1, "%.*s:%u", HOST_MAX, addr->host,
              addr->port);
}

bool
fp_addr_eq (const struct fp_addr *a, const struct fp_addr *b)
{
  if (a->is_unix != b->is_unix || a->port != b->port)
    return false;
  return a->is_unix ? strcmp (a->host, b->host) == 0
                    : strcasecmp (a->host, b->host) == 0;
}

bool
fp_addr_is_wildcard (const struct fp_addr *addr)
{
  struct in_addr in;
  struct in6_addr in6;

  if (addr->is_unix)
    return false;
  if (inet_pton (AF_INET, addr->host, &in) == 1)
    return in.s_addr == htonl (INADDR_ANY);
  if (inet_pton (AF_INET6, addr->host, &in6) == 1)
    return IN6_IS_ADDR_UNSPECIFIED (&in6);
  return false;
}

bool
fp_addr_is_number (const struct fp_addr *addr)
{
  struct in_addr in;

  return addr->is_unix || inet_pton (AF_INET, addr->host, &in) == 1 ||
         is_v6 (addr->host);
}

static void
free_addrinfo (struct addrinfo **ai)
{
  if (*ai)
    freeaddrinfo (*ai);
}

/* Fill *out without getaddrinfo(3), which allocates and reads files even for a
 * number.  Return false if addr is no number, or if its scope names no
 * interface.
 */
static bool
resolve_number (const struct fp_addr *addr, struct fp_sockaddrs *out)
{
  struct sockaddr_in *in = (struct sockaddr_in *) &out->list[0].addr;
  struct sockaddr_in6 *in6 = (struct sockaddr_in6 *) &out->list[0].addr;
  const char *scope = strchr (addr->host, '%');
  char number[INET6_ADDRSTRLEN];

  if (inet_pton (AF_INET, addr->host, &in->sin_addr) == 1) {
    in->sin_family = AF_INET;
    in->sin_port = htons (addr->port);
    out->list[0].len = sizeof *in;
  }
  else if (is_v6 (addr->host)) {
    snprintf (number, sizeof number, "%.*s", (int) strcspn (addr->host, "%"),
              addr->host);
    (void) inet_pton (AF_INET6, number, &in6->sin6_addr);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons (addr->port);
    in6->sin6_scope_id = scope == NULL ? 0 : if_nametoindex (scope + 1);
    out->list[0].len = sizeof *in6;
    if (scope != NULL && in6->sin6_scope_id == 0)
      /* a scope number, or no such interface at all: left to getaddrinfo */
      return false;
  }
  else
    return false;
  out->nr = 1;
  return true;
}

int
fp_addr_resolve (const struct fp_addr *addr, struct fp_sockaddrs *out,
                 const char **why)
{
  const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                  .ai_flags = AI_NUMERICSERV };
  FP_CLEANUP (free_addrinfo) struct addrinfo *list = NULL;
  char port[6];
  int r;

  memset (out, 0, sizeof *out);
  if (addr->is_unix) {
    struct sockaddr_un *un = (struct sockaddr_un *) &out->list[0].addr;

    un->sun_family = AF_UNIX;
    snprintf (un->sun_path, sizeof un->sun_path, "%.*s",
              (int) sizeof un->sun_path - 1, addr->host);
    out->list[0].len = sizeof *un;
    out->nr = 1;
    return 0;
  }
  if (resolve_number (addr, out))
    return 0;
  memset (out, 0, sizeof *out);
  snprintf (port, sizeof port, "%u", addr->port);
  r = getaddrinfo (addr->host, port, &hints, &list);
  if (r != 0)
    return refuse (r == EAI_AGAIN ? EAGAIN : ENOENT, gai_strerror (r), why);
  for (struct addrinfo *ai = list; ai; ai = ai->ai_next) {
    if (out->nr == FP_MAX_SOCKADDRS)
      break;
    memcpy (&out->list[out->nr].addr, ai->ai_addr, ai->ai_addrlen);
    out->list[out->nr++].len = ai->ai_addrlen;
  }
  return 0;
}

int
fp_addr_from_sockaddr (struct fp_addr *out, const struct sockaddr *sa,
                       socklen_t len)
{
  struct fp_addr addr = { 0 };
  char port[6];

  if (sa->sa_family == AF_UNIX) {
    const struct sockaddr_un *un = (const struct sockaddr_un *) sa;
    size_t start = offsetof (struct sockaddr_un, sun_path);

    addr.is_unix = true;
    if (len > start)
      memcpy (addr.host, un->sun_path, strnlen (un->sun_path, len - start));
    *out = addr;
    return 0;
  }
  if ((sa->sa_family != AF_INET && sa->sa_family != AF_INET6) ||
      getnameinfo (sa, len, addr.host, HOST_MAX, port, sizeof port,
                   NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return -EAFNOSUPPORT;
  if (parse_port (port, &addr.port, NULL) < 0)
    return -EAFNOSUPPORT;
  *out = addr;
  return 0;
}

static bool
is_loopback_v4 (const void *addr)
{
  return *(const uint8_t *) addr == IN_LOOPBACKNET;
}

bool
fp_sockaddr_is_local (const struct sockaddr *sa)
{
  struct sockaddr_in in;
  struct sockaddr_in6 in6;

  switch (sa->sa_family) {
  case AF_UNIX:
    return true;
  case AF_INET:
    memcpy (&in, sa, sizeof in);
    return is_loopback_v4 (&in.sin_addr);
  case AF_INET6:
    memcpy (&in6, sa, sizeof in6);
    if (IN6_IS_ADDR_V4MAPPED (&in6.sin6_addr))
      return is_loopback_v4 (in6.sin6_addr.s6_addr + 12);
    return IN6_IS_ADDR_LOOPBACK (&in6.sin6_addr);
  default:
    return false;
  }
}
