/* SPDX-License-Identifier: BSD-3-Clause */
/* nic.c - see nic.h. */

#include <config.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <arpa/inet.h>

#include "base/checked.h"
#include "base/clock.h"
#include "sim/net.h"
#include "sim/nic.h"
#include "sim/simulate.h"
#include "sim/threads.h"
#include "transport/op_queue.h"
#include "transport/verbs_server.h"

#define MAX_TRANSFER (1u << 20)
#define MAX_PEERS 256 /* queue pairs of a session, as verbs_listen.h */
#define TURN 16       /* events of one dispatch */
#define AGAIN_MS 4u   /* a transfer is sent again */
#define REQUEST_AGAIN_MS 500u
#define HALF_OPEN_MS 5000u
#define FLUSH_NS 20000u
#define GARBAGE 0xa5

struct nic_queue {
  struct fp_op_queue common; /* fd: eventfd, readable if done has ops */
  uint8_t *memory;
  size_t memory_size;
  struct fp_op_list posted;
};

struct nic_conn {
  struct fp_conn base;
  struct qp *qp;
  int event_fd;
  bool broken, disconnected;
  unsigned depth, inflight;
};

struct transfer {
  struct transfer *next;
  struct fp_op *op; /* NULL: it was flushed */
  enum fp_op_kind kind;
  uint32_t length;
  uint64_t raddr, rkey;
  uint64_t kicked_ns, departs_ns, at_ns; /* at_ns: next step */
  bool departed;
  int status;
  uint8_t bytes[];
};

/* Transfers that wait for a step, in order. */
struct line {
  struct transfer *first, **last;
  uint64_t last_ns;
};

/* A queue pair, both ends. */
struct qp {
  struct qp *next;
  unsigned client, server; /* hosts; server: 0 until it has accepted */
  unsigned client_machine, machine;
  in_port_t port;
  struct fp_data_hello hello;
  uint64_t timeout_ns;
  struct nic_conn *conn;      /* NULL: the client has given it up */
  bool client_up;             /* the client's end works */
  struct fp_verbs_peer *peer; /* NULL: the server has none */
  int answer;                 /* to the request; 1: none yet */
  bool answered;
  uint64_t request_ns;
  struct line out, back;
};

struct fp_verbs_listener {
  struct fp_verbs_listener *next;
  struct fp_verbs_handler handler;
  unsigned host, machine;
  in_port_t port;
  int fd;
  /* Requests, and peers that are gone. */
  struct qp *requests[64];
  unsigned nr_requests;
  struct fp_verbs_peer *gone[64];
  unsigned nr_gone;
};

struct fp_verbs_domain {
  unsigned nr_peers;
};

struct fp_verbs_region {
  struct fp_verbs_region *next;
  const struct fp_verbs_domain *domain;
  uint8_t *addr;
  uint64_t length, raddr, rkey;
  bool writable;
};

struct fp_verbs_peer {
  struct fp_verbs_listener *listener;
  struct fp_verbs_domain *domain;
  struct qp *qp;
  void *cookie;
  bool gone;
};

static struct qp *qps;
static struct fp_verbs_listener *listeners;
static struct fp_verbs_region *regions;
static uint64_t next_key = 0x100;
static bool in_child;
static unsigned long nr_transfers;
static bool starved[NET_MACHINES];
bool nic_traced;

static void
must (bool ok, const char *what)
{
  if (ok)
    return;
  fprintf (stderr, "nic: %s: %s\n", what, strerror (errno));
  abort ();
}

static void
signal_fd (int fd)
{
  const uint64_t one = 1;

  must (write (fd, &one, sizeof one) == sizeof one || errno == EAGAIN,
        "eventfd");
}

static void
clear_fd (int fd)
{
  uint64_t n;

  must (read (fd, &n, sizeof n) == sizeof n || errno == EAGAIN, "eventfd");
}

static uint64_t
soon (void)
{
  return sim_now_ns () + net_delay_ns ();
}

