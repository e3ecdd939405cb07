/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_listen.c - listen with rdma_cm, and pass each event to the peer or the
 * handler that it concerns.  See verbs_server.h.
 *
 *   request --accept--> half open --ESTABLISHED--> open --+
 *      |                    |                             | DISCONNECTED,
 *      v reject             +--- too late, or failed -----+ device lost
 *                                                         v
 *                                          handler's gone (), once
 *
 * If the device of a listener is removed, its peers are reported gone, and the
 * listener tries each second to bind its address again.  Ports that go down
 * are ignored: clients notice by themselves, and leases do the rest.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <arpa/inet.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "transport/verbs_err.h"
#include "transport/verbs_listen.h"

#define BACKLOG 64
#define EXPIRE_S 1 /* s between checks of half-open peers */
#define TURN 16    /* events per call: the caller has other work */

struct fp_verbs_listener {
  struct fp_verbs_handler handler;
  struct rdma_event_channel *channel;
  struct rdma_cm_id *id;        /* NULL: the device was removed */
  struct sockaddr_storage addr; /* where it listens, or will again */
  int epoll;
  int timer; /* runs while there are half-open peers, or no id */
  unsigned nr_half_open;
  struct fp_verbs_peer *half_open; /* newest first */
};

static void
listener_freep (struct fp_verbs_listener **lp)
{
  fp_verbs_listener_free (*lp);
}

void
fp_verbs_listener_free (struct fp_verbs_listener *l)
{
  if (l == NULL)
    return;
  assert (l->half_open == NULL);
  if (l->id != NULL)
    rdma_destroy_id (l->id);
  fp_cm_channel_freep (&l->channel);
  if (l->timer != -1)
    close (l->timer);
  if (l->epoll != -1)
    close (l->epoll);
  free (l);
}

static int
watch (const struct fp_verbs_listener *l, int fd)
{
  struct epoll_event e = { .events = EPOLLIN };

  return epoll_ctl (l->epoll, EPOLL_CTL_ADD, fd, &e) == 0 ? 0 : -errno;
}

static int
bind_and_listen (struct fp_verbs_listener *l, const struct fp_addr *addr)
{
  const struct sockaddr *bound;
  struct fp_sockaddrs names;
  const char *why;
  unsigned i;
  int err;

  if (addr->is_unix)
    return -EAFNOSUPPORT;
  err = fp_verbs_device_any (&why);
  if (err == 0)
    err = fp_addr_resolve (addr, &names, NULL);
  if (err == 0)
    err = fp_rdma_ret (rdma_create_id (l->channel, &l->id, l, RDMA_PS_TCP));
  if (err != 0)
    return err;
  err = -ENODEV;
  for (i = 0; err != 0 && i < names.nr; i++)
    err = fp_rdma_ret (
        rdma_bind_addr (l->id, (struct sockaddr *) &names.list[i].addr));
  if (err == 0)
    err = fp_rdma_ret (rdma_listen (l->id, BACKLOG));
  if (err != 0)
    return err;
  bound = rdma_get_local_addr (l->id);
  memcpy (&l->addr, bound,
          bound->sa_family == AF_INET6 ? sizeof (struct sockaddr_in6)
                                       : sizeof (struct sockaddr_in));
  return 0;
}

