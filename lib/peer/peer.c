/* SPDX-License-Identifier: BSD-3-Clause */
/* peer.c - the thread of a peer: connect, serve, let go, and again. */

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

/* Change the state.  This table is the whole state machine: any other move is
 * a bug.
 */
void
peer_move (struct fp_peer *peer, enum fp_server_state to)
{
  static const unsigned allowed[] = {
    [FP_SERVER_DOWN] = 1u << FP_SERVER_CONNECTING,
    [FP_SERVER_CONNECTING] =
        1u << FP_SERVER_UP | 1u << FP_SERVER_DOWN | 1u << FP_SERVER_LOST,
    [FP_SERVER_UP] = 1u << FP_SERVER_CLOSING,
    [FP_SERVER_CLOSING] = 1u << FP_SERVER_DOWN,
    [FP_SERVER_LOST] = 0,
  };

  FP_LOCK_SCOPE (&peer->lock);
  assert (allowed[peer->state] & (1u << to));
  peer->state = to;
  pthread_cond_broadcast (&peer->cond);
}

/* Change the state of the thread. */
static void
set_life (struct fp_peer *peer, enum peer_thread to)
{
  static const unsigned allowed[] = {
    [THREAD_NONE] = 1u << THREAD_RUNS,
    [THREAD_RUNS] = 1u << THREAD_ENDED | 1u << THREAD_JOINED,
    [THREAD_ENDED] = 1u << THREAD_JOINED,
    [THREAD_JOINED] = 1u << THREAD_RUNS,
  };

  FP_LOCK_SCOPE (&peer->lock);
  assert (allowed[peer->life] & (1u << to));
  peer->life = to;
  pthread_cond_broadcast (&peer->cond);
}

void
peer_set_why (struct fp_peer *peer, const char *why)
{
  FP_LOCK_SCOPE (&peer->lock);
  snprintf (peer->why, sizeof peer->why, "%s", why);
}

void
peer_wake (struct fp_peer *peer)
{
  uint64_t one = 1;

  /* The counter cannot overflow: the thread reads it. */
  if (write (peer->wake_fd, &one, sizeof one) == -1)
    assert (errno == EAGAIN);
}

static void
set_busy (struct fp_peer *peer, uint64_t since_ns)
{
  FP_LOCK_SCOPE (&peer->lock);
  peer->busy_ns = since_ns;
  peer->asks_ns = 0;
}

static void
set_asks (struct fp_peer *peer, uint64_t since_ns, bool slow)
{
  FP_LOCK_SCOPE (&peer->lock);
  peer->asks_ns = since_ns;
  peer->asks_slow = slow;
}

void
peer_answered (struct fp_peer *peer)
{
  set_asks (peer, 0, false);
}

uint64_t
peer_soon (struct fp_peer *peer)
{
  set_asks (peer, fp_mono_ns (), false);
  return fp_deadline_in_ms (PEER_SLOW_MS);
}

uint64_t
peer_patient (struct fp_peer *peer)
{
  set_asks (peer, fp_mono_ns (), true);
  return fp_deadline_in_ms (PEER_SLOW_MS);
}

uint64_t
peer_slow (struct fp_peer *peer)
{
  peer_answered (peer);
  return fp_deadline_in_ms (PEER_SLOW_MS);
}

void
fp_peer_hurry (struct fp_peer *peer)
{
  FP_LOCK_SCOPE (&peer->lock);
  if (peer->asked != NULL && peer->busy_ns != 0 &&
      fp_now_ns () - peer->busy_ns > PEER_HURRY_MS * FP_NS_PER_MS)
    fp_ctl_hang_up (peer->asked);
}

void
fp_peer_poke (struct fp_peer *peer)
{
  peer_wake (peer);
}

void
fp_peer_count (struct fp_peer *peer, unsigned lane, enum fp_op_kind kind,
               uint32_t length, int status)
{
  struct peer_counts *c = &peer->counts[lane];

  fp_counter_add (&c->ops, 1);
  if (status < 0)
    fp_counter_add (&c->errors, 1);
  else if (kind == FP_OP_READ)
    fp_counter_add (&c->bytes_read, length);
  else
    fp_counter_add (&c->bytes_written, length);
}

