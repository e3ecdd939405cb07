/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/eventfd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/random.h"
#include "volume/link.h"
#include "volume/session.h"
#include "volume/sync.h"
#include "volume/volume_int.h"

/* Deadlines of messages, in milliseconds.  Those that only look at a table
 * get what a server may be silent for; those that may have to populate,
 * register or zero a slab get longer.
 */
#define SLOW_MS 15000
#define BACKOFF_MIN_MS 20
#define BACKOFF_MAX_MS 1000
#define PING_MAX_MS 5000

enum call_kind { CALL_GRANT, CALL_LABEL, CALL_RELEASE, CALL_ZERO };

/* On the stack of who waits for it. */
struct call {
  enum call_kind kind;
  struct fp_copy *copies; /* GRANT: out; LABEL: in */
  const uint64_t *pieces;
  unsigned count;
  uint64_t session;       /* in: LABEL; out: GRANT */
  struct fp_piece *piece; /* RELEASE, ZERO */
  uint64_t offset, length;

  int result;
  bool done;
  struct call *next;
};

struct fp_link {
  struct fp_volume *v;
  unsigned index;
  const struct fp_addr *addr;
  struct fp_thread thread;
  bool started;
  int wake_fd;
  _Atomic bool stop, discard;

  pthread_mutex_t lock; /* until the thread's own */
  pthread_cond_t cond;  /* a call is done, or the state changed */
  enum fp_server_state state;
  uint64_t session; /* counts the times it came up */
  struct call *calls, **calls_tail;
  unsigned transport;
  char name[FP_NAME_MAX + 1];
  char why[FP_WHY_MAX];
  uint64_t slabs_total, slabs_free, reconnects;

  /* The thread's own. */
  struct fp_session s;
  const struct fp_transport_ops *ops;
  bool opened;  /* the volume is, or was, on this server */
  bool learned; /* all that it held at the start was listed once */
  bool lost;    /* it forgot a volume that it had */
  unsigned ping_ms;
  struct pollfd fds[2 + FP_MAX_LANES];
  struct fp_grants grants; /* too large for a small stack */
  int grant_fds[FP_MAX_GRANTS];
  struct fp_labels labels;

  _Atomic uint64_t pieces, bytes_read, bytes_written, ops_done, errors;
};

static const char *const state_names[] = {
  [FP_SERVER_DOWN] = "down", [FP_SERVER_CONNECTING] = "connecting",
  [FP_SERVER_UP] = "up",     [FP_SERVER_DRAINING] = "draining",
  [FP_SERVER_LOST] = "lost",
};

const char *
fp_server_state_name (enum fp_server_state s)
{
  return state_names[s];
}

/* The whole machine; a move that is not in it is a bug. */
static void
move (struct fp_link *l, enum fp_server_state to)
{
  static const unsigned allowed[] = {
    [FP_SERVER_DOWN] = 1u << FP_SERVER_CONNECTING,
    [FP_SERVER_CONNECTING] =
        1u << FP_SERVER_UP | 1u << FP_SERVER_DOWN | 1u << FP_SERVER_LOST,
    [FP_SERVER_UP] = 1u << FP_SERVER_DRAINING,
    [FP_SERVER_DRAINING] = 1u << FP_SERVER_DOWN,
    [FP_SERVER_LOST] = 0,
  };

  FP_LOCK_SCOPE (&l->lock);
  assert (allowed[l->state] & (1u << to));
  l->state = to;
  pthread_cond_broadcast (&l->cond);
}

static void
set_why (struct fp_link *l, const char *why)
{
  FP_LOCK_SCOPE (&l->lock);
  snprintf (l->why, sizeof l->why, "%s", why);
}

static void
wake (struct fp_link *l)
{
  uint64_t one = 1;

  /* The counter cannot overflow: the thread reads it. */
  if (write (l->wake_fd, &one, sizeof one) == -1)
    assert (errno == EAGAIN);
}

void
fp_link_poke (struct fp_link *l)
{
  wake (l);
}