static bool
is_cut (const struct qp *qp)
{
  return net_is_cut (qp->client_machine, qp->machine);
}

void
nic_starve (unsigned machine, bool on)
{
  starved[machine] = on;
}

/* Return true if there is no memory now for what this host asks for. */
static bool
is_starved (void)
{
  return starved[net_machine (sim_host ())] && sim_dice (2) == 0;
}

unsigned long
nic_transfers (void)
{
  return nr_transfers;
}

/* ---- ends of a queue pair ---- */

static void
finish (struct fp_op *op, int status)
{
  struct nic_queue *q = (struct nic_queue *) op->conn->queue;

  if (status != 0 && op->kind == FP_OP_READ)
    memset (op->local, GARBAGE, op->length);
  nr_transfers += status == 0;
  op->status = status;
  fp_op_list_add (&q->common.done, op);
  signal_fd (q->common.fd);
}

/* Complete the work request of t, if that has not happened yet. */
static void
complete (struct transfer *t, int status)
{
  if (t->op != NULL)
    finish (t->op, status);
  t->op = NULL;
}

static void
flush_line (struct line *l)
{
  for (struct transfer *t = l->first; t != NULL; t = t->next)
    complete (t, -ECONNRESET);
}

/* The device returns the work requests of a queue pair in the error state. */
static void
flush (void *arg)
{
  struct qp *qp = arg;
  struct nic_queue *q;

  if (qp->conn == NULL)
    return;
  flush_line (&qp->back);
  flush_line (&qp->out);
  q = (struct nic_queue *) qp->conn->base.queue;
  for (struct fp_op **at = &q->posted.head; *at != NULL;)
    if ((*at)->conn == &qp->conn->base)
      finish (fp_op_list_take_at (&q->posted, at), -ECONNRESET);
    else
      at = &(*at)->next;
}

/* Tell the server that it has lost a queue pair. */
static void
peer_gone (struct fp_verbs_peer *p)
{
  if (p->gone)
    return;
  p->gone = true;
  must (p->listener->nr_gone < 64, "too many peers are gone");
  p->listener->gone[p->listener->nr_gone++] = p;
  signal_fd (p->listener->fd);
}

static void
server_hears (void *arg)
{
  struct qp *qp = arg;

  /* A lost message is not sent again: the server keeps an unused queue pair.
   */
  if (qp->peer != NULL && !is_cut (qp))
    peer_gone (qp->peer);
}

static void
client_hears (void *arg)
{
  struct qp *qp = arg;

  if (qp->conn == NULL || !qp->client_up || is_cut (qp))
    return;
  qp->conn->disconnected = true;
  signal_fd (qp->conn->event_fd);
}

/* Put the client's end into the error state. */
static void
client_breaks (struct qp *qp)
{
  if (!qp->client_up)
    return;
  qp->client_up = false;
  sim_at (sim_now_ns () + FLUSH_NS, flush, qp);
  sim_at (soon (), server_hears, qp);
}

/* ---- transfers ---- */

static void step_out (void *arg);
static void step_back (void *arg);

static void
line_add (struct line *l, struct transfer *t, uint64_t at_ns,
          void (*step) (void *arg), struct qp *qp)
{
  t->next = NULL;
  t->at_ns = FP_MAX (at_ns, l->last_ns);
  l->last_ns = t->at_ns;
  *l->last = t;
  l->last = &t->next;
  sim_at (t->at_ns, step, qp);
}

static struct transfer *
line_take (struct line *l)
{
  struct transfer *t = l->first;

  l->first = t->next;
  if (l->first == NULL)
    l->last = &l->first;
  return t;
}

/* The client's device has sent t as often as it may. */
static bool
is_too_late (const struct qp *qp, const struct transfer *t)
{
  return sim_now_ns () - t->kicked_ns >= qp->timeout_ns;
}

static void
time_out (struct qp *qp, struct transfer *t)
{
  complete (t, -ETIMEDOUT);
  client_breaks (qp);
}