unsigned
fp_peer_index (const struct fp_peer *peer)
{
  return peer->index;
}

void
fp_peer_suspect (struct fp_peer *peer)
{
  uint64_t none = 0;

  atomic_compare_exchange_strong (&peer->down_ns, &none, fp_now_ns ());
}

bool
fp_peer_given_up (const struct fp_peer *peer)
{
  uint64_t down = atomic_load (&peer->down_ns);

  return down != 0 &&
         fp_now_ns () - down >= peer->peers->p->timeout_ms * FP_NS_PER_MS;
}

unsigned
fp_peer_grace_ms (const struct fp_volume_params *p)
{
  return FP_MAX (p->timeout_ms / GRACE_PART, GRACE_MIN_MS);
}

uint64_t
fp_peer_learns_until (const struct fp_peer *peer)
{
  return atomic_load (&peer->down_ns) == 0
             ? 0
             : atomic_load (&peer->learn_until_ns);
}

uint64_t
fp_peer_away_ms (const struct fp_peer *peer)
{
  uint64_t down = atomic_load (&peer->down_ns), now = fp_now_ns ();

  return down == 0 || now <= down ? 0 : (now - down) / FP_NS_PER_MS;
}

unsigned
fp_peer_cut (struct fp_peer *peer, unsigned ms)
{
  uint64_t away = fp_peer_away_ms (peer);

  if (away < ms)
    return atomic_load (&peer->down_ns) == 0 ? 0 : ms - (unsigned) away;
  FP_LOCK_SCOPE (&peer->lock);
  if (peer->asked != NULL && peer->busy_ns != 0 && peer->state == FP_SERVER_UP)
    fp_ctl_hang_up (peer->asked);
  return 0;
}

void
fp_peer_away (struct fp_peer *peer)
{
  atomic_store (&peer->down_ns, fp_now_ns ());
}

/* ---- going down ---- */

/* Wait until no operation is inside p, or p is not this peer's any more.
 * While p is BUSY, its owner unmaps it, and lets no operation in before that.
 */