void
fp_link_count (struct fp_link *l, enum fp_op_kind kind, uint32_t length,
               int status)
{
  atomic_fetch_add_explicit (&l->ops_done, 1, memory_order_relaxed);
  if (status < 0)
    atomic_fetch_add_explicit (&l->errors, 1, memory_order_relaxed);
  else if (kind == FP_OP_READ)
    atomic_fetch_add_explicit (&l->bytes_read, length, memory_order_relaxed);
  else
    atomic_fetch_add_explicit (&l->bytes_written, length,
                               memory_order_relaxed);
}

unsigned
fp_link_index (const struct fp_link *l)
{
  return l->index;
}

/* ---- coming up ---- */

static int
open_volume (struct fp_link *l, struct fp_open_reply *reply, uint64_t deadline,
             char why[FP_WHY_MAX])
{
  const struct fp_volume_params *p = &l->v->p;
  struct fp_open q = {
    .flags = (l->opened || p->resume ? FP_OPEN_RESUME : FP_OPEN_CREATE) |
             (p->name[0] == '\0' ? FP_OPEN_EPHEMERAL : 0),
    .transport = l->ops->bit,
    .volume = p->uuid,
    .size = p->size,
    .slab_size = p->slab_size,
    .copies = p->copies,
  };
  int r;

  memcpy (q.name, p->name, sizeof q.name);
  r = fp_ctl_volume_open (l->s.ctl, &q, reply, deadline);
  if (r == 0) {
    l->opened = true;
    return 0;
  }
  snprintf (why, FP_WHY_MAX, "%s", fp_ctl_why (l->s.ctl));
  /* A server that knows nothing of a volume that it had has lost it. */
  if (r == -ENOENT && l->opened)
    l->lost = true;
  return r;
}

static int
connect_lanes (struct fp_link *l, uint64_t deadline, char why[FP_WHY_MAX])
{
  struct fp_conn_params cp;
  struct fp_addr data;
  int r;

  r = fp_session_data_addr (&l->s, l->ops, l->addr, &data);
  for (unsigned i = 0; r == 0 && i < l->v->nr_lanes; i++) {
    fp_session_conn_params (&l->s, &l->v->p, &data, &cp);
    r = fp_lane_connect (l->v->lanes[i], l->index, l->ops, &cp, deadline);
  }
  if (r < 0)
    snprintf (why, FP_WHY_MAX, "%s data connection: %s", l->ops->name,
              strerror (-r));
  return r;
}

static void
close_grant_fds (struct fp_link *l)
{
  for (unsigned i = 0; i < l->grants.count; i++) {
    if (l->grant_fds[i] >= 0)
      close (l->grant_fds[i]);
    l->grant_fds[i] = -1;
  }
}

static int
import (struct fp_link *l, unsigned i, struct fp_copy *copy)
{
  const struct fp_grant *g = &l->grants.grants[i];
  int r;

  if (g->length != l->v->p.slab_size)
    return -EPROTO;
  *copy = (struct fp_copy) {
    .server = l->index,
    .slab = g->slab,
    .generation = g->generation,
  };
  r = l->ops->import (&copy->remote, g, l->grant_fds[i]);
  return r;
}

static void
publish (struct fp_link *l, struct fp_piece *p, const struct fp_copy *copy,
         enum fp_piece_state from)
{
  p->copy = *copy;
  p->releasing = false;
  atomic_store (&p->server, l->index);
  if (!fp_piece_move (p, from, FP_PIECE_READY))
    abort (); /* the caller owns it in that state */
}

/* The server says that a slab holds a piece.  Believe it where that is what
 * we know, or where we know nothing yet; else the slab is a leftover of a
 * label whose answer never came: *stray.
 */
