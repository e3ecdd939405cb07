/* SPDX-License-Identifier: BSD-3-Clause */
/* listener.c - a socket that clients connect to. */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "memserver/listener.h"
#include "memserver/server.h"
#include "memserver/session/rdma.h"
#include "memserver/session/session.h"

#define BACKLOG 128
#define ACCEPTS 16 /* most connections to accept before other events */

struct listener {
  struct server *server;
  int fd;
  struct fp_addr addr;
  bool is_local; /* only this machine can connect */
  struct event *readable, *pause;
};

/* Return true if this error of accept(2) concerns only one connection: it is
 * gone already, or a firewall ended it.  Others may be waiting.
 */
static bool
is_of_one_connection (int err)
{
  switch (err) {
  case ECONNABORTED:
  case EINTR:
  case EPERM:
  case EPROTO:
  case ENOPROTOOPT:
  case EOPNOTSUPP:
  case ENETDOWN:
  case ENETUNREACH:
  case EHOSTDOWN:
  case EHOSTUNREACH:
  case ENONET:
    return true;
  default:
    return false;
  }
}

static void
on_connection (evutil_socket_t fd, short what, void *arg)
{
  static struct fp_log_limit limit;
  static const int on = 1;
  static const struct timeval pause = { .tv_usec = 100000 };
  struct listener *l = arg;

  (void) what;
  for (unsigned i = 0; i < ACCEPTS; i++) {
    int sock = accept4 (fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), r;

    if (sock < 0) {
      if (errno == EAGAIN)
        return;
      if (is_of_one_connection (errno))
        continue;
      /* A connection that has said nothing has no better right to a descriptor
       * than a new one.  Else a flood would keep all others out for as long as
       * it goes on.
       */
      if ((errno == EMFILE || errno == ENFILE) &&
          sessions_shed (&l->server->sessions))
        continue;
      /* No descriptor is left.  Pause: the socket would be ready again at
       * once.
       */
      fp_log_limited (&limit, FP_LOG_ERROR, "accept: %s", strerror (errno));
      if (event_add (l->pause, &pause) == 0)
        event_del (l->readable);
      return;
    }
    if (!l->addr.is_unix) {
      (void) setsockopt (sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      (void) setsockopt (sock, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    r = session_new (&l->server->sessions, sock);
    if (r < 0)
      fp_log_limited (&limit, FP_LOG_ERROR, "new connection: %s",
                      strerror (-r));
  }
}

static void
on_pause_over (evutil_socket_t fd, short what, void *arg)
{
  struct listener *l = arg;

  (void) fd;
  (void) what;
  (void) event_add (l->readable, NULL);
}

/* Remove a socket file that a dead server left. */
static void
remove_stale (const struct sockaddr *sa, socklen_t len, const char *path)
{
  int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct stat st;

  if (fd < 0)
    return;
  if (lstat (path, &st) == 0 && S_ISSOCK (st.st_mode) &&
      connect (fd, sa, len) < 0 && errno == ECONNREFUSED)
    unlink (path);
  close (fd);
}

static int
bind_and_listen (const struct sockaddr *sa, socklen_t len,
                 const struct fp_addr *addr, int *out)
{
  static const int on = 1, off = 0;
  int fd =
      socket (sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int r;

  if (fd < 0)
    return -errno;
  if (addr->is_unix)
    remove_stale (sa, len, addr->host);
  else
    (void) setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (sa->sa_family == AF_INET6)
    (void) setsockopt (fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind (fd, sa, len) < 0 || listen (fd, BACKLOG) < 0) {
    r = -errno;
    close (fd);
    return r;
  }
  *out = fd;
  return 0;
}

/* Add a listener.  Takes fd, also on failure. */
static int
add (struct server *srv, int fd)
{
  struct listener *l = calloc (1, sizeof *l);
  struct sockaddr_storage sa;
  socklen_t len = sizeof sa;
  int r = -ENOMEM;

  if (!l) {
    close (fd);
    return -ENOMEM;
  }
  l->server = srv;
  l->fd = fd;
  if (srv->nr_listeners == MAX_LISTEN) {
    r = -ENOSPC;
    goto err;
  }
  if (getsockname (fd, (struct sockaddr *) &sa, &len) < 0) {
    r = -errno;
    goto err;
  }
  r = fp_addr_from_sockaddr (&l->addr, (struct sockaddr *) &sa, len);
  if (r < 0)
    goto err;
  l->is_local = fp_sockaddr_is_local ((struct sockaddr *) &sa);
  r = -ENOMEM;
  l->readable =
      event_new (srv->base, fd, EV_READ | EV_PERSIST, on_connection, l);
  l->pause = evtimer_new (srv->base, on_pause_over, l);
  if (!l->readable || !l->pause || event_add (l->readable, NULL) < 0)
    goto err;
  srv->listeners[srv->nr_listeners++] = l;
  return 0;

err:
  listener_free (l);
  return r;
}

static void
add_rdma (struct server *srv, const struct fp_addr *addr)
{
  char text[FP_ADDR_MAX + 1];
  int r = rdma_serve_at (&srv->sessions, addr);

  fp_addr_format (addr, text);
  if (r == -ENODEV)
    fp_log (FP_LOG_INFO, "rdma: no device for %s; tcp only", text);
  else if (r < 0)
    fp_log (FP_LOG_WARN, "rdma: %s: %s; tcp only", text, strerror (-r));
  else
    fp_log (FP_LOG_INFO, "rdma: listening on %s", text);
}

/* Return true if the list has this address earlier, too: some resolvers name
 * one twice.
 */
static bool
named_before (const struct fp_sockaddrs *list, unsigned i)
{
  for (unsigned j = 0; j < i; j++)
    if (list->list[j].len == list->list[i].len &&
        memcmp (&list->list[j].addr, &list->list[i].addr, list->list[i].len) ==
            0)
      return true;
  return false;
}

static void
warn_of_one (const struct fp_sockaddrs *list, unsigned i, const char *name,
             int err)
{
  char text[FP_ADDR_MAX + 1] = "?";
  struct fp_addr addr;

  if (fp_addr_from_sockaddr (&addr,
                             (const struct sockaddr *) &list->list[i].addr,
                             list->list[i].len) == 0)
    fp_addr_format (&addr, text);
  fp_log (FP_LOG_WARN, "listen: %s, an address of %s: %s; the others work",
          text, name, strerror (-err));
}

/* Set error to which program may have the address, and how to find out.
 * Return -EADDRINUSE.
 */
static int
say_in_use (const struct fp_addr *addr, const char *text,
            struct fp_error *error)
{
  struct stat st;

  if (!addr->is_unix)
    return fp_fail (
        error, -EADDRINUSE,
        "listen: %s: %s: perhaps another farpage-memserver ('ss -tlnp "
        "sport = :%u' shows which program): stop it, or use another "
        "port with --listen HOST:PORT",
        text, strerror (EADDRINUSE), addr->port);
  if (lstat (addr->host, &st) == 0 && !S_ISSOCK (st.st_mode))
    return fp_fail (error, -EADDRINUSE,
                    "listen: %s: %s: it is not a socket: use another path, or "
                    "remove it",
                    text, strerror (EADDRINUSE));
  return fp_fail (error, -EADDRINUSE,
                  "listen: %s: %s: a program answers there, perhaps another "
                  "farpage-memserver: stop it, or use another path",
                  text, strerror (EADDRINUSE));
}

/* Check all addresses that one stands for.  -EACCES: the server may not listen
 * on one of them.
 */
static int
check_reach (const struct options *o, const struct fp_sockaddrs *list,
             const char *text, struct fp_error *error)
{
  for (unsigned i = 0; i < list->nr; i++) {
    if (options_may_listen (o, (const struct sockaddr *) &list->list[i].addr))
      continue;
    return fp_fail (
        error, -EACCES,
        "listen: %s: %s, so any machine that can reach this address "
        "could use the memory, and read and change the data of others: "
        "%s, or allow that with --insecure",
        text,
        o->tls.mode == FP_TLS_OFF
            ? "there is no TLS"
            : "--tls on also accepts clients without TLS",
        o->tls.mode == FP_TLS_OFF
            ? "make a key (farpage-memserver keygen FILE) and give it with "
              "--tls-psk FILE"
            : "use --tls require");
  }
  return 0;
}

int
listener_check (const struct options *o, struct fp_error *error)
{
  struct fp_sockaddrs list;
  char text[FP_ADDR_MAX + 1];
  int r = 0;

  for (unsigned i = 0; i < o->nr_listen && r == 0; i++) {
    fp_addr_format (&o->listen[i], text);
    if (fp_addr_resolve (&o->listen[i], &list, NULL) == 0)
      r = check_reach (o, &list, text, error);
  }
  return r;
}

bool
listener_is_insecure (const struct server *srv)
{
  if (srv->options->tls.mode == FP_TLS_REQUIRE)
    return false;
  for (unsigned i = 0; i < srv->nr_listeners; i++)
    if (!srv->listeners[i]->is_local)
      return true;
  return false;
}

int
listener_open (struct server *srv, const struct fp_addr *addr,
               struct fp_error *error)
{
  struct fp_sockaddrs list;
  char text[FP_ADDR_MAX + 1];
  const char *reason = NULL;
  int errors[FP_MAX_SOCKADDRS] = { 0 };
  bool opened = false;
  int r, fd = -1;

  fp_addr_format (addr, text);
  r = fp_addr_resolve (addr, &list, &reason);
  if (r < 0)
    return fp_fail (error, r, "listen: %s: %s", text, reason);
  /* Check again: a name may stand for other addresses than a moment ago. */
  r = check_reach (srv->options, &list, text, error);
  if (r < 0)
    return r;
  for (unsigned i = 0; i < list.nr; i++) {
    if (named_before (&list, i))
      continue;
    r = bind_and_listen ((struct sockaddr *) &list.list[i].addr,
                         list.list[i].len, addr, &fd);
    if (r == 0)
      r = add (srv, fd);
    errors[i] = r;
    if (r < 0)
      continue;
    opened = true;
    if (!addr->is_unix)
      add_rdma (srv, listener_addr (srv->listeners[srv->nr_listeners - 1]));
    if (addr->port == 0)
      break; /* the next one would get another port */
  }
  for (unsigned i = 0; i < list.nr && opened; i++)
    if (errors[i] < 0)
      warn_of_one (&list, i, text, errors[i]);
  if (opened)
    return 0;
  if (r == -EADDRINUSE)
    return say_in_use (addr, text, error);
  return fp_fail (error, r, "listen: %s: %s", text, strerror (-r));
}

void
listener_free (struct listener *l)
{
  if (l->readable)
    event_free (l->readable);
  if (l->pause)
    event_free (l->pause);
  if (l->addr.is_unix && l->addr.host[0] != '\0')
    unlink (l->addr.host);
  close (l->fd);
  free (l);
}

const struct fp_addr *
listener_addr (const struct listener *l)
{
  return &l->addr;
}
