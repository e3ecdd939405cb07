/* SPDX-License-Identifier: BSD-3-Clause */
/* loop.c - see loop.h.  Linked with --wrap for the functions wrapped here. */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/thread.h"
#include "clock.h"
#include "fuzz.h"
#include "loop.h"
#include "memories.h"

#define FIRST_FD 4000 /* not real descriptors */
#define MAX_WIRES 64u
#define ROOM (160u << 10) /* bytes of a socket, one way */
#define EVENT_FD (FIRST_FD + MAX_WIRES)

static loop_more_fn *more_comes;

/* ---- events ---- */

struct event {
  TAILQ_ENTRY (event) entry;
  int fd;
  short what;
  event_callback_fn run;
  void *arg;
  bool pending, active;
  uint64_t deadline_ns; /* 0 = none */
};
static TAILQ_HEAD (events, event) events = TAILQ_HEAD_INITIALIZER (events);
static uint64_t posted; /* count of the eventfd */

struct event *__wrap_event_new (struct event_base *base, evutil_socket_t fd,
                                short what, event_callback_fn run, void *arg);
void __wrap_event_free (struct event *ev);
int __wrap_event_add (struct event *ev, const struct timeval *tv);
int __wrap_event_del (struct event *ev);
void __wrap_event_active (struct event *ev, int res, short ncalls);

struct event *
__wrap_event_new (struct event_base *base, evutil_socket_t fd, short what,
                  event_callback_fn run, void *arg)
{
  struct event *ev = calloc (1, sizeof *ev);

  FUZZ_CHECK (ev && base == loop_base ());
  ev->fd = fd;
  ev->what = what;
  ev->run = run;
  ev->arg = arg;
  TAILQ_INSERT_TAIL (&events, ev, entry);
  return ev;
}

void
__wrap_event_free (struct event *ev)
{
  TAILQ_REMOVE (&events, ev, entry);
  free (ev);
}

int
__wrap_event_add (struct event *ev, const struct timeval *tv)
{
  ev->pending = true;
  if (tv)
    ev->deadline_ns = fuzz_now_ns + (uint64_t) tv->tv_sec * FP_NS_PER_S +
                      (uint64_t) tv->tv_usec * 1000;
  return 0;
}

int
__wrap_event_del (struct event *ev)
{
  ev->pending = ev->active = false;
  ev->deadline_ns = 0;
  return 0;
}

void
__wrap_event_active (struct event *ev, int res, short ncalls)
{
  (void) res;
  (void) ncalls;
  ev->active = true;
}

struct event_base *
loop_base (void)
{
  return (struct event_base *) &events;
}

/* ---- sockets ---- */

static struct wire {
  bool open;             /* by the server */
  bool held;             /* by the client */
  bool left;             /* the client's end is closed */
  bool shut_rd, shut_wr; /* by the server */
  bool clogged;
  struct loop_peer peer;
  size_t in_at, in_end, out_end;
  uint8_t *in, *out;
} wires[MAX_WIRES];

ssize_t __wrap_recv (int fd, void *buf, size_t n, int flags);
ssize_t __wrap___recv_chk (int fd, void *buf, size_t n, size_t room,
                           int flags);