static int
take_label (struct fp_link *l, unsigned i, bool *stray)
{
  const struct fp_grant *g = &l->grants.grants[i];
  struct fp_pieces *t = l->v->pieces;
  struct fp_piece *p;
  struct fp_copy copy;
  int r;

  *stray = false;
  if (g->piece >= t->nr || g->copy != 0)
    return -EPROTO;
  p = &t->p[g->piece];
  if (fp_piece_state (p) == FP_PIECE_OFFLINE &&
      atomic_load (&p->server) == l->index && p->copy.slab == g->slab) {
    r = import (l, i, &copy);
    if (r == 0)
      publish (l, p, &copy, FP_PIECE_OFFLINE);
    return r;
  }
  if (l->learned) {
    *stray = true;
    return 0;
  }
  r = import (l, i, &copy);
  if (r < 0)
    return r;
  /* Two servers that both claim a piece: do not guess. */
  if (!fp_piece_move (p, FP_PIECE_EMPTY, FP_PIECE_BUSY)) {
    l->ops->unimport (&copy.remote);
    return -EPROTO;
  }
  fp_piece_set_all_written (t, g->piece);
  atomic_fetch_add (&l->v->allocated, 1);
  atomic_fetch_add (&l->pieces, 1);
  publish (l, p, &copy, FP_PIECE_BUSY);
  return 0;
}

/* Learn what the server holds of this volume. */
static int
take_labels (struct fp_link *l, uint64_t total, uint64_t deadline)
{
  struct fp_release strays = { .count = 0 };
  uint64_t seen = 0;
  int r = 0;

  while (r == 0 && seen < total) {
    struct fp_list q = { .start = seen, .max = FP_MAX_GRANTS };

    r = fp_ctl_list (l->s.ctl, &q, &l->grants, l->grant_fds, deadline);
    if (r < 0)
      return r;
    if (l->grants.count == 0)
      r = -EPROTO;
    for (unsigned i = 0; r == 0 && i < l->grants.count; i++) {
      bool stray;

      r = take_label (l, i, &stray);
      if (stray && strays.count < FP_MAX_GRANTS)
        strays.slabs[strays.count++] = l->grants.grants[i].slab;
    }
    seen += l->grants.count;
    close_grant_fds (l);
  }
  if (r == 0)
    l->learned = true;
  if (r == 0 && strays.count > 0)
    r = fp_ctl_release (l->s.ctl, &strays, deadline);
  return r;
}

/* What is still OFFLINE here although the server listed all it has. */
static void
judge_missing (struct fp_link *l)
{
  struct fp_pieces *t = l->v->pieces;

  for (uint64_t i = 0; i < t->nr; i++) {
    struct fp_piece *p = &t->p[i];

    if (fp_piece_state (p) != FP_PIECE_OFFLINE ||
        atomic_load (&p->server) != l->index)
      continue;
    atomic_fetch_sub (&l->v->allocated, 1);
    atomic_fetch_sub (&l->pieces, 1);
    if (p->releasing) {
      p->releasing = false;
      fp_piece_clear_written (t, i, 0, t->piece_size);
      fp_piece_move (p, FP_PIECE_OFFLINE, FP_PIECE_EMPTY);
    }
    else {
      atomic_fetch_add (&l->v->lost, 1);
      fp_piece_move (p, FP_PIECE_OFFLINE, FP_PIECE_LOST);
    }
  }
}

static int
try_transport (struct fp_link *l, uint64_t deadline, char why[FP_WHY_MAX])
{
  struct fp_open_reply reply;
  int r;

  r = open_volume (l, &reply, deadline, why);
  if (r < 0)
    return r;
  r = connect_lanes (l, deadline, why);
  if (r < 0)
    return r;
  r = take_labels (l, reply.labels, fp_deadline_in_ms (SLOW_MS));
  if (r < 0) {
    const char *text = fp_ctl_why (l->s.ctl);

    snprintf (why, FP_WHY_MAX, "what it holds: %s",
              text[0] != '\0' ? text : strerror (-r));
    return r;
  }
  judge_missing (l);
  return 0;
}

static void let_go (struct fp_link *l);

