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

#include "base/log.h"
#include "listener.h"
#include "rdma.h"
#include "server.h"
#include "session.h"

#define BACKLOG 128
#define ACCEPTS 16 /* at once, before others get their turn */

struct listener {
  struct server *server;
  int fd;
  struct fp_addr addr;
  struct event *readable, *pause;
};

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
      if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
        return;
      /* No descriptor is left: it would be ready again at once. */
      fp_log_limited (&limit, FP_LOG_ERROR, "accept: %s", strerror (errno));
      if (event_add (l->pause, &pause) == 0)
        event_del (l->readable);
      return;
    }
    if (!l->addr.is_unix) {
      (void) setsockopt (sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      (void) setsockopt (sock, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    r = session_new (l->server, sock);
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

/* A socket file that is left over from a server that died. */
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

/* Takes fd. */
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
  int r = rdma_serve_at (srv, addr);

  fp_addr_format (addr, text);
  if (r == -ENODEV)
    fp_log (FP_LOG_INFO, "rdma: no device for %s; tcp only", text);
  else if (r < 0)
    fp_log (FP_LOG_WARN, "rdma: %s: %s; tcp only", text, strerror (-r));
  else
    fp_log (FP_LOG_INFO, "rdma: listening on %s", text);
}

int
listener_open (struct server *srv, const struct fp_addr *addr, char *why)
{
  struct fp_sockaddrs list;
  char text[FP_ADDR_MAX + 1];
  const char *reason = NULL;
  bool opened = false;
  int r, fd = -1;

  fp_addr_format (addr, text);
  r = fp_addr_resolve (addr, &list, &reason);
  if (r < 0) {
    snprintf (why, WHY_MAX, "listen: %s: %s", text, reason);
    return r;
  }
  for (unsigned i = 0; i < list.nr; i++) {
    r = bind_and_listen ((struct sockaddr *) &list.list[i].addr,
                         list.list[i].len, addr, &fd);
    if (r == 0)
      r = add (srv, fd);
    if (r < 0)
      continue;
    opened = true;
    if (!addr->is_unix)
      add_rdma (srv, listener_addr (srv->listeners[srv->nr_listeners - 1]));
    if (addr->port == 0)
      break; /* the kernel would pick another one for the next */
  }
  if (opened)
    return 0;
  snprintf (why, WHY_MAX, "listen: %s: %s", text, strerror (-r));
  return r;
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
