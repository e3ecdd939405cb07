/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma.c - RDMA in the memory server. */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "memserver/session/rdma.h"
#include "memserver/session/session.h"
#include "transport/verbs_server.h"

#define MAX_GONE 64

struct rdma_listener {
  struct rdma *rdma;
  struct fp_verbs_listener *verbs;
  struct event *readable;
  struct fp_addr addr;
  bool away; /* the device was taken away */
};

struct rdma {
  struct sessions *sessions;
  struct rdma_listener listeners[FP_MAX_RDMA_ADDRS];
  unsigned nr;
  /* Queue pairs that are gone.  They are freed when none of their events is
   * being handled.
   */
  struct fp_verbs_peer *gone[MAX_GONE];
  unsigned nr_gone;
};

static void
free_gone (struct rdma *rdma)
{
  while (rdma->nr_gone > 0)
    fp_verbs_peer_free (rdma->gone[--rdma->nr_gone]);
}

/* End the queue pairs of this lane.  A client makes a second connection for a
 * lane when it has given up the first, and repeats what was not answered.
 * Nothing still under way on the first may land after that, and once its queue
 * pair is destroyed nothing does.  (tcp: data_replace.)
 */
static void
end_lane (struct session *s, uint32_t lane)
{
  for (unsigned i = s->nr_peers; i-- > 0;) {
    if (s->peers[i].lane != lane)
      continue;
    fp_verbs_peer_free (s->peers[i].verbs);
    s->peers[i] = s->peers[--s->nr_peers];
  }
}

static struct fp_verbs_domain **
on_request (void *ctx, const struct fp_data_hello *h, void **cookie)
{
  struct rdma *rdma = ctx;
  struct session *s = sessions_find (rdma->sessions, h->session);

  /* No volume is needed: a client tries the transport before it has one. */
  if (!s || (s->state != SESSION_READY && s->state != SESSION_OPEN) ||
      s->closing != CLOSING_NOT || !(s->transports & FP_TRANSPORT_RDMA))
    return NULL;
  if (!tokens_take (&s->tokens, h->lane, fp_now_ns (), h->token))
    return NULL;
  /* A peer that was only put away still has its queue pair. */
  free_gone (rdma);
  end_lane (s, h->lane);
  if (s->nr_peers == MAX_DATA)
    return NULL;
  *cookie = s;
  return &s->domain;
}

static void
put_away (struct rdma *rdma, struct fp_verbs_peer *peer)
{
  /* The events of the earlier ones have been handled. */
  if (rdma->nr_gone == MAX_GONE)
    free_gone (rdma);
  rdma->gone[rdma->nr_gone++] = peer;
}

static void
on_accepted (void *ctx, void *cookie, const struct fp_data_hello *h,
             struct fp_verbs_peer *peer)
{
  struct rdma *rdma = ctx;
  struct session *s = cookie;

  if (s->nr_peers == MAX_DATA) {
    put_away (rdma, peer);
    return;
  }
  s->peers[s->nr_peers].verbs = peer;
  s->peers[s->nr_peers++].lane = h->lane;
}

static void
on_gone (void *ctx, void *cookie, struct fp_verbs_peer *peer)
{
  struct rdma *rdma = ctx;
  struct session *s = cookie;

  for (unsigned i = 0; i < s->nr_peers; i++) {
    if (s->peers[i].verbs == peer) {
      s->peers[i] = s->peers[--s->nr_peers];
      break;
    }
  }
  put_away (rdma, peer);
}

static void
on_listens (void *ctx, struct fp_verbs_listener *verbs, bool does)
{
  struct rdma *rdma = ctx;

  for (unsigned i = 0; i < rdma->nr; i++) {
    struct rdma_listener *l = &rdma->listeners[i];
    char where[FP_ADDR_MAX + 1];

    if (l->verbs != verbs)
      continue;
    l->away = !does;
    fp_addr_format (&l->addr, where);
    if (does)
      fp_log (FP_LOG_INFO, "rdma: listening on %s again", where);
    else
      fp_log (FP_LOG_WARN,
              "rdma: the device of %s was taken away: no client can connect "
              "there over RDMA until a device has this address",
              where);
  }
}

