/* SPDX-License-Identifier: BSD-3-Clause */
/* conn.c - one control socket. */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "memserver/session/conn.h"
#include "transport/tls/tls.h"

#define LINGER_MS 1000 /* time for a client to read why it was refused */

enum state {
  FIRST, /* waits for the first byte: TLS or not? */
  SHAKING,
  READING,
  ANSWERING, /* the owner's turn; only a hang-up is noticed */
  WRITING,
  LINGERING, /* input is thrown away */
  ENDED
};

struct conn {
  const struct conn_events *events;
  void *owner;
  int fd;
  struct fp_tls *tls_here;    /* NULL: no TLS */
  struct fp_tls_session *tls; /* NULL: no TLS */
  bool is_unix, hung_up, closed_by_client;
  char address[FP_ADDR_MAX + 1];
  enum state state;
  enum conn_after after;
  struct event *readable, *writable, *closed, *timer;
  const char *timeout_why;

  struct fp_header header;
  size_t in_done, in_want; /* bytes: the header, then with the body */
  size_t out_done, out_want;
  unsigned nr_fds; /* not sent yet */
  int fds[FP_MAX_GRANTS];
  uint8_t in[FP_HEADER_SIZE + FP_BODY_MAX];
  uint8_t out[FP_HEADER_SIZE + FP_BODY_MAX];
};

static void
end (struct conn *c, const char *why)
{
  if (c->state == ENDED)
    return;
  c->state = ENDED;
  event_del (c->readable);
  event_del (c->writable);
  event_del (c->closed);
  event_del (c->timer);
  c->events->ended (c, why);
}

/* Return true if the client has sent its FIN.  With TLS that is an error as
 * well, if the client did not announce its end.
 */
