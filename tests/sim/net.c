/* SPDX-License-Identifier: BSD-3-Clause */
/* net.c - see net.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <arpa/inet.h>

#include "base/checked.h"
#include "base/clock.h"
#include "sim/net.h"
#include "sim/threads.h"

#define MAX_FDS 65536
#define NET 0x0a000000u    /* 10.0.0.0 */
#define FIRST_PORT 32768u  /* the first one that the system chooses */
#define SYN_AGAIN_MS 1000u /* a SYN that is not answered is sent again */
#define DATA_AGAIN_MS 200u
#define FULL_AGAIN_MS 1u
#define SHORT_ONCE_IN 64u /* send(2) takes a part only */

enum state { FRESH, LISTENS, CONNECTING, CONNECTED, CLOSED };
enum kind { DATA, FIN, RESET };

/* Something on its way to a socket. */
struct segment {
  struct segment *next;
  enum kind kind;
  uint64_t sent_ns, at_ns;
  size_t length, done;
  uint8_t bytes[];
};

struct sock {
  struct sock *next; /* in `all` */
  enum state state;
  unsigned host;
  int fd;      /* the application's; -1: not accepted yet, or closed */
  int wire_fd; /* the other end of its socketpair; -1: none */
  int error;   /* for SO_ERROR */
  bool sent_fin, got_fin;
  struct sockaddr_in self, peer;
  struct sock *other;
  struct segment *first, **last; /* on their way here, in order */
  uint64_t last_ns;              /* when the last of them arrives */
  /* LISTENS: the kernel's address, and those that are not accepted yet. */
  struct sockaddr_un unix_addr;
  socklen_t unix_length;
  struct sock *waiting, **last_waiting, *next_waiting;
};

static struct sock *all;
static struct sock *of_fd[MAX_FDS];
static unsigned machines[SIM_HOSTS];
static bool off[NET_MACHINES];
static unsigned cuts[NET_MACHINES][NET_MACHINES];
static unsigned long_once, longest_ms, next_port = FIRST_PORT;