/* DOWN to UP, or back. */
static int
come_up (struct fp_link *l, char why[FP_WHY_MAX])
{
  unsigned timeout = FP_MAX (l->v->p.timeout_ms, 1000u);
  uint64_t deadline = fp_deadline_in_ms (timeout);
  unsigned untried;
  int r;

  move (l, FP_SERVER_CONNECTING);
  r = fp_session_open (&l->s, &l->v->p, l->addr, deadline, why);
  if (r < 0)
    return r;
  /* Once one transport worked for this server it stays with that. */
  untried = l->learned ? l->ops->bit : l->s.transports;
  untried &= l->s.transports;
  r = -EOPNOTSUPP;
  while (untried != 0) {
    l->ops = fp_session_best (untried);
    untried &= ~l->ops->bit;
    r = try_transport (l, fp_deadline_in_ms (timeout), why);
    if (r == 0 || l->lost || untried == 0)
      break;
    /* The next transport needs a session of its own. */
    let_go (l);
    if (fp_session_open (&l->s, &l->v->p, l->addr, fp_deadline_in_ms (timeout),
                         why) < 0)
      return r;
  }
  if (r < 0) {
    let_go (l);
    return r;
  }
  l->ping_ms =
      FP_MIN (FP_MAX (l->s.hello.lease_ms / 4, 100u), (unsigned) PING_MAX_MS);
  {
    FP_LOCK_SCOPE (&l->lock);
    memcpy (l->name, l->s.hello.name, sizeof l->name);
    l->transport = l->ops->bit;
    l->slabs_total = l->s.hello.slabs_total;
    l->slabs_free = l->s.hello.slabs_free;
    l->why[0] = '\0';
    if (l->session++ > 0)
      l->reconnects++;
  }
  move (l, FP_SERVER_UP);
  fp_volume_wake_lanes (l->v);
  return 0;
}

/* ---- going down ---- */

/* Nobody starts a transfer to this server any more; what is in flight ends;
 * then what it lent is let go.
 */
static void
let_go (struct fp_link *l)
{
  struct fp_pieces *t = l->v->pieces;

  for (uint64_t i = 0; i < t->nr; i++) {
    struct fp_piece *p = &t->p[i];

    if (fp_piece_state (p) == FP_PIECE_READY &&
        atomic_load (&p->server) == l->index)
      fp_piece_move (p, FP_PIECE_READY, FP_PIECE_OFFLINE);
  }
  for (unsigned i = 0; i < l->v->nr_lanes; i++)
    fp_lane_disconnect (l->v->lanes[i], l->index);
  for (uint64_t i = 0; i < t->nr; i++) {
    struct fp_piece *p = &t->p[i];

    if (fp_piece_state (p) == FP_PIECE_OFFLINE &&
        atomic_load (&p->server) == l->index) {
      fp_volume_drain_piece (l->v, p);
      l->ops->unimport (&p->copy.remote);
    }
  }
  fp_session_close (&l->s);
}

/* ---- calls ---- */

static int
do_grant (struct fp_link *l, struct call *c)
{
  int r = fp_ctl_grant (l->s.ctl, c->count, &l->grants, l->grant_fds,
                        fp_deadline_in_ms (SLOW_MS));
  unsigned n = 0;

  if (r < 0)
    return r;
  for (unsigned i = 0; r == 0 && i < l->grants.count && n < c->count; i++) {
    r = import (l, i, &c->copies[n]);
    if (r == 0)
      n++;
  }
  close_grant_fds (l);
  if (r < 0) {
    while (n > 0)
      l->ops->unimport (&c->copies[--n].remote);
    return r;
  }
  FP_LOCK_SCOPE (&l->lock);
  c->session = l->session;
  l->slabs_free -= FP_MIN (l->slabs_free, (uint64_t) n);
  return (int) n;
}

/* On the server's record first, then in ours: a write to the piece cannot be
 * acknowledged before.  Here and not in the caller, so that the session
 * cannot end between the two.
 */
