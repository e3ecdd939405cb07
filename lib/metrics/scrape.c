/* SPDX-License-Identifier: BSD-3-Clause */
/* scrape.c - HTTP server for a page of Prometheus metrics.
 *
 * libevent 2.1 limits neither the number of connections nor the time of a
 * request, and does not report the end of a connection.  So each connection
 * gets a bufferevent to which this file holds a second reference.  Once that
 * is the last one, the connection has ended.  The bufferevent owns the
 * descriptor, so the descriptor is closed after everything that watches it.
 */

#include <config.h>

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "metrics/scrape.h"

#define BACKLOG 128
#define LOOK_MS 50
#define HEADERS_MAX 8192
#define INPUT_MAX 16384 /* bytes received and not yet parsed */
#define PAGE_COST 20    /* reuse a page for this many times its CPU time */
#define PATH "/metrics"

/* A page, shared by the replies that send it. */
struct page {
  unsigned users;
  char *text;
  size_t size;
};

struct client {
  struct bufferevent *bev; /* NULL: free */
  uint64_t since_ns;
  bool shut;
};

struct fp_scrape {
  struct event_base *base;
  struct evhttp *http;
  struct evconnlistener *listeners[FP_MAX_SOCKADDRS];
  unsigned nr_listeners;
  bool deaf; /* the listeners are disabled */
  struct event *look;
  struct client clients[SCRAPE_CLIENTS];
  unsigned nr_clients;
  struct page *page; /* NULL: none */
  uint64_t page_until_ns;
  void (*render) (void *ctx, struct fp_prom *page);
  void *ctx;
};

/* ---- sockets ---- */

int
fp_scrape_parse (struct fp_addr *addr, const char *text, const char **why)
{
  int r = fp_addr_parse (addr, text, why);

  if (r < 0 || addr->is_unix)
    return r;
  if (text[0] == '[' ? strstr (text, "]:") == NULL
                     : strchr (text, ':') == NULL) {
    *why = "a port is needed: HOST:PORT, [V6]:PORT or unix:PATH";
    return -EINVAL;
  }
  return 0;
}

static void
remove_stale (const struct sockaddr *sa, socklen_t len, const char *path)
{
  FP_CLEANUP (fp_closep)
  int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct stat st;

  if (fd >= 0 && lstat (path, &st) == 0 && S_ISSOCK (st.st_mode) &&
      connect (fd, sa, len) < 0 && errno == ECONNREFUSED)
    unlink (path);
}

