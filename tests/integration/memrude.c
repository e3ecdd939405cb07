/* SPDX-License-Identifier: BSD-3-Clause */
/* memrude.c - clients without manners, for tests of farpage-memserver.
 *
 *   memrude ADDR COUNT    Connect COUNT times, each time rude in the next way.
 *   memrude ADDR trickle  Say HELLO, then send a byte each 50 ms.  The server
 *                         must hang up within 60 s.
 *   memrude ADDR slow     Send a byte of HELLO each second.  The server must
 *                         hang up within 20 s.
 *   memrude ADDR deaf     Never read a reply.  The server must hang up, and
 *                         not take requests without end.
 *   memrude ADDR half     Send half a frame on a data connection, then close
 *                         the control connection.  The server must hang up.
 *   memrude ADDR flood COUNT  Hold COUNT connections that say nothing.
 *
 * The exit status is 0 if the server does what it must.
 */

#include <config.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/clock.h"
#include "proto/messages.h"

#define WAYS 13 /* ways to be rude */

static struct fp_sockaddrs list;
static uint8_t hello[FP_HEADER_SIZE + 512];
static size_t hello_size;

static int
dial (void)
{
  int fd = socket (list.list[0].addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

  if (fd < 0 || connect (fd, (struct sockaddr *) &list.list[0].addr,
                         list.list[0].len) < 0) {
    perror ("memrude: connect");
    exit (1);
  }
  return fd;
}

/* Send, although the server may hang up meanwhile. */
static void
push (int fd, const void *data, size_t size)
{
  const uint8_t *p = data;

  while (size > 0) {
    ssize_t n = send (fd, p, size, MSG_NOSIGNAL);

    if (n < 0)
      return;
    p += n;
    size -= (size_t) n;
  }
}

static void
push_header (int fd, unsigned type, uint32_t length)
{
  struct fp_header h = { .version = FP_VERSION, .type = (uint16_t) type };
  uint8_t bytes[FP_HEADER_SIZE];

  fp_header_encode (bytes, &h);
  /* Set a length that the encoder would refuse. */
  bytes[8] = (uint8_t) (length >> 24);
  bytes[9] = (uint8_t) (length >> 16);
  bytes[10] = (uint8_t) (length >> 8);
  bytes[11] = (uint8_t) length;
  push (fd, bytes, sizeof bytes);
}

static void
pull (int fd)
{
  char buf[4096];

  if (recv (fd, buf, sizeof buf, 0) < 0)
    return;
}

static void
make_hello (void)
{
  struct fp_hello q = { .version_min = FP_VERSION,
                        .version_max = FP_VERSION,
                        .transports = FP_TRANSPORT_TCP,
                        .name = "rude" };
  struct fp_header h = { .version = FP_VERSION, .type = FP_MSG_HELLO };
  struct fp_writer w;

  fp_writer_init (&w, hello + FP_HEADER_SIZE, sizeof hello - FP_HEADER_SIZE);
  fp_enc_hello (&w, &q);
  h.length = (uint32_t) (sizeof hello - FP_HEADER_SIZE - w.left);
  fp_header_encode (hello, &h);
  hello_size = FP_HEADER_SIZE + h.length;
}

static void
push_body (int fd, unsigned type, const uint8_t *body, size_t size)
{
  push_header (fd, type, (uint32_t) size);
  push (fd, body, size);
}

static void
open_volume (int fd, unsigned nr, const char *name)
{
  struct fp_open q = { .flags =
                           FP_OPEN_CREATE | FP_OPEN_RESUME | FP_OPEN_EPHEMERAL,
                       .transport = FP_TRANSPORT_TCP,
                       .size = 1 << 30,
                       .slab_size = 1 << 20,
                       .copies = 1,
                       .servers = 1,
                       .stripe = { .width = 1, .size = 1 << 17 } };
  uint8_t body[512];
  struct fp_writer w;

  snprintf (q.name, sizeof q.name, "%s", name);
  q.volume.bytes[0] = 0xee;
  q.volume.bytes[1] = (uint8_t) nr;
  q.volume.bytes[2] = (uint8_t) (nr >> 8);
  fp_writer_init (&w, body, sizeof body);
  fp_enc_open (&w, &q);
  push_body (fd, FP_MSG_OPEN, body, sizeof body - w.left);
}

static void
open_and_grant (int fd, unsigned nr)
{
  struct fp_grant_req g = { .count = 1 };
  uint8_t body[512];
  struct fp_writer w;

  push (fd, hello, hello_size);
  open_volume (fd, nr, "");
  fp_writer_init (&w, body, sizeof body);
  fp_enc_grant_req (&w, &g);
  push_body (fd, FP_MSG_GRANT, body, sizeof body - w.left);
}

/* Send valid messages about extents that do not exist. */
static void
map_beyond (int fd)
{
  static const struct fp_map_change change = { .exist = true,
                                               .count = 2,
                                               .extents = { 0, UINT64_MAX } };
  static const struct fp_map_read read = { .start = UINT64_MAX - 63,
                                           .count = FP_MAP_WORDS };
  static struct fp_map_words words = { .count = FP_MAP_WORDS };
  static uint8_t body[FP_BODY_MAX];
  struct fp_writer w;

  fp_writer_init (&w, body, sizeof body);
  fp_enc_map_change (&w, &change);
  push_body (fd, FP_MSG_MAP, body, sizeof body - w.left);
  fp_writer_init (&w, body, sizeof body);
  fp_enc_map_read (&w, &read);
  push_body (fd, FP_MSG_MAP_READ, body, sizeof body - w.left);
  words.start = UINT64_MAX - 63;
  memset (words.words, 0xff, sizeof words.words);
  fp_writer_init (&w, body, sizeof body);
  fp_enc_map_words (&w, &words);
  push_body (fd, FP_MSG_MAP_WRITE, body, sizeof body - w.left);
}

static void
reset (int fd)
{
  const struct linger l = { .l_onoff = 1, .l_linger = 0 };

  if (setsockopt (fd, SOL_SOCKET, SO_LINGER, &l, sizeof l) < 0)
    perror ("memrude: SO_LINGER");
}

static void
be_rude (unsigned nr)
{
  static const char http[] = "GET / HTTP/1.1\r\nHost: farpage\r\n\r\n";
  uint8_t garbage[200];
  char name[16];
  unsigned again = nr / WAYS;
  int fd = dial ();

  switch (nr % WAYS) {
  case 0: /* nothing at all */
    break;
  case 1: /* less than a message, a different part each time */
    push (fd, hello, again % hello_size);
    break;
  case 2:
    for (size_t i = 0; i < sizeof garbage; i++)
      garbage[i] = (uint8_t) (nr * 31 + i * 7);
    push (fd, garbage, sizeof garbage);
    pull (fd);
    break;
  case 3:
    push (fd, http, sizeof http - 1);
    pull (fd);
    break;
  case 4: /* announces 4 GiB */
    push_header (fd, FP_MSG_HELLO, UINT32_MAX);
    pull (fd);
    break;
  case 5: /* out of turn or of an unknown type, empty */
    push_header (fd, again % 70000, 0);
    pull (fd);
    break;
  case 6: /* does not wait for the reply */
    push (fd, hello, hello_size);
    break;
  case 7: /* leaves while it has a slab */
    open_and_grant (fd, nr);
    pull (fd);
    break;
  case 8: /* leaves without a word */
    open_and_grant (fd, nr);
    pull (fd);
    reset (fd);
    break;
  case 9: /* a body that does not fit its message */
    push (fd, hello, hello_size);
    push_body (fd, 1 + again % FP_MSG_TOKEN, hello, 100);
    pull (fd);
    break;
  case 10: /* as before, about a volume, with a name or without */
    push (fd, hello, hello_size);
    snprintf (name, sizeof name, "rude%u", nr);
    open_volume (fd, nr, again % 2 == 0 ? name : "");
    pull (fd);
    push_body (fd, FP_MSG_LOOKUP + again / 2 % 7, hello,
               again % 3 == 0 ? 0 : 100);
    pull (fd);
    break;
  case 11: /* about a volume, with none attached */
    push (fd, hello, hello_size);
    pull (fd);
    map_beyond (fd);
    pull (fd);
    break;
  case 12:
    push (fd, hello, hello_size);
    snprintf (name, sizeof name, "rude%u", nr);
    open_volume (fd, nr, name);
    map_beyond (fd);
    pull (fd);
    break;
  }
  close (fd);
}

static int
trickle (void)
{
  int fd = dial ();
  uint64_t end = fp_deadline_in_ms (60000);
  struct fp_header h = { .version = FP_VERSION, .type = FP_MSG_PING };
  uint8_t ping[FP_HEADER_SIZE];
  size_t sent = 0;

  fp_header_encode (ping, &h);
  push (fd, hello, hello_size);
  pull (fd);
  while (!fp_deadline_passed (end)) {
    struct pollfd p = { .fd = fd, .events = POLLIN };

    if (poll (&p, 1, 50) == 1) {
      close (fd);
      return 0;
    }
    if (sent < FP_HEADER_SIZE - 1)
      push (fd, ping + sent++, 1);
  }
  fprintf (stderr, "memrude: still connected\n");
  return 1;
}

/* Wait up to ms until the server hangs up.  Send a byte in each interval. */
static int
await_end (int fd, const uint8_t *bytes, size_t size, unsigned interval_ms,
           unsigned ms)
{
  uint64_t end = fp_deadline_in_ms (ms), next = 0;

  while (!fp_deadline_passed (end)) {
    struct pollfd p = { .fd = fd, .events = POLLRDHUP };

    if (poll (&p, 1, (int) interval_ms) == 1 &&
        (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
      close (fd);
      return 0;
    }
    if (size > 0 && fp_deadline_passed (next)) {
      push (fd, bytes++, 1);
      size--;
      next = fp_deadline_in_ms (interval_ms);
    }
  }
  fprintf (stderr, "memrude: still connected\n");
  return 1;
}

static int
deaf (void)
{
  int fd = dial ();
  struct fp_header h = { .version = FP_VERSION, .type = FP_MSG_STAT };
  uint64_t end = fp_deadline_in_ms (60000);
  uint8_t stat[FP_HEADER_SIZE];
  size_t sent = 0;

  fp_header_encode (stat, &h);
  push (fd, hello, hello_size);
  while (!fp_deadline_passed (end)) {
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    ssize_t n;

    if (poll (&p, 1, 100) == 1 && (p.revents & (POLLHUP | POLLERR)) != 0)
      break;
    n = send (fd, stat, sizeof stat, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0)
      sent += (size_t) n;
    else if (errno != EAGAIN)
      break;
  }
  close (fd);
  if (fp_deadline_passed (end) || sent > 64 << 20) {
    fprintf (stderr, "memrude: deaf, and %zu bytes were taken\n", sent);
    return 1;
  }
  return 0;
}

/* Receive a whole reply.  Return the size of its body. */
static size_t
reply (int fd, uint8_t *body)
{
  uint8_t header[FP_HEADER_SIZE];
  struct fp_header h;

  if (recv (fd, header, sizeof header, MSG_WAITALL) != sizeof header ||
      fp_header_decode (&h, header) < 0 || h.status != FP_STATUS_OK ||
      recv (fd, body, h.length, MSG_WAITALL) != (ssize_t) h.length) {
    fprintf (stderr, "memrude: was not answered\n");
    exit (1);
  }
  return h.length;
}

static int
half (void)
{
  static uint8_t body[FP_BODY_MAX];
  static struct fp_hello_reply p;
  static struct fp_grants g;
  struct fp_grant_req one = { .count = 1 };
  const struct fp_token_req t = { .lane = 1 };
  struct fp_data_hello d = { .lane = 1 };
  struct fp_token token;
  struct fp_data_req q = { .op = FP_DATA_WRITE, .length = 65536 };
  uint8_t frame[FP_DATA_REQ_SIZE];
  int fd = dial (), data = dial ();
  struct fp_reader r;
  struct fp_writer w;

  push (fd, hello, hello_size);
  fp_reader_init (&r, body, reply (fd, body));
  if (fp_dec_hello_reply (&r, &p) < 0)
    return 1;
  open_volume (fd, 1, "");
  (void) reply (fd, body);
  fp_writer_init (&w, body, sizeof body);
  fp_enc_grant_req (&w, &one);
  push_body (fd, FP_MSG_GRANT, body, sizeof body - w.left);
  fp_reader_init (&r, body, reply (fd, body));
  if (fp_dec_grants (&r, &g) < 0 || g.count != 1)
    return 1;
  fp_writer_init (&w, body, sizeof body);
  fp_enc_token_req (&w, &t);
  push_body (fd, FP_MSG_TOKEN, body, sizeof body - w.left);
  fp_reader_init (&r, body, reply (fd, body));
  if (fp_dec_token (&r, &token) < 0)
    return 1;
  d.session = p.session;
  memcpy (d.token, token.token, sizeof d.token);
  fp_writer_init (&w, body, sizeof body);
  fp_enc_data_hello (&w, &d);
  push_body (data, FP_MSG_DATA_HELLO, body, sizeof body - w.left);
  (void) reply (data, body);
  q.rkey = g.grants[0].rkey;
  q.raddr = g.grants[0].raddr;
  fp_data_req_encode (frame, &q);
  push (data, frame, sizeof frame);
  push (data, body, 1000);
  close (fd);
  return await_end (data, NULL, 0, 1000, 60000);
}

/* Keep the connections until this is killed, or standard input ends. */
static int
flood (unsigned count)
{
  char byte;

  while (count-- > 0)
    (void) dial ();
  printf ("flooded\n");
  fflush (stdout);
  return read (STDIN_FILENO, &byte, 1) < 0;
}

int
main (int argc, char *argv[])
{
  struct fp_addr addr;
  const char *why = NULL;
  unsigned count;

  if (argc < 3 || fp_addr_parse (&addr, argv[1], &why) < 0 ||
      fp_addr_resolve (&addr, &list, &why) < 0) {
    fprintf (stderr, "usage: memrude ADDR COUNT|trickle|...\n");
    return 2;
  }
  make_hello ();
  if (strcmp (argv[2], "trickle") == 0)
    return trickle ();
  if (strcmp (argv[2], "slow") == 0)
    return await_end (dial (), hello, hello_size - 1, 1000, 20000);
  if (strcmp (argv[2], "deaf") == 0)
    return deaf ();
  if (strcmp (argv[2], "half") == 0)
    return half ();
  if (strcmp (argv[2], "flood") == 0 && argc == 4)
    return flood ((unsigned) strtoul (argv[3], NULL, 10));
  count = (unsigned) strtoul (argv[2], NULL, 10);
  for (unsigned i = 0; i < count; i++)
    be_rude (i);
  return 0;
}
