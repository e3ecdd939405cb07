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
#include "base/error.h"
#include "base/random.h"
#include "peer/peer_int.h"

#define PING_WANTED_MS 1000u
#define MEND_AGAIN_MS 200 /* between two attempts to connect a lane */
#define BACKOFF_MIN_MS 20
#define BACKOFF_MAX_MS 1000
#define GRACE_PART 16 /* part of `timeout`: fp_peer_grace_ms */
#define GRACE_MIN_MS 10u

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

/* Change the state.  This table is the whole state machine: any other move is
 * a bug.
 */
void
peer_move (struct fp_peer *l, enum fp_server_state to)
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

/* Change the state of the thread. */
static void
set_life (struct fp_peer *l, enum peer_thread to)
{
  static const unsigned allowed[] = {
    [THREAD_NONE] = 1u << THREAD_RUNS,
    [THREAD_RUNS] = 1u << THREAD_ENDED | 1u << THREAD_JOINED,
    [THREAD_ENDED] = 1u << THREAD_JOINED,
    [THREAD_JOINED] = 1u << THREAD_RUNS,
  };

  FP_LOCK_SCOPE (&l->lock);
  assert (allowed[l->life] & (1u << to));
  l->life = to;
  pthread_cond_broadcast (&l->cond);
}

void
peer_set_why (struct fp_peer *l, const char *why)
{
  FP_LOCK_SCOPE (&l->lock);
  snprintf (l->why, sizeof l->why, "%s", why);
}

void
peer_wake (struct fp_peer *l)
{
  uint64_t one = 1;

  /* The counter cannot overflow: the thread reads it. */
  if (write (l->wake_fd, &one, sizeof one) == -1)
    assert (errno == EAGAIN);
}

static void
set_busy (struct fp_peer *l, uint64_t since_ns)
{
  FP_LOCK_SCOPE (&l->lock);
  l->busy_ns = since_ns;
  l->asks_ns = 0;
}

static void
set_asks (struct fp_peer *l, uint64_t since_ns)
{
  FP_LOCK_SCOPE (&l->lock);
  l->asks_ns = since_ns;
}

void
peer_answered (struct fp_peer *l)
{
  set_asks (l, 0);
}

uint64_t
peer_soon (struct fp_peer *l)
{
  set_asks (l, fp_mono_ns ());
  return fp_deadline_in_ms (PEER_SLOW_MS);
}

uint64_t
peer_slow (struct fp_peer *l)
{
  peer_answered (l);
  return fp_deadline_in_ms (PEER_SLOW_MS);
}

void
fp_peer_hurry (struct fp_peer *l)
{
  FP_LOCK_SCOPE (&l->lock);
  if (l->asked != NULL && l->busy_ns != 0 &&
      fp_now_ns () - l->busy_ns > PEER_HURRY_MS * FP_NS_PER_MS)
    fp_ctl_hang_up (l->asked);
}

void
fp_peer_poke (struct fp_peer *l)
{
  peer_wake (l);
}

