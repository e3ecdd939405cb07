/* SPDX-License-Identifier: BSD-3-Clause */
/* card.c - see card.h.  A kick settles when a transfer will end.  From then on
 * only the clock has to be looked at.
 */

#include <config.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/timerfd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "sim/card.h"
#include "transport/op_queue.h"

#define MAX_TRANSFER (1u << 20) /* as the transport rdma */

struct card_conn {
  struct fp_conn base;
  atomic_bool broken;
  unsigned depth;
  /* A ring of depth entries: nr transfers in the order of posts, from first.
   * The last nr_posted of them have not been kicked.
   */
  struct transfer {
    struct fp_op *op;
    uint64_t ends_ns;
  } * ring;
  unsigned first, nr, nr_posted;

  uint64_t last_start_ns;
  uint64_t reads_ns[SIM_CARD_READS]; /* a ring: ends of the last READs */
  unsigned next_read;
};

struct card_queue {
  struct fp_op_queue common; /* fd: a timer */
  uint64_t timer_ns;         /* when it ends; FP_NEVER: it is off */
  const uint8_t *memory;
  size_t memory_size;
  unsigned max_conns;
  /* conn_open adds entries while another thread polls.  Only the polling
   * thread removes them.  nr_conns never shrinks.
   */
  atomic_uint nr_conns;
  _Atomic (struct card_conn *) conns[];
};

/* When the link of READs and the one of WRITEs are free. */
static _Atomic uint64_t link_free_ns[2];

static struct card_queue *
to_queue (const struct fp_queue *q)
{
  return (struct card_queue *) q;
}

static struct card_conn *
to_conn (const struct fp_conn *c)
{
  return (struct card_conn *) c;
}

/* Return the i-th transfer of the ring, i <= depth. */
static struct transfer *
nth (const struct card_conn *c, unsigned i)
{
  unsigned at = c->first + i;

  return &c->ring[at < c->depth ? at : at - c->depth];
}

/* Return how many of the queue's entries were ever used. */
static unsigned
nr_conns (struct card_queue *q)
{
  return atomic_load (&q->nr_conns);
}

static int
card_available (const char **why)
{
  (void) why;
  return 0;
}