static bool
has_fin (const struct conn *c)
{
  struct tcp_info info = { .tcpi_state = TCP_CLOSE };
  socklen_t length = sizeof info;

  return getsockopt (c->fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
         info.tcpi_state == TCP_CLOSE_WAIT;
}

/* Note whether the client ended the connection: err is 0 (end of stream) or an
 * error.  A reset counts, too, unless it may be the network's.
 */
static void
note_end (struct conn *c, int err)
{
  c->closed_by_client =
      err == 0 || (c->is_unix ? err == ECONNRESET : has_fin (c));
}

/* End c: a call on the socket failed with err, or the client closed it (0). */
static void
end_failed (struct conn *c, int err)
{
  note_end (c, err);
  c->hung_up = err == 0 || err == ECONNRESET || err == EPIPE;
  end (c, err != 0         ? strerror (err)
          : c->in_done > 0 ? "hung up in the middle of a message"
                           : "hung up");
}

static void
want_message (struct conn *c)
{
  c->state = READING;
  c->in_done = 0;
  c->in_want = FP_HEADER_SIZE;
  event_del (c->closed);
  if (event_add (c->readable, NULL) < 0)
    end (c, "out of memory");
  else if (c->tls && fp_tls_pending (c->tls))
    event_active (c->readable, EV_READ, 0); /* poll cannot see it */
}

static void
got_message (struct conn *c)
{
  c->state = ANSWERING;
  event_del (c->readable);
  /* Without this, a client that dies while we work for it would be noticed
   * only afterwards.
   */
  event_add (c->closed, NULL);
  c->events->message (c);
}

/* Check the header, which is complete now.  -EPROTO: it is not valid. */
static int
got_header (struct conn *c)
{
  if (fp_header_decode (&c->header, c->in) < 0 ||
      c->header.length > FP_BODY_MAX || (c->header.type & FP_MSG_REPLY))
    return -EPROTO;
  c->in_want = FP_HEADER_SIZE + c->header.length;
  return 0;
}

static void
linger (struct conn *c, unsigned ms, const char *why)
{
  c->state = LINGERING;
  if (shutdown (c->fd, SHUT_WR) < 0 || event_add (c->readable, NULL) < 0 ||
      conn_set_deadline (c, ms, why) < 0)
    end (c, why);
}

void
conn_dismiss (struct conn *c, unsigned ms, const char *why)
{
  if (c->state == ENDED)
    return;
  event_del (c->writable);
  event_del (c->closed);
  linger (c, ms, why);
}

/* Go on with the handshake.  Return true if it is done; false if it is not, or
 * c is gone.
 */
static bool
shake (struct conn *c)
{
  static struct fp_log_limit limit;
  int r = fp_tls_handshake (c->tls);

  if (r == 0 || r == -EAGAIN) {
    /* Wait for one direction only.  Input that we cannot take now would wake
     * us again and again.
     */
    bool out = r < 0 && fp_tls_wants (c->tls) == POLLOUT;

    event_del (out ? c->readable : c->writable);
    if (event_add (out ? c->writable : c->readable, NULL) == 0) {
      c->state = r == 0 ? READING : SHAKING;
      return r == 0;
    }
    end (c, "out of memory");
    return false;
  }
  fp_log_limited (&limit, FP_LOG_INFO, "%s: TLS: %s", c->address,
                  fp_tls_why (c->tls));
  c->hung_up = r == -ECONNRESET;
  end (c, "the TLS handshake failed");
  return false;
}

/* Look at the first byte without reading it: TLS must not lose a byte.  Return
 * false if the byte has not come, or c is gone.
 */
static bool
first_byte (struct conn *c)
{
  uint8_t byte;
  ssize_t n = recv (c->fd, &byte, 1, MSG_PEEK);

  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return false;
  if (n <= 0) {
    end_failed (c, n < 0 ? errno : 0);
    return false;
  }
  c->state = byte == FP_TLS_FIRST_BYTE ? SHAKING : READING;
  if (c->state == SHAKING &&
      fp_tls_begin (&c->tls, c->tls_here, c->fd, NULL) < 0) {
    end (c, "out of memory");
    return false;
  }
  return true;
}

/* Receive as recv(2) does, with or without TLS. */
static ssize_t
receive (struct conn *c, void *buf, size_t size)
{
  const struct iovec iov = { buf, size };
  ssize_t n;

  if (!c->tls)
    return recv (c->fd, buf, size, 0);
  n = fp_tls_recv (c->tls, &iov, 1);
  if (n < 0)
    errno = (int) -n;
  return n < 0 ? -1 : n;
}

static void
on_readable (evutil_socket_t fd, short what, void *arg)
{
  struct conn *c = arg;
  ssize_t n;

  (void) what;
  if (c->state == LINGERING) {
    n = recv (fd, c->in, sizeof c->in, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
      note_end (c, n == 0 ? 0 : errno);
      c->hung_up = c->closed_by_client;
      end (c, c->timeout_why);
    }
    return;
  }

  if (c->state == FIRST && !first_byte (c))
    return;
  if (c->state == SHAKING && !shake (c))
    return;
  while (c->in_done < c->in_want) {
    n = receive (c, c->in + c->in_done, c->in_want - c->in_done);
    if (n < 0) {
      if (errno != EAGAIN && errno != EINTR)
        end_failed (c, errno);
      return;
    }
    if (n == 0) {
      end_failed (c, 0);
      return;
    }
    c->in_done += (size_t) n;
    if (c->in_done == FP_HEADER_SIZE && c->in_want == FP_HEADER_SIZE &&
        got_header (c) < 0) {
      end (c, "does not speak this protocol");
      return;
    }
    if (c->in_done == c->in_want) {
      got_message (c);
      return;
    }
  }
}

/* Send what the socket takes.  File descriptors go with the first byte. */
static ssize_t
send_some (struct conn *c)
{
  struct iovec iov = { .iov_base = c->out + c->out_done,
                       .iov_len = c->out_want - c->out_done };
  struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
  union {
    struct cmsghdr align;
    char buf[CMSG_SPACE (FP_MAX_GRANTS * sizeof (int))];
  } control;

  if (c->tls) {
    ssize_t n = fp_tls_send (c->tls, &iov, 1);

    if (n < 0)
      errno = (int) -n;
    return n < 0 ? -1 : n;
  }
  if (c->nr_fds > 0) {
    size_t size = c->nr_fds * sizeof (int);
    struct cmsghdr *cmsg;

    memset (&control, 0, sizeof control);
    msg.msg_control = control.buf;
    msg.msg_controllen = CMSG_SPACE (size);
    cmsg = CMSG_FIRSTHDR (&msg);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN (size);
    memcpy (CMSG_DATA (cmsg), c->fds, size);
  }
  return sendmsg (c->fd, &msg, MSG_NOSIGNAL);
}

static void
on_writable (evutil_socket_t fd, short what, void *arg)
{
  struct conn *c = arg;

  (void) fd;
  (void) what;
  if (c->state == SHAKING) {
    if (shake (c))
      event_active (c->readable, EV_READ, 0); /* data may be there */
    return;
  }
  while (c->out_done < c->out_want) {
    ssize_t n = send_some (c);

    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno == EAGAIN) {
      if (event_add (c->writable, NULL) < 0)
        end (c, "out of memory");
      return;
    }
    if (n < 0) {
      end_failed (c, errno);
      return;
    }
    c->out_done += (size_t) n;
    c->nr_fds = 0;
  }
  switch (c->after) {
  case CONN_NEXT:
    want_message (c);
    break;
  case CONN_CLOSE:
    linger (c, LINGER_MS, "finished");
    break;
  case CONN_GIVE_AWAY:
    c->events->give_away (c);
    break;
  }
}

static void
on_closed (evutil_socket_t fd, short what, void *arg)
{
  struct conn *c = arg;
  int err = 0;
  socklen_t length = sizeof err;

  (void) what;
  if (getsockopt (fd, SOL_SOCKET, SO_ERROR, &err, &length) < 0)
    err = errno;
  note_end (c, err);
  c->hung_up = true;
  end (c, "hung up");
}

