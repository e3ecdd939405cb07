/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-tcp-server.c - what a client sends on a tcp data connection, as the
 * memory server reads it (fp_tcp_serve).
 *
 *   steps of: what (1): bit 7: raw bytes follow, else a frame is made;
 *             bit 0: WRITE, bit 1: with less payload than it says
 *   raw:   length (2), bytes
 *   frame: length (4), key (1), address (8), payload (all there is, at most
 *          the length)
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "fuzz.h"
#include "proto/messages.h"
#include "transport/tcp_server.h"

const char fuzz_name[] = "fuzz-tcp-server";
const unsigned fuzz_runs = 10000;

#define MEMORY 65536u
#define KEY 1u /* the key to it; others open nothing */
#define SENT_MAX 100000u

static uint8_t *memory;
static unsigned holds;

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

static size_t
make (struct fuzz_input *in, uint8_t *out)
{
  size_t used = 0, n;

  while (in->left > 0 && used < SENT_MAX) {
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
      /* The whole of it need not be in the input. */
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
  static uint8_t bytes[SENT_MAX + FUZZ_MAX + MEMORY + FP_DATA_REQ_SIZE];
  struct fuzz_input in = { data, size };
  static const int room = 4 << 20;
  size_t n = make (&in, bytes), sent = 0;
  int sv[2];

  if (!memory)
    memory = calloc (1, MEMORY);
  FUZZ_CHECK (memory != NULL);
  FUZZ_CHECK (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
  (void) setsockopt (sv[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  (void) setsockopt (sv[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  while (sent < n) {
    ssize_t r = send (sv[0], bytes + sent, n - sent, MSG_DONTWAIT);

    if (r <= 0)
      break; /* cut off: that is an input, too */
    sent += (size_t) r;
  }
  FUZZ_CHECK (shutdown (sv[0], SHUT_WR) == 0);
  /* Nobody reads the answers: what does not fit ends it, in 1 ms. */
  FUZZ_CHECK (fp_tcp_serve (sv[1], NULL, &mem, 1) <= 0);
  FUZZ_CHECK (holds == 0);
  close (sv[0]);
  close (sv[1]);
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
  uint8_t *p = out;

  switch (nr) {
  case 0: /* all is well */
    p = frame (p, 1, 512, KEY, 0);
    p = frame (p, 0, 512, KEY, 0);
    p = frame (p, 0, 65536, KEY, 0);
    break;
  case 1: /* refused, the rest goes on */
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
  case 4: /* many */
    for (unsigned i = 0; i < 70; i++)
      p = frame (p, 0, 4096 + i, KEY, i);
    break;
  case 5: /* raw */
    p = frame (p, 0, 4096, KEY, 0);
    p = number (p, 0x80, 1);
    p = number (p, 40, 2);
    memset (p, 'F', 40);
    p += 40;
    break;
  case 6: /* none can be that long */
    p = frame (p, 2, FP_DATA_MAX + 1, KEY, 0);
    break;
  case 7: /* small and large in turn */
    for (unsigned i = 0; i < 20; i++) {
      p = frame (p, 1, 1 + i, KEY, i);
      p = frame (p, 0, 20000, KEY, i);
    }
    break;
  default:
    break;
  }
  return (size_t) (p - out);
}