static int
do_label (struct fp_link *l, struct call *c)
{
  struct fp_pieces *t = l->v->pieces;
  int r;

  if (c->session != l->session)
    return -ESTALE;
  l->labels.count = c->count;
  for (unsigned i = 0; i < c->count; i++) {
    l->labels.labels[i] = (struct fp_label) {
      .slab = c->copies[i].slab,
      .piece = c->pieces[i],
      .generation = c->copies[i].generation,
    };
  }
  r = fp_ctl_label (l->s.ctl, &l->labels, fp_deadline_in_ms (SLOW_MS));
  if (r < 0)
    return r;
  for (unsigned i = 0; i < c->count; i++) {
    fp_piece_clear_written (t, c->pieces[i], 0, t->piece_size);
    atomic_fetch_add (&l->v->allocated, 1);
    atomic_fetch_add (&l->pieces, 1);
    publish (l, &t->p[c->pieces[i]], &c->copies[i], FP_PIECE_BUSY);
  }
  return 0;
}

static int
do_release (struct fp_link *l, struct call *c)
{
  struct fp_release q = { .count = 1, .slabs = { c->piece->copy.slab } };
  int r;

  c->piece->releasing = true;
  r = fp_ctl_release (l->s.ctl, &q, fp_deadline_in_ms (SLOW_MS));
  if (r < 0)
    return r;
  c->piece->releasing = false;
  l->ops->unimport (&c->piece->copy.remote);
  atomic_fetch_sub (&l->v->allocated, 1);
  atomic_fetch_sub (&l->pieces, 1);
  return 0;
}

static int
do_zero (struct fp_link *l, struct call *c)
{
  struct fp_zero q = {
    .slab = c->piece->copy.slab,
    .offset = c->offset,
    .length = c->length,
  };

  int r = fp_ctl_zero (l->s.ctl, &q, fp_deadline_in_ms (SLOW_MS));

  if (r == 0)
    fp_piece_clear_written (l->v->pieces,
                            (uint64_t) (c->piece - l->v->pieces->p), c->offset,
                            c->length);
  return r;
}

/* A status that the server sent leaves the session sound; anything else
 * ends it.
 */
static bool
session_broken (int r)
{
  switch (r) {
  case -ENOSPC:
  case -EINVAL:
  case -EBUSY:
  case -ENOENT:
  case -EPERM:
  case -ENOMEM:
  case -ESHUTDOWN:
  case -ESTALE:
  case -EEXIST:
    return false;
  default:
    return r < 0;
  }
}

static void
finish_call (struct fp_link *l, struct call *c, int r, bool up)
{
  /* A piece whose release or zeroing failed still is what it was; if the
   * server is away it is offline, and its list will tell.
   */
  if (c->kind == CALL_RELEASE || c->kind == CALL_ZERO) {
    enum fp_piece_state to = up ? FP_PIECE_READY : FP_PIECE_OFFLINE;

    if (r == 0 && c->kind == CALL_RELEASE)
      to = FP_PIECE_EMPTY;
    if (to == FP_PIECE_OFFLINE)
      l->ops->unimport (&c->piece->copy.remote);
    if (!fp_piece_move (c->piece, FP_PIECE_BUSY, to))
      abort (); /* the caller owns it */
  }
  FP_LOCK_SCOPE (&l->lock);
  c->result = r;
  c->done = true;
  pthread_cond_broadcast (&l->cond);
}

static struct call *
next_call (struct fp_link *l)
{
  FP_LOCK_SCOPE (&l->lock);
  struct call *c = l->calls;

  if (c != NULL) {
    l->calls = c->next;
    if (l->calls == NULL)
      l->calls_tail = &l->calls;
  }
  return c;
}

/* Returns a negative errno value if the session ended. */
static int
do_calls (struct fp_link *l)
{
  struct call *c;

  while ((c = next_call (l)) != NULL) {
    int r = -EINVAL;

    switch (c->kind) {
    case CALL_GRANT:
      r = do_grant (l, c);
      break;
    case CALL_LABEL:
      r = do_label (l, c);
      break;
    case CALL_RELEASE:
      r = do_release (l, c);
      break;
    case CALL_ZERO:
      r = do_zero (l, c);
      break;
    }
    if (session_broken (r)) {
      set_why (l, fp_ctl_why (l->s.ctl));
      finish_call (l, c, -ENOTCONN, false);
      return r;
    }
    finish_call (l, c, r, true);
  }
  return 0;
}

