/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-client.c - the replies of a memory server on the control connection, as
 * the client reads them (lib/transport/control/ctl_*.c).
 *
 * Input:
 *   - byte 0, bit 0: a Unix socket, which can bring descriptors
 *   - steps: request (1), how (1), length (2), bytes
 *
 * With bit 7 of `how`, the bytes are sent as they are.  Else they are the body
 * of a reply with the right type and sequence.  Bits 0-3 are its status, and
 * bits 4-5 the number of descriptors with it.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "fuzz.h"
#include "samples.h"
#include "transport/control/ctl_int.h"

const char fuzz_name[] = "fuzz-client";
const unsigned fuzz_runs = 10000;

#define MAX_STEPS 40u

static void
push (int fd, const void *data, size_t n, unsigned nr_fds)
{
  static int memfd = -1;
  struct iovec iov = { .iov_base = (void *) data, .iov_len = n };
  struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
  union {
    struct cmsghdr align;
    char buf[CMSG_SPACE (3 * sizeof (int))];
  } control = { .buf = { 0 } };

  if (memfd < 0)
    memfd = memfd_create ("fuzz-slab", MFD_CLOEXEC);
  if (nr_fds > 0) {
    struct cmsghdr *h = &control.align;
    int fds[3] = { memfd, memfd, memfd };

    msg.msg_control = control.buf;
    msg.msg_controllen = CMSG_SPACE (nr_fds * sizeof (int));
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN (nr_fds * sizeof (int));
    memcpy (CMSG_DATA (h), fds, nr_fds * sizeof (int));
  }
  (void) sendmsg (fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Send the server's reply to this request in advance. */
static void
answer (int fd, struct fuzz_input *in, unsigned type, uint32_t sequence)
{
  static uint8_t bytes[FP_HEADER_SIZE + UINT16_MAX];
  unsigned how = (unsigned) fuzz_take (in, 1);
  size_t n = (size_t) fuzz_take (in, 2);
  const uint8_t *p = fuzz_take_bytes (in, &n);
  struct fp_header h = { .version = FP_VERSION,
                         .type = (uint16_t) (type | FP_MSG_REPLY),
                         .length = (uint32_t) n,
                         .sequence = sequence,
                         .status = how & 15 };

  if (how & 0x80) {
    push (fd, p, n, 0);
    return;
  }
  fp_header_encode (bytes, &h);
  memcpy (bytes + FP_HEADER_SIZE, p, n);
  push (fd, bytes, FP_HEADER_SIZE + n, how >> 4 & 3);
}

static int
grants (struct fp_ctl *c, unsigned type)
{
  static struct fp_grants p;
  const struct fp_list q = { .max = FP_MAX_GRANTS };
  const struct fp_grant_req two = { .count = 2 };
  int fds[FP_MAX_GRANTS], r;

  r = type == FP_MSG_LIST ? fp_ctl_list (c, &q, &p, fds, UINT64_MAX)
                          : fp_ctl_grant (c, &two, &p, fds, UINT64_MAX);
  for (unsigned i = 0; i < FP_MAX_GRANTS; i++) {
    FUZZ_CHECK (r == 0 || fds[i] == -1);
    if (fds[i] < 0)
      continue;
    FUZZ_CHECK (i < p.count && !fp_grant_is_lost (&p.grants[i]));
    close (fds[i]);
  }
  if (r == 0)
    FUZZ_CHECK (p.count <= (type == FP_MSG_LIST ? FP_MAX_GRANTS : 2));
  return r;
}

/* Make a valid request; its reply is the input's. */
static int
ask (struct fp_ctl *c, unsigned type)
{
  const struct fp_labels labels = { .count = 1,
                                    .labels = { { .extent = 1 } } };
  const struct fp_release release = { .count = 1 };
  const struct fp_zero zero = { .length = 512 };
  const struct fp_bye bye = { .discard = true };
  const struct fp_ping ping = { .stuck = true };
  const struct fp_drain_req drain = { .action = FP_DRAIN_BEGIN };
  const struct fp_hello hello = { .version_min = FP_VERSION,
                                  .version_max = FP_VERSION,
                                  .name = "fuzz" };
  const struct fp_open open = { .flags = FP_OPEN_RESUME,
                                .transport = c->is_unix ? FP_TRANSPORT_SHM
                                                        : FP_TRANSPORT_TCP,
                                .volume = { { 1 } },
                                .size = 1 << 20,
                                .slab_size = SAMPLE_SLAB,
                                .copies = 1,
                                .servers = 1,
                                .stripe = { .width = 1, .size = 4096 } };
  const struct fp_data_hello data = { .session = 1 };
  const struct fp_lookup lookup = { .name = "vol" };
  const struct fp_map_read map_read = { .start = 0, .count = 2 };
  static union {
    struct fp_hello_reply hello;
    struct fp_open_reply open;
    struct fp_ping_reply ping;
    struct fp_stat_reply stat;
    struct fp_lookup_reply lookup;
    struct fp_map_words words;
    struct fp_volumes volumes;
    struct fp_token token;
    struct fp_join_reply join;
    struct fp_drain_reply drain;
  } p;
  const struct fp_volumes_req volumes = { .start = 0 };
  const struct fp_token_req token = { .lane = 1 };
  const struct fp_delete delete = { .volume = { { 1 } } };
  const struct fp_map_change map = { .count = 1 };
  const uint64_t never = UINT64_MAX;

  switch (type) {
  case FP_MSG_HELLO:
    return fp_ctl_hello (c, &hello, &p.hello, never);
  case FP_MSG_OPEN:
    return fp_ctl_volume_open (c, &open, &p.open, never);
  case FP_MSG_LIST:
  case FP_MSG_GRANT:
    return grants (c, type);
  case FP_MSG_LABEL:
    return fp_ctl_label (c, &labels, never);
  case FP_MSG_RELEASE:
    return fp_ctl_release (c, &release, never);
  case FP_MSG_ZERO:
    return fp_ctl_zero (c, &zero, never);
  case FP_MSG_PING:
    return fp_ctl_ping (c, &ping, &p.ping, never);
  case FP_MSG_DRAIN:
    return fp_ctl_drain (c, &drain, &p.drain, never);
  case FP_MSG_BYE:
    return fp_ctl_bye (c, &bye, never);
  case FP_MSG_STAT:
    return fp_ctl_stat (c, &p.stat, never);
  case FP_MSG_TOKEN:
    return fp_ctl_token (c, &token, &p.token, never);
  case FP_MSG_JOIN:
    return fp_ctl_join (c, &p.join, never);
  case FP_MSG_DATA_HELLO:
    return fp_ctl_data_hello (c, &data, never);
  case FP_MSG_LOOKUP:
    return fp_ctl_lookup (c, &lookup, &p.lookup, never);
  case FP_MSG_MAP:
    return fp_ctl_map (c, &map, never);
  case FP_MSG_MAP_READ:
    return fp_ctl_map_read (c, &map_read, &p.words, never);
  case FP_MSG_DELETE:
    return fp_ctl_delete (c, &delete, never);
  default:
    return fp_ctl_volumes (c, &volumes, &p.volumes, never);
  }
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const int room = 4 << 20;
  struct fuzz_input in = { data, size };
  static struct fp_ctl *c;
  bool is_unix = fuzz_take (&in, 1) & 1;
  unsigned types[MAX_STEPS], n = 0;
  int sv[2], r, lowest;

  if (!c)
    c = malloc (sizeof *c);
  FUZZ_CHECK (c != NULL);
  FUZZ_CHECK (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                          0, sv) == 0);
  (void) setsockopt (sv[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  (void) setsockopt (sv[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  push (sv[1], "", 0, 0); /* push has its memfd from here on */
  lowest = fcntl (sv[0], F_DUPFD_CLOEXEC, 0);
  close (lowest);
  memset (c, 0, offsetof (struct fp_ctl, buf));
  c->fd = sv[0];
  c->is_unix = is_unix;
  /* All replies, and then the end, are there before the first request.  So no
   * call waits.
   */
  for (; in.left > 0 && n < MAX_STEPS; n++) {
    types[n] = (unsigned) fuzz_take (&in, 1) % SAMPLE_TYPES + 1;
    answer (sv[1], &in, types[n], n + 1);
  }
  FUZZ_CHECK (shutdown (sv[1], SHUT_WR) == 0);
  for (unsigned i = 0; i < n && !c->broken; i++) {
    r = ask (c, types[i]);
    FUZZ_CHECK (r <= 0);
    FUZZ_CHECK (memchr (c->why, '\0', sizeof c->why) != NULL);
    if (r < 0)
      FUZZ_CHECK (c->why[0] != '\0');
  }
  FUZZ_CHECK (c->nr_fds == 0 || !c->broken);
  while (c->nr_fds > 0)
    close (c->fds[--c->nr_fds]);
  /* No descriptor stays open. */
  r = fcntl (sv[0], F_DUPFD_CLOEXEC, 0);
  FUZZ_CHECK (r == lowest);
  close (r);
  close (sv[0]);
  close (sv[1]);
  return 0;
}

/* Write a reply to a request, with nr_fds descriptors. */
static uint8_t *
step (uint8_t *p, unsigned type, unsigned status, unsigned nr_fds)
{
  struct fp_writer w;
  size_t n;

  p[0] = (uint8_t) (type - 1);
  p[1] = (uint8_t) (status | nr_fds << 4);
  if (status == FP_STATUS_OK)
    n = sample_reply (type, p + 4);
  else {
    fp_writer_init (&w, p + 4, FP_BODY_MAX);
    fp_enc_reason (&w, "no");
    n = FP_BODY_MAX - w.left;
  }
  p[2] = (uint8_t) (n >> 8);
  p[3] = (uint8_t) n;
  return p + 4 + n;
}

size_t
fuzz_seed (unsigned nr, uint8_t *out)
{
  static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
  uint8_t *p = out;

  if (nr > SAMPLE_TYPES + 3)
    return 0;
  *p++ = nr & 1;
  if (nr == SAMPLE_TYPES + 3) { /* a server of another protocol */
    *p++ = 0;
    *p++ = 0x80;
    *p++ = 0;
    *p++ = sizeof http - 1;
    memcpy (p, http, sizeof http - 1);
    return (size_t) (p - out) + sizeof http - 1;
  }
  p = step (p, FP_MSG_HELLO, 0, 0);
  p = step (p, FP_MSG_OPEN, 0, 0);
  if (nr > 0 && nr <= SAMPLE_TYPES) {
    unsigned fds = nr == FP_MSG_GRANT ? 2 : nr == FP_MSG_LIST ? 1 : 0;

    p = step (p, nr, 0, nr & 1 ? fds : 0);
    p = step (p, nr, FP_STATUS_BUSY, 0);
  }
  else if (nr > 0) { /* descriptors that no request expects */
    p = step (p, FP_MSG_PING, nr == SAMPLE_TYPES + 1 ? 0 : FP_STATUS_IO, 3);
    p = step (p, FP_MSG_PING, 0, 0);
  }
  return (size_t) (p - out);
}
