/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-tcp-server.c - requests of a client on a TCP data connection, as the
 * memory server reads them (fp_tcp_serve).  The fake network here gives and
 * takes as few bytes at a time as the input says.  Each reply must be right,
 * and memory must hold what was written.
 *
 * Input is `pieces` (1), `window` (1), and steps.
 *   - `pieces`: how requests come in, 0 = as much as there is room for
 *   - `window`: how the client reads, 0 = all; with bit 7, that many KiB, then
 *     never again
 *
 * A step is `what` (1) and raw bytes or a frame.  Bits of `what`:
 *   - bit 0: WRITE
 *   - bit 1: with less payload than it says
 *   - bit 7: raw, as length (2), bytes
 *   - else: a frame, as length (4), key (1), address (8), payload (up to the
 *     length, if it is there)
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/checked.h"
#include "base/clock.h"
#include "clock.h"
#include "fuzz.h"
#include "proto/messages.h"
#include "transport/tcp/tcp_server.h"

const char fuzz_name[] = "fuzz-tcp-server";
const unsigned fuzz_runs = 30000;

#define SOCKET 4000 /* not a real descriptor */
#define MEMORY 65536u
#define KEY 1u /* opens MEMORY; other keys open nothing */
#define SENT_MAX 100000u
#define STALL_MS 10000u
/* frames made for one input: more than a batch of replies */
#define FRAMES 72u
#define SMALL 60u /* small pieces per input; then all there is */
#define MAX_REQUESTS (SENT_MAX / FP_DATA_REQ_SIZE + 2)

static uint8_t memory[MEMORY], expected[MEMORY];
static size_t low, high; /* range that may differ from zeros */
static unsigned holds;

static struct wire {
  uint8_t bytes[SENT_MAX + FUZZ_MAX + MEMORY + FP_DATA_REQ_SIZE];
  size_t sent, taken; /* by the client; by the server */
  uint64_t dice;
  unsigned pieces, window;
  uint64_t room;  /* bytes of replies that the client still takes */
  unsigned small; /* small pieces left */
  bool dry;       /* the last call returned EAGAIN */
} wire;

static struct expect {
  struct fp_data_reply reply;
  const uint8_t *data;
} expects[MAX_REQUESTS];
static unsigned nr_expects;
static bool in_order; /* the client sent only valid frames */

static struct seen {
  unsigned nr; /* replies that have come whole */
  uint64_t at; /* bytes of the current reply */
  uint8_t header[FP_DATA_REPLY_SIZE];
} seen;

/* ---- the network ---- */