int
fp_verbs_listen (struct fp_verbs_listener **out, const struct fp_addr *addr,
                 const struct fp_verbs_handler *handler)
{
  FP_CLEANUP (listener_freep) struct fp_verbs_listener *l = NULL;
  int err;

  l = calloc (1, sizeof *l);
  if (l == NULL)
    return -ENOMEM;
  l->handler = *handler;
  l->timer = -1;
  l->epoll = epoll_create1 (EPOLL_CLOEXEC);
  if (l->epoll == -1)
    return -errno;
  l->timer = timerfd_create (CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (l->timer == -1)
    return -errno;
  err = fp_cm_channel_new (&l->channel);
  if (err == 0)
    err = watch (l, l->channel->fd);
  if (err == 0)
    err = watch (l, l->timer);
  if (err == 0)
    err = bind_and_listen (l, addr);
  if (err == 0)
    *out = FP_STEAL (l);
  return err;
}

int
fp_verbs_listener_fd (const struct fp_verbs_listener *l)
{
  return l->epoll;
}

uint16_t
fp_verbs_listener_port (const struct fp_verbs_listener *l)
{
  /* sin_port is at the same place in both kinds of address. */
  return ntohs (((const struct sockaddr_in *) &l->addr)->sin_port);
}

/* ---- half-open peers ---- */

static void
run_timer (struct fp_verbs_listener *l)
{
  time_t interval_s = l->nr_half_open > 0 || l->id == NULL ? EXPIRE_S : 0;
  struct itimerspec t = { .it_interval = { .tv_sec = interval_s },
                          .it_value = { .tv_sec = interval_s } };

  if (timerfd_settime (l->timer, 0, &t, NULL) != 0)
    abort (); /* only a bad argument can fail */
}

static void
remember (struct fp_verbs_listener *l, struct fp_verbs_peer *p)
{
  p->listener = l;
  p->half_open = true;
  p->half_open_by_ns = fp_deadline_in_ms (FP_VERBS_HALF_OPEN_MS);
  p->next = l->half_open;
  p->at = &l->half_open;
  if (p->next != NULL)
    p->next->at = &p->next;
  l->half_open = p;
  if (l->nr_half_open++ == 0)
    run_timer (l);
}

void
fp_verbs_listener_forget (struct fp_verbs_peer *p)
{
  if (!p->half_open)
    return;
  p->half_open = false;
  *p->at = p->next;
  if (p->next != NULL)
    p->next->at = p->at;
  if (--p->listener->nr_half_open == 0)
    run_timer (p->listener);
}

/* Report p as gone.  The handler may free p. */
static void
peer_gone (struct fp_verbs_peer *p)
{
  struct fp_verbs_listener *l = p->listener;

  fp_verbs_listener_forget (p);
  if (p->gone)
    return;
  p->gone = true;
  l->handler.gone (l->handler.ctx, p->cookie, p);
}

/* ---- removal of a device ---- */

static void
stop_listening (struct fp_verbs_listener *l)
{
  rdma_destroy_id (l->id);
  l->id = NULL;
  run_timer (l);
  if (l->handler.listens != NULL)
    l->handler.listens (l->handler.ctx, l, false);
}

static void
try_to_listen (struct fp_verbs_listener *l)
{
  if (rdma_create_id (l->channel, &l->id, l, RDMA_PS_TCP) != 0) {
    l->id = NULL;
    return;
  }
  if (rdma_bind_addr (l->id, (struct sockaddr *) &l->addr) != 0 ||
      rdma_listen (l->id, BACKLOG) != 0) {
    rdma_destroy_id (l->id);
    l->id = NULL;
    return;
  }
  run_timer (l);
  if (l->handler.listens != NULL)
    l->handler.listens (l->handler.ctx, l, true);
}

static void
expire (struct fp_verbs_listener *l)
{
  const uint64_t now = fp_now_ns ();
  struct fp_verbs_peer *p;
  uint64_t ticks;

  /* Read only to make the fd unreadable again. */
  if (read (l->timer, &ticks, sizeof ticks) != sizeof ticks)
    return;
  if (l->id == NULL)
    try_to_listen (l);
  for (;;) {
    /* Restart the search each time, because the handler may free any peer. */
    for (p = l->half_open; p != NULL && now < p->half_open_by_ns; p = p->next)
      ;
    if (p == NULL)
      return;
    peer_gone (p);
  }
}

/* ---- events ---- */

static enum fp_cm_reject
reject_for (int err)
{
  return err == -EBUSY ? FP_CM_REJECT_BUSY : FP_CM_REJECT_MEMORY;
}

/* Accept a request.  Return 0, or the reason to reject it. */
static enum fp_cm_reject
try_accept (struct fp_verbs_listener *l, const struct fp_cm_event *e)
{
  struct fp_data_hello hello;
  struct fp_verbs_domain **place;
  struct fp_verbs_peer *p;
  void *cookie = NULL;
  int err;

  if (fp_cm_private_decode (&hello, e->private_data, e->private_length) != 0)
    return FP_CM_REJECT_PROTO;
  if (l->nr_half_open >= FP_VERBS_MAX_HALF_OPEN)
    return FP_CM_REJECT_BUSY;
  place = l->handler.request (l->handler.ctx, &hello, &cookie);
  if (place == NULL)
    return FP_CM_REJECT_TOKEN;
  if (*place == NULL) {
    err = fp_verbs_domain_new (place, e->id->verbs);
    if (err != 0)
      return reject_for (err);
  }
  if ((*place)->device->context != e->id->verbs)
    return FP_CM_REJECT_DEVICE;
  err = fp_verbs_peer_accept (&p, *place, e->id, e);
  if (err != 0)
    return reject_for (err);
  p->cookie = cookie;
  remember (l, p);
  l->handler.accepted (l->handler.ctx, cookie, &hello, p);
  return 0;
}

static void
on_request (struct fp_verbs_listener *l, const struct fp_cm_event *e)
{
  enum fp_cm_reject why = try_accept (l, e);

  if (why == 0)
    return;
  /* If even the reject fails, the client's own deadline ends its attempt. */
  (void) fp_cm_reject (e->id, why);
  rdma_destroy_id (e->id);
}

static void
on_event (struct fp_verbs_listener *l, const struct fp_cm_event *e)
{
  if (fp_cm_meaning (e->type) == FP_CM_REQUEST) {
    on_request (l, e);
    return;
  }
  if (e->id == l->id) {
    if (e->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
      stop_listening (l);
    return;
  }
  switch (fp_cm_meaning (e->type)) {
  case FP_CM_PROGRESS:
    fp_verbs_listener_forget (e->id->context);
    break;
  case FP_CM_DEAD:
    peer_gone (e->id->context);
    break;
  case FP_CM_REQUEST:
  case FP_CM_NOTHING:
    break;
  }
}

void
fp_verbs_listener_dispatch (struct fp_verbs_listener *l)
{
  struct fp_cm_event e;

  for (unsigned n = 0; n < TURN && fp_cm_next (l->channel, &e) == 0; n++)
    on_event (l, &e);
  expire (l);
}