static const struct fp_verbs_region *
region_of (const struct qp *qp, const struct transfer *t)
{
  for (const struct fp_verbs_region *r = regions; r != NULL; r = r->next)
    if (r->rkey == t->rkey && r->domain == qp->peer->domain)
      return t->raddr >= r->raddr &&
                     fp_range_ok (t->raddr - r->raddr, t->length, r->length) &&
                     (r->writable || t->kind == FP_OP_READ)
                 ? r
                 : NULL;
  return NULL;
}

/* Do t in the server's memory. */
static void
execute (struct qp *qp, struct transfer *t)
{
  const struct fp_verbs_region *r = region_of (qp, t);

  if (nic_traced)
    trace ("%s of %u bytes at %llu of region %llu of host %u%s%s",
           t->kind == FP_OP_READ ? "READ" : "WRITE", t->length,
           (unsigned long long) (r != NULL ? t->raddr - r->raddr : t->raddr),
           (unsigned long long) t->rkey, qp->server,
           r != NULL ? "" : ": refused", qp->client_up ? "" : ", late");
  if (r == NULL)
    t->status = -EACCES;
  else if (t->kind == FP_OP_WRITE)
    memcpy (r->addr + (t->raddr - r->raddr), t->bytes, t->length);
  else
    memcpy (t->bytes, r->addr + (t->raddr - r->raddr), t->length);
}

static void
depart (void *arg)
{
  struct qp *qp = arg;
  uint64_t now = sim_now_ns ();

  for (struct transfer *t = qp->out.first; t != NULL; t = t->next) {
    if (t->departed || !qp->client_up || t->departs_ns > now)
      continue;
    t->departed = true;
    if (t->kind == FP_OP_WRITE)
      memcpy (t->bytes, t->op->local, t->length);
  }
}

/* Let transfers arrive at the server. */
static void
step_out (void *arg)
{
  struct qp *qp = arg;
  uint64_t now = sim_now_ns ();
  struct transfer *t;

  depart (qp);
  while ((t = qp->out.first) != NULL && t->at_ns <= now) {
    if (t->departed && qp->peer != NULL && !is_cut (qp)) {
      execute (qp, t);
      line_add (&qp->back, line_take (&qp->out), soon (), step_back, qp);
    }
    else if (qp->client_up && !is_too_late (qp, t)) {
      t->at_ns = now + AGAIN_MS * FP_NS_PER_MS;
      sim_at (t->at_ns, step_out, qp);
      return;
    }
    else {
      /* A client's end that is broken sends nothing again. */
      if (qp->client_up)
        time_out (qp, t);
      complete (t, -ECONNRESET);
      free (line_take (&qp->out));
    }
  }
}

/* Let answers arrive at the client. */
static void
step_back (void *arg)
{
  struct qp *qp = arg;
  uint64_t now = sim_now_ns ();
  struct transfer *t;

  while ((t = qp->back.first) != NULL && t->at_ns <= now) {
    if (!qp->client_up)
      complete (t, -ECONNRESET);
    else if (!is_cut (qp)) {
      if (t->status == 0 && t->kind == FP_OP_READ)
        memcpy (t->op->local, t->bytes, t->length);
      complete (t, t->status);
      if (t->status < 0)
        client_breaks (qp);
    }
    else if (is_too_late (qp, t))
      time_out (qp, t);
    else {
      t->at_ns = now + AGAIN_MS * FP_NS_PER_MS;
      sim_at (t->at_ns, step_back, qp);
      return;
    }
    free (line_take (&qp->back));
  }
}

/* ---- the client's transport ---- */

static int
nic_available (const char **why)
{
  (void) why;
  return 0;
}

