/* SPDX-License-Identifier: BSD-3-Clause */
/* memrude.c - clients without manners, for tests of farpage-memserver.
 *
 *   memrude ADDR COUNT    connect so often, each time rude in the next way
 *   memrude ADDR trickle  say HELLO, then a byte each 50 ms: exit status 0 if
 *                         the server puts an end to it within 10 s
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

/* It may hang up on us in the middle. */
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
  /* The encoder would not write what is too long. */
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
open_and_grant (int fd, unsigned nr)
{
  struct fp_open q = { .flags = FP_OPEN_CREATE | FP_OPEN_RESUME,
                       .transport = FP_TRANSPORT_TCP,
                       .name = "rude",
                       .size = 1 << 30,
                       .slab_size = 1 << 20,
                       .copies = 1 };
  struct fp_grant_req g = { .count = 1 };
  uint8_t body[512];
  struct fp_writer w;

  q.volume.bytes[0] = 0xee;
  q.volume.bytes[1] = (uint8_t) nr;
  q.volume.bytes[2] = (uint8_t) (nr >> 8);
  push (fd, hello, hello_size);
  fp_writer_init (&w, body, sizeof body);
  fp_enc_open (&w, &q);
  push_header (fd, FP_MSG_OPEN, (uint32_t) (sizeof body - w.left));
  push (fd, body, sizeof body - w.left);
  fp_writer_init (&w, body, sizeof body);
  fp_enc_grant_req (&w, &g);
  push_header (fd, FP_MSG_GRANT, (uint32_t) (sizeof body - w.left));
  push (fd, body, sizeof body - w.left);
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
  int fd = dial ();

  switch (nr % 10) {
  case 0: /* nothing at all */
    break;
  case 1: /* less than a message, a different part each time */
    push (fd, hello, nr / 10 % hello_size);
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
  case 4: /* 4 GiB will follow */
    push_header (fd, FP_MSG_HELLO, UINT32_MAX);
    pull (fd);
    break;
  case 5: /* out of turn, or no message, empty */
    push_header (fd, nr / 10 % 70000, 0);
    pull (fd);
    break;
  case 6: /* in a hurry */
    push (fd, hello, hello_size);
    break;
  case 7: /* leaves with a slab in its hand */
    open_and_grant (fd, nr);
    pull (fd);
    break;
  case 8: /* without a word */
    open_and_grant (fd, nr);
    pull (fd);
    reset (fd);
    break;
  case 9: /* a body that does not fit its message */
    push (fd, hello, hello_size);
    push_header (fd, 1 + nr / 10 % 11, 100);
    push (fd, hello, 100);
    pull (fd);
    break;
  }
  close (fd);
}

static int
trickle (void)
{
  int fd = dial ();
  uint64_t end = fp_deadline_in_ms (10000);
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

int
main (int argc, char *argv[])
{
  struct fp_addr addr;
  const char *why = NULL;
  unsigned count;

  if (argc != 3 || fp_addr_parse (&addr, argv[1], &why) < 0 ||
      fp_addr_resolve (&addr, &list, &why) < 0) {
    fprintf (stderr, "usage: memrude ADDR COUNT|trickle\n");
    return 2;
  }
  make_hello ();
  if (strcmp (argv[2], "trickle") == 0)
    return trickle ();
  count = (unsigned) strtoul (argv[2], NULL, 10);
  for (unsigned i = 0; i < count; i++)
    be_rude (i);
  return 0;
}