ssize_t __wrap_recvmsg (int fd, struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg (int fd, const struct msghdr *msg, int flags);
int __wrap_poll (struct pollfd *fds, nfds_t nr, int ms);
int __wrap_fcntl (int fd, int what, ...);

static size_t
some (unsigned how, size_t most)
{
  if (how == 0 || most <= 1 || wire.small == 0)
    return most;
  wire.small--;
  wire.dice = wire.dice * UINT64_C (6364136223846793005) + 1442695040888963407;
  return FP_MIN (most,
                 1 + (size_t) (wire.dice >> 33) % ((size_t) 1 << (how % 17)));
}

static bool
dries_up (unsigned how, int flags)
{
  wire.dry = !wire.dry && how & 0x20 && wire.small > 0 && flags & MSG_DONTWAIT;
  return wire.dry;
}

ssize_t
__wrap_recvmsg (int fd, struct msghdr *msg, int flags)
{
  size_t n = 0, most = 0;

  FUZZ_CHECK (fd == SOCKET && msg->msg_iovlen > 0);
  for (size_t i = 0; i < msg->msg_iovlen; i++)
    most += msg->msg_iov[i].iov_len;
  FUZZ_CHECK (most > 0);
  if (dries_up (wire.pieces, flags)) {
    errno = EAGAIN;
    return -1;
  }
  most = some (wire.pieces, FP_MIN (most, wire.sent - wire.taken));
  for (size_t i = 0; n < most; i++) {
    size_t part = FP_MIN (most - n, msg->msg_iov[i].iov_len);

    memcpy (msg->msg_iov[i].iov_base, wire.bytes + wire.taken, part);
    wire.taken += part;
    n += part;
  }
  return (ssize_t) n;
}

/* Check that these n bytes continue the replies, in order. */
static void
look (const uint8_t *p, size_t n)
{
  while (n > 0) {
    const struct expect *e = &expects[seen.nr];
    struct fp_data_reply r;
    size_t part;

    FUZZ_CHECK (seen.nr < nr_expects);
    if (seen.at < sizeof seen.header) {
      part = FP_MIN (n, sizeof seen.header - (size_t) seen.at);
      memcpy (seen.header + seen.at, p, part);
      if (seen.at + part == sizeof seen.header) {
        FUZZ_CHECK (fp_data_reply_decode (&r, seen.header) == 0);
        FUZZ_CHECK (r.cookie == e->reply.cookie &&
                    r.status == e->reply.status &&
                    r.length == e->reply.length);
      }
    }
    else { /* must be that memory itself, not a copy */
      size_t at = (size_t) seen.at - sizeof seen.header;

      part = FP_MIN (n, e->reply.length - at);
      FUZZ_CHECK (p == e->data + at);
    }
    p += part;
    n -= part;
    seen.at += part;
    if (seen.at == sizeof seen.header + e->reply.length) {
      seen.nr++;
      seen.at = 0;
    }
  }
}

ssize_t
__wrap_sendmsg (int fd, const struct msghdr *msg, int flags)
{
  size_t n = 0, most = 0;

  FUZZ_CHECK (fd == SOCKET && msg->msg_iovlen > 0);
  FUZZ_CHECK (flags & MSG_NOSIGNAL && flags & MSG_DONTWAIT);
  for (size_t i = 0; i < msg->msg_iovlen; i++)
    most += msg->msg_iov[i].iov_len;
  if (wire.room == 0 || dries_up (wire.window, flags)) {
    errno = EAGAIN;
    return -1;
  }
  most = FP_MIN (most, wire.room);
  most = wire.window & 0x80 ? most : some (wire.window, most);
  for (size_t i = 0; n < most; i++) {
    size_t part = FP_MIN (most - n, msg->msg_iov[i].iov_len);

    look (msg->msg_iov[i].iov_base, part);
    n += part;
  }
  wire.room -= n;
  return (ssize_t) n;
}

int
__wrap_poll (struct pollfd *fds, nfds_t nr, int ms)
{
  FUZZ_CHECK (nr == 1 && fds->fd == SOCKET && ms > 0);
  FUZZ_CHECK ((unsigned) ms <= STALL_MS);
  if (fds->events == POLLOUT && wire.room == 0) {
    fuzz_now_ns += (uint64_t) ms * FP_NS_PER_MS;
    return 0;
  }
  fuzz_now_ns += FP_NS_PER_MS;
  return 1;
}

int
__wrap_fcntl (int fd, int what, ...)
{
  FUZZ_CHECK (fd == SOCKET && (what == F_GETFL || what == F_SETFL));
  return what == F_GETFL ? O_RDWR | O_NONBLOCK : 0;
}

/* ---- memory ---- */

static void *
get (void *ctx, uint64_t rkey, uint64_t raddr, uint32_t length, bool write,
     void **hold)
{
  (void) ctx;
  (void) write;
  FUZZ_CHECK (length > 0 && length <= FP_DATA_MAX);
  if (rkey != KEY || !fp_range_ok (raddr, length, MEMORY))
    return NULL;
  holds++;
  *hold = memory;
  return memory + raddr;
}

static void
put (void *ctx, void *hold)
{
  (void) ctx;
  FUZZ_CHECK (hold == memory && holds > 0);
  holds--;
}

/* Compute the expected replies and memory in the simplest way. */
static void
expect (void)
{
  size_t at = 0;

  nr_expects = 0;
  in_order = true;
  while (at < wire.sent) {
    struct expect *e = &expects[nr_expects];
    struct fp_data_req q;
    bool granted;

    in_order = wire.sent - at >= FP_DATA_REQ_SIZE &&
               fp_data_req_decode (&q, wire.bytes + at) == 0;
    if (!in_order)
      return;
    at += FP_DATA_REQ_SIZE;
    granted =
        q.rkey == KEY && q.raddr <= MEMORY - 1 && q.length <= MEMORY - q.raddr;
    if (q.op == FP_DATA_WRITE) {
      in_order = wire.sent - at >= q.length;
      if (granted) { /* even a part of a WRITE may be written */
        size_t n = FP_MIN ((size_t) q.length, wire.sent - at);

        memcpy (expected + q.raddr, wire.bytes + at, n);
        low = FP_MIN (low, (size_t) q.raddr);
        high = FP_MAX (high, (size_t) q.raddr + n);
      }
      if (!in_order)
        return;
      at += q.length;
    }
    e->reply = (struct fp_data_reply) {
      .cookie = q.cookie,
      .status = granted ? FP_STATUS_OK : FP_STATUS_PERM,
      .length = granted && q.op == FP_DATA_READ ? q.length : 0
    };
    e->data = memory + (granted ? q.raddr : 0);
    nr_expects++;
  }
}

static size_t
make (struct fuzz_input *in, uint8_t *out)
{
  size_t used = 0, n;

  for (unsigned i = 0; in->left > 0 && used < SENT_MAX && i < FRAMES; i++) {
    unsigned what = (unsigned) fuzz_take (in, 1);
    const uint8_t *p;

    if (what & 0x80)
      n = (size_t) fuzz_take (in, 2);
    else {
      struct fp_data_req q = { .op = what & 1 ? FP_DATA_WRITE : FP_DATA_READ,
                               .cookie = (uint32_t) used };

      q.length = (uint32_t) fuzz_take (in, 4);
      q.rkey = fuzz_take (in, 1);
      q.raddr = fuzz_take (in, 8);
      fp_data_req_encode (out + used, &q);
      used += FP_DATA_REQ_SIZE;
      n = what & 1 ? q.length : 0;
      /* The input need not have all of the payload. */
      if (n > in->left && n <= MEMORY && !(what & 2)) {
        memset (out + used, 0x5a, n);
        memcpy (out + used, in->data, in->left);
        in->left = 0;
        return used + n;
      }
    }
    p = fuzz_take_bytes (in, &n);
    memcpy (out + used, p, n);
    used += n;
  }
  return used;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const struct fp_tcp_memory mem = { .get = get, .put = put };
  struct fuzz_input in = { data, size };
  int r;

  wire.pieces = (unsigned) fuzz_take (&in, 1);
  wire.window = (unsigned) fuzz_take (&in, 1);
  wire.room = wire.window & 0x80 ? (wire.window & 0x7fu) << 10 : UINT64_MAX;
  wire.taken = 0;
  wire.small = SMALL;
  wire.dry = false;
  wire.dice = wire.pieces + 256 * wire.window;
  wire.sent = make (&in, wire.bytes);
  seen.nr = 0;
  seen.at = 0;
  low = MEMORY;
  high = 0;
  expect ();

  r = fp_tcp_serve (SOCKET, NULL, &mem, STALL_MS);
  FUZZ_CHECK (r <= 0 && holds == 0);
  if (wire.room > 0) {
    FUZZ_CHECK ((r == 0) == in_order);
    if (r == 0)
      FUZZ_CHECK (seen.nr == nr_expects && seen.at == 0);
    FUZZ_CHECK (low >= high ||
                memcmp (memory + low, expected + low, high - low) == 0);
  }
  if (low < high) {
    memset (memory + low, 0, high - low);
    memset (expected + low, 0, high - low);
  }
  return 0;
}

static uint8_t *
number (uint8_t *p, uint64_t v, unsigned bytes)
{
  while (bytes-- > 0)
    *p++ = (uint8_t) (v >> (8 * bytes));
  return p;
}

static uint8_t *
frame (uint8_t *p, unsigned what, uint32_t length, unsigned key,
       uint64_t raddr)
{
  p = number (p, what, 1);
  p = number (p, length, 4);
  p = number (p, key, 1);
  p = number (p, raddr, 8);
  if ((what & 3) == 1 && length <= 1024) {
    memset (p, 0x11, length);
    p += length;
  }
  return p;
}

size_t
fuzz_seed (unsigned nr, uint8_t *out)
{
  static const uint8_t ways[][2] = { { 0, 0 },    { 3, 4 },    { 0x2c, 0x2b },
                                     { 0, 0x84 }, { 0x21, 0 }, { 14, 15 } };
  const unsigned nr_ways = sizeof ways / sizeof ways[0];
  uint8_t *p = out;

  memcpy (p, ways[nr % nr_ways], 2);
  p += 2;
  switch (nr / nr_ways) {
  case 0: /* valid requests */
    p = frame (p, 1, 512, KEY, 0);
    p = frame (p, 0, 512, KEY, 0);
    p = frame (p, 0, 65536, KEY, 0);
    break;
  case 1: /* refused requests; the rest goes on */
    p = frame (p, 1, 512, 2, 0);
    p = frame (p, 0, 4096, KEY, 65536 - 4095);
    p = frame (p, 0, 4096, KEY, UINT64_MAX - 4095);
    p = frame (p, 0, 4096, KEY, 0);
    break;
  case 2: /* a large WRITE */
    p = frame (p, 1, 40000, KEY, 16);
    break;
  case 3: /* half a frame */
    p = frame (p, 3, 40000, KEY, 16);
    memset (p, 7, 300);
    p += 300;
    break;
  case 4: /* many frames */
    for (unsigned i = 0; i < 70; i++)
      p = frame (p, 0, 4096 + i, KEY, i);
    break;
  case 5: /* raw bytes */
    p = frame (p, 0, 4096, KEY, 0);
    p = number (p, 0x80, 1);
    p = number (p, 40, 2);
    memset (p, 'F', 40);
    p += 40;
    break;
  case 6: /* longer than any frame may be */
    p = frame (p, 2, FP_DATA_MAX + 1, KEY, 0);
    break;
  case 7: /* small and large in turn */
    for (unsigned i = 0; i < 20; i++) {
      p = frame (p, 1, 1 + i, KEY, i);
      p = frame (p, 0, 20000, KEY, i);
    }
    break;
  default:
    return 0;
  }
  return (size_t) (p - out);
}