static void
fail_calls (struct fp_link *l)
{
  struct call *c;

  while ((c = next_call (l)) != NULL)
    finish_call (l, c, -ENOTCONN, false);
}

static int
run_call (struct fp_link *l, struct call *c)
{
  {
    FP_LOCK_SCOPE (&l->lock);
    *l->calls_tail = c;
    l->calls_tail = &c->next;
  }
  wake (l);
  FP_LOCK_SCOPE (&l->lock);
  while (!c->done)
    pthread_cond_wait (&l->cond, &l->lock);
  return c->result;
}

int
fp_link_grant (struct fp_link *l, struct fp_copy *copies, unsigned count,
               uint64_t *session)
{
  struct call c = { .kind = CALL_GRANT, .copies = copies, .count = count };
  int r = run_call (l, &c);

  *session = c.session;
  return r;
}

int
fp_link_label (struct fp_link *l, const struct fp_copy *copies,
               const uint64_t *pieces, unsigned count, uint64_t session)
{
  struct call c = {
    .kind = CALL_LABEL,
    .copies = (struct fp_copy *) (uintptr_t) copies, /* only read */
    .pieces = pieces,
    .count = count,
    .session = session,
  };

  return run_call (l, &c);
}

int
fp_link_release (struct fp_link *l, struct fp_piece *p)
{
  struct call c = { .kind = CALL_RELEASE, .piece = p };

  return run_call (l, &c);
}

int
fp_link_zero (struct fp_link *l, struct fp_piece *p, uint64_t offset,
              uint64_t length)
{
  struct call c = {
    .kind = CALL_ZERO,
    .piece = p,
    .offset = offset,
    .length = length,
  };

  return run_call (l, &c);
}

/* ---- the thread ---- */

static int
ping (struct fp_link *l)
{
  struct fp_ping_reply reply;
  /* One-sided I/O goes on while a server process is stopped: it is lost
   * when its lease would be, not as soon as it is slow to answer.
   */
  unsigned ms = FP_MAX (l->s.hello.lease_ms / 2, l->v->p.timeout_ms);
  int r = fp_ctl_ping (l->s.ctl, &reply, fp_deadline_in_ms (ms));

  if (r < 0)
    return r;
  FP_LOCK_SCOPE (&l->lock);
  l->slabs_total = reply.slabs_total;
  l->slabs_free = reply.stopping ? 0 : reply.slabs_free;
  return 0;
}

/* Mend the lanes whose connection broke, under a session that is sound. */
static int
mend_lanes (struct fp_link *l, char why[FP_WHY_MAX])
{
  for (unsigned i = 0; i < l->v->nr_lanes; i++) {
    struct fp_lane *lane = l->v->lanes[i];
    struct fp_conn_params cp;
    struct fp_addr data;
    int r;

    if (!fp_lane_broken (lane, l->index))
      continue;
    fp_lane_disconnect (lane, l->index);
    r = fp_session_data_addr (&l->s, l->ops, l->addr, &data);
    if (r == 0) {
      fp_session_conn_params (&l->s, &l->v->p, &data, &cp);
      r = fp_lane_connect (lane, l->index, l->ops, &cp,
                           fp_deadline_in_ms (l->v->p.timeout_ms));
    }
    if (r < 0) {
      snprintf (why, FP_WHY_MAX, "%s data connection: %s", l->ops->name,
                strerror (-r));
      return r;
    }
    FP_LOCK_SCOPE (&l->lock);
    l->reconnects++;
  }
  return 0;
}

static void
drain_wake (struct fp_link *l)
{
  uint64_t n;

  if (read (l->wake_fd, &n, sizeof n) == -1)
    assert (errno == EAGAIN);
}