static int
nic_queue_new (struct fp_queue **out, const struct fp_queue_params *p)
{
  struct fp_op_queue *common;
  struct nic_queue *q;
  int r = fp_op_queue_new (&common, sizeof *q, &nic_transport, p);

  if (r < 0)
    return r;
  r = fp_op_queue_wakes (common, p, eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (r < 0) {
    fp_op_queue_free (&common->base);
    return r;
  }
  q = (struct nic_queue *) common;
  q->memory = p->memory;
  q->memory_size = p->memory_size;
  fp_op_list_init (&q->posted);
  *out = &common->base;
  return 0;
}

static struct fp_op *
nic_poll (struct fp_queue *base)
{
  struct nic_queue *q = (struct nic_queue *) base;
  struct fp_op *list;

  if (q->common.done.head != NULL)
    clear_fd (q->common.fd);
  list = fp_op_list_take_all (&q->common.done);
  for (struct fp_op *op = list; op != NULL; op = op->next) {
    struct nic_conn *c = (struct nic_conn *) op->conn;

    c->inflight--;
    c->broken |= op->status != 0; /* as verbs_client.c */
    q->common.inflight--;
  }
  return list;
}

static bool
nic_arm (struct fp_queue *base)
{
  return ((struct nic_queue *) base)->common.done.head != NULL;
}

static int
nic_post (struct fp_conn *base, struct fp_op *op)
{
  struct nic_conn *c = (struct nic_conn *) base;
  struct nic_queue *q = (struct nic_queue *) base->queue;
  uintptr_t start = (uintptr_t) q->memory, at = (uintptr_t) op->local;

  if (c->broken)
    return -ENOTCONN;
  if (op->length == 0 || op->length > MAX_TRANSFER || at < start ||
      !fp_range_ok (at - start, op->length, q->memory_size))
    return -EINVAL;
  if (c->inflight == c->depth || q->common.inflight == q->common.depth)
    return -EAGAIN;
  op->conn = base;
  fp_op_list_add (&q->posted, op);
  c->inflight++;
  q->common.inflight++;
  return 0;
}

static void
nic_kick (struct fp_queue *base)
{
  struct nic_queue *q = (struct nic_queue *) base;
  struct fp_op *next, *op = fp_op_list_take_all (&q->posted);

  for (; op != NULL; op = next) {
    struct qp *qp = ((struct nic_conn *) op->conn)->qp;
    struct transfer *t;

    next = op->next;
    if (!qp->client_up) {
      finish (op, -ECONNRESET);
      continue;
    }
    t = malloc (sizeof *t + op->length);
    must (t != NULL, "memory");
    *t = (struct transfer) { .op = op,
                             .kind = op->kind,
                             .length = op->length,
                             .raddr = op->raddr,
                             .rkey = op->rkey,
                             .kicked_ns = sim_now_ns () };
    t->departs_ns = soon ();
    line_add (&qp->out, t, t->departs_ns, step_out, qp);
    /* The other half departs on arrival. */
    if (sim_dice (2) == 0) {
      t->departs_ns = sim_now_ns () + sim_dice (5000);
      sim_at (t->departs_ns, depart, qp);
    }
  }
}

static void
nic_conn_break (struct fp_conn *base)
{
  struct nic_conn *c = (struct nic_conn *) base;

  c->broken = true;
  client_breaks (c->qp);
  /* The device may have broken it before, and post was still possible. */
  sim_at (sim_now_ns () + FLUSH_NS, flush, c->qp);
}

static unsigned
nic_conn_inflight (const struct fp_conn *base)
{
  return ((const struct nic_conn *) base)->inflight;
}

static bool
nic_conn_broken (const struct fp_conn *base)
{
  return ((const struct nic_conn *) base)->broken;
}

static void
conn_destroy (struct nic_conn *c)
{
  c->qp->conn = NULL;
  client_breaks (c->qp);
  close (c->event_fd);
  free (c);
}

static void
nic_conn_free (struct fp_conn *base)
{
  struct nic_conn *c = (struct nic_conn *) base;

  must (c->inflight == 0, "a connection is freed while transfers use it");
  conn_destroy (c);
}

static int
nic_conn_event_fd (const struct fp_conn *base)
{
  return ((const struct nic_conn *) base)->event_fd;
}

static void
nic_conn_event (struct fp_conn *base)
{
  struct nic_conn *c = (struct nic_conn *) base;

  clear_fd (c->event_fd);
  if (c->disconnected)
    nic_conn_break (base);
}

static int
nic_import (struct fp_remote *out, const struct fp_grant *g, int fd,
            bool read_only)
{
  (void) fd;
  (void) read_only;
  *out = (struct fp_remote) { .raddr = g->raddr,
                              .rkey = g->rkey,
                              .length = g->length };
  return 0;
}

static void
nic_unimport (struct fp_remote *r)
{
  (void) r;
}

/* ---- connecting ---- */

static struct fp_verbs_listener *
listener_at (unsigned machine, in_port_t port)
{
  for (struct fp_verbs_listener *l = listeners; l != NULL; l = l->next)
    if (l->machine == machine && l->port == port)
      return l;
  return NULL;
}

static void
client_gets_answer (void *arg)
{
  struct qp *qp = arg;

  if (qp->conn == NULL || is_cut (qp)) {
    uint64_t now = sim_now_ns ();

    if (qp->peer == NULL)
      return;
    /* Half open.  It is sent again, and given up in the end. */
    if (qp->conn == NULL && !is_cut (qp))
      server_hears (qp);
    else if (now - qp->request_ns < HALF_OPEN_MS * FP_NS_PER_MS)
      sim_at (now + REQUEST_AGAIN_MS * FP_NS_PER_MS, client_gets_answer, qp);
    else
      peer_gone (qp->peer);
    return;
  }
  qp->answered = true;
  qp->client_up = qp->answer == 0;
  signal_fd (qp->conn->event_fd);
}

static void
answer (struct qp *qp, int status)
{
  qp->answer = status;
  sim_at (soon (), client_gets_answer, qp);
}

static void
request_arrives (void *arg)
{
  struct qp *qp = arg;
  struct fp_verbs_listener *l;

  if (is_cut (qp)) {
    if (qp->conn != NULL)
      sim_at (sim_now_ns () + REQUEST_AGAIN_MS * FP_NS_PER_MS, request_arrives,
              qp);
    return;
  }
  l = listener_at (qp->machine, qp->port);
  if (l == NULL || l->nr_requests == 64) {
    answer (qp, -ECONNREFUSED);
    return;
  }
  qp->server = l->host;
  qp->request_ns = sim_now_ns ();
  l->requests[l->nr_requests++] = qp;
  signal_fd (l->fd);
}

static void
child_runs (void)
{
  in_child = true;
}

__attribute__ ((constructor)) static void
watch_forks (void)
{
  must (pthread_atfork (NULL, NULL, child_runs) == 0, "pthread_atfork");
}

static int
nic_conn_open (struct fp_conn **out, struct fp_queue *base,
               const struct fp_conn_params *p, uint64_t deadline_ns)
{
  struct nic_conn *c;
  struct in_addr addr;
  struct qp *qp;

  /* The probe tries a connection in a child process.  The child has no other
   * hosts, so report success.
   */
  if (in_child)
    return 0;
  if (inet_pton (AF_INET, p->addr->host, &addr) != 1)
    return -EHOSTUNREACH;
  if (is_starved ())
    return -ENOMEM;
  c = calloc (1, sizeof *c);
  qp = calloc (1, sizeof *qp);
  must (c != NULL && qp != NULL, "memory");
  c->base.ops = &nic_transport;
  c->base.queue = base;
  c->depth = p->depth;
  c->qp = qp;
  c->event_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  must (c->event_fd >= 0, "eventfd");
  qp->conn = c;
  qp->client = sim_host ();
  qp->client_machine = net_machine (qp->client);
  qp->machine = ntohl (addr.s_addr) & 0xff;
  qp->port = p->addr->port;
  qp->hello.session = p->session;
  qp->hello.lane = p->lane;
  memcpy (qp->hello.token, p->token, sizeof p->token);
  qp->timeout_ns =
      (p->timeout_ms / 2 + sim_dice (p->timeout_ms / 2)) * FP_NS_PER_MS;
  qp->answer = 1;
  qp->out.last = &qp->out.first;
  qp->back.last = &qp->back.first;
  qp->next = qps;
  qps = qp;
  sim_at (soon (), request_arrives, qp);

  while (!qp->answered) {
    struct pollfd pfd = { .fd = c->event_fd, .events = POLLIN };
    int ms = fp_deadline_left_ms (deadline_ns);

    if (ms == 0) {
      conn_destroy (c);
      return -ETIMEDOUT;
    }
    (void) poll (&pfd, 1, ms);
  }
  if (qp->answer < 0) {
    int r = qp->answer;

    conn_destroy (c);
    return r;
  }
  if (!c->disconnected)
    clear_fd (c->event_fd);
  *out = &c->base;
  return 0;
}

const struct fp_transport_ops nic_transport = {
  .name = "rdma",
  .bit = FP_TRANSPORT_RDMA,
  .registered = true,
  .max_transfer = MAX_TRANSFER,
  .available = nic_available,
  .queue_new = nic_queue_new,
  .queue_free = fp_op_queue_free,
  .poll = nic_poll,
  .arm = nic_arm,
  .conn_open = nic_conn_open,
  .post = nic_post,
  .kick = nic_kick,
  .conn_break = nic_conn_break,
  .conn_inflight = nic_conn_inflight,
  .conn_broken = nic_conn_broken,
  .conn_free = nic_conn_free,
  .conn_event_fd = nic_conn_event_fd,
  .conn_event = nic_conn_event,
  .import = nic_import,
  .unimport = nic_unimport,
};

/* ---- the server's side ---- */

int
fp_verbs_listen (struct fp_verbs_listener **out, const struct fp_addr *addr,
                 const struct fp_verbs_handler *handler)
{
  struct fp_verbs_listener *l = calloc (1, sizeof *l);

  must (l != NULL, "memory");
  l->handler = *handler;
  l->host = sim_host ();
  l->machine = net_machine (l->host);
  l->port = addr->port;
  l->fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  must (l->fd >= 0, "eventfd");
  l->next = listeners;
  listeners = l;
  *out = l;
  return 0;
}

static void
unlist (const struct fp_verbs_listener *l)
{
  struct fp_verbs_listener **at = &listeners;

  while (*at != NULL && *at != l)
    at = &(*at)->next;
  if (*at != NULL)
    *at = l->next;
}

void
fp_verbs_listener_free (struct fp_verbs_listener *l)
{
  unlist (l);
  close (l->fd);
  free (l);
}

int
fp_verbs_listener_fd (const struct fp_verbs_listener *l)
{
  return l->fd;
}

uint16_t
fp_verbs_listener_port (const struct fp_verbs_listener *l)
{
  return l->port;
}

static void
accept_one (struct fp_verbs_listener *l, struct qp *qp)
{
  struct fp_verbs_domain **place;
  struct fp_verbs_peer *p;
  void *cookie = NULL;

  place = l->handler.request (l->handler.ctx, &qp->hello, &cookie);
  if (place == NULL) {
    answer (qp, -EACCES);
    return;
  }
  if (*place == NULL)
    *place = calloc (1, sizeof **place);
  p = calloc (1, sizeof *p);
  must (*place != NULL && p != NULL, "memory");
  if ((*place)->nr_peers == MAX_PEERS) {
    free (p);
    answer (qp, -EBUSY);
    return;
  }
  (*place)->nr_peers++;
  *p = (struct fp_verbs_peer) {
    .listener = l, .domain = *place, .qp = qp, .cookie = cookie
  };
  qp->peer = p;
  answer (qp, 0);
  l->handler.accepted (l->handler.ctx, cookie, &qp->hello, p);
}

void
fp_verbs_listener_dispatch (struct fp_verbs_listener *l)
{
  clear_fd (l->fd);
  for (unsigned n = 0; n < TURN && l->nr_requests + l->nr_gone > 0; n++) {
    if (l->nr_gone > 0) {
      struct fp_verbs_peer *p = l->gone[--l->nr_gone];

      l->handler.gone (l->handler.ctx, p->cookie, p);
    }
    else {
      struct qp *qp = l->requests[0];

      memmove (l->requests, l->requests + 1,
               --l->nr_requests * sizeof l->requests[0]);
      accept_one (l, qp);
    }
  }
  if (l->nr_requests + l->nr_gone > 0)
    signal_fd (l->fd);
}

void
fp_verbs_peer_free (struct fp_verbs_peer *p)
{
  struct fp_verbs_listener *l = p->listener;

  for (unsigned i = 0; i < l->nr_gone; i++)
    if (l->gone[i] == p)
      l->gone[i--] = l->gone[--l->nr_gone];
  p->qp->peer = NULL;
  p->domain->nr_peers--;
  sim_at (soon (), client_hears, p->qp);
  free (p);
}

void
fp_verbs_domain_free (struct fp_verbs_domain *d)
{
  must (d->nr_peers == 0, "a protection domain is freed while in use");
  free (d);
}

int
fp_verbs_region_new (struct fp_verbs_region **out, struct fp_verbs_domain *d,
                     void *addr, size_t length, bool writable)
{
  struct fp_verbs_region *r;

  if (is_starved ())
    return -ENOMEM;
  r = calloc (1, sizeof *r);
  must (r != NULL, "memory");
  *r = (struct fp_verbs_region) {
    .next = regions,
    .domain = d,
    .addr = addr,
    .length = length,
    .raddr = ((uint64_t) sim_dice (1u << 30) + 1) << 20,
    .rkey = next_key++,
    .writable = writable,
  };
  regions = r;
  *out = r;
  return 0;
}

int
fp_verbs_region_free (struct fp_verbs_region *r)
{
  struct fp_verbs_region **at = &regions;

  while (*at != r)
    at = &(*at)->next;
  *at = r->next;
  free (r);
  return 0;
}

uint64_t
fp_verbs_region_raddr (const struct fp_verbs_region *r)
{
  return r->raddr;
}

uint64_t
fp_verbs_region_rkey (const struct fp_verbs_region *r)
{
  return r->rkey;
}

/* ---- ends ---- */

static void
server_dies (struct qp *qp, bool power)
{
  qp->peer = NULL;
  if (power)
    sim_at (soon (), client_hears, qp);
}

void
nic_kill (unsigned host, bool power)
{
  for (struct qp *qp = qps; qp != NULL; qp = qp->next) {
    if (qp->client == host && qp->conn != NULL) {
      qp->conn = NULL;
      qp->client_up = false;
      for (struct transfer *t = qp->out.first; t != NULL; t = t->next)
        t->op = NULL;
      for (struct transfer *t = qp->back.first; t != NULL; t = t->next)
        t->op = NULL;
      if (power)
        sim_at (soon (), server_hears, qp);
    }
    if (qp->server == host && qp->peer != NULL)
      server_dies (qp, power);
  }
  for (struct fp_verbs_listener *l = listeners, *next; l != NULL; l = next) {
    next = l->next;
    if (l->host == host)
      unlist (l);
  }
}

void
nic_reset (unsigned a, unsigned b)
{
  for (struct qp *qp = qps; qp != NULL; qp = qp->next) {
    if (!(qp->client_machine == a && qp->machine == b) &&
        !(qp->client_machine == b && qp->machine == a))
      continue;
    if (qp->conn != NULL && qp->client_up) {
      qp->conn->disconnected = true;
      signal_fd (qp->conn->event_fd);
    }
    client_breaks (qp);
    sim_at (soon (), server_hears, qp);
  }
}
