/* SPDX-License-Identifier: BSD-3-Clause */
/* slow-proxy.c - TCP proxy to a server that is slow for a while: its answers
 * arrive MS milliseconds later, at full rate.
 *
 *   slow-proxy 127.0.0.1:PORT MS ADDRESS-FILE
 *
 * It writes the address where it listens to ADDRESS-FILE.  SIGUSR1 makes it
 * slow, and SIGUSR2 ends that.  (netem does it better, but needs root.)
 */

#include <config.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"

#define PAIRS 128
#define CHUNKS 256
#define CHUNK 65536

static volatile sig_atomic_t slow;
static uint64_t delay_ns;

struct chunk {
  uint64_t due_ns;
  size_t length, sent;
  unsigned char *bytes;
};

/* Data on its way from one socket to the other. */
struct way {
  bool delayed, ended; /* ended: no more input */
  unsigned first, nr;
  struct chunk chunks[CHUNKS];
};

static struct pair {
  int fd[2]; /* the client's, the server's */
  struct way ways[2];
} * pairs[PAIRS];

static void
on_signal (int sig)
{
  slow = sig == SIGUSR1;
}

static void __attribute__ ((__noreturn__)) die (const char *what)
{
  perror (what);
  exit (1);
}

static void
nodelay (int fd)
{
  int one = 1;

  if (setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == -1 ||
      fcntl (fd, F_SETFL, O_NONBLOCK) == -1)
    die ("socket");
}

static void
add_pair (int client, const struct sockaddr_in *to)
{
  int server = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  unsigned i = 0;

  while (i < PAIRS && pairs[i] != NULL)
    i++;
  if (server == -1 || i == PAIRS ||
      connect (server, (const struct sockaddr *) to, sizeof *to) == -1) {
    close (client);
    if (server >= 0)
      close (server);
    return;
  }
  nodelay (client);
  nodelay (server);
  pairs[i] = calloc (1, sizeof *pairs[i]);
  if (pairs[i] == NULL)
    die ("memory");
  pairs[i]->fd[0] = client;
  pairs[i]->fd[1] = server;
  pairs[i]->ways[1].delayed = true; /* from the server */
}

static void
end_pair (struct pair **p)
{
  for (unsigned w = 0; w < 2; w++) {
    close ((*p)->fd[w]);
    for (unsigned i = 0; i < CHUNKS; i++)
      free ((*p)->ways[w].chunks[i].bytes);
  }
  free (*p);
  *p = NULL;
}

/* Take all input that is there.  Return false on an error. */
static bool
take (struct way *w, int fd)
{
  while (w->nr < CHUNKS && !w->ended) {
    struct chunk *c = &w->chunks[(w->first + w->nr) % CHUNKS];
    ssize_t n;

    if (c->bytes == NULL)
      c->bytes = malloc (CHUNK);
    if (c->bytes == NULL)
      die ("memory");
    n = recv (fd, c->bytes, CHUNK, 0);
    if (n == -1)
      return errno == EAGAIN;
    w->ended = n == 0;
    if (n == 0)
      return true;
    c->length = (size_t) n;
    c->sent = 0;
    c->due_ns = fp_now_ns () + (w->delayed && slow ? delay_ns : 0);
    /* Keep the order: never before the chunk ahead. */
    if (w->nr > 0)
      c->due_ns = FP_MAX (c->due_ns,
                          w->chunks[(w->first + w->nr - 1) % CHUNKS].due_ns);
    w->nr++;
    if (n < CHUNK)
      return true;
  }
  return true;
}

/* Send what is due.  Return false on an error. */
static bool
give (struct way *w, int fd)
{
  while (w->nr > 0) {
    struct chunk *c = &w->chunks[w->first];
    ssize_t n;

    if (c->due_ns > fp_now_ns ())
      return true;
    n = send (fd, c->bytes + c->sent, c->length - c->sent, MSG_NOSIGNAL);
    if (n == -1)
      return errno == EAGAIN;
    c->sent += (size_t) n;
    if (c->sent < c->length)
      return true;
    w->first = (w->first + 1) % CHUNKS;
    w->nr--;
  }
  return true;
}