/* UP: until the session ends or the link is stopped. */
static void
stay_up (struct fp_link *l, char why[FP_WHY_MAX])
{
  uint64_t next_ping = fp_deadline_in_ms (l->ping_ms);

  while (!atomic_load (&l->stop)) {
    unsigned nr = 2;

    l->fds[0] = (struct pollfd) { .fd = l->wake_fd, .events = POLLIN };
    l->fds[1] =
        (struct pollfd) { .fd = fp_ctl_fd (l->s.ctl), .events = POLLIN };
    for (unsigned i = 0; i < l->v->nr_lanes; i++) {
      l->fds[nr].fd = fp_lane_event_fd (l->v->lanes[i], l->index);
      l->fds[nr].events = POLLIN;
      l->fds[nr++].revents = 0;
    }
    if (poll (l->fds, nr, fp_deadline_left_ms (next_ping)) == -1 &&
        errno != EINTR) {
      snprintf (why, FP_WHY_MAX, "poll: %s", strerror (errno));
      return;
    }
    drain_wake (l);
    for (unsigned i = 0; i < l->v->nr_lanes; i++) {
      if (l->fds[2 + i].revents != 0)
        fp_lane_event (l->v->lanes[i], l->index);
    }
    if (l->fds[1].revents != 0) {
      snprintf (why, FP_WHY_MAX, "the server ended the session");
      return;
    }
    if (mend_lanes (l, why) < 0)
      return;
    if (do_calls (l) < 0)
      return; /* which set the reason */
    if (fp_deadline_passed (next_ping)) {
      if (ping (l) < 0) {
        snprintf (why, FP_WHY_MAX, "heartbeat: %s", fp_ctl_why (l->s.ctl));
        return;
      }
      next_ping = fp_deadline_in_ms (l->ping_ms);
    }
  }
}

/* Wait before the next try; calls that come meanwhile fail at once. */
static void
back_off (struct fp_link *l, unsigned failures)
{
  unsigned ms = BACKOFF_MIN_MS << FP_MIN (failures, 6u), jitter = 0;
  uint64_t deadline;

  if (fp_random (&jitter, sizeof jitter) < 0)
    jitter = 0; /* then without */
  ms = FP_MIN (ms, (unsigned) BACKOFF_MAX_MS);
  deadline = fp_deadline_in_ms (ms / 2 + jitter % (ms / 2 + 1));
  while (!atomic_load (&l->stop) && !fp_deadline_passed (deadline)) {
    struct pollfd fd = { .fd = l->wake_fd, .events = POLLIN };

    /* Timeout or error: look again. */
    (void) poll (&fd, 1, fp_deadline_left_ms (deadline));
    drain_wake (l);
    fail_calls (l);
  }
}

/* Nothing more to hope for: answer calls until it is stopped. */
static void
stay_lost (struct fp_link *l)
{
  struct pollfd fd = { .fd = l->wake_fd, .events = POLLIN };

  judge_missing (l);
  fp_volume_wake_lanes (l->v);
  while (!atomic_load (&l->stop)) {
    (void) poll (&fd, 1, 1000);
    drain_wake (l);
    fail_calls (l);
  }
}

static void
link_main (void *arg)
{
  struct fp_link *l = arg;
  unsigned failures = 0;
  char why[FP_WHY_MAX];

  while (!atomic_load (&l->stop)) {
    why[0] = '\0';
    if (come_up (l, why) == 0) {
      failures = 0;
      stay_up (l, why);
      if (why[0] != '\0')
        set_why (l, why);
      if (atomic_load (&l->stop)) {
        struct fp_bye bye = { .discard = atomic_load (&l->discard) };

        /* If it does not hear this, its lease ends the matter. */
        (void) fp_ctl_bye (l->s.ctl, &bye,
                           fp_deadline_in_ms (l->v->p.timeout_ms));
      }
      move (l, FP_SERVER_DRAINING);
      fail_calls (l);
      let_go (l);
      move (l, FP_SERVER_DOWN);
      fp_volume_wake_lanes (l->v);
      continue;
    }
    set_why (l, why);
    if (l->lost) {
      move (l, FP_SERVER_LOST);
      stay_lost (l);
      break;
    }
    move (l, FP_SERVER_DOWN);
    fail_calls (l);
    back_off (l, failures++);
  }
  fail_calls (l);
}

