/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs-server.c - a memory server of one session and two regions, for tests
 * of the RDMA transport.  It has no control connection, but takes commands on
 * stdin and replies on stdout:
 *
 *   (start)   Reply "port N".
 *   regions   Reply "regions RADDR RKEY RADDR RKEY" for the writable region
 *             and the read-only one, once a client has connected.
 *   memory    Reply "memory ADDRESS", where both are in this process.
 *   revoke    Make the writable region's key void, and reply "ok".
 *   peers     Reply "peers N".
 *   (EOF)     Free everything, and exit with 0.
 *
 * Usage: verbs-server ADDR MEGABYTES
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transport/verbs_server.h"

#define TOKEN_BYTE 0x5a /* each byte of the accepted token */

struct server {
  struct fp_verbs_listener *listener;
  struct fp_verbs_domain *domain;
  struct fp_verbs_region *rw, *ro;
  char *memory;
  size_t size;
  struct fp_verbs_peer *peers[512];
  unsigned nr_peers;
};

static void
die (const char *what, int err)
{
  fprintf (stderr, "verbs-server: %s: %s\n", what, strerror (-err));
  exit (1);
}

static struct fp_verbs_domain **
on_request (void *ctx, const struct fp_data_hello *h, void **cookie)
{
  struct server *s = ctx;
  size_t i;

  *cookie = s;
  for (i = 0; i < sizeof h->token; i++)
    if (h->token[i] != TOKEN_BYTE)
      return NULL;
  return s->nr_peers < 512 ? &s->domain : NULL;
}

static void
on_accepted (void *ctx, void *cookie, const struct fp_data_hello *h,
             struct fp_verbs_peer *peer)
{
  struct server *s = ctx;
  int err;

  (void) h;
  if (cookie != s)
    die ("cookie", -EINVAL);
  s->peers[s->nr_peers++] = peer;
  if (s->rw != NULL)
    return;
  err = fp_verbs_region_new (&s->rw, s->domain, s->memory, s->size, true);
  if (err == 0)
    err = fp_verbs_region_new (&s->ro, s->domain, s->memory, s->size, false);
  if (err != 0)
    die ("fp_verbs_region_new", err);
}

static void
on_gone (void *ctx, void *cookie, struct fp_verbs_peer *peer)
{
  struct server *s = ctx;
  unsigned i;

  if (cookie != s)
    die ("cookie", -EINVAL);
  for (i = 0; s->peers[i] != peer; i++)
    ;
  s->peers[i] = s->peers[--s->nr_peers];
  fp_verbs_peer_free (peer);
}

static void
free_region (struct fp_verbs_region **r)
{
  int err = fp_verbs_region_free (*r);

  if (err != 0)
    die ("fp_verbs_region_free", err);
  *r = NULL;
}

static void
on_command (struct server *s, const char *line)
{
  if (strcmp (line, "regions\n") == 0 && s->ro != NULL)
    printf ("regions %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
            fp_verbs_region_raddr (s->rw), fp_verbs_region_rkey (s->rw),
            fp_verbs_region_raddr (s->ro), fp_verbs_region_rkey (s->ro));
  else if (strcmp (line, "memory\n") == 0)
    printf ("memory %" PRIuPTR "\n", (uintptr_t) s->memory);
  else if (strcmp (line, "revoke\n") == 0 && s->rw != NULL) {
    free_region (&s->rw);
    printf ("ok\n");
  }
  else if (strcmp (line, "peers\n") == 0)
    printf ("peers %u\n", s->nr_peers);
  else
    die (line, -EINVAL);
}

static void
stop (struct server *s)
{
  while (s->nr_peers > 0)
    fp_verbs_peer_free (s->peers[--s->nr_peers]);
  free_region (&s->rw);
  free_region (&s->ro);
  fp_verbs_domain_free (s->domain);
  fp_verbs_listener_free (s->listener);
}

int
main (int argc, char *argv[])
{
  static struct server s;
  const struct fp_verbs_handler handler = {
    .request = on_request, .accepted = on_accepted, .gone = on_gone, .ctx = &s
  };
  struct pollfd p[2] = { { .events = POLLIN }, { .events = POLLIN } };
  struct fp_addr addr;
  char line[64];
  int err;

  if (argc != 3 || fp_addr_parse (&addr, argv[1], NULL) != 0)
    die ("usage", -EINVAL);
  s.size = (size_t) strtoul (argv[2], NULL, 10) << 20;
  s.memory = mmap (NULL, s.size, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (s.memory == MAP_FAILED)
    die ("mmap", -errno);
  setvbuf (stdin, NULL, _IONBF, 0);
  setvbuf (stdout, NULL, _IOLBF, 0);
  addr.port = 0;
  err = fp_verbs_listen (&s.listener, &addr, &handler);
  if (err != 0)
    die ("fp_verbs_listen", err);
  printf ("port %u\n", fp_verbs_listener_port (s.listener));

  p[1].fd = fp_verbs_listener_fd (s.listener);
  for (;;) {
    if (poll (p, 2, -1) == -1)
      die ("poll", -errno);
    if (p[1].revents != 0)
      fp_verbs_listener_dispatch (s.listener);
    if (p[0].revents != 0) {
      if (fgets (line, sizeof line, stdin) == NULL)
        break;
      on_command (&s, line);
    }
  }
  stop (&s);
  return 0;
}