static void
step (struct pair **pp)
{
  struct pair *p = *pp;

  for (unsigned w = 0; w < 2; w++) {
    struct way *way = &p->ways[w];

    if (!take (way, p->fd[w]) || !give (way, p->fd[1 - w]) ||
        (way->ended && way->nr == 0)) {
      end_pair (pp);
      return;
    }
  }
}

/* Set what to poll for a pair.  Return when its next chunk is due, in ns. */
static uint64_t
watch (const struct pair *p, struct pollfd fds[2])
{
  uint64_t now = fp_now_ns (), due = UINT64_MAX;

  for (unsigned w = 0; w < 2; w++)
    fds[w] = (struct pollfd) { .fd = p->fd[w] };
  for (unsigned w = 0; w < 2; w++) {
    const struct way *way = &p->ways[w];

    if (!way->ended && way->nr < CHUNKS)
      fds[w].events |= POLLIN;
    if (way->nr == 0)
      continue;
    if (way->chunks[way->first].due_ns <= now)
      fds[1 - w].events |= POLLOUT;
    else
      due = FP_MIN (due, way->chunks[way->first].due_ns);
  }
  return due;
}

static int
listen_at (const char *path)
{
  struct sockaddr_in at = { .sin_family = AF_INET };
  socklen_t length = sizeof at;
  int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  FILE *fp;

  at.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  if (fd == -1 || bind (fd, (struct sockaddr *) &at, sizeof at) == -1 ||
      listen (fd, SOMAXCONN) == -1 ||
      getsockname (fd, (struct sockaddr *) &at, &length) == -1)
    die ("listen");
  fp = fopen (path, "w");
  if (fp == NULL || fprintf (fp, "127.0.0.1:%u\n", ntohs (at.sin_port)) < 0 ||
      fclose (fp) != 0)
    die (path);
  return fd;
}

int
main (int argc, char *argv[])
{
  const struct sigaction action = { .sa_handler = on_signal };
  struct sockaddr_in to = { .sin_family = AF_INET };
  static struct pollfd fds[2 * PAIRS + 1];
  char *colon = argc == 4 ? strchr (argv[1], ':') : NULL;
  int listener;

  if (colon == NULL) {
    fprintf (stderr, "usage: slow-proxy IPV4:PORT MS ADDRESS-FILE\n");
    return 2;
  }
  *colon = '\0';
  to.sin_port = htons ((uint16_t) atoi (colon + 1));
  if (inet_pton (AF_INET, argv[1], &to.sin_addr) != 1)
    die (argv[1]);
  delay_ns = strtoull (argv[2], NULL, 10) * FP_NS_PER_MS;
  sigaction (SIGUSR1, &action, NULL);
  sigaction (SIGUSR2, &action, NULL);
  listener = listen_at (argv[3]);

  for (;;) {
    uint64_t due = UINT64_MAX, now;
    struct timespec wait;
    nfds_t nr = 0;
    int fd;

    while ((fd = accept4 (listener, NULL, NULL, SOCK_CLOEXEC)) != -1)
      add_pair (fd, &to);
    fds[nr++] = (struct pollfd) { .fd = listener, .events = POLLIN };
    for (unsigned i = 0; i < PAIRS; i++) {
      if (pairs[i] != NULL)
        step (&pairs[i]);
      if (pairs[i] != NULL) {
        due = FP_MIN (due, watch (pairs[i], &fds[nr]));
        nr += 2;
      }
    }
    now = fp_now_ns ();
    due = due == UINT64_MAX ? now + FP_NS_PER_S : FP_MAX (due, now);
    wait = (struct timespec) {
      .tv_sec = (time_t) ((due - now) / FP_NS_PER_S),
      .tv_nsec = (long) ((due - now) % FP_NS_PER_S),
    };
    if (ppoll (fds, nr, &wait, NULL) == -1 && errno != EINTR)
      die ("poll");
  }
}