static void
on_timeout (evutil_socket_t fd, short what, void *arg)
{
  struct conn *c = arg;

  (void) fd;
  (void) what;
  end (c, c->timeout_why);
}

int
conn_new (struct conn **out, struct event_base *base, int fd,
          struct fp_tls *tls, const struct conn_events *events, void *owner)
{
  struct conn *c = calloc (1, sizeof *c);
  struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
  socklen_t len = sizeof sa;
  struct fp_addr addr;

  if (!c) {
    close (fd);
    return -ENOMEM;
  }
  c->events = events;
  c->owner = owner;
  c->fd = fd;
  if (getpeername (fd, (struct sockaddr *) &sa, &len) == 0 &&
      fp_addr_from_sockaddr (&addr, (struct sockaddr *) &sa, len) == 0)
    fp_addr_format (&addr, c->address);
  c->is_unix = sa.ss_family == AF_UNIX;
  if (c->is_unix) {
    struct ucred cred;

    len = sizeof cred;
    if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0)
      snprintf (c->address, sizeof c->address, "pid %ld", (long) cred.pid);
  }
  c->readable = event_new (base, fd, EV_READ | EV_PERSIST, on_readable, c);
  c->writable = event_new (base, fd, EV_WRITE, on_writable, c);
  c->closed = event_new (base, fd, EV_CLOSED, on_closed, c);
  c->timer = evtimer_new (base, on_timeout, c);
  if (!c->readable || !c->writable || !c->closed || !c->timer ||
      event_add (c->readable, NULL) < 0) {
    conn_free (c);
    return -ENOMEM;
  }
  c->tls_here = c->is_unix ? NULL : tls;
  c->state = c->tls_here ? FIRST : READING;
  c->in_want = FP_HEADER_SIZE;
  *out = c;
  return 0;
}

void
conn_free (struct conn *c)
{
  if (!c)
    return;
  if (c->readable)
    event_free (c->readable);
  if (c->writable)
    event_free (c->writable);
  if (c->closed)
    event_free (c->closed);
  if (c->timer)
    event_free (c->timer);
  fp_tls_end (c->tls);
  fp_closep (&c->fd);
  explicit_bzero (c, sizeof *c); /* the reply may hold a key */
  free (c);
}

void *
conn_owner (const struct conn *c)
{
  return c->owner;
}

bool
conn_is_unix (const struct conn *c)
{
  return c->is_unix;
}

bool
conn_is_tls (const struct conn *c)
{
  return c->tls != NULL;
}

const char *
conn_user (const struct conn *c)
{
  return c->tls ? fp_tls_user (c->tls) : "";
}

bool
conn_is_joining (const struct conn *c)
{
  return c->tls && fp_tls_is_joining (c->tls);
}

bool
conn_hung_up (const struct conn *c)
{
  return c->hung_up;
}

bool
conn_closed_by_client (const struct conn *c)
{
  return c->closed_by_client;
}

const char *
conn_address (const struct conn *c)
{
  return c->address;
}

int
conn_set_deadline (struct conn *c, unsigned ms, const char *why)
{
  struct timeval tv = { .tv_sec = ms / 1000,
                        .tv_usec = (suseconds_t) (ms % 1000) * 1000 };

  c->timeout_why = why;
  return event_add (c->timer, &tv) < 0 ? -ENOMEM : 0;
}

const struct fp_header *
conn_header (const struct conn *c)
{
  return &c->header;
}

const uint8_t *
conn_body (const struct conn *c)
{
  return c->in + FP_HEADER_SIZE;
}

uint8_t *
conn_reply_body (struct conn *c)
{
  return c->out + FP_HEADER_SIZE;
}

void
conn_reply (struct conn *c, uint32_t status, uint32_t length, const int *fds,
            unsigned nr_fds, enum conn_after after)
{
  struct fp_header h = { .version = FP_VERSION,
                         .type = c->header.type | FP_MSG_REPLY,
                         .length = length,
                         .sequence = c->header.sequence,
                         .status = status };

  if (c->state != ANSWERING)
    return;
  fp_header_encode (c->out, &h);
  c->state = WRITING;
  c->after = after;
  c->out_done = 0;
  c->out_want = FP_HEADER_SIZE + length;
  c->nr_fds = nr_fds;
  if (nr_fds > 0)
    memcpy (c->fds, fds, nr_fds * sizeof *fds);
  on_writable (c->fd, EV_WRITE, c);
}

int
conn_take_fd (struct conn *c, struct fp_tls_session **tls)
{
  int fd = c->fd;

  *tls = c->tls;
  c->tls = NULL;

  event_del (c->readable);
  event_del (c->writable);
  event_del (c->closed);
  event_del (c->timer);
  c->state = ENDED;
  c->fd = -1;
  return fd;
}