ssize_t __wrap_recvmsg (int fd, struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg (int fd, const struct msghdr *msg, int flags);
int __wrap_shutdown (int fd, int how);
int __wrap_getpeername (int fd, struct sockaddr *sa, socklen_t *len);
int __wrap_getsockopt (int fd, int level, int name, void *value,
                       socklen_t *len);
int __wrap_poll (struct pollfd *fds, nfds_t nr, int ms);
int __wrap_eventfd (unsigned count, int flags);
ssize_t __wrap_read (int fd, void *buf, size_t n);
ssize_t __wrap___read_chk (int fd, void *buf, size_t n, size_t room);
ssize_t __wrap_write (int fd, const void *buf, size_t n);
int __wrap_fcntl (int fd, int what, ...);
int __wrap_close (int fd);
ssize_t __real_read (int fd, void *buf, size_t n);
ssize_t __real_write (int fd, const void *buf, size_t n);
int __real_fcntl (int fd, int what, ...);
int __real_close (int fd);

static struct wire *
wire_of (int fd)
{
  struct wire *w = &wires[fd - FIRST_FD];

  FUZZ_CHECK (fd >= FIRST_FD && fd < FIRST_FD + (int) MAX_WIRES && w->open);
  return w;
}

static bool
is_readable (const struct wire *w)
{
  return w->in_at < w->in_end || w->left || w->shut_rd;
}

static bool
is_writable (const struct wire *w)
{
  return !w->clogged || w->left || w->shut_wr;
}

static bool
is_due (const struct event *ev)
{
  if (ev->active)
    return true;
  if (!ev->pending)
    return false;
  if (ev->deadline_ns != 0 && fuzz_now_ns >= ev->deadline_ns)
    return true;
  if (ev->fd < 0)
    return false;
  if (ev->fd == (int) EVENT_FD)
    return posted > 0;
  return (ev->what & EV_READ && is_readable (wire_of (ev->fd))) ||
         (ev->what & EV_WRITE && is_writable (wire_of (ev->fd))) ||
         (ev->what & EV_CLOSED && wire_of (ev->fd)->left);
}

void
loop_run (void)
{
  struct event *ev = TAILQ_FIRST (&events);
  unsigned times = 0;

  while (ev) {
    if (!is_due (ev)) {
      ev = TAILQ_NEXT (ev, entry);
      continue;
    }
    FUZZ_CHECK (++times < 100000); /* else an endless loop */
    ev->active = false;
    ev->deadline_ns = 0;
    if (!(ev->what & EV_PERSIST))
      ev->pending = false;
    ev->run (ev->fd, ev->what, ev->arg);
    ev = TAILQ_FIRST (&events);
  }
}

/* Take up to n bytes.  Return 0 at the end, or -1 if nothing is there yet. */
static ssize_t
take (struct wire *w, void *buf, size_t n, bool peek)
{
  n = FP_MIN (n, w->in_end - w->in_at);
  if (n == 0)
    return w->left || w->shut_rd ? 0 : -1;
  memcpy (buf, w->in + w->in_at, n);
  w->in_at += peek ? 0 : n;
  return (ssize_t) n;
}

ssize_t
__wrap_recv (int fd, void *buf, size_t n, int flags)
{
  ssize_t r = take (wire_of (fd), buf, n, flags & MSG_PEEK);

  errno = EAGAIN;
  return r;
}

ssize_t
__wrap___recv_chk (int fd, void *buf, size_t n, size_t room, int flags)
{
  FUZZ_CHECK (n <= room);
  return __wrap_recv (fd, buf, n, flags);
}

ssize_t
__wrap_recvmsg (int fd, struct msghdr *msg, int flags)
{
  struct wire *w = wire_of (fd);
  ssize_t n = 0, r = -1;

  while (!is_readable (w) && !(flags & MSG_DONTWAIT))
    if (!more_comes ())
      w->left = true;
  for (size_t i = 0; i < msg->msg_iovlen; i++) {
    r = take (w, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len, false);
    if (r <= 0)
      break;
    n += r;
  }
  errno = EAGAIN;
  return n > 0 ? n : r;
}

ssize_t
__wrap_sendmsg (int fd, const struct msghdr *msg, int flags)
{
  struct wire *w = wire_of (fd);
  size_t n = 0;

  FUZZ_CHECK (flags & MSG_NOSIGNAL);
  if (w->left || w->shut_wr) {
    errno = EPIPE;
    return -1;
  }
  for (size_t i = 0; i < msg->msg_iovlen && !w->clogged; i++) {
    size_t part = FP_MIN (msg->msg_iov[i].iov_len, ROOM - w->out_end);

    memcpy (w->out + w->out_end, msg->msg_iov[i].iov_base, part);
    w->out_end += part;
    n += part;
  }
  if (w->out_end == ROOM)
    w->clogged = true;
  errno = EAGAIN;
  return n > 0 ? (ssize_t) n : -1;
}

int
__wrap_shutdown (int fd, int how)
{
  struct wire *w = wire_of (fd);

  w->shut_rd = w->shut_rd || how != SHUT_WR;
  w->shut_wr = w->shut_wr || how != SHUT_RD;
  return 0;
}

int
__wrap_getpeername (int fd, struct sockaddr *sa, socklen_t *len)
{
  const struct sockaddr_un un = { .sun_family = AF_UNIX };
  const struct sockaddr_in in = { .sin_family = AF_INET,
                                  .sin_port = htons (1000),
                                  .sin_addr = { htonl (INADDR_LOOPBACK) } };
  bool is_unix = wire_of (fd)->peer.is_unix;

  FUZZ_CHECK (*len >= sizeof un);
  *len = is_unix ? sizeof un.sun_family : sizeof in;
  memcpy (sa, is_unix ? (const void *) &un : &in, *len);
  return 0;
}

int
__wrap_getsockopt (int fd, int level, int name, void *value, socklen_t *len)
{
  const struct wire *w = wire_of (fd);

  if (level == SOL_SOCKET && name == SO_PEERCRED && w->peer.is_unix) {
    const struct ucred cred = { .pid = 1, .uid = w->peer.uid };

    FUZZ_CHECK (*len == sizeof cred);
    memcpy (value, &cred, sizeof cred);
    return 0;
  }
  if (level == SOL_SOCKET && name == SO_ERROR) {
    memset (value, 0, *len);
    return 0;
  }
  errno = ENOPROTOOPT; /* TCP_INFO: the kind of end is not known */
  return -1;
}

/* Called by the "thread" of a data connection, in the middle of a frame. */
int
__wrap_poll (struct pollfd *fds, nfds_t nr, int ms)
{
  struct wire *w = wire_of (fds->fd);
  uint64_t until = fuzz_now_ns + (uint64_t) ms * FP_NS_PER_MS;

  FUZZ_CHECK (nr == 1 && ms >= 0);
  for (;;) {
    if (fds->events == POLLIN ? is_readable (w) : is_writable (w))
      return 1;
    if (fuzz_now_ns >= until)
      return 0;
    if (!more_comes ())
      fuzz_now_ns = until;
  }
}

int
__wrap_eventfd (unsigned count, int flags)
{
  (void) flags;
  posted = count;
  return EVENT_FD;
}

ssize_t
__wrap_read (int fd, void *buf, size_t n)
{
  if (fd != (int) EVENT_FD)
    return __real_read (fd, buf, n);
  FUZZ_CHECK (n == sizeof posted && posted > 0);
  memcpy (buf, &posted, n);
  posted = 0;
  return (ssize_t) n;
}

ssize_t
__wrap___read_chk (int fd, void *buf, size_t n, size_t room)
{
  FUZZ_CHECK (n <= room);
  return __wrap_read (fd, buf, n);
}

ssize_t
__wrap_write (int fd, const void *buf, size_t n)
{
  if (fd != (int) EVENT_FD)
    return __real_write (fd, buf, n);
  posted++;
  return (ssize_t) n;
}

int
__wrap_fcntl (int fd, int what, ...)
{
  if (fd < FIRST_FD) {
    va_list args;
    long arg;

    va_start (args, what);
    arg = va_arg (args, long);
    va_end (args);
    return __real_fcntl (fd, what, arg);
  }
  if (memories_fcntl (fd))
    return 0;
  (void) wire_of (fd);
  return what == F_GETFL ? O_RDWR : 0;
}

int
__wrap_close (int fd)
{
  if (fd < FIRST_FD)
    return __real_close (fd);
  if (!memories_close (fd))
    wire_of (fd)->open = false;
  return 0;
}

int
loop_connect (const struct loop_peer *peer)
{
  struct wire *w = wires;
  struct wire fresh = { .open = true, .held = true, .peer = *peer };

  /* The server may have closed a socket whose client has not noticed. */
  while (w->open || w->held)
    FUZZ_CHECK (++w < wires + MAX_WIRES);
  fresh.in = w->in ? w->in : malloc (ROOM);
  fresh.out = w->out ? w->out : malloc (ROOM);
  FUZZ_CHECK (fresh.in && fresh.out);
  *w = fresh;
  return FIRST_FD + (int) (w - wires);
}

void
loop_send (int fd, const uint8_t *bytes, size_t n)
{
  struct wire *w = &wires[fd - FIRST_FD];

  if (!w->open)
    return;
  memmove (w->in, w->in + w->in_at, w->in_end - w->in_at);
  w->in_end -= w->in_at;
  w->in_at = 0;
  n = FP_MIN (n, ROOM - w->in_end);
  memcpy (w->in + w->in_end, bytes, n);
  w->in_end += n;
}

size_t
loop_receive (int fd, uint8_t *bytes, size_t n)
{
  struct wire *w = &wires[fd - FIRST_FD];

  n = FP_MIN (n, w->out_end);
  memcpy (bytes, w->out, n);
  memmove (w->out, w->out + n, w->out_end - n);
  w->out_end -= n;
  return n;
}

void
loop_clog (int fd, bool clogged)
{
  wires[fd - FIRST_FD].clogged = clogged;
}

void
loop_hang_up (int fd)
{
  wires[fd - FIRST_FD].left = true;
  wires[fd - FIRST_FD].held = false;
}

unsigned
loop_sockets (void)
{
  unsigned n = 0;

  for (unsigned i = 0; i < MAX_WIRES; i++)
    n += wires[i].open;
  return n;
}

bool
loop_works (loop_more_fn *more)
{
  more_comes = more;
  return eventfd (0, EFD_CLOEXEC) == (int) EVENT_FD && memories_work ();
}

/* ---- threads ---- */

#define MAX_THREADS 64u

static struct thread {
  struct fp_thread *thread; /* NULL = free */
  bool started, ended;
} threads[MAX_THREADS];

int __wrap_fp_thread_create (struct fp_thread *t, const char *name,
                             void (*run) (void *arg), void *arg);
int __wrap_fp_thread_join (struct fp_thread *t);

/* Only data threads are kept: pool_step runs the pool's worker. */
int
__wrap_fp_thread_create (struct fp_thread *t, const char *name,
                         void (*run) (void *arg), void *arg)
{
  struct thread *free_one = threads;

  t->run = run;
  t->arg = arg;
  if (strcmp (name, "fp-data") != 0)
    return 0;
  while (free_one->thread)
    FUZZ_CHECK (++free_one < threads + MAX_THREADS);
  *free_one = (struct thread) { .thread = t };
  return 0;
}

int
__wrap_fp_thread_join (struct fp_thread *t)
{
  for (unsigned i = 0; i < MAX_THREADS; i++)
    if (threads[i].thread == t) {
      FUZZ_CHECK (threads[i].ended); /* else it would wait for itself */
      threads[i].thread = NULL;
      return 0;
    }
  FUZZ_CHECK (!"a thread that was never started");
}

void
loop_run_threads (void)
{
  for (unsigned i = 0; i < MAX_THREADS; i++) {
    struct thread *t = &threads[i];

    if (!t->thread || t->started)
      continue;
    t->started = true;
    t->thread->run (t->thread->arg);
    t->ended = true;
  }
}