static void
await_owner (const struct fp_peer *peer, struct fp_extent *p)
{
  struct fp_notifier *changes = &peer->peers->extents->changes;

  for (;;) {
    uint32_t seen = fp_notifier_count (changes);

    if (fp_extent_state (p) != FP_EXTENT_BUSY || !atomic_load (&p->held) ||
        atomic_load (&p->server) != peer->index ||
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
peer_let_go (struct fp_peer *peer)
{
  struct fp_extents *t = peer->peers->extents;

  fp_lease_end (peer->peers->lease, peer->index);
  atomic_store (&peer->learn_until_ns, 0);
  {
    FP_LOCK_SCOPE (&peer->lock);
    peer->asked = NULL;
  }
  peer_drop_spares (peer);
  for (uint64_t i = 0; i < t->all; i++) {
    struct fp_extent *p = &t->p[i];

    if (!atomic_load (&p->held) || atomic_load (&p->server) != peer->index)
      continue;
    /* While the volume starts, another peer may take the extent away.  Later
     * the migration thread may, which also freezes and thaws it under this
     * lock.
     */
    FP_LOCK_SCOPE (&peer->peers->extents->lock);
    if (atomic_load (&p->server) == peer->index &&
        !fp_extent_move (t, p, FP_EXTENT_READY, FP_EXTENT_OFFLINE))
      (void) fp_extent_move (t, p, FP_EXTENT_FROZEN, FP_EXTENT_OFFLINE);
  }
  fp_notifier_raise (&t->changes);
  peer_shut_target (peer);
  for (unsigned i = 0; i < peer->peers->nr_lanes; i++)
    peer->peers->ops->disconnect (peer->peers->lanes[i], peer->index);
  for (uint64_t i = 0; i < t->all; i++) {
    struct fp_extent *p = &t->p[i];

    if (fp_extent_state (p) == FP_EXTENT_OFFLINE &&
        atomic_load (&p->server) == peer->index)
      peer_forget_offline (peer, p);
    else
      await_owner (peer, p);
  }
  peer_forget_target (peer);
  fp_session_close (&peer->s);
}

/* ---- the thread ---- */

static int
ping (struct fp_peer *peer)
{
  struct fp_ping_reply reply;
  /* One-sided I/O goes on while the donor's process is stopped.  So a slow
   * answer does not mean that the donor is lost; the end of its lease does.
   */
  unsigned ms =
      FP_MAX (peer->s.hello.lease_ms / 2, peer->peers->p->timeout_ms);
  uint64_t asked = fp_boot_ns ();
  struct fp_ping q = { .stuck = atomic_load (&peer->stuck) };
  int r;

  (void) peer_soon (peer); /* a sound donor answers PING soon */
  r = fp_ctl_ping (peer->s.ctl,
                   peer->s.hello.features & FP_FEATURE_DRAIN ? &q : NULL,
                   &reply, fp_deadline_in_ms (ms));
  if (r < 0)
    return r;
  peer_renewed (peer, asked);
  FP_LOCK_SCOPE (&peer->lock);
  peer->slabs_total = reply.slabs_total;
  peer->slabs_free = reply.stopping ? 0 : reply.slabs_free;
  peer->wanted = reply.wanted;
  peer->draining = reply.stopping;
  return 0;
}

/* Return the time between two PINGs.  A donor that is short of memory misses
 * less with each slab that any client gives back, so ask it often.
 */
static unsigned
ping_ms (struct fp_peer *peer)
{
  FP_LOCK_SCOPE (&peer->lock);
  return peer->wanted > 0 ? FP_MIN (peer->ping_ms, PING_WANTED_MS)
                          : peer->ping_ms;
}

/* Reconnect lane i.  Set *sound to whether the session can go on. */
static int
mend_lane (struct fp_peer *peer, unsigned i, uint64_t deadline, bool *sound,
           struct fp_error *error)
{
  const struct fp_peer_ops *above = peer->peers->ops;
  struct fp_lane *lane = peer->peers->lanes[i];
  struct fp_conn_params cp;
  const char *said = NULL;
  struct fp_addr data;
  int r;

  above->disconnect (lane, peer->index);
  if (above->is_revoked (lane, peer->index)) {
    /* Only another session has new keys. */
    *sound = false;
    return fp_fail (error, -EACCES, "its keys were revoked");
  }
  r = fp_session_data_addr (&peer->s, peer->ops, peer->addr, &data);
  if (r == 0)
    r = fp_session_conn_params (&peer->s, peer->peers->p, peer->ops, &data, i,
                                &cp, &said, deadline);
  *sound = !peer_session_broken (r);
  if (r == 0)
    r = above->connect (lane, peer->index, peer->ops, &cp, deadline);
  if (r < 0)
    fp_fail (error, r, "%s data connection: %s", peer->ops->name,
             said != NULL ? said : fp_session_conn_error (r));
  return r;
}

void
peer_touch_others (struct fp_peer *peer)
{
  peer->peers->ops->touch_others (peer->peers->v, peer->index, &peer->stop);
}

static bool
any_lane_works (struct fp_peer *peer)
{
  for (unsigned i = 0; i < peer->peers->nr_lanes; i++)
    if (!peer_lane_broken (peer, i))
      return true;
  return false;
}

/* Reconnect the lanes whose connections broke.  With one copy a lane that
 * fails does not affect the others, and is retried soon.  With several copies
 * the session ends, so that requests go on without this donor.
 */
static int
mend_lanes (struct fp_peer *peer, struct fp_error *error)
{
  const struct fp_volume_params *p = peer->peers->p;
  bool mirrored = fp_copies_several (peer->peers->extents), mended = false;
  unsigned ms = mirrored ? fp_peer_grace_ms (p) : p->timeout_ms;
  unsigned nr = peer->peers->nr_lanes;
  unsigned first = peer->mend_first;

  if (!fp_deadline_passed (peer->mend_ns))
    return 0;
  for (unsigned n = 0; n < nr; n++) {
    unsigned i = (first + n) % nr;
    bool sound;
    int r;

    if (!peer_lane_broken (peer, i))
      continue;
    r = mend_lane (peer, i, fp_deadline_in_ms (ms), &sound, error);
    if (r < 0 && (mirrored || !sound || !any_lane_works (peer)))
      return r;
    if (r < 0) {
      if (r == -EXDEV)
        peer_touch_others (peer);
      peer->mend_ns = fp_deadline_in_ms (MEND_AGAIN_MS);
      peer->mend_first = i + 1; /* try the other lanes, too */
      return 0;
    }
    mended = true;
    FP_LOCK_SCOPE (&peer->lock);
    peer->reconnects++;
  }
  peer->mend_ns = 0;
  if (mended)
    atomic_store (&peer->down_ns, 0);
  return 0;
}

int
peer_mend_lanes (struct fp_peer *peer)
{
  struct fp_error error = { .text = "" };
  int r = mend_lanes (peer, &error);

  if (r == -EXDEV)
    peer_touch_others (peer);
  if (r < 0)
    peer_set_why (peer, error.text);
  return r;
}

static void
drain_wake (struct fp_peer *peer)
{
  uint64_t n;

  if (read (peer->wake_fd, &n, sizeof n) == -1)
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
turn_ms (const struct fp_peer *peer, uint64_t ping_ns)
{
  uint64_t now = fp_mono_ns ();
  int ms = 0;

  if (now < ping_ns)
    ms = (int) fp_div_round_up (ping_ns - now, FP_NS_PER_MS);
  return peer->mend_ns == 0 ? ms
                            : FP_MIN (ms, fp_deadline_left_ms (peer->mend_ns));
}

/* Serve the session until it ends or the peer is stopped.  *lost is the time
 * of the first sign of a loss, not the time when the loss was certain.
 */
static void
stay_up (struct fp_peer *peer, uint64_t *lost, struct fp_error *error)
{
  uint64_t next_ping = ping_in_ms (peer->ping_ms);

  *lost = fp_now_ns (); /* not a time before this session */
  set_busy (peer, *lost);
  if (peer_refill (peer) < 0)
    return;
  while (!atomic_load (&peer->stop)) {
    unsigned nr = 2;
    bool over;

    peer->fds[0] = (struct pollfd) { .fd = peer->wake_fd, .events = POLLIN };
    peer->fds[1] =
        (struct pollfd) { .fd = fp_ctl_fd (peer->s.ctl), .events = POLLIN };
    for (unsigned i = 0; i < peer->peers->nr_lanes; i++) {
      peer->fds[nr].fd =
          peer->peers->ops->event_fd (peer->peers->lanes[i], peer->index);
      peer->fds[nr].events = POLLIN;
      peer->fds[nr++].revents = 0;
    }
    set_busy (peer, 0);
    if (poll (peer->fds, nr, turn_ms (peer, next_ping)) == -1 &&
        errno != EINTR) {
      fp_fail (error, 0, "poll: %s", strerror (errno));
      return;
    }
    *lost = fp_now_ns ();
    set_busy (peer, *lost);
    drain_wake (peer);
    for (unsigned i = 0; i < peer->peers->nr_lanes; i++) {
      if (peer->fds[2 + i].revents != 0)
        peer->peers->ops->event (peer->peers->lanes[i], peer->index);
    }
    if (peer->fds[1].revents != 0) {
      fp_fail (error, 0, "the server ended the session");
      return;
    }
    if (peer_mend_lanes (peer) < 0)
      return; /* the callee has set the reason */
    if (fp_lease_is_fenced (peer->peers->lease)) {
      fp_fail (error, 0, "fenced: another client has taken the volume over");
      return;
    }
    if (peer_recount (peer, peer_slow (peer)) < 0 ||
        peer_do_records (peer) < 0)
      return; /* the callee has set the reason */
    peer_settle (peer, true);
    if (atomic_load (&peer->sweep) && peer_sweep (peer) < 0) {
      fp_fail (error, 0, "releasing leftover slabs: %s",
               fp_ctl_why (peer->s.ctl));
      return;
    }
    if (peer_do_calls (peer) < 0 || peer_do_places (peer) < 0)
      return; /* the callee has set the reason */
    over = !fp_lease_covers_mapped (peer->peers->lease, peer->index,
                                    fp_mono_ns ()) ||
           !fp_lease_covers_zeros (peer->peers->lease, peer->index,
                                   fp_boot_ns ());
    if (atomic_exchange (&peer->ping_now, false) || over ||
        fp_mono_ns () >= next_ping) {
      if (ping (peer) < 0) {
        fp_fail (error, 0, "heartbeat: %s", fp_ctl_why (peer->s.ctl));
        return;
      }
      next_ping = ping_in_ms (ping_ms (peer));
    }
    if (peer_refill (peer) < 0)
      return; /* the callee has set the reason */
  }
}

/* Wait before the next attempt.  Calls that come meanwhile fail at once. */
static void
back_off (struct fp_peer *peer, unsigned failures)
{
  unsigned ms = BACKOFF_MIN_MS << FP_MIN (failures, 6u), jitter = 0;
  uint64_t deadline;

  if (fp_random (&jitter, sizeof jitter) < 0)
    jitter = 0; /* then wait without jitter */
  ms = FP_MIN (ms, (unsigned) BACKOFF_MAX_MS);
  deadline = fp_deadline_in_ms (ms / 2 + jitter % (ms / 2 + 1));
  while (!atomic_load (&peer->stop) && !fp_deadline_passed (deadline)) {
    struct pollfd fd = { .fd = peer->wake_fd, .events = POLLIN };

    /* Timeout or error: look again. */
    (void) poll (&fd, 1, fp_deadline_left_ms (deadline));
    drain_wake (peer);
    peer_fail_calls (peer);
  }
}

/* The peer cannot recover: fail calls until it is stopped. */
static void
stay_lost (struct fp_peer *peer)
{
  struct pollfd fd = { .fd = peer->wake_fd, .events = POLLIN };

  peer_judge_missing (peer);
  fp_notifier_raise (&peer->peers->extents->changes);
  while (!atomic_load (&peer->stop)) {
    (void) poll (&fd, 1, 1000);
    drain_wake (peer);
    peer_fail_calls (peer);
    peer_judge_missing (peer);
  }
}

static void
peer_main (void *arg)
{
  struct fp_peer *peer = arg;
  unsigned failures = 0;
  uint64_t lost = 0;
  struct fp_error error;

  while (!atomic_load (&peer->stop)) {
    error.text[0] = '\0';
    if (peer_come_up (peer, &error) == 0) {
      failures = 0;
      stay_up (peer, &lost, &error);
      set_busy (peer, 0);
      if (atomic_load (&peer->down_ns) == 0)
        atomic_store (&peer->down_ns, lost);
      if (error.text[0] != '\0')
        peer_set_why (peer, error.text);
      /* BYE ends a volume without a name at once.  Hang up instead, so that
       * the donor keeps it for its lease.
       */
      if (atomic_load (&peer->stop) &&
          (atomic_load (&peer->end) != FP_PEER_KEEP ||
           peer->peers->p->name[0] != '\0')) {
        struct fp_bye bye = { .discard =
                                  atomic_load (&peer->end) != FP_PEER_KEEP };

        /* Discard a named volume only if a start that failed has made it, or
         * if the donor leaves (FP_PEER_FORGET).
         */
        if (peer->peers->p->name[0] != '\0' &&
            atomic_load (&peer->end) != FP_PEER_FORGET &&
            (atomic_load (&peer->peers->started) || !peer->made))
          bye.discard = false;

        /* If BYE is lost, the session ends without it.  Then a named volume
         * stays, and an ephemeral one is an orphan after its lease.
         */
        (void) fp_ctl_bye (peer->s.ctl, &bye,
                           fp_deadline_in_ms (peer->peers->p->timeout_ms));
      }
      peer_move (peer, FP_SERVER_CLOSING);
      peer->peers->ops->closing (peer->peers->v, peer->index);
      peer_fail_calls (peer);
      peer_let_go (peer);
      /* A caller that waited until the last transfer ended may have queued
       * its call since then.  The next attempt to connect may take long.
       */
      peer_fail_calls (peer);
      peer_move (peer, FP_SERVER_DOWN);
      peer->peers->ops->down (peer->peers->v);
      fp_notifier_raise (&peer->peers->extents->changes);
      continue;
    }
    peer_set_why (peer, error.text);
    if (peer->after == FP_SERVER_LOST) {
      peer_move (peer, FP_SERVER_LOST);
      stay_lost (peer);
      break;
    }
    peer_move (peer, FP_SERVER_DOWN);
    peer_fail_calls (peer);
    back_off (peer, failures++);
  }
  set_life (peer, THREAD_ENDED);
  /* Later calls are failed by their own threads (peer_call). */
  peer_fail_calls (peer);
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
  FP_CLEANUP (peer_freep) struct fp_peer *peer = NULL;
  int r;

  peer = calloc (1, sizeof *peer);
  if (peer == NULL)
    return -ENOMEM;
  peer->peers = peers;
  peer->index = index;
  peer->addr = &peers->p->servers[index];
  peer->calls_tail = &peer->calls;
  peer->want_head = FP_NO_EXTENT;
  peer->settle_head = FP_NO_EXTENT;
  fp_mutex_init (&peer->lock);
  fp_cond_init (&peer->cond);
  peer->client = peers->p->client;
  r = fp_uuid_is_nil (&peer->client) ? fp_uuid_generate (&peer->client) : 0;
  if (r == 0)
    r = peer_record_new (peer);
  if (r < 0)
    return r;
  peer->wake_fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (peer->wake_fd == -1)
    return -errno;
  *out = FP_STEAL (peer);
  return 0;
}

int
fp_peer_start (struct fp_peer *peer)
{
  char name[FP_THREAD_NAME_MAX + 1];
  int r;

  snprintf (name, sizeof name, "fp-peer%u", peer->index);
  set_life (peer, THREAD_RUNS); /* before the thread can say that it ended */
  r = fp_thread_create (&peer->thread, name, peer_main, peer);
  if (r < 0)
    set_life (peer, THREAD_JOINED);
  return r;
}

void
fp_peer_stop (struct fp_peer *peer, enum fp_peer_end end)
{
  if (atomic_load (&peer->stop))
    return;
  atomic_store (&peer->end, end);
  atomic_store (&peer->stop, true);
  peer_wake (peer);
  fp_notifier_raise (&peer->peers->extents->changes);
}

static bool
await_end (struct fp_peer *peer, unsigned ms)
{
  struct timespec until;

  fp_timespec_after (&until, ms);
  FP_LOCK_SCOPE (&peer->lock);
  if (peer->life == THREAD_RUNS)
    (void) pthread_cond_timedwait (&peer->cond, &peer->lock, &until);
  return peer->life != THREAD_RUNS;
}

void
fp_peer_join (struct fp_peer *peer)
{
  while (!await_end (peer, PEER_HURRY_MS / 4))
    fp_peer_hurry (peer);
  if (peer->life != THREAD_ENDED)
    return; /* the thread never ran, or was joined */
  if (fp_thread_join (&peer->thread) < 0)
    abort (); /* joined twice: a bug */
  set_life (peer, THREAD_JOINED);
}

void
fp_peer_free (struct fp_peer *peer)
{
  if (peer == NULL)
    return;
  assert (peer->life == THREAD_NONE || peer->life == THREAD_JOINED);
  if (peer->wake_fd > 0)
    close (peer->wake_fd);
  peer_record_free (peer);
  pthread_cond_destroy (&peer->cond);
  pthread_mutex_destroy (&peer->lock);
  free (peer);
}