static void
on_readable (evutil_socket_t fd, short what, void *arg)
{
  struct rdma_listener *l = arg;

  (void) fd;
  (void) what;
  fp_verbs_listener_dispatch (l->verbs);
  free_gone (l->rdma);
}

static int
listen_on (struct rdma *rdma, const struct fp_addr *addr)
{
  struct rdma_listener *l = &rdma->listeners[rdma->nr];
  const struct fp_verbs_handler handler = { .request = on_request,
                                            .accepted = on_accepted,
                                            .gone = on_gone,
                                            .listens = on_listens,
                                            .ctx = rdma };
  int r;

  l->rdma = rdma;
  l->addr = *addr;
  r = fp_verbs_listen (&l->verbs, addr, &handler);
  if (r == -EADDRINUSE) {
    /* iWARP listens on a TCP port, and our TCP listener has this one. */
    l->addr.port = 0;
    r = fp_verbs_listen (&l->verbs, &l->addr, &handler);
  }
  if (r < 0)
    return r;
  l->addr.port = fp_verbs_listener_port (l->verbs);
  l->readable =
      event_new (rdma->sessions->base, fp_verbs_listener_fd (l->verbs),
                 EV_READ | EV_PERSIST, on_readable, l);
  if (!l->readable || event_add (l->readable, NULL) < 0) {
    if (l->readable)
      event_free (l->readable);
    fp_verbs_listener_free (l->verbs);
    return -ENOMEM;
  }
  rdma->nr++;
  return 0;
}

int
rdma_serve_at (struct sessions *all, const struct fp_addr *addr)
{
  if (!all->rdma) {
    all->rdma = calloc (1, sizeof *all->rdma);
    if (!all->rdma)
      return -ENOMEM;
    all->rdma->sessions = all;
  }
  if (all->rdma->nr == FP_MAX_RDMA_ADDRS)
    return -ENOSPC;
  return listen_on (all->rdma, addr);
}

bool
rdma_works (const struct sessions *all)
{
  return all->rdma && all->rdma->nr > 0;
}

void
rdma_count (const struct sessions *all, unsigned *listens, unsigned *away)
{
  *listens = *away = 0;
  for (unsigned i = 0; all->rdma && i < all->rdma->nr; i++)
    ++*(all->rdma->listeners[i].away ? away : listens);
}

void
rdma_free (struct rdma *rdma)
{
  if (!rdma)
    return;
  for (unsigned i = 0; i < rdma->nr; i++) {
    event_free (rdma->listeners[i].readable);
    fp_verbs_listener_free (rdma->listeners[i].verbs);
  }
  free (rdma);
}

void
rdma_addresses (const struct sessions *all, bool unix_client,
                struct fp_hello_reply *p)
{
  p->nr_rdma = 0;
  for (unsigned i = 0; all->rdma && i < all->rdma->nr; i++) {
    const struct fp_addr *addr = &all->rdma->listeners[i].addr;

    if (all->rdma->listeners[i].away)
      continue;
    /* A wildcard means "the host that you came to", which a Unix socket is
     * not.
     */
    if (!unix_client || !fp_addr_is_wildcard (addr))
      fp_addr_format (addr, p->rdma[p->nr_rdma++]);
  }
}

int
rdma_register (struct session *s, struct slab *slab)
{
  int r = fp_verbs_region_new (&slab->region, s->domain, slab->backing.addr,
                               slab->backing.size, !s->read_only);

  if (r < 0) {
    slab->region = NULL;
    return r;
  }
  slab->raddr = fp_verbs_region_raddr (slab->region);
  slab->rkey = fp_verbs_region_rkey (slab->region);
  return 0;
}

int
rdma_unregister (struct slab *slab)
{
  struct fp_verbs_region *region = slab->region;

  slab->region = NULL;
  return fp_verbs_region_free (region);
}

void
rdma_end_peers (struct session *s)
{
  while (s->nr_peers > 0)
    fp_verbs_peer_free (s->peers[--s->nr_peers].verbs);
}

void
rdma_end_domain (struct session *s)
{
  if (s->domain)
    fp_verbs_domain_free (s->domain);
  s->domain = NULL;
}