int __real_socket (int domain, int type, int protocol);
int __wrap_socket (int domain, int type, int protocol);
int __real_bind (int fd, const struct sockaddr *sa, socklen_t len);
int __wrap_bind (int fd, const struct sockaddr *sa, socklen_t len);
int __real_listen (int fd, int backlog);
int __wrap_listen (int fd, int backlog);
int __real_accept4 (int fd, struct sockaddr *sa, socklen_t *len, int flags);
int __wrap_accept4 (int fd, struct sockaddr *sa, socklen_t *len, int flags);
int __real_connect (int fd, const struct sockaddr *sa, socklen_t len);
int __wrap_connect (int fd, const struct sockaddr *sa, socklen_t len);
ssize_t __real_send (int fd, const void *buf, size_t length, int flags);
ssize_t __wrap_send (int fd, const void *buf, size_t length, int flags);
ssize_t __real_sendmsg (int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg (int fd, const struct msghdr *msg, int flags);
int __real_shutdown (int fd, int how);
int __wrap_shutdown (int fd, int how);
int __real_close (int fd);
int __wrap_close (int fd);
int __real_getsockopt (int fd, int level, int name, void *value,
                       socklen_t *len);
int __wrap_getsockopt (int fd, int level, int name, void *value,
                       socklen_t *len);
int __real_setsockopt (int fd, int level, int name, const void *value,
                       socklen_t len);
int __wrap_setsockopt (int fd, int level, int name, const void *value,
                       socklen_t len);
int __real_getsockname (int fd, struct sockaddr *sa, socklen_t *len);
int __wrap_getsockname (int fd, struct sockaddr *sa, socklen_t *len);
int __real_getpeername (int fd, struct sockaddr *sa, socklen_t *len);
int __wrap_getpeername (int fd, struct sockaddr *sa, socklen_t *len);

static struct sock *
find (int fd)
{
  return fd >= 0 && fd < MAX_FDS ? of_fd[fd] : NULL;
}

/* A call of the real system that fails here leaves no world to go on with. */
static void
must (bool ok, const char *what)
{
  if (ok)
    return;
  fprintf (stderr, "net: %s: %s\n", what, strerror (errno));
  abort ();
}

static void
real_close (int *fd)
{
  if (*fd >= 0)
    must (__real_close (*fd) == 0, "close");
  *fd = -1;
}

/* ---- machines ---- */

void
net_join (unsigned host, unsigned machine)
{
  machines[host] = machine;
  off[machine] = false;
}

unsigned
net_machine (unsigned host)
{
  return machines[host];
}

void
net_weather (unsigned once, unsigned ms)
{
  long_once = once;
  longest_ms = ms;
}

uint64_t
net_delay_ns (void)
{
  uint64_t ns = 10000 + sim_dice (40000);

  if (long_once > 0 && sim_dice (long_once) == 0)
    ns += sim_dice (longest_ms * 1000 + 1) * UINT64_C (1000);
  return ns;
}

void
net_cut (unsigned a, unsigned b, bool is_cut)
{
  cuts[a][b] += is_cut ? 1 : -1u;
  cuts[b][a] = cuts[a][b];
}

bool
net_is_cut (unsigned a, unsigned b)
{
  return cuts[a][b] > 0 || off[a] || off[b];
}

/* ---- segments ---- */

static struct sock *
sock_new (enum state state, unsigned host)
{
  struct sock *s = calloc (1, sizeof *s);

  must (s != NULL, "memory");
  s->state = state;
  s->host = host;
  s->fd = s->wire_fd = -1;
  s->self.sin_family = s->peer.sin_family = AF_INET;
  s->self.sin_addr.s_addr = htonl (NET | machines[host]);
  s->last = &s->first;
  s->last_waiting = &s->waiting;
  s->next = all;
  all = s;
  return s;
}

static void arrive (void *arg);

/* Let the application read an error, or the end. */
static void
fail (struct sock *s, int error)
{
  const char byte = 0;

  if (s->state != CONNECTED && s->state != CONNECTING)
    return;
  s->error = error;
  /* A Unix socket whose other end is closed with unread data says ECONNRESET.
   */
  if (s->fd >= 0 && s->state == CONNECTED)
    (void) __real_send (s->fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  s->state = CLOSED;
  real_close (&s->wire_fd);
}

static void
dispatch (struct sock *to, enum kind kind, const void *bytes, size_t length)
{
  struct segment *g = malloc (sizeof *g + length);

  must (g != NULL, "memory");
  g->next = NULL;
  g->kind = kind;
  g->sent_ns = sim_now_ns ();
  g->at_ns = FP_MAX (g->sent_ns + net_delay_ns (), to->last_ns);
  g->length = length;
  g->done = 0;
  if (length > 0)
    memcpy (g->bytes, bytes, length);
  to->last_ns = g->at_ns;
  *to->last = g;
  to->last = &g->next;
  sim_at (g->at_ns, arrive, to);
}

/* Return true if g is done; else the rest of it comes later. */
static bool
deliver (struct sock *to, struct segment *g)
{
  ssize_t n;

  switch (g->kind) {
  case DATA:
    if (to->state == CLOSED) {
      if (to->other->state == CONNECTED)
        dispatch (to->other, RESET, NULL, 0);
      return true;
    }
    n = __real_send (to->wire_fd, g->bytes + g->done, g->length - g->done,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
      return errno != EAGAIN; /* else the application has shut it down */
    g->done += (size_t) n;
    return g->done == g->length;
  case FIN:
    to->got_fin = true;
    if (to->wire_fd >= 0)
      (void) __real_shutdown (to->wire_fd, SHUT_WR);
    return true;
  case RESET:
    fail (to, ECONNRESET);
    return true;
  }
  return true;
}

static void
arrive (void *arg)
{
  struct sock *to = arg;
  uint64_t now = sim_now_ns ();
  struct segment *g;

  while ((g = to->first) != NULL && g->at_ns <= now) {
    unsigned again_ms;

    if (net_is_cut (machines[to->host], machines[to->other->host])) {
      if (now - g->sent_ns > NET_USER_TIMEOUT_S * FP_NS_PER_S)
        fail (to->other, ETIMEDOUT);
      again_ms = DATA_AGAIN_MS;
    }
    else if (deliver (to, g))
      again_ms = 0;
    else
      again_ms = FULL_AGAIN_MS;
    if (again_ms > 0) {
      g->at_ns = now + again_ms * FP_NS_PER_MS;
      sim_at (g->at_ns, arrive, to);
      return;
    }
    to->first = g->next;
    if (to->first == NULL)
      to->last = &to->first;
    free (g);
  }
}

/* ---- connecting ---- */

static void
enter (struct sock *s, int fd)
{
  must (fd < MAX_FDS, "too many descriptors");
  s->fd = fd;
  of_fd[fd] = s;
}

int
__wrap_socket (int domain, int type, int protocol)
{
  int fd;

  if (domain == AF_INET6) {
    errno = EAFNOSUPPORT;
    return -1;
  }
  if (domain != AF_INET)
    return __real_socket (domain, type, protocol);
  fd = __real_socket (AF_UNIX, type, 0);
  if (fd >= 0)
    enter (sock_new (FRESH, sim_host ()), fd);
  return fd;
}

static const struct sock *
listener_at (const struct sockaddr_in *addr)
{
  for (const struct sock *s = all; s != NULL; s = s->next)
    if (s->state == LISTENS && s->self.sin_port == addr->sin_port &&
        s->self.sin_addr.s_addr == addr->sin_addr.s_addr)
      return s;
  return NULL;
}

int
__wrap_bind (int fd, const struct sockaddr *sa, socklen_t len)
{
  struct sock *s = find (fd);

  if (s == NULL)
    return __real_bind (fd, sa, len);
  memcpy (&s->self, sa, sizeof s->self);
  if (s->self.sin_port == 0)
    s->self.sin_port = htons ((uint16_t) next_port++);
  if (listener_at (&s->self) != NULL) {
    errno = EADDRINUSE;
    return -1;
  }
  return 0;
}

int
__wrap_listen (int fd, int backlog)
{
  struct sock *s = find (fd);

  if (s == NULL)
    return __real_listen (fd, backlog);
  /* Let the kernel choose an abstract address (unix(7), autobind). */
  s->unix_addr.sun_family = AF_UNIX;
  s->unix_length = sizeof s->unix_addr;
  must (__real_bind (fd, (struct sockaddr *) &s->unix_addr,
                     sizeof s->unix_addr.sun_family) == 0 &&
            __real_getsockname (fd, (struct sockaddr *) &s->unix_addr,
                                &s->unix_length) == 0 &&
            __real_listen (fd, backlog) == 0,
        "listen");
  s->state = LISTENS;
  return 0;
}

int
__wrap_accept4 (int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
  struct sock *s = find (fd), *got;
  int accepted = __real_accept4 (fd, sa, len, flags);

  if (s == NULL || accepted < 0)
    return accepted;
  /* The kernel has the same order. */
  got = s->waiting;
  s->waiting = got->next_waiting;
  if (s->waiting == NULL)
    s->last_waiting = &s->waiting;
  enter (got, accepted);
  return accepted;
}

static void
established (void *arg)
{
  struct sock *s = arg;
  char junk[4096];

  if (s->state != CONNECTING)
    return;
  s->state = CONNECTED;
  /* From now on the application can write. */
  while (recv (s->wire_fd, junk, sizeof junk, MSG_DONTWAIT) > 0)
    ;
}

static void
refused (void *arg)
{
  fail (arg, ECONNREFUSED);
}

static void
syn_arrives (void *arg)
{
  struct sock *s = arg, *peer;
  const struct sock *l;
  unsigned to = ntohl (s->peer.sin_addr.s_addr) & 0xff;
  int fd;

  if (s->state != CONNECTING)
    return;
  if (net_is_cut (machines[s->host], to)) {
    sim_at (sim_now_ns () + SYN_AGAIN_MS * FP_NS_PER_MS, syn_arrives, s);
    return;
  }
  l = listener_at (&s->peer);
  if (l == NULL) {
    sim_at (sim_now_ns () + net_delay_ns (), refused, s);
    return;
  }
  fd = __real_socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  must (fd >= 0, "socket");
  if (__real_connect (fd, (const struct sockaddr *) &l->unix_addr,
                      l->unix_length) < 0) {
    must (errno == EAGAIN, "connect"); /* the backlog is full */
    real_close (&fd);
    sim_at (sim_now_ns () + SYN_AGAIN_MS * FP_NS_PER_MS, syn_arrives, s);
    return;
  }
  peer = sock_new (CONNECTED, l->host);
  peer->wire_fd = fd;
  peer->self = s->peer;
  peer->peer = s->self;
  peer->other = s;
  s->other = peer;
  *((struct sock *) (uintptr_t) l)->last_waiting = peer;
  ((struct sock *) (uintptr_t) l)->last_waiting = &peer->next_waiting;
  sim_at (sim_now_ns () + net_delay_ns (), established, s);
}

/* Put one end of a socketpair that cannot be written in the place of fd. */
static void
take_pair (struct sock *s)
{
  const int small = 1;
  int pair[2];

  must (socketpair (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                    pair) == 0 &&
            __real_setsockopt (pair[0], SOL_SOCKET, SO_SNDBUF, &small,
                               sizeof small) == 0,
        "socketpair");
  while (__real_send (pair[0], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
    ;
  must (dup3 (pair[0], s->fd, O_CLOEXEC) >= 0, "dup3");
  real_close (&pair[0]);
  s->wire_fd = pair[1];
}

int
__wrap_connect (int fd, const struct sockaddr *sa, socklen_t len)
{
  struct sock *s = find (fd);

  if (s == NULL)
    return __real_connect (fd, sa, len);
  memcpy (&s->peer, sa, sizeof s->peer);
  s->self.sin_port = htons ((uint16_t) next_port++);
  take_pair (s);
  s->state = CONNECTING;
  sim_at (sim_now_ns () + net_delay_ns (), syn_arrives, s);
  errno = EINPROGRESS;
  return -1;
}

/* ---- sending ---- */

static ssize_t
send_some (struct sock *s, const void *bytes, size_t length)
{
  if (s->state == CONNECTING) {
    errno = EAGAIN;
    return -1;
  }
  if (s->state != CONNECTED || s->sent_fin) {
    errno = EPIPE;
    return -1;
  }
  if (length > 1 && sim_dice (SHORT_ONCE_IN) == 0)
    length = 1 + sim_dice ((unsigned) length - 1);
  dispatch (s->other, DATA, bytes, length);
  return (ssize_t) length;
}

ssize_t
__wrap_send (int fd, const void *buf, size_t length, int flags)
{
  struct sock *s = find (fd);

  return s == NULL ? __real_send (fd, buf, length, flags)
                   : send_some (s, buf, length);
}

ssize_t
__wrap_sendmsg (int fd, const struct msghdr *msg, int flags)
{
  struct sock *s = find (fd);
  uint8_t bytes[65536];
  size_t length = 0;

  if (s == NULL)
    return __real_sendmsg (fd, msg, flags);
  for (size_t i = 0; i < msg->msg_iovlen; i++) {
    size_t n = FP_MIN (msg->msg_iov[i].iov_len, sizeof bytes - length);

    memcpy (bytes + length, msg->msg_iov[i].iov_base, n);
    length += n;
  }
  return send_some (s, bytes, length);
}

static void
send_fin (struct sock *s)
{
  if (s->state != CONNECTED || s->sent_fin)
    return;
  s->sent_fin = true;
  dispatch (s->other, FIN, NULL, 0);
}

int
__wrap_shutdown (int fd, int how)
{
  struct sock *s = find (fd);

  if (s != NULL && how != SHUT_RD)
    send_fin (s);
  return __real_shutdown (fd, how);
}

/* Forget the application's end. */
static void
leave (struct sock *s)
{
  if (s->fd >= 0)
    of_fd[s->fd] = NULL;
  if (s->state == LISTENS)
    for (struct sock *w = s->waiting; w != NULL; w = w->next_waiting) {
      dispatch (w->other, RESET, NULL, 0);
      w->state = CLOSED;
      real_close (&w->wire_fd);
    }
  s->state = CLOSED;
  real_close (&s->wire_fd);
}

int
__wrap_close (int fd)
{
  struct sock *s = find (fd);

  if (s != NULL) {
    send_fin (s);
    leave (s);
    s->fd = -1;
  }
  return __real_close (fd);
}

/* ---- ends ---- */

void
net_reset (unsigned a, unsigned b)
{
  for (struct sock *s = all; s != NULL; s = s->next) {
    if (s->state != CONNECTED || s->other->state != CONNECTED ||
        machines[s->host] != a || machines[s->other->host] != b)
      continue;
    fail (s->other, ECONNRESET);
    fail (s, ECONNRESET);
  }
}

void
net_kill (unsigned host, bool power)
{
  for (struct sock *s = all; s != NULL; s = s->next) {
    if (s->host != host)
      continue;
    if (s->state != CLOSED && power)
      send_fin (s);
    leave (s);
    real_close (&s->fd);
  }
  if (!power)
    off[machines[host]] = true;
}

/* ---- options and names ---- */

int
__wrap_setsockopt (int fd, int level, int name, const void *value,
                   socklen_t len)
{
  return find (fd) != NULL ? 0
                           : __real_setsockopt (fd, level, name, value, len);
}

int
__wrap_getsockopt (int fd, int level, int name, void *value, socklen_t *len)
{
  struct sock *s = find (fd);

  if (s != NULL && level == SOL_SOCKET && name == SO_ERROR) {
    memcpy (value, &s->error, sizeof s->error);
    s->error = 0;
    return 0;
  }
  if (s != NULL && level == IPPROTO_TCP && name == TCP_INFO) {
    struct tcp_info info = { .tcpi_state = s->state != CONNECTED ? TCP_CLOSE
                                           : s->got_fin ? TCP_CLOSE_WAIT
                                                        : TCP_ESTABLISHED };

    memcpy (value, &info, FP_MIN ((size_t) *len, sizeof info));
    return 0;
  }
  return __real_getsockopt (fd, level, name, value, len);
}

static int
say_name (const struct sockaddr_in *name, struct sockaddr *sa, socklen_t *len)
{
  memcpy (sa, name, FP_MIN ((size_t) *len, sizeof *name));
  *len = sizeof *name;
  return 0;
}

int
__wrap_getsockname (int fd, struct sockaddr *sa, socklen_t *len)
{
  const struct sock *s = find (fd);

  return s != NULL ? say_name (&s->self, sa, len)
                   : __real_getsockname (fd, sa, len);
}

int
__wrap_getpeername (int fd, struct sockaddr *sa, socklen_t *len)
{
  const struct sock *s = find (fd);

  return s != NULL ? say_name (&s->peer, sa, len)
                   : __real_getpeername (fd, sa, len);
}
