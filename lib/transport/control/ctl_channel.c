/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl_channel.c - the client's end of a control connection: the socket, and
 * one exchange on it.  ctl_calls.c has the messages.
 *
 * The socket does not block: all waiting is in fp_ctl_wait.  One deadline
 * covers a whole exchange, so a server that trickles bytes gains no time.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "transport/control/resolve.h"
#include "transport/control/ctl_int.h"

#define BANNER_MAX 60 /* bytes shown of a stranger's answer */
#define RETRY_MS 10   /* ms between tries while a Unix backlog is full */
#define KEEP_IDLE_S 5 /* s; detects a dead host if heartbeats do not */
#define USER_TIMEOUT_MS 15000

static void
close_fds (struct fp_ctl *c)
{
  while (c->nr_fds > 0)
    close (c->fds[--c->nr_fds]);
}

int
fp_ctl_broken (struct fp_ctl *c, int err, const char *fmt, ...)
{
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (c->why, sizeof c->why, fmt, ap);
  va_end (ap);
  c->broken = true;
  close_fds (c);
  return err;
}

/* Appended to errors of the first exchange, when the other end has not yet
 * proved to be a memory server.
 */
static const char doubt[] = ": is it a farpage-memserver that listens there?";

static int
broken_errno (struct fp_ctl *c, int err, const char *what)
{
  if (err == -ECONNREFUSED)
    return fp_ctl_broken (c, err, "connection refused: nothing listens there");
  if (err == -ENOENT && c->is_unix)
    return fp_ctl_broken (c, err, "there is no such socket");
  if (err == -ECONNRESET || err == -EPIPE)
    return fp_ctl_broken (c, -ECONNRESET, "hung up before it answered %s%s",
                          c->asking, c->sequence == 1 ? doubt : "");
  return fp_ctl_broken (c, err, "%s: %s", what, strerror (-err));
}

int
fp_ctl_timed_out (struct fp_ctl *c)
{
  /* Report the time allowed.  On a busy machine the time taken is longer. */
  double s = (double) (c->deadline_ns - c->started_ns) / (double) FP_NS_PER_S;

  if (c->asking == NULL)
    return fp_ctl_broken (c, -ETIMEDOUT,
                          "did not accept a connection within %.1f s", s);
  if (c->sequence == 1)
    return fp_ctl_broken (
        c, -ETIMEDOUT,
        "accepted the connection but did not answer %s within %.1f s%s",
        c->asking, s, doubt);
  return fp_ctl_broken (c, -ETIMEDOUT, "did not answer %s within %.1f s",
                        c->asking, s);
}

int
fp_ctl_wait (int fd, short events, uint64_t deadline_ns)
{
  struct pollfd p = { .fd = fd, .events = events };
  int n;

  do {
    int ms = fp_deadline_left_ms (deadline_ns);

    if (ms == 0)
      return -ETIMEDOUT;
    n = poll (&p, 1, ms);
  } while (n == 0 || (n == -1 && errno == EINTR));
  return n == -1 ? -errno : 0;
}

static void
set_int (int fd, int level, int name, int value)
{
  /* These options only improve a connection, so a failure is harmless. */
  (void) setsockopt (fd, level, name, &value, sizeof value);
}