/* ---- making and ending it ---- */

static void
link_freep (struct fp_link **lp)
{
  fp_link_free (*lp);
}

int
fp_link_new (struct fp_link **out, struct fp_volume *v, unsigned index)
{
  FP_CLEANUP (link_freep) struct fp_link *l = NULL;

  l = calloc (1, sizeof *l);
  if (l == NULL)
    return -ENOMEM;
  l->v = v;
  l->index = index;
  l->addr = &v->p.servers[index];
  l->calls_tail = &l->calls;
  fp_mutex_init (&l->lock);
  fp_cond_init (&l->cond);
  l->wake_fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (l->wake_fd == -1)
    return -errno;
  *out = FP_STEAL (l);
  return 0;
}

int
fp_link_start (struct fp_link *l)
{
  char name[FP_THREAD_NAME_MAX + 1];
  int r;

  snprintf (name, sizeof name, "fp-link%u", l->index);
  r = fp_thread_create (&l->thread, name, link_main, l);
  l->started = r == 0;
  return r;
}

void
fp_link_stop (struct fp_link *l, bool discard)
{
  atomic_store (&l->discard, discard);
  atomic_store (&l->stop, true);
  wake (l);
}

void
fp_link_join (struct fp_link *l)
{
  if (l->started && fp_thread_join (&l->thread) < 0)
    abort (); /* joined twice: a bug */
  l->started = false;
}

void
fp_link_free (struct fp_link *l)
{
  if (l == NULL)
    return;
  assert (!l->started);
  if (l->wake_fd > 0)
    close (l->wake_fd);
  pthread_cond_destroy (&l->cond);
  pthread_mutex_destroy (&l->lock);
  free (l);
}

int
fp_link_wait_up (struct fp_link *l, uint64_t deadline_ns, char why[FP_WHY_MAX])
{
  FP_LOCK_SCOPE (&l->lock);
  while (l->session == 0) {
    struct timespec until;
    char where[FP_ADDR_MAX + 1];

    if (l->state == FP_SERVER_LOST || fp_deadline_passed (deadline_ns)) {
      fp_addr_format (l->addr, where);
      if (strncmp (l->why, where, strlen (where)) == 0)
        snprintf (why, FP_WHY_MAX, "%s", l->why);
      else
        snprintf (why, FP_WHY_MAX, "%s: %.*s", where,
                  FP_WHY_MAX - FP_ADDR_MAX - 3,
                  l->why[0] != '\0' ? l->why : "did not answer in time");
      return -ENOTCONN;
    }
    fp_timespec_after (&until, 50);
    /* A timeout means: look again. */
    (void) pthread_cond_timedwait (&l->cond, &l->lock, &until);
  }
  return 0;
}

void
fp_link_unimport (struct fp_link *l, struct fp_copy *copy)
{
  l->ops->unimport (&copy->remote);
}

bool
fp_link_usable (struct fp_link *l, uint64_t *slabs_free, uint64_t *session)
{
  FP_LOCK_SCOPE (&l->lock);
  *slabs_free = l->slabs_free;
  *session = l->session;
  return l->state == FP_SERVER_UP;
}

void
fp_link_status (struct fp_link *l, struct fp_server_status *s)
{
  memset (s, 0, sizeof *s);
  fp_addr_format (l->addr, s->addr);
  s->pieces = atomic_load (&l->pieces);
  s->bytes_read = atomic_load (&l->bytes_read);
  s->bytes_written = atomic_load (&l->bytes_written);
  s->ops = atomic_load (&l->ops_done);
  s->errors = atomic_load (&l->errors);
  FP_LOCK_SCOPE (&l->lock);
  memcpy (s->name, l->name, sizeof s->name);
  s->state = l->state;
  s->transport = l->transport;
  s->slabs_total = l->slabs_total;
  s->slabs_free = l->slabs_free;
  s->reconnects = l->reconnects;
  memcpy (s->why, l->why, sizeof s->why);
}