static int
card_queue_new (struct fp_queue **out, const struct fp_queue_params *p)
{
  struct fp_op_queue *base;
  struct card_queue *q;
  int r = fp_op_queue_new (
      &base, sizeof *q + p->max_conns * sizeof q->conns[0], &sim_card, p);

  if (r < 0)
    return r;
  r = fp_op_queue_wakes (
      base, p, timerfd_create (CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (r < 0) {
    fp_op_queue_free (&base->base);
    return r;
  }
  q = to_queue (&base->base);
  q->memory = p->memory;
  q->memory_size = p->memory_size;
  q->max_conns = p->max_conns;
  q->timer_ns = FP_NEVER;
  *out = &base->base;
  return 0;
}

/* Make fd readable at at_ns, by fp_mono_ns, and not before.  FP_NEVER: it does
 * not become readable.
 */
static void
set_timer (int fd, uint64_t at_ns)
{
  struct itimerspec t = { 0 };

  if (at_ns != FP_NEVER) {
    t.it_value.tv_sec = (time_t) (at_ns / FP_NS_PER_S);
    t.it_value.tv_nsec = (long) (at_ns % FP_NS_PER_S);
  }
  /* Fails only for bad arguments. */
  (void) timerfd_settime (fd, TFD_TIMER_ABSTIME, &t, NULL);
}

/* Reserve the link for that time, at start_ns or later.  Return the start. */
static uint64_t
reserve_link (enum fp_op_kind kind, uint64_t start_ns, uint64_t for_ns)
{
  _Atomic uint64_t *link = &link_free_ns[kind == FP_OP_WRITE];
  uint64_t free_ns = atomic_load (link), at;

  do
    at = FP_MAX (start_ns, free_ns);
  while (!atomic_compare_exchange_weak (link, &free_ns, at + for_ns));
  return at;
}

static void
start (struct card_conn *c, struct transfer *t, uint64_t now)
{
  uint64_t for_ns = t->op->length / SIM_CARD_BYTES_PER_NS;
  uint64_t *read = &c->reads_ns[c->next_read % SIM_CARD_READS];
  uint64_t at = FP_MAX (now, c->last_start_ns);

  if (t->op->kind == FP_OP_READ)
    at = FP_MAX (at, *read); /* the end of the one 16 before */
  at = reserve_link (t->op->kind, at, for_ns);
  c->last_start_ns = at;
  t->ends_ns = at + for_ns + SIM_CARD_LATENCY_NS;
  if (t->op->kind == FP_OP_READ) {
    *read = t->ends_ns;
    c->next_read++;
  }
}

static bool
inside_memory (const struct card_queue *q, const struct fp_op *op)
{
  uintptr_t begin = (uintptr_t) q->memory, at = (uintptr_t) op->local;

  return at >= begin && op->length <= q->memory_size &&
         at - begin <= q->memory_size - op->length;
}

static int
card_post (struct fp_conn *base, struct fp_op *op)
{
  struct card_conn *c = to_conn (base);
  struct card_queue *q = to_queue (base->queue);

  if (atomic_load_explicit (&c->broken, memory_order_relaxed))
    return -ENOTCONN;
  if (op->length == 0 || op->length > MAX_TRANSFER || !inside_memory (q, op))
    return -EINVAL;
  if (c->nr == c->depth || q->common.inflight == q->common.depth)
    return -EAGAIN;
  op->conn = base;
  op->next = NULL;
  nth (c, c->nr)->op = op;
  c->nr++;
  c->nr_posted++;
  q->common.inflight++;
  return 0;
}

static void
card_kick (struct fp_queue *base)
{
  struct card_queue *q = to_queue (base);
  uint64_t now = 0;

  for (unsigned i = 0; i < nr_conns (q); i++) {
    struct card_conn *c = atomic_load (&q->conns[i]);

    if (c == NULL || atomic_load (&c->broken))
      continue;
    for (; c->nr_posted > 0; c->nr_posted--) {
      struct transfer *t = nth (c, c->nr - c->nr_posted);

      if (now == 0)
        now = fp_mono_ns ();
      start (c, t, now);
      /* A thread may sleep already. */
      if (t->ends_ns < q->timer_ns) {
        q->timer_ns = t->ends_ns;
        set_timer (q->common.fd, q->timer_ns);
      }
    }
  }
}

/* Move the ops of c that have ended to the completed ones: all, if c is
 * broken.
 */
static void
collect (struct card_queue *q, struct card_conn *c, uint64_t now)
{
  bool broken = atomic_load (&c->broken);

  if (broken)
    c->nr_posted = 0;
  while (c->nr > c->nr_posted && (broken || nth (c, 0)->ends_ns <= now)) {
    struct fp_op *op = nth (c, 0)->op;

    op->status = broken ? -ECONNRESET : 0;
    fp_op_list_add (&q->common.done, op);
    c->first = c->first + 1 == c->depth ? 0 : c->first + 1;
    c->nr--;
    q->common.inflight--;
  }
}

static void
collect_all (struct card_queue *q)
{
  uint64_t now = fp_mono_ns ();

  for (unsigned i = 0; i < nr_conns (q); i++) {
    struct card_conn *c = atomic_load (&q->conns[i]);

    if (c != NULL && c->nr > 0)
      collect (q, c, now);
  }
}

static struct fp_op *
card_poll (struct fp_queue *base)
{
  struct card_queue *q = to_queue (base);

  collect_all (q);
  return fp_op_list_take_all (&q->common.done);
}

/* conn_break marks the connection as broken, and then sets the timer.  So set
 * it here first, and look for broken connections after that.
 */
static bool
card_arm (struct fp_queue *base)
{
  struct card_queue *q = to_queue (base);
  uint64_t first = FP_NEVER;

  for (unsigned i = 0; i < nr_conns (q); i++) {
    struct card_conn *c = atomic_load (&q->conns[i]);

    if (c != NULL && c->nr > c->nr_posted)
      first = FP_MIN (first, nth (c, 0)->ends_ns);
  }
  q->timer_ns = first;
  set_timer (q->common.fd, first);
  collect_all (q);
  return q->common.done.head != NULL;
}

static int
card_conn_open (struct fp_conn **out, struct fp_queue *base,
                const struct fp_conn_params *p, uint64_t deadline_ns)
{
  struct card_queue *q = to_queue (base);
  struct card_conn *c = calloc (1, sizeof *c);

  (void) deadline_ns;
  if (c == NULL)
    return -ENOMEM;
  c->base.ops = &sim_card;
  c->base.queue = base;
  c->depth = p->depth;
  c->ring = calloc (p->depth, sizeof *c->ring);
  for (unsigned i = 0; c->ring != NULL && i < q->max_conns; i++) {
    struct card_conn *none = NULL;

    if (atomic_compare_exchange_strong (&q->conns[i], &none, c)) {
      unsigned n = atomic_load (&q->nr_conns);

      while (n <= i && !atomic_compare_exchange_weak (&q->nr_conns, &n, i + 1))
        ;
      *out = &c->base;
      return 0;
    }
  }
  int r = c->ring == NULL ? -ENOMEM : -ENOSPC;
  free (c->ring);
  free (c);
  return r;
}

static void
card_conn_break (struct fp_conn *base)
{
  int fd =
      to_queue (base->queue)->common.fd; /* base may be freed once broken */

  atomic_store (&to_conn (base)->broken, true);
  set_timer (fd, 1);
}

static unsigned
card_conn_inflight (const struct fp_conn *base)
{
  return to_conn (base)->nr;
}

static bool
card_conn_broken (const struct fp_conn *base)
{
  return atomic_load (&to_conn (base)->broken);
}

static void
card_conn_free (struct fp_conn *base)
{
  struct card_queue *q = to_queue (base->queue);
  struct card_conn *c = to_conn (base);

  for (unsigned i = 0; i < q->max_conns; i++) {
    struct card_conn *it = c;

    if (atomic_compare_exchange_strong (&q->conns[i], &it, NULL))
      break;
  }
  free (c->ring);
  free (c);
}

static int
card_conn_event_fd (const struct fp_conn *c)
{
  (void) c;
  return -1;
}

static void
card_conn_event (struct fp_conn *c)
{
  (void) c;
}

static int
card_import (struct fp_remote *out, const struct fp_grant *g, int fd,
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
card_unimport (struct fp_remote *r)
{
  (void) r;
}

const struct fp_transport_ops sim_card = {
  .name = "sim",
  .bit = FP_TRANSPORT_SHM,
  .registered = true,
  .direct = false,
  .max_transfer = MAX_TRANSFER,
  .available = card_available,
  .queue_new = card_queue_new,
  .queue_free = fp_op_queue_free,
  .poll = card_poll,
  .arm = card_arm,
  .conn_open = card_conn_open,
  .post = card_post,
  .kick = card_kick,
  .conn_break = card_conn_break,
  .conn_inflight = card_conn_inflight,
  .conn_broken = card_conn_broken,
  .conn_free = card_conn_free,
  .conn_event_fd = card_conn_event_fd,
  .conn_event = card_conn_event,
  .import = card_import,
  .unimport = card_unimport,
};
