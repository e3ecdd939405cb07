/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/eventfd.h>

#include "base/checked.h"
#include "base/random.h"
#include "volume/link_int.h"

#define BACKOFF_MIN_MS 20
#define BACKOFF_MAX_MS 1000
#define PING_MAX_MS 5000

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

void
link_set_why (struct fp_link *l, const char *why)
{
  FP_LOCK_SCOPE (&l->lock);
  snprintf (l->why, sizeof l->why, "%s", why);
}

void
link_wake (struct fp_link *l)
{
  uint64_t one = 1;

  /* The counter cannot overflow: the thread reads it. */
  if (write (l->wake_fd, &one, sizeof one) == -1)
    assert (errno == EAGAIN);
}

void
fp_link_poke (struct fp_link *l)
{
  link_wake (l);
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

void
fp_link_suspect (struct fp_link *l)
{
  uint64_t none = 0;

  atomic_compare_exchange_strong (&l->down_ns, &none, fp_now_ns ());
}

bool
fp_link_given_up (const struct fp_link *l)
{
  uint64_t down = atomic_load (&l->down_ns);

  return down != 0 && fp_now_ns () - down >= l->v->p.timeout_ms * FP_NS_PER_MS;
}

/* ---- coming up ---- */

static int
open_volume (struct fp_link *l, struct fp_open_reply *reply, uint64_t deadline,
             char why[FP_WHY_MAX])
{
  const struct fp_volume_params *p = &l->v->p;
  struct fp_open q = {
    .flags = FP_OPEN_RESUME,
    .transport = l->ops->bit,
    .volume = p->uuid,
    .size = p->size,
    .slab_size = p->slab_size,
    .copies = p->copies,
  };
  uint64_t asked;
  int r;

  /* Of a new volume the server may have heard before, if its answer was
   * lost.  One that it had is never made anew: that would be zeros.
   */
  if (!l->opened && !p->resume)
    q.flags |= FP_OPEN_CREATE;
  if (p->name[0] == '\0')
    q.flags |= FP_OPEN_EPHEMERAL;
  memcpy (q.name, p->name, sizeof q.name);
  asked = fp_now_ns ();
  r = fp_ctl_volume_open (l->s.ctl, &q, reply, deadline);
  if (r == -ENOENT && l->learned && !l->lost_any &&
      atomic_load (&l->pieces) == 0) {
    q.flags |= FP_OPEN_CREATE;
    r = fp_ctl_volume_open (l->s.ctl, &q, reply, deadline);
  }
  if (r == 0) {
    link_renewed (l, asked);
    l->opened = true;
    return 0;
  }
  snprintf (why, FP_WHY_MAX, "%s", fp_ctl_why (l->s.ctl));
  /* A server that knows nothing of a volume that it had has lost it: by a
   * restart, or because its lease ended.  If nothing of ours was there it is
   * as good as new.  Not if anything was lost with it earlier: who takes up
   * the volume next is to hear of that by its knowing nothing.
   */
  if (r == -ENOENT && (l->opened || p->resume))
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
  r = link_take_labels (l, reply.labels);
  if (r < 0) {
    const char *text = fp_ctl_why (l->s.ctl);

    snprintf (why, FP_WHY_MAX, "what it holds: %s",
              text[0] != '\0' ? text : strerror (-r));
    return r;
  }
  link_judge_missing (l);
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
  l->attempt++;
  r = fp_session_open (&l->s, &l->v->p, l->addr, &l->client, deadline, why);
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
    if (fp_session_open (&l->s, &l->v->p, l->addr, &l->client,
                         fp_deadline_in_ms (timeout), why) < 0)
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
  atomic_store (&l->down_ns, 0);
  move (l, FP_SERVER_UP);
  fp_volume_wake_lanes (l->v);
  return 0;
}

/* ---- going down ---- */

/* Nobody starts a transfer to this server any more; what is in flight ends;
 * then what it lent is let go.  By hanging up, and by its name when it comes
 * again, the server is told that nothing is under way to what was mapped.
 */
static void
let_go (struct fp_link *l)
{
  struct fp_pieces *t = l->v->pieces;

  atomic_store (&l->lease_ns, 0);
  link_drop_spares (l);
  for (uint64_t i = 0; i < t->nr; i++) {
    struct fp_piece *p = &t->p[i];

    if (fp_piece_state (p) != FP_PIECE_READY ||
        atomic_load (&p->server) != l->index)
      continue;
    /* While the volume starts another link may take it from us. */
    FP_LOCK_SCOPE (&l->v->lock);
    if (atomic_load (&p->server) == l->index)
      fp_piece_move (p, FP_PIECE_READY, FP_PIECE_OFFLINE);
  }
  for (unsigned i = 0; i < l->v->nr_lanes; i++)
    fp_lane_disconnect (l->v->lanes[i], l->index);
  for (uint64_t i = 0; i < t->nr; i++) {
    struct fp_piece *p = &t->p[i];

    if (fp_piece_state (p) == FP_PIECE_OFFLINE &&
        atomic_load (&p->server) == l->index) {
      fp_volume_drain_piece (l->v, p);
      FP_LOCK_SCOPE (&l->v->lock);
      if (atomic_load (&p->server) == l->index)
        fp_copy_forget (&p->copy);
    }
    /* Its owner forgets it; nobody enters until then. */
    else if (fp_piece_state (p) == FP_PIECE_BUSY && atomic_load (&p->held) &&
             atomic_load (&p->server) == l->index)
      fp_volume_drain_piece (l->v, p);
  }
  fp_session_close (&l->s);
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
  uint64_t asked = fp_now_ns ();
  int r = fp_ctl_ping (l->s.ctl, &reply, fp_deadline_in_ms (ms));

  if (r < 0)
    return r;
  link_renewed (l, asked);
  FP_LOCK_SCOPE (&l->lock);
  l->slabs_total = reply.slabs_total;
  l->slabs_free = reply.stopping ? 0 : reply.slabs_free;
  return 0;
}

/* Mend the lanes whose connection broke, under a session that is sound. */
static int
mend_lanes (struct fp_link *l, char why[FP_WHY_MAX])
{
  bool mended = false;

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
    mended = true;
    FP_LOCK_SCOPE (&l->lock);
    l->reconnects++;
  }
  if (mended)
    atomic_store (&l->down_ns, 0);
  return 0;
}