/* Return a descriptor that listens, or -errno. */
static int
listen_at (const struct sockaddr *sa, socklen_t len,
           const struct fp_addr *addr)
{
  static const int on = 1, off = 0;
  FP_CLEANUP (fp_closep) int fd = -1;
  int ret;

  fd = socket (sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -errno;
  if (addr->is_unix)
    remove_stale (sa, len, addr->host);
  else
    (void) setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (sa->sa_family == AF_INET6)
    (void) setsockopt (fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind (fd, sa, len) < 0 || listen (fd, BACKLOG) < 0)
    return -errno;
  ret = fd;
  fd = -1;
  return ret;
}

static int
learn_addr (struct fp_scrape_sockets *s)
{
  struct sockaddr_storage sa;
  socklen_t len = sizeof sa;

  if (getsockname (s->fds[0], (struct sockaddr *) &sa, &len) < 0)
    return -errno;
  return fp_addr_from_sockaddr (&s->addr, (struct sockaddr *) &sa, len);
}

/* Return true if this machine lacks the address.  That is normal for some of
 * the addresses of a name.
 */
static bool
is_not_here (int r)
{
  return r == -EADDRNOTAVAIL || r == -EAFNOSUPPORT;
}

static const char *
in_use (const struct fp_addr *addr)
{
  struct stat st;

  if (addr->is_unix && lstat (addr->host, &st) == 0 && !S_ISSOCK (st.st_mode))
    return ": the file is not a socket: remove it, or choose another path";
  return ": another program listens there: stop it, or choose another address";
}

int
fp_scrape_listen (struct fp_scrape_sockets *s, const struct fp_addr *addr,
                  struct fp_error *error)
{
  struct fp_sockaddrs list;
  const char *reason = NULL;
  char text[FP_ADDR_MAX + 1];
  int r;

  memset (s, 0, sizeof *s);
  fp_addr_format (addr, text);
  r = fp_addr_resolve (addr, &list, &reason);
  if (r < 0)
    return fp_fail (error, r, "metrics: %s: %s", text, reason);
  for (unsigned i = 0; i < list.nr; i++) {
    r = listen_at ((const struct sockaddr *) &list.list[i].addr,
                   list.list[i].len, addr);
    if (r >= 0)
      s->fds[s->nr++] = r;
    else if (!is_not_here (r))
      break;
    if (addr->port == 0)
      break; /* the kernel would pick another port for the next */
  }
  if (s->nr > 0 && (r >= 0 || is_not_here (r)))
    r = learn_addr (s);
  if (r < 0) {
    fp_fail (error, r, "metrics: %s: %s%s", text, strerror (-r),
             r == -EADDRINUSE ? in_use (addr) : "");
    fp_scrape_close (s);
  }
  return r;
}

void
fp_scrape_close (struct fp_scrape_sockets *s)
{
  for (unsigned i = 0; i < s->nr; i++)
    close (s->fds[i]);
  if (s->nr > 0 && s->addr.is_unix && s->addr.host[0] != '\0')
    unlink (s->addr.host);
  s->nr = 0;
}

/* ---- connections ---- */

static void
set_deaf (struct fp_scrape *s, bool deaf)
{
  for (unsigned i = 0; i < s->nr_listeners; i++)
    (void) (deaf ? evconnlistener_disable (s->listeners[i])
                 : evconnlistener_enable (s->listeners[i]));
  s->deaf = deaf;
}

static void
look_in (struct fp_scrape *s, unsigned ms)
{
  const struct timeval tv = { .tv_usec = ms * 1000 };

  (void) event_add (s->look, &tv);
}

/* Drop the reference if the connection has ended.  Return true then. */
static bool
let_go (struct client *c)
{
  if (bufferevent_decref (c->bev) == 0) {
    bufferevent_incref (c->bev);
    return false;
  }
  memset (c, 0, sizeof *c);
  return true;
}

/* Break the connection.  evhttp sees the end of the stream next, or its
 * timeout.
 */
static void
shut (struct client *c)
{
  (void) shutdown (bufferevent_getfd (c->bev), SHUT_RDWR);
  c->shut = true;
}

static void
on_look (evutil_socket_t fd, short what, void *arg)
{
  struct fp_scrape *s = arg;
  bool crowded = s->nr_clients == SCRAPE_CLIENTS;
  uint64_t now = fp_now_ns ();

  (void) fd;
  (void) what;
  for (unsigned i = 0; i < SCRAPE_CLIENTS; i++) {
    struct client *c = &s->clients[i];
    uint64_t ms = crowded ? SCRAPE_CROWDED_MS : SCRAPE_MS;

    if (c->bev == NULL)
      continue;
    if (let_go (c))
      s->nr_clients--;
    else if (!c->shut && now - c->since_ns > ms * FP_NS_PER_MS)
      shut (c);
  }
  if (s->deaf && s->nr_clients < SCRAPE_CLIENTS)
    set_deaf (s, false);
  if (s->nr_clients > 0)
    look_in (s, LOOK_MS);
}

/* Make the bufferevent of a connection that was accepted. */
static struct bufferevent *
on_client (struct event_base *base, void *arg)
{
  struct fp_scrape *s = arg;
  struct bufferevent *bev =
      bufferevent_socket_new (base, -1, BEV_OPT_CLOSE_ON_FREE);

  if (bev == NULL)
    return NULL;
  bufferevent_setwatermark (bev, EV_READ, 0, INPUT_MAX);
  for (unsigned i = 0; i < SCRAPE_CLIENTS; i++) {
    struct client *c = &s->clients[i];

    if (c->bev != NULL)
      continue;
    bufferevent_incref (bev);
    *c = (struct client) { .bev = bev, .since_ns = fp_now_ns () };
    s->nr_clients++;
    break;
  }
  if (s->nr_clients == SCRAPE_CLIENTS)
    set_deaf (s, true);
  look_in (s, LOOK_MS);
  return bev;
}

/* Stop listening for a while after an error, for example if no descriptor is
 * left.  Otherwise the listener would be ready again at once.
 */
static void
on_accept_error (struct evconnlistener *l, void *arg)
{
  struct fp_scrape *s = arg;

  (void) l;
  set_deaf (s, true);
  look_in (s, LOOK_MS);
}

/* ---- replies ---- */

static void
page_put (struct page *p)
{
  if (p == NULL || --p->users > 0)
    return;
  free (p->text);
  free (p);
}

static void
on_page_sent (const void *data, size_t size, void *arg)
{
  (void) data;
  (void) size;
  page_put (arg);
}

/* Return the CPU time of this thread. */
static uint64_t
cpu_ns (void)
{
  struct timespec ts = { 0, 0 };

  (void) clock_gettime (CLOCK_THREAD_CPUTIME_ID, &ts);
  return (uint64_t) ts.tv_sec * FP_NS_PER_S + (uint64_t) ts.tv_nsec;
}

/* Return the present page, or a new one.  Return NULL if out of memory. */
static struct page *
page_now (struct fp_scrape *s)
{
  uint64_t begin = cpu_ns ();
  struct fp_prom text = { .used = 0 };
  struct page *p;

  if (s->page != NULL && fp_now_ns () < s->page_until_ns)
    return s->page;
  p = calloc (1, sizeof *p);
  if (p == NULL)
    return NULL;
  s->render (s->ctx, &text);
  if (!fp_prom_ok (&text)) {
    free (text.text);
    free (p);
    return NULL;
  }
  page_put (s->page);
  *p = (struct page) { .users = 1, .text = text.text, .size = text.used };
  s->page = p;
  s->page_until_ns = fp_now_ns () + PAGE_COST * (cpu_ns () - begin);
  return p;
}

static void
on_answered (struct evhttp_request *req, void *arg)
{
  (void) req;
  look_in (arg, 0); /* at once, but after the connection has ended */
}

static void
answer (struct evhttp_request *req, int code, const char *reason,
        const char *type, struct evbuffer *body)
{
  struct evkeyvalq *headers = evhttp_request_get_output_headers (req);

  /* If a header cannot be added, the reply is still good, except without the
   * first.
   */
  (void) evhttp_add_header (headers, "Content-Type", type);
  (void) evhttp_add_header (headers, "Connection", "close");
  if (code == HTTP_BADMETHOD)
    (void) evhttp_add_header (headers, "Allow", "GET");
  evhttp_send_reply (req, code, reason, body);
}

static void
refuse (struct evhttp_request *req, int code, const char *reason,
        const char *line)
{
  struct evbuffer *body = evbuffer_new ();

  if (body != NULL)
    (void) evbuffer_add (body, line, strlen (line));
  answer (req, code, reason, "text/plain; charset=utf-8", body);
  if (body != NULL)
    evbuffer_free (body);
}

static void
on_request (struct evhttp_request *req, void *arg)
{
  struct fp_scrape *s = arg;
  const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri (req);
  const char *path = uri != NULL ? evhttp_uri_get_path (uri) : NULL;
  struct evbuffer *body;
  struct page *page;

  evhttp_request_set_on_complete_cb (req, on_answered, s);
  if (path == NULL || strcmp (path, PATH) != 0) {
    refuse (req, HTTP_NOTFOUND, "Not Found",
            "Only the metrics are served here: GET " PATH "\n");
    return;
  }
  if (evhttp_request_get_command (req) != EVHTTP_REQ_GET) {
    refuse (req, HTTP_BADMETHOD, "Method Not Allowed",
            "The metrics can only be read: GET " PATH "\n");
    return;
  }
  page = page_now (s);
  body = evbuffer_new ();
  if (page == NULL || body == NULL ||
      evbuffer_add_reference (body, page->text, page->size, on_page_sent,
                              page) < 0)
    refuse (req, HTTP_SERVUNAVAIL, "Service Unavailable",
            "There is not enough memory for the metrics.\n");
  else {
    page->users++;
    answer (req, HTTP_OK, "OK", FP_PROM_CONTENT_TYPE, body);
  }
  if (body != NULL)
    evbuffer_free (body);
}

/* ---- start and stop ---- */

static int
start_http (struct fp_scrape *s)
{
  s->http = evhttp_new (s->base);
  s->look = evtimer_new (s->base, on_look, s);
  if (s->http == NULL || s->look == NULL)
    return -ENOMEM;
  evhttp_set_max_headers_size (s->http, HEADERS_MAX);
  evhttp_set_max_body_size (s->http, HEADERS_MAX);
  evhttp_set_timeout (s->http, SCRAPE_MS / 1000);
  /* Allow all methods that evhttp knows, so that on_request answers them. */
  evhttp_set_allowed_methods (
      s->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                   EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS |
                   EVHTTP_REQ_TRACE | EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH);
  evhttp_set_bevcb (s->http, on_client, s);
  evhttp_set_gencb (s->http, on_request, s);
  return 0;
}

static int
start_listener (struct fp_scrape *s, int fd)
{
  struct evconnlistener *l;
  int copy = fcntl (fd, F_DUPFD_CLOEXEC, 0);

  if (copy < 0)
    return -errno;
  /* Backlog 0, because the socket is listening already. */
  l = evconnlistener_new (s->base, NULL, NULL,
                          LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0,
                          copy);
  if (l == NULL) {
    close (copy);
    return -ENOMEM;
  }
  evconnlistener_set_error_cb (l, on_accept_error);
  if (evhttp_bind_listener (s->http, l) == NULL) {
    evconnlistener_free (l);
    return -ENOMEM;
  }
  s->listeners[s->nr_listeners++] = l; /* owned by http */
  return 0;
}

int
fp_scrape_new (struct fp_scrape **out, struct event_base *base,
               const struct fp_scrape_sockets *sockets,
               void (*render) (void *ctx, struct fp_prom *page), void *ctx)
{
  struct fp_scrape *s = calloc (1, sizeof *s);
  int r;

  if (s == NULL)
    return -ENOMEM;
  s->base = base;
  s->render = render;
  s->ctx = ctx;
  r = start_http (s);
  for (unsigned i = 0; i < sockets->nr && r == 0; i++)
    r = start_listener (s, sockets->fds[i]);
  if (r < 0) {
    fp_scrape_free (s);
    return r;
  }
  *out = s;
  return 0;
}

void
fp_scrape_free (struct fp_scrape *s)
{
  if (s == NULL)
    return;
  if (s->http != NULL)
    evhttp_free (s->http); /* also the listeners and connections */
  for (unsigned i = 0; i < SCRAPE_CLIENTS; i++)
    if (s->clients[i].bev != NULL)
      (void) bufferevent_decref (s->clients[i].bev);
  if (s->look != NULL)
    event_free (s->look);
  page_put (s->page);
  free (s);
}