void
fp_peer_count (struct fp_peer *l, enum fp_op_kind kind, uint32_t length,
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
fp_peer_index (const struct fp_peer *l)
{
  return l->index;
}

void
fp_peer_suspect (struct fp_peer *l)
{
  uint64_t none = 0;

  atomic_compare_exchange_strong (&l->down_ns, &none, fp_now_ns ());
}

bool
fp_peer_given_up (const struct fp_peer *l)
{
  uint64_t down = atomic_load (&l->down_ns);

  return down != 0 &&
         fp_now_ns () - down >= l->peers->p->timeout_ms * FP_NS_PER_MS;
}

unsigned
fp_peer_grace_ms (const struct fp_volume_params *p)
{
  return FP_MAX (p->timeout_ms / GRACE_PART, GRACE_MIN_MS);
}

uint64_t
fp_peer_learns_until (const struct fp_peer *l)
{
  return atomic_load (&l->down_ns) == 0 ? 0 : atomic_load (&l->learn_until_ns);
}

uint64_t
fp_peer_away_ms (const struct fp_peer *l)
{
  uint64_t down = atomic_load (&l->down_ns), now = fp_now_ns ();

  return down == 0 || now <= down ? 0 : (now - down) / FP_NS_PER_MS;
}

unsigned
fp_peer_cut (struct fp_peer *l, unsigned ms)
{
  uint64_t away = fp_peer_away_ms (l);

  if (away < ms)
    return atomic_load (&l->down_ns) == 0 ? 0 : ms - (unsigned) away;
  FP_LOCK_SCOPE (&l->lock);
  if (l->asked != NULL && l->busy_ns != 0 && l->state == FP_SERVER_UP)
    fp_ctl_hang_up (l->asked);
  return 0;
}

void
fp_peer_away (struct fp_peer *l)
{
  atomic_store (&l->down_ns, fp_now_ns ());
}

/* ---- going down ---- */

/* Wait until no operation is inside p, or p is not this peer's any more.
 * While p is BUSY, its owner unmaps it, and lets no operation in before that.
 */
static void
await_owner (const struct fp_peer *l, struct fp_extent *p)
{
  struct fp_notifier *changes = &l->peers->extents->changes;

  for (;;) {
    uint32_t seen = fp_notifier_count (changes);

    if (fp_extent_state (p) != FP_EXTENT_BUSY || !atomic_load (&p->held) ||
        atomic_load (&p->server) != l->index ||
        (atomic_load (&p->word) & FP_EXTENT_USERS) == 0)
      return;
    (void) fp_notifier_await (changes, seen, FP_NEVER);
  }
}

/* Let no new transfer start, wait for those in flight, then unmap what the
 * donor lent.  Hanging up, and HELLO with the same UUID later, tell the donor
 * that no transfer to mapped memory is under way.
 */
void
peer_let_go (struct fp_peer *l)
{
  struct fp_extents *t = l->peers->extents;

  fp_lease_end (l->peers->lease, l->index);
  atomic_store (&l->learn_until_ns, 0);
  {
    FP_LOCK_SCOPE (&l->lock);
    l->asked = NULL;
  }
  peer_drop_spares (l);
  for (uint64_t i = 0; i < t->all; i++) {
    struct fp_extent *p = &t->p[i];

    if (!atomic_load (&p->held) || atomic_load (&p->server) != l->index)
      continue;
    /* While the volume starts, another peer may take the extent away.  Later
     * the migration thread may, which also freezes and thaws it under this
     * lock.
     */
    FP_LOCK_SCOPE (&l->peers->extents->lock);
    if (atomic_load (&p->server) == l->index &&
        !fp_extent_move (t, p, FP_EXTENT_READY, FP_EXTENT_OFFLINE))
      (void) fp_extent_move (t, p, FP_EXTENT_FROZEN, FP_EXTENT_OFFLINE);
  }
  fp_notifier_raise (&t->changes);
  peer_shut_target (l);
  for (unsigned i = 0; i < l->peers->nr_lanes; i++)
    l->peers->ops->disconnect (l->peers->lanes[i], l->index);
  for (uint64_t i = 0; i < t->all; i++) {
    struct fp_extent *p = &t->p[i];

    if (fp_extent_state (p) == FP_EXTENT_OFFLINE &&
        atomic_load (&p->server) == l->index)
      peer_forget_offline (l, p);
    else
      await_owner (l, p);
  }
  peer_forget_target (l);
  fp_session_close (&l->s);
}

/* ---- the thread ---- */

static int
ping (struct fp_peer *l)
{
  struct fp_ping_reply reply;
  /* One-sided I/O goes on while the donor's process is stopped.  So a slow
   * answer does not mean that the donor is lost; the end of its lease does.
   */
  unsigned ms = FP_MAX (l->s.hello.lease_ms / 2, l->peers->p->timeout_ms);
  uint64_t asked = fp_boot_ns ();
  int r;

  (void) peer_soon (l); /* a sound donor answers PING soon */
  r = fp_ctl_ping (l->s.ctl, &reply, fp_deadline_in_ms (ms));
  if (r < 0)
    return r;
  peer_renewed (l, asked);
  FP_LOCK_SCOPE (&l->lock);
  l->slabs_total = reply.slabs_total;
  l->slabs_free = reply.stopping ? 0 : reply.slabs_free;
  l->wanted = reply.wanted;
  return 0;
}

/* Return the time between two PINGs.  A donor that is short of memory misses
 * less with each slab that any client gives back, so ask it often.
 */
static unsigned
ping_ms (struct fp_peer *l)
{
  FP_LOCK_SCOPE (&l->lock);
  return l->wanted > 0 ? FP_MIN (l->ping_ms, PING_WANTED_MS) : l->ping_ms;
}

/* Reconnect lane i.  Set *sound to whether the session can go on. */
static int
mend_lane (struct fp_peer *l, unsigned i, uint64_t deadline, bool *sound,
           struct fp_error *error)
{
  const struct fp_peer_ops *above = l->peers->ops;
  struct fp_lane *lane = l->peers->lanes[i];
  struct fp_conn_params cp;
  const char *said = NULL;
  struct fp_addr data;
  int r;

  above->disconnect (lane, l->index);
  if (above->is_revoked (lane, l->index)) {
    /* Only another session has new keys. */
    *sound = false;
    return fp_fail (error, -EACCES, "its keys were revoked");
  }
  r = fp_session_data_addr (&l->s, l->ops, l->addr, &data);
  if (r == 0)
    r = fp_session_conn_params (&l->s, l->peers->p, l->ops, &data, i, &cp,
                                &said, deadline);
  *sound = !peer_session_broken (r);
  if (r == 0)
    r = above->connect (lane, l->index, l->ops, &cp, deadline);
  if (r < 0)
    fp_fail (error, r, "%s data connection: %s", l->ops->name,
             said != NULL ? said : fp_session_conn_error (r));
  return r;
}

void
peer_touch_others (struct fp_peer *l)
{
  l->peers->ops->touch_others (l->peers->v, l->index, &l->stop);
}

static bool
any_lane_works (struct fp_peer *l)
{
  for (unsigned i = 0; i < l->peers->nr_lanes; i++)
    if (!peer_lane_broken (l, i))
      return true;
  return false;
}

/* Reconnect the lanes whose connections broke.  With one copy a lane that
 * fails does not affect the others, and is retried soon.  With several copies
 * the session ends, so that requests go on without this donor.
 */
static int
mend_lanes (struct fp_peer *l, struct fp_error *error)
{
  const struct fp_volume_params *p = l->peers->p;
  bool mirrored = fp_copies_several (l->peers->extents), mended = false;
  unsigned ms = mirrored ? fp_peer_grace_ms (p) : p->timeout_ms;
  unsigned nr = l->peers->nr_lanes;
  unsigned first = l->mend_first;

  if (!fp_deadline_passed (l->mend_ns))
    return 0;
  for (unsigned n = 0; n < nr; n++) {
    unsigned i = (first + n) % nr;
    bool sound;
    int r;

    if (!peer_lane_broken (l, i))
      continue;
    r = mend_lane (l, i, fp_deadline_in_ms (ms), &sound, error);
    if (r < 0 && (mirrored || !sound || !any_lane_works (l)))
      return r;
    if (r < 0) {
      if (r == -EXDEV)
        peer_touch_others (l);
      l->mend_ns = fp_deadline_in_ms (MEND_AGAIN_MS);
      l->mend_first = i + 1; /* try the other lanes, too */
      return 0;
    }
    mended = true;
    FP_LOCK_SCOPE (&l->lock);
    l->reconnects++;
  }
  l->mend_ns = 0;
  if (mended)
    atomic_store (&l->down_ns, 0);
  return 0;
}

int
peer_mend_lanes (struct fp_peer *l)
{
  struct fp_error error = { .text = "" };
  int r = mend_lanes (l, &error);

  if (r == -EXDEV)
    peer_touch_others (l);
  if (r < 0)
    peer_set_why (l, error.text);
  return r;
}

static void
drain_wake (struct fp_peer *l)
{
  uint64_t n;

  if (read (l->wake_fd, &n, sizeof n) == -1)
    assert (errno == EAGAIN);
}

/* Return when a PING is due in ms.  By fp_mono_ns, because the lease also
 * runs while this process is stopped.
 */
static uint64_t
ping_in_ms (unsigned ms)
{
  return fp_mono_ns () + ms * FP_NS_PER_MS;
}

/* Return for how many ms the thread can sleep: until the next PING, or until
 * it is time to reconnect a lane.
 */
static int
turn_ms (const struct fp_peer *l, uint64_t ping_ns)
{
  uint64_t now = fp_mono_ns ();
  int ms = 0;

  if (now < ping_ns)
    ms = (int) fp_div_round_up (ping_ns - now, FP_NS_PER_MS);
  return l->mend_ns == 0 ? ms : FP_MIN (ms, fp_deadline_left_ms (l->mend_ns));
}

/* Serve the session until it ends or the peer is stopped.  *lost is the time
 * of the first sign of a loss, not the time when the loss was certain.
 */
static void
stay_up (struct fp_peer *l, uint64_t *lost, struct fp_error *error)
{
  uint64_t next_ping = ping_in_ms (l->ping_ms);

  *lost = fp_now_ns (); /* not a time before this session */
  set_busy (l, *lost);
  if (peer_refill (l) < 0)
    return;
  while (!atomic_load (&l->stop)) {
    unsigned nr = 2;
    bool over;

    l->fds[0] = (struct pollfd) { .fd = l->wake_fd, .events = POLLIN };
    l->fds[1] =
        (struct pollfd) { .fd = fp_ctl_fd (l->s.ctl), .events = POLLIN };
    for (unsigned i = 0; i < l->peers->nr_lanes; i++) {
      l->fds[nr].fd = l->peers->ops->event_fd (l->peers->lanes[i], l->index);
      l->fds[nr].events = POLLIN;
      l->fds[nr++].revents = 0;
    }
    set_busy (l, 0);
    if (poll (l->fds, nr, turn_ms (l, next_ping)) == -1 && errno != EINTR) {
      fp_fail (error, 0, "poll: %s", strerror (errno));
      return;
    }
    *lost = fp_now_ns ();
    set_busy (l, *lost);
    drain_wake (l);
    for (unsigned i = 0; i < l->peers->nr_lanes; i++) {
      if (l->fds[2 + i].revents != 0)
        l->peers->ops->event (l->peers->lanes[i], l->index);
    }
    if (l->fds[1].revents != 0) {
      fp_fail (error, 0, "the server ended the session");
      return;
    }
    if (peer_mend_lanes (l) < 0)
      return; /* the callee has set the reason */
    if (fp_lease_is_fenced (l->peers->lease)) {
      fp_fail (error, 0, "fenced: another client has taken the volume over");
      return;
    }
    if (peer_recount (l, peer_slow (l)) < 0 || peer_do_records (l) < 0)
      return; /* the callee has set the reason */
    peer_settle (l, true);
    if (atomic_load (&l->sweep) && peer_sweep (l) < 0) {
      fp_fail (error, 0, "releasing leftover slabs: %s",
               fp_ctl_why (l->s.ctl));
      return;
    }
    if (peer_do_calls (l) < 0 || peer_do_places (l) < 0)
      return; /* the callee has set the reason */
    over =
        !fp_lease_covers_mapped (l->peers->lease, l->index, fp_mono_ns ()) ||
        !fp_lease_covers_zeros (l->peers->lease, l->index, fp_boot_ns ());
    if (atomic_exchange (&l->ping_now, false) || over ||
        fp_mono_ns () >= next_ping) {
      if (ping (l) < 0) {
        fp_fail (error, 0, "heartbeat: %s", fp_ctl_why (l->s.ctl));
        return;
      }
      next_ping = ping_in_ms (ping_ms (l));
    }
    if (peer_refill (l) < 0)
      return; /* the callee has set the reason */
  }
}

/* Wait before the next attempt.  Calls that come meanwhile fail at once. */
static void
back_off (struct fp_peer *l, unsigned failures)
{
  unsigned ms = BACKOFF_MIN_MS << FP_MIN (failures, 6u), jitter = 0;
  uint64_t deadline;

  if (fp_random (&jitter, sizeof jitter) < 0)
    jitter = 0; /* then wait without jitter */
  ms = FP_MIN (ms, (unsigned) BACKOFF_MAX_MS);
  deadline = fp_deadline_in_ms (ms / 2 + jitter % (ms / 2 + 1));
  while (!atomic_load (&l->stop) && !fp_deadline_passed (deadline)) {
    struct pollfd fd = { .fd = l->wake_fd, .events = POLLIN };

    /* Timeout or error: look again. */
    (void) poll (&fd, 1, fp_deadline_left_ms (deadline));
    drain_wake (l);
    peer_fail_calls (l);
  }
}

/* The peer cannot recover: fail calls until it is stopped. */
static void
stay_lost (struct fp_peer *l)
{
  struct pollfd fd = { .fd = l->wake_fd, .events = POLLIN };

  peer_judge_missing (l);
  fp_notifier_raise (&l->peers->extents->changes);
  while (!atomic_load (&l->stop)) {
    (void) poll (&fd, 1, 1000);
    drain_wake (l);
    peer_fail_calls (l);
    peer_judge_missing (l);
  }
}

static void
peer_main (void *arg)
{
  struct fp_peer *l = arg;
  unsigned failures = 0;
  uint64_t lost = 0;
  struct fp_error error;

  while (!atomic_load (&l->stop)) {
    error.text[0] = '\0';
    if (peer_come_up (l, &error) == 0) {
      failures = 0;
      stay_up (l, &lost, &error);
      set_busy (l, 0);
      if (atomic_load (&l->down_ns) == 0)
        atomic_store (&l->down_ns, lost);
      if (error.text[0] != '\0')
        peer_set_why (l, error.text);
      /* BYE ends a volume without a name at once.  Hang up instead, so that
       * the donor keeps it for its lease.
       */
      if (atomic_load (&l->stop) && (atomic_load (&l->end) != FP_PEER_KEEP ||
                                     l->peers->p->name[0] != '\0')) {
        struct fp_bye bye = { .discard =
                                  atomic_load (&l->end) != FP_PEER_KEEP };

        /* Discard a named volume only if a start that failed has made it, or
         * if the donor leaves (FP_PEER_FORGET).
         */
        if (l->peers->p->name[0] != '\0' &&
            atomic_load (&l->end) != FP_PEER_FORGET &&
            (atomic_load (&l->peers->started) || !l->made))
          bye.discard = false;

        /* If BYE is lost, the session ends without it.  Then a named volume
         * stays, and an ephemeral one is an orphan after its lease.
         */
        (void) fp_ctl_bye (l->s.ctl, &bye,
                           fp_deadline_in_ms (l->peers->p->timeout_ms));
      }
      peer_move (l, FP_SERVER_DRAINING);
      l->peers->ops->draining (l->peers->v, l->index);
      peer_fail_calls (l);
      peer_let_go (l);
      /* A caller that waited until the last transfer ended may have queued
       * its call since then.  The next attempt to connect may take long.
       */
      peer_fail_calls (l);
      peer_move (l, FP_SERVER_DOWN);
      l->peers->ops->down (l->peers->v);
      fp_notifier_raise (&l->peers->extents->changes);
      continue;
    }
    peer_set_why (l, error.text);
    if (l->after == FP_SERVER_LOST) {
      peer_move (l, FP_SERVER_LOST);
      stay_lost (l);
      break;
    }
    peer_move (l, FP_SERVER_DOWN);
    peer_fail_calls (l);
    back_off (l, failures++);
  }
  set_life (l, THREAD_ENDED);
  /* Later calls are failed by their own threads (peer_call). */
  peer_fail_calls (l);
}

/* ---- creation and end ---- */

static void
peer_freep (struct fp_peer **lp)
{
  fp_peer_free (*lp);
}

int
fp_peer_new (struct fp_peer **out, struct fp_peers *peers, unsigned index)
{
  FP_CLEANUP (peer_freep) struct fp_peer *l = NULL;
  int r;

  l = calloc (1, sizeof *l);
  if (l == NULL)
    return -ENOMEM;
  l->peers = peers;
  l->index = index;
  l->addr = &peers->p->servers[index];
  l->calls_tail = &l->calls;
  l->want_head = FP_NO_EXTENT;
  l->settle_head = FP_NO_EXTENT;
  fp_mutex_init (&l->lock);
  fp_cond_init (&l->cond);
  l->client = peers->p->client;
  r = fp_uuid_is_nil (&l->client) ? fp_uuid_generate (&l->client) : 0;
  if (r == 0)
    r = peer_record_new (l);
  if (r < 0)
    return r;
  l->wake_fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (l->wake_fd == -1)
    return -errno;
  *out = FP_STEAL (l);
  return 0;
}

int
fp_peer_start (struct fp_peer *l)
{
  char name[FP_THREAD_NAME_MAX + 1];
  int r;

  snprintf (name, sizeof name, "fp-link%u", l->index);
  set_life (l, THREAD_RUNS); /* before the thread can say that it ended */
  r = fp_thread_create (&l->thread, name, peer_main, l);
  if (r < 0)
    set_life (l, THREAD_JOINED);
  return r;
}

void
fp_peer_stop (struct fp_peer *l, enum fp_peer_end end)
{
  if (atomic_load (&l->stop))
    return;
  atomic_store (&l->end, end);
  atomic_store (&l->stop, true);
  peer_wake (l);
  fp_notifier_raise (&l->peers->extents->changes);
}

static bool
await_end (struct fp_peer *l, unsigned ms)
{
  struct timespec until;

  fp_timespec_after (&until, ms);
  FP_LOCK_SCOPE (&l->lock);
  if (l->life == THREAD_RUNS)
    (void) pthread_cond_timedwait (&l->cond, &l->lock, &until);
  return l->life != THREAD_RUNS;
}

void
fp_peer_join (struct fp_peer *l)
{
  while (!await_end (l, PEER_HURRY_MS / 4))
    fp_peer_hurry (l);
  if (l->life != THREAD_ENDED)
    return; /* the thread never ran, or was joined */
  if (fp_thread_join (&l->thread) < 0)
    abort (); /* joined twice: a bug */
  set_life (l, THREAD_JOINED);
}

void
fp_peer_free (struct fp_peer *l)
{
  if (l == NULL)
    return;
  assert (l->life == THREAD_NONE || l->life == THREAD_JOINED);
  if (l->wake_fd > 0)
    close (l->wake_fd);
  peer_record_free (l);
  pthread_cond_destroy (&l->cond);
  pthread_mutex_destroy (&l->lock);
  free (l);
}