static void
drain_wake (struct fp_link *l)
{
  uint64_t n;

  if (read (l->wake_fd, &n, sizeof n) == -1)
    assert (errno == EAGAIN);
}

/* UP: until the session ends or the link is stopped.  *lost is when the
 * first sign of that was seen, and not when it was certain.
 */
static void
stay_up (struct fp_link *l, uint64_t *lost, char why[FP_WHY_MAX])
{
  uint64_t next_ping = fp_deadline_in_ms (l->ping_ms);

  *lost = fp_now_ns (); /* not the time before */
  if (link_refill (l) < 0)
    return;
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
    *lost = fp_now_ns ();
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
    if (atomic_load (&l->sweep) && link_sweep (l) < 0) {
      snprintf (why, FP_WHY_MAX, "leftovers: %s", fp_ctl_why (l->s.ctl));
      return;
    }
    if (link_do_calls (l) < 0 || link_do_places (l) < 0)
      return; /* which set the reason */
    if (fp_deadline_passed (next_ping) ||
        !fp_link_lease_holds (l, fp_now_ns ())) {
      if (ping (l) < 0) {
        snprintf (why, FP_WHY_MAX, "heartbeat: %s", fp_ctl_why (l->s.ctl));
        return;
      }
      next_ping = fp_deadline_in_ms (l->ping_ms);
    }
    if (link_refill (l) < 0)
      return; /* likewise */
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
    link_fail_calls (l);
  }
}

/* Nothing more to hope for: answer calls until it is stopped. */
static void
stay_lost (struct fp_link *l)
{
  struct pollfd fd = { .fd = l->wake_fd, .events = POLLIN };

  link_judge_missing (l);
  fp_volume_wake_lanes (l->v);
  while (!atomic_load (&l->stop)) {
    (void) poll (&fd, 1, 1000);
    drain_wake (l);
    link_fail_calls (l);
    link_judge_missing (l);
  }
}

static void
link_main (void *arg)
{
  struct fp_link *l = arg;
  unsigned failures = 0;
  uint64_t lost = 0;
  char why[FP_WHY_MAX];

  while (!atomic_load (&l->stop)) {
    why[0] = '\0';
    if (come_up (l, why) == 0) {
      failures = 0;
      stay_up (l, &lost, why);
      if (atomic_load (&l->down_ns) == 0)
        atomic_store (&l->down_ns, lost);
      if (why[0] != '\0')
        link_set_why (l, why);
      /* A volume without a name is gone at BYE: to be kept for its lease it
       * is left by hanging up.
       */
      if (atomic_load (&l->stop) &&
          (atomic_load (&l->discard) || l->v->p.name[0] != '\0')) {
        struct fp_bye bye = { .discard = atomic_load (&l->discard) };

        /* If it does not hear this, its lease ends the matter. */
        (void) fp_ctl_bye (l->s.ctl, &bye,
                           fp_deadline_in_ms (l->v->p.timeout_ms));
      }
      move (l, FP_SERVER_DRAINING);
      link_fail_calls (l);
      let_go (l);
      move (l, FP_SERVER_DOWN);
      fp_volume_wake_lanes (l->v);
      continue;
    }
    link_set_why (l, why);
    if (l->lost) {
      move (l, FP_SERVER_LOST);
      stay_lost (l);
      break;
    }
    move (l, FP_SERVER_DOWN);
    link_fail_calls (l);
    back_off (l, failures++);
  }
  link_fail_calls (l);
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
  int r;

  l = calloc (1, sizeof *l);
  if (l == NULL)
    return -ENOMEM;
  l->v = v;
  l->index = index;
  l->addr = &v->p.servers[index];
  l->calls_tail = &l->calls;
  l->want_head = FP_NO_PIECE;
  fp_mutex_init (&l->lock);
  fp_cond_init (&l->cond);
  r = fp_uuid_generate (&l->client);
  if (r < 0)
    return r;
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
  link_wake (l);
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