static int
connect_one (struct fp_ctl *c, const struct sockaddr *sa, socklen_t len,
             uint64_t deadline_ns)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  socklen_t errlen = sizeof (int);
  int err = 0, ret;

  fd = socket (sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd == -1)
    return -errno;
  if (!c->is_unix) {
    set_int (fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_int (fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int (fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    set_int (fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_IDLE_S);
    set_int (fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
    set_int (fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
  }

  while (connect (fd, sa, len) == -1) {
    if (errno == EAGAIN) { /* Unix backlog is full; no event to poll */
      if (fp_deadline_passed (deadline_ns))
        return -ETIMEDOUT;
      poll (NULL, 0, RETRY_MS);
      continue;
    }
    if (errno != EINPROGRESS && errno != EINTR)
      return -errno;
    ret = fp_ctl_wait (fd, POLLOUT, deadline_ns);
    if (ret < 0)
      return ret;
    if (getsockopt (fd, SOL_SOCKET, SO_ERROR, &err, &errlen) == -1)
      return -errno;
    if (err != 0)
      return -err;
    break;
  }
  c->fd = fd;
  c->is_local = fp_sockaddr_is_local (sa);
  fd = -1;
  return 0;
}

static int
connect_any (struct fp_ctl *c, const struct fp_sockaddrs *list)
{
  int ret = -ENOENT;

  for (unsigned i = 0; i < list->nr; i++) {
    ret = connect_one (c, (const struct sockaddr *) &list->list[i].addr,
                       list->list[i].len, c->deadline_ns);
    if (ret == 0 || ret == -ETIMEDOUT)
      break;
  }
  if (ret == -ETIMEDOUT)
    return fp_ctl_timed_out (c);
  return ret < 0 ? broken_errno (c, ret, "cannot connect") : 0;
}

int
fp_ctl_open (struct fp_ctl **out, const struct fp_addr *addr,
             uint64_t deadline_ns)
{
  struct fp_sockaddrs list;
  struct fp_ctl *c;
  const char *why = NULL;
  int ret;

  *out = NULL;
  c = calloc (1, sizeof *c);
  if (c == NULL)
    return -ENOMEM;
  *out = c;
  c->fd = -1;
  c->is_unix = addr->is_unix;
  c->started_ns = fp_now_ns ();
  c->deadline_ns = FP_MAX (deadline_ns, c->started_ns);

  ret = fp_addr_find (addr, &list, c->deadline_ns, &why);
  if (ret < 0)
    return fp_ctl_broken (c, ret, "%s", why != NULL ? why : strerror (-ret));
  ret = connect_any (c, &list);
  if (ret < 0)
    (void) fp_addr_doubt (addr); /* let the next attempt look it up again */
  if (ret == 0)
    ret = fp_ctl_start_tls (c, addr->host);
  if (ret <= 0)
    return ret;
  fp_ctl_end_tls (c);
  close (c->fd);
  c->fd = -1;
  c->asking = NULL;
  return connect_any (c, &list);
}

void
fp_ctl_free (struct fp_ctl *c)
{
  if (c == NULL)
    return;
  close_fds (c);
  fp_ctl_end_tls (c);
  if (c->fd >= 0)
    close (c->fd);
  explicit_bzero (c, sizeof *c); /* a reply may hold a key */
  free (c);
}

void
fp_ctl_freep (struct fp_ctl **cp)
{
  fp_ctl_free (*cp);
}

void
fp_ctl_hang_up (struct fp_ctl *c)
{
  /* This fails if the connection is already down, which is fine. */
  (void) shutdown (c->fd, SHUT_RDWR);
}

int
fp_ctl_fd (const struct fp_ctl *c)
{
  return c->fd;
}

int
fp_ctl_steal_fd (struct fp_ctl *c)
{
  int fd = c->fd;

  c->fd = -1;
  c->broken = true;
  return fd;
}

bool
fp_ctl_is_unix (const struct fp_ctl *c)
{
  return c->is_unix;
}

const char *
fp_ctl_why (const struct fp_ctl *c)
{
  return c == NULL ? "out of memory" : c->why;
}

static int
send_all (struct fp_ctl *c, const uint8_t *p, size_t n, uint64_t deadline_ns)
{
  while (n > 0) {
    const struct iovec iov = { (uint8_t *) (uintptr_t) p, n };
    ssize_t r;

    if (c->tls != NULL)
      r = fp_tls_send (c->tls, &iov, 1);
    else {
      r = send (c->fd, p, n, MSG_NOSIGNAL);
      r = r == -1 ? -errno : r;
    }
    if (r >= 0) {
      p += r;
      n -= (size_t) r;
      continue;
    }
    if (r == -EINTR)
      continue;
    if (r != -EAGAIN)
      return (int) r;
    int ret = fp_ctl_wait (c->fd, POLLOUT, deadline_ns);
    if (ret < 0)
      return ret;
  }
  return 0;
}

/* Keep the file descriptors of msg, at most as many as a reply can hold. */
static int
take_fds (struct fp_ctl *c, struct msghdr *msg)
{
  bool surplus = (msg->msg_flags & MSG_CTRUNC) != 0;

  for (struct cmsghdr *h = CMSG_FIRSTHDR (msg); h; h = CMSG_NXTHDR (msg, h)) {
    size_t n;

    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
      continue;
    n = (h->cmsg_len - CMSG_LEN (0)) / sizeof (int);
    for (size_t i = 0; i < n; i++) {
      int fd;

      memcpy (&fd, CMSG_DATA (h) + i * sizeof fd, sizeof fd);
      if (c->nr_fds < FP_MAX_GRANTS)
        c->fds[c->nr_fds++] = fd;
      else {
        close (fd);
        surplus = true;
      }
    }
  }
  return surplus ? -EPROTO : 0;
}

/* Receive 1 to n bytes.  Return 0 if the server hung up. */
static ssize_t
recv_some (struct fp_ctl *c, void *p, size_t n, uint64_t deadline_ns)
{
  for (;;) {
    union {
      struct cmsghdr align;
      char buf[CMSG_SPACE (FP_MAX_GRANTS * sizeof (int))];
    } control;
    struct iovec iov = { .iov_base = p, .iov_len = n };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t r;
    int ret;

    if (c->is_unix) {
      msg.msg_control = control.buf;
      msg.msg_controllen = sizeof control.buf;
    }
    if (c->tls != NULL)
      r = fp_tls_recv (c->tls, &iov, 1);
    else {
      r = recvmsg (c->fd, &msg, MSG_CMSG_CLOEXEC);
      r = r == -1 ? -errno : r;
    }
    if (r >= 0) {
      if (c->is_unix && take_fds (c, &msg) < 0)
        return -EPROTO;
      return r;
    }
    if (r == -EINTR)
      continue;
    if (r != -EAGAIN)
      return r;
    ret = fp_ctl_wait (c->fd, POLLIN, deadline_ns);
    if (ret < 0)
      return ret;
  }
}

static int
recv_failed (struct fp_ctl *c, ssize_t err)
{
  if (err == -ETIMEDOUT)
    return fp_ctl_timed_out (c);
  if (c->tls != NULL && (err == -EACCES || err == -EPROTO))
    return fp_ctl_broken (c, (int) err, "%s", fp_tls_why (c->tls));
  if (err == -EPROTO)
    return fp_ctl_broken (
        c, -EPROTO, "sent more file descriptors than allowed, answering %s",
        c->asking);
  return broken_errno (c, err == 0 ? -ECONNRESET : (int) err, "receiving");
}

/* Guess which protocol a stranger speaks by how its answer begins. */
static const char *
guess (const uint8_t *p, size_t n)
{
  static const struct {
    const char *begins, *is;
  } known[] = {
    { "SSH-", "an SSH server" },
    { "HTTP/", "an HTTP server" },
    { "NBDMAGIC", "an NBD server, such as nbdkit" },
    { "220", "a mail or FTP server" },
    { "RFB ", "a VNC server" },
    { "\x15\x03", "TLS" },
  };

  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (n >= strlen (known[i].begins) &&
        memcmp (p, known[i].begins, strlen (known[i].begins)) == 0)
      return known[i].is;
  return NULL;
}

/* Fail, and show the user the bytes that are not a farpage header. */
static int
stranger (struct fp_ctl *c, size_t have)
{
  const char *like;
  char shown[BANNER_MAX + 1];
  size_t n = 0;
  ssize_t r;

  if (have < BANNER_MAX && c->tls == NULL) {
    r = recv (c->fd, c->buf + have, BANNER_MAX - have, MSG_DONTWAIT);
    if (r > 0)
      have += (size_t) r;
  }
  while (n < have && n < BANNER_MAX && c->buf[n] >= 0x20 && c->buf[n] < 0x7f)
    shown[n] = (char) c->buf[n], n++;
  shown[n] = '\0';
  like = guess (c->buf, have);
  if (n == 0)
    return fp_ctl_broken (c, -EPROTO,
                          "is not a farpage memory server: its answer to %s "
                          "is %s",
                          c->asking, like != NULL ? like : "binary data");
  return fp_ctl_broken (
      c, -EPROTO, "is not a farpage memory server: it answered \"%s\"%s%s",
      shown, like != NULL ? ", like " : "", like != NULL ? like : "");
}

/* Receive a reply: header and body, one behind the other in c->buf. */
static int
recv_reply (struct fp_ctl *c, unsigned type, uint64_t deadline_ns)
{
  static const uint8_t magic[4] = { FP_MAGIC >> 24, (FP_MAGIC >> 16) & 0xff,
                                    (FP_MAGIC >> 8) & 0xff, FP_MAGIC & 0xff };
  size_t have = 0, want = FP_HEADER_SIZE;

  while (have < want) {
    ssize_t r = recv_some (c, c->buf + have, want - have, deadline_ns);

    if (r <= 0)
      return recv_failed (c, r);
    have += (size_t) r;
    if (memcmp (c->buf, magic, FP_MIN (have, sizeof magic)) != 0)
      return stranger (c, have);
    if (have == FP_HEADER_SIZE && want == FP_HEADER_SIZE) {
      if (fp_header_decode (&c->header, c->buf) < 0)
        return fp_ctl_broken (c, -EPROTO,
                              "answered %s with %u bytes, more than the "
                              "protocol allows",
                              c->asking, c->header.length);
      want += c->header.length;
    }
  }

  if (c->header.version != FP_VERSION && c->header.status == FP_STATUS_OK)
    return fp_ctl_broken (c, -EPROTONOSUPPORT,
                          "speaks version %u; this client speaks version %d",
                          c->header.version, FP_VERSION);
  if (c->header.type != (type | FP_MSG_REPLY) ||
      c->header.sequence != c->sequence)
    return fp_ctl_broken (c, -EPROTO, "answered %s (%u) with %s (%u)",
                          c->asking, c->sequence, fp_msg_name (c->header.type),
                          c->header.sequence);
  return 0;
}

/* Handle a reply that is a refusal: keep its reason and return its errno. */
static int
refused (struct fp_ctl *c)
{
  char reason[FP_REASON_MAX + 1];
  struct fp_reader r;
  int err = fp_status_to_errno (c->header.status);

  if (c->nr_fds > 0)
    return fp_ctl_broken (
        c, -EPROTO, "sent file descriptors with a refusal of %s", c->asking);
  fp_reader_init (&r, c->buf + FP_HEADER_SIZE, c->header.length);
  if (fp_dec_reason (&r, reason) < 0) {
    if (c->header.status != FP_STATUS_VERSION)
      return fp_ctl_broken (c, -EPROTO, "refused %s with a malformed reason",
                            c->asking);
    reason[0] = '\0';
  }
  if (c->header.status == FP_STATUS_VERSION)
    return fp_ctl_broken (
        c, -EPROTONOSUPPORT,
        reason[0] != '\0' ? "%s; this client speaks version %d"
                          : "%sspeaks another version; this client speaks %d",
        reason, FP_VERSION);
  snprintf (c->why, sizeof c->why, "%s",
            reason[0] != '\0' ? reason : strerror (-err));
  return err;
}

void
fp_ctl_begin (struct fp_ctl *c, struct fp_writer *w)
{
  fp_writer_init (w, c->buf + FP_HEADER_SIZE, FP_BODY_MAX);
}

int
fp_ctl_exchange (struct fp_ctl *c, unsigned type, struct fp_writer *w,
                 struct fp_reader *r, uint64_t deadline_ns)
{
  struct fp_header h = { .version = FP_VERSION, .type = (uint16_t) type };
  int ret;

  if (c->broken)
    return -ECONNRESET;
  c->asking = fp_msg_name (type);
  c->started_ns = fp_now_ns ();
  c->deadline_ns = FP_MAX (deadline_ns, c->started_ns);
  c->why[0] = '\0';
  /* Do not send a malformed request: the server would close the session. */
  if (!fp_writer_ok (w)) {
    snprintf (c->why, sizeof c->why, "%s does not fit a message", c->asking);
    return -EMSGSIZE;
  }
  h.sequence = ++c->sequence;
  h.length = (uint32_t) (FP_BODY_MAX - w->left);
  fp_header_encode (c->buf, &h);

  ret = send_all (c, c->buf, FP_HEADER_SIZE + h.length, deadline_ns);
  if (ret == -ETIMEDOUT)
    return fp_ctl_timed_out (c);
  /* The server may have sent a reason before it hung up: read that. */
  if (ret < 0 && ret != -EPIPE && ret != -ECONNRESET)
    return broken_errno (c, ret, "sending");
  ret = recv_reply (c, type, deadline_ns);
  if (ret < 0)
    return ret;
  if (c->header.status != FP_STATUS_OK)
    return refused (c);
  fp_reader_init (r, c->buf + FP_HEADER_SIZE, c->header.length);
  return 0;
}

int
fp_ctl_finish (struct fp_ctl *c, int dec, unsigned want_fds, int *fds)
{
  if (dec < 0)
    return fp_ctl_broken (c, -EPROTO, "sent a malformed %s",
                          fp_msg_name (c->header.type));
  if (c->nr_fds != want_fds)
    return fp_ctl_broken (c, -EPROTO,
                          "sent %u file descriptors with %s, not %u",
                          c->nr_fds, fp_msg_name (c->header.type), want_fds);
  for (unsigned i = 0; i < want_fds; i++)
    fds[i] = c->fds[i];
  c->nr_fds = 0;
  return 0;
}
