/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "peer/peer_int.h"
#include "peer/peer_migrate.h"

#define PATIENCE_MS 1000 /* then fp_volume_params.waits is called */
#define FORMER_MARGIN 4  /* safety margin below FP_FORMER_MIN */

/* Bytes zeroed by one message, which takes a donor some milliseconds. */
#define ZERO_SIZE (UINT64_C (16) << 20)
#define SILENT_MIN_MS 1000u
#define SILENT_MAX_MS 4000u
#define SILENT_LOOK_MS 20u
#define SILENT_PARTS 4

static int
do_release (struct fp_peer *peer, struct call *c)
{
  struct fp_release q = { .count = 1, .slabs = { c->extent->copy.slab } };
  int r;

  c->extent->releasing = true;
  r = fp_ctl_release (peer->s.ctl, &q, peer_soon (peer));
  if (r < 0)
    return r;
  fp_copy_forget (&c->extent->copy);
  return 0;
}

/* Clear the written bits of a zeroed range, unless this copy is not in sync
 * any more.  A write enters every in-sync copy, and this one is shut.  So all
 * in-sync copies of the extent are zeros there.
 */
static void
forget_range (struct fp_extents *t, const struct call *c)
{
  uint64_t k = (uint64_t) (c->extent - t->p), i = fp_extent_of (t, k);

  FP_LOCK_SCOPE (&t->lock);
  if (t->copies == 1 || (fp_copies_in_sync (t, i) >> fp_copy_of (t, k) & 1))
    fp_extent_clear_written (t, i, c->offset, c->length);
}

/* Make sure that the writes of this lane are in the donor's memory.  If its
 * queue pair has broken, no write of it is left once there is a new one.
 */
static int
settle_writes (struct fp_peer *peer, unsigned lane, struct fp_extent *p)
{
  int r = peer->peers->ops->flush (peer->peers->lanes[lane], peer->index, p);

  if (r > 0)
    return 0;
  /* The read failed, and not because of the connection. */
  if (r < 0 && !peer_lane_broken (peer, lane))
    return r;
  r = 0;
  if (peer_lane_broken (peer, lane))
    r = peer_mend_lanes (peer);
  if (!peer_lane_broken (peer, lane))
    return 0;
  /* With one copy the session goes on: the caller retries when the lane is
   * there.
   */
  return r == 0 && !fp_copies_several (peer->peers->extents) ? -EBUSY
                                                             : -ECONNRESET;
}

static int
do_zero (struct fp_peer *peer, struct call *c)
{
  struct fp_zero q = { .slab = c->extent->copy.slab };
  uint64_t deadline;
  int r = 0;

  peer_answered (peer);
  /* If it is not held, the end of its session has placed the writes. */
  for (unsigned i = 0;
       r == 0 && atomic_load (&c->extent->held) && i < peer->peers->nr_lanes;
       i++)
    r = settle_writes (peer, i, c->extent);
  deadline = peer_slow (peer);
  for (uint64_t n = 0; r == 0 && n < c->length; n += q.length) {
    uint64_t asked = fp_boot_ns ();

    q.offset = c->offset + n;
    q.length = FP_MIN (c->length - n, ZERO_SIZE);
    (void) peer_soon (peer);
    r = fp_ctl_zero (peer->s.ctl, &q, deadline);
    if (r == 0)
      peer_renewed (peer, asked);
  }
  if (r == 0 && c->last)
    forget_range (peer->peers->extents, c);
  return r;
}

/* Return true if r ends the session: any error but a status that the donor
 * sent.
 */
bool
peer_session_broken (int r)
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

/* End a RELEASE or ZERO.  An extent for which that failed is unchanged.  If
 * the donor is away, the extent is OFFLINE, and the donor's next list tells.
 */
static void
finish_extent (struct fp_peer *peer, struct call *c, int r, bool up)
{
  struct fp_extent *p = c->extent;

  /* peer_let_go does not unmap an extent that is shut. */
  if (!up || !atomic_load (&p->held))
    fp_copy_forget (&p->copy);
  if ((r == 0 && c->kind == CALL_RELEASE) || !atomic_load (&p->held)) {
    p->releasing = c->kind == CALL_RELEASE;
    peer_forget (peer, p, FP_EXTENT_BUSY);
  }
  else if (up && p->releasing && peer->record != NULL &&
           !fp_copies_several (peer->peers->extents)) {
    /* The donor refused, but it is recorded that the extent does not exist. */
    p->releasing = false;
    peer->peers->ops->kept (peer->peers->v,
                            (uint64_t) (p - peer->peers->extents->p));
  }
  else {
    /* The donor refused, so it still has the slab; or its next list tells. */
    if (up)
      p->releasing = false;
    if (!fp_extent_move (peer->peers->extents, p, FP_EXTENT_BUSY,
                         up ? FP_EXTENT_READY : FP_EXTENT_OFFLINE))
      abort (); /* the caller owns it */
  }
}

static void
finish_call (struct fp_peer *peer, struct call *c, int r, bool up)
{
  bool taken = c->kind == CALL_TAKE;

  if (c->kind == CALL_CHECK_EMPTY) {
    if (!up)
      r = peer_do_check_empty (peer); /* no donor is needed */
  }
  else if (c->kind == CALL_REOPEN) {
    r = peer_finish_reopen (peer, c, r, up);
  }
  else if (c->kind == CALL_RELEASE || c->kind == CALL_ZERO) {
    finish_extent (peer, c, r, up);
  }
  {
    FP_LOCK_SCOPE (&peer->lock);
    c->result = r;
    c->state = c->state == CALL_LEFT ? CALL_FREE : CALL_DONE;
    pthread_cond_broadcast (&peer->cond);
  }
  if (taken)
    fp_notifier_raise (&peer->peers->extents->changes);
}

static struct call *
next_call (struct fp_peer *peer)
{
  FP_LOCK_SCOPE (&peer->lock);
  struct call *c = peer->calls;

  if (c != NULL) {
    peer->calls = c->next;
    if (peer->calls == NULL)
      peer->calls_tail = &peer->calls;
  }
  return c;
}

int
peer_do_calls (struct fp_peer *peer)
{
  struct call *c;

  while ((c = next_call (peer)) != NULL) {
    uint64_t asked = fp_boot_ns ();
    int r = -EINVAL;

    switch (c->kind) {
    case CALL_RELEASE:
      r = do_release (peer, c);
      break;
    case CALL_ZERO:
      r = do_zero (peer, c);
      break;
    case CALL_TARGET:
    case CALL_DROP_TARGET:
    case CALL_TAKE:
    case CALL_REOPEN:
    case CALL_MARK:
    case CALL_DROP:
      r = peer_do_move_call (peer, c);
      break;
    case CALL_CHECK_EMPTY:
      r = peer_do_check_empty (peer);
      break;
    }
    if (peer_session_broken (r)) {
      if (fp_ctl_why (peer->s.ctl)[0] != '\0')
        peer_set_why (peer, fp_ctl_why (peer->s.ctl));
      finish_call (peer, c, -ENOTCONN, false);
      return r;
    }
    /* The other calls renew the lease themselves, or sent no message. */
    if (c->kind == CALL_RELEASE)
      peer_renewed (peer, asked);
    finish_call (peer, c, r, true);
  }
  return 0;
}

void
peer_fail_calls (struct fp_peer *peer)
{
  struct call *c;

  while ((c = next_call (peer)) != NULL)
    finish_call (peer, c, -ENOTCONN, false);
  peer_fail_places (peer);
  peer_fail_records (peer);
  peer_settle (peer, false);
}

/* End c at once, as peer_fail_calls does, if it keeps an extent shut and the
 * peer is away.  Otherwise a write to the other copies would wait until an
 * attempt to connect is over.  Return false if the peer's thread must run c.
 * The caller holds the lock.
 */
static bool
fail_now (struct fp_peer *peer, struct call *c)
{
  bool reopens = c->kind == CALL_REOPEN && !c->relabel;

  if (!reopens && c->kind != CALL_RELEASE && c->kind != CALL_ZERO)
    return false;
  if (!peer_can_fail_now (peer, c->extent))
    return false;
  c->result = -ENOTCONN;
  if (reopens)
    c->result = peer_finish_reopen (peer, c, -ENOTCONN, false);
  else
    finish_extent (peer, c, -ENOTCONN, false); /* only locks of notifiers */
  c->state = CALL_DONE;
  return true;
}

void
peer_call (struct fp_peer *peer, struct call *c)
{
  bool ended;

  {
    FP_LOCK_SCOPE (&peer->lock);
    c->state = CALL_WAITED;
    if (fail_now (peer, c))
      return;
    ended = peer->life >= THREAD_ENDED;
    if (!ended) {
      *peer->calls_tail = c;
      peer->calls_tail = &c->next;
    }
  }
  /* The thread has ended, so it does not look into the queue any more. */
  if (ended)
    finish_call (peer, c, -ENOTCONN, false);
  else
    peer_wake (peer);
}

int
peer_run_call (struct fp_peer *peer, struct call *c)
{
  peer_call (peer, c);
  FP_LOCK_SCOPE (&peer->lock);
  while (c->state != CALL_DONE)
    pthread_cond_wait (&peer->cond, &peer->lock);
  return c->result;
}

static struct call *
keep_call (struct fp_peer *peer, const struct call *what)
{
  FP_LOCK_SCOPE (&peer->lock);
  for (unsigned k = 0; k < PEER_KEPT; k++) {
    struct call *c = &peer->kept[k];

    if (c->state == CALL_FREE) {
      *c = *what;
      c->state = CALL_WAITED;
      return c;
    }
  }
  return NULL;
}

/* Return true if the others that wait for this extent could go on without
 * this donor.  Either there is another in-sync copy, or the extent gives up
 * its memory.
 */
static bool
others_go_on (struct fp_extents *t, const struct call *c)
{
  uint64_t i;

  if (!fp_copies_several (t))
    return false;
  i = fp_extent_of (t, (uint64_t) (c->extent - t->p));
  for (unsigned k = 0; k < t->copies; k++) {
    const struct fp_extent *other = fp_copies_get (t, i, k);
    enum fp_extent_state s = fp_extent_state (other);

    if (other != c->extent && (fp_copies_in_sync (t, i) >> k & 1) &&
        (s == FP_EXTENT_READY || s == FP_EXTENT_FROZEN || s == FP_EXTENT_BUSY))
      return true;
  }
  return c->kind == CALL_RELEASE;
}

/* Return true if the donor has answered a message sent since then. */
static bool
answers (struct fp_peer *peer, uint64_t since_ns)
{
  return fp_peer_session (peer) != 0 &&
         atomic_load (&peer->proof_ns) >= since_ns;
}

/* Make each other peer that waits for no answer send a PING. */
static void
ask_others (const struct fp_peer *peer)
{
  for (unsigned s = 0; s < peer->peers->nr; s++)
    if (s != peer->index) {
      atomic_store (&peer->peers->at[s]->ping_now, true);
      peer_wake (peer->peers->at[s]);
    }
}

/* Return true if each extent with an in-sync copy here has another one, at a
 * donor that has answered since then.  Those donors must record that the
 * volume goes on without this donor.
 */
static bool
may_do_without (const struct fp_peer *peer, uint64_t since_ns)
{
  struct fp_extents *t = peer->peers->extents;
  uint64_t sound = 0;

  for (unsigned s = 0; s < peer->peers->nr; s++)
    if (s != peer->index && answers (peer->peers->at[s], since_ns))
      sound |= UINT64_C (1) << s;
  for (uint64_t i = 0; i < t->nr; i++) {
    uint8_t in_sync = fp_copies_in_sync (t, i),
            bad = fp_copies_bad (t, i, in_sync);
    bool here = false, elsewhere = false;

    for (unsigned c = 0; c < t->copies; c++) {
      const struct fp_extent *p = fp_copies_get (t, i, c);
      unsigned server = atomic_load (&p->server);
      enum fp_extent_state s = fp_extent_state (p);

      if (!(in_sync >> c & 1))
        continue;
      here |= server == peer->index;
      elsewhere |= server != peer->index && (sound >> server & 1) &&
                   !(bad >> c & 1) &&
                   (s == FP_EXTENT_READY || s == FP_EXTENT_FROZEN ||
                    s == FP_EXTENT_BUSY);
    }
    if (here && !elsewhere)
      return false;
  }
  return sound != 0;
}

struct silence {
  uint64_t asks_ns;   /* fp_peer.asks_ns, at the last look */
  uint64_t looked_ns; /* time of the last look */
  uint64_t ns;        /* time it was unchanged while this process ran */
  uint64_t others_ns; /* when the others were asked for a PING; 0: not yet */
};

/* Return the longest silence before the donor is cut off, in ms.  Much work
 * may take it long, but the extent must open before its requests are given up.
 */
static unsigned
silent_ms (const struct fp_peer *peer)
{
  const struct fp_volume_params *p = peer->peers->p;
  unsigned ms =
      FP_MIN (FP_MAX (p->timeout_ms / 8 * 3, SILENT_MIN_MS), SILENT_MAX_MS);

  return peer->asks_slow ? FP_MAX (fp_volume_await_ms (p) / 2, SILENT_MAX_MS)
                         : ms;
}

/* Return how long the donor is silent, in units of 1 / SILENT_PARTS of the
 * limit.  The caller holds the lock.
 */
static unsigned
silence (struct fp_peer *peer, struct silence *s)
{
  uint64_t now = fp_now_ns ();

  if (peer->asks_ns == 0 || peer->asks_ns != s->asks_ns) {
    s->ns = 0;
    s->others_ns = 0;
  }
  else
    s->ns += FP_MIN (now - s->looked_ns, 2 * SILENT_LOOK_MS * FP_NS_PER_MS);
  s->asks_ns = peer->asks_ns;
  s->looked_ns = now;
  return (unsigned) (s->ns / (silent_ms (peer) * FP_NS_PER_MS / SILENT_PARTS));
}

/* Hang up if the donor does not answer, and the others that wait for c can go
 * on without it.
 */
static void
cut_if_silent (struct fp_peer *peer, const struct call *c, struct silence *s)
{
  unsigned parts;

  {
    FP_LOCK_SCOPE (&peer->lock);
    parts = silence (peer, s);
  }
  if (parts >= SILENT_PARTS / 2 && s->others_ns == 0) {
    s->others_ns = fp_mono_ns ();
    ask_others (peer);
  }
  if (parts < SILENT_PARTS || !others_go_on (peer->peers->extents, c) ||
      !may_do_without (peer, s->others_ns))
    return;
  FP_LOCK_SCOPE (&peer->lock);
  if (peer->asked != NULL && peer->state == FP_SERVER_UP &&
      peer->asks_ns == s->asks_ns) {
    fp_peer_away (peer); /* away from now on, not since it was asked */
    fp_ctl_hang_up (peer->asked);
  }
}

/* Run a call, but return -ETIMEDOUT at the deadline; the call itself goes on.
 * While a donor's process is stopped, its memory is still read and written.
 * So one late call does not end the session.  The exception is a call that
 * keeps an extent shut which has another copy: until it is over that copy
 * cannot be used, either.  If PEER_KEPT calls are under way, the next one
 * waits without a deadline.
 */
static int
run_call_by (struct fp_peer *peer, struct call *what, uint64_t deadline_ns)
{
  struct call *c = keep_call (peer, what);
  bool may_cut = others_go_on (peer->peers->extents, what);
  struct silence silent = { 0 };

  if (c == NULL)
    return peer_run_call (peer, what);
  peer_call (peer, c);
  for (;;) {
    struct timespec until;
    int ms;

    if (may_cut)
      cut_if_silent (peer, what, &silent);
    FP_LOCK_SCOPE (&peer->lock);
    if (c->state == CALL_DONE) {
      c->state = CALL_FREE;
      return c->result;
    }
    ms = fp_deadline_left_ms (deadline_ns);
    if (ms == 0) {
      c->state = CALL_LEFT;
      return -ETIMEDOUT;
    }
    fp_timespec_after (&until, may_cut ? FP_MIN ((unsigned) ms, SILENT_LOOK_MS)
                                       : (unsigned) ms);
    (void) pthread_cond_timedwait (&peer->cond, &peer->lock, &until);
  }
}

int
fp_peer_release (struct fp_peer *peer, struct fp_extent *p,
                 uint64_t deadline_ns)
{
  struct call c = { .kind = CALL_RELEASE, .extent = p };

  return run_call_by (peer, &c, deadline_ns);
}

int
fp_peer_zero (struct fp_peer *peer, struct fp_extent *p, uint64_t offset,
              uint64_t length, bool last, uint64_t deadline_ns)
{
  struct call c = {
    .kind = CALL_ZERO,
    .extent = p,
    .last = last,
    .offset = offset,
    .length = length,
  };

  return run_call_by (peer, &c, deadline_ns);
}

void
peer_renewed (struct fp_peer *peer, uint64_t asked_ns)
{
  uint64_t mono_ns = fp_lease_renew (peer->peers->lease, peer->index, asked_ns,
                                     peer->s.hello.lease_ms);

  /* Answers may come out of order. */
  if (mono_ns > atomic_load (&peer->proof_ns))
    atomic_store (&peer->proof_ns, mono_ns);
  atomic_store (&peer->mute, false);
}

int
peer_opened (struct fp_peer *peer, uint64_t asked_ns, uint64_t epoch)
{
  const struct fp_volume_params *p = peer->peers->p;
  uint64_t others = fp_peers_all (peer->peers) &
                    atomic_load (&peer->peers->open) &
                    ~(UINT64_C (1) << peer->index);
  /* Each client that opens the volume to write raises the epoch.  A donor that
   * joins a volume cannot tell what happened before that.
   */
  bool unbroken = peer->stage >= STAGE_OPENED
                      ? epoch == peer->epoch + !p->read_only
                      : !peer->joins;
  /* A donor remembers FP_FORMER_MIN former clients, about one per epoch. */
  bool forgets = peer->stage >= STAGE_OPENED && !p->read_only &&
                 epoch > peer->epoch &&
                 epoch - peer->epoch > FP_FORMER_MIN - FORMER_MARGIN;

  if (!fp_lease_open (peer->peers->lease, peer->index, others, unbroken,
                      forgets, asked_ns, peer->s.hello.lease_ms))
    return -EPERM;
  peer_renewed (peer, asked_ns);
  peer_reach (peer, STAGE_OPENED);
  peer->epoch = epoch;
  return 0;
}

void
fp_peer_status (struct fp_peer *peer, struct fp_server_status *s)
{
  memset (s, 0, sizeof *s);
  s->extents = atomic_load (&peer->extents);
  for (unsigned i = 0; i <= FP_MAX_LANES; i++) {
    const struct peer_counts *c = &peer->counts[i];

    s->bytes_read += atomic_load (&c->bytes_read);
    s->bytes_written += atomic_load (&c->bytes_written);
    s->ops += atomic_load (&c->ops);
    s->errors += atomic_load (&c->errors);
  }
  FP_LOCK_SCOPE (&peer->lock);
  fp_addr_format (peer->addr, s->addr);
  memcpy (s->name, peer->name, sizeof s->name);
  s->state = peer->state;
  s->transport = peer->transport;
  if (peer->control != NULL)
    snprintf (s->control, sizeof s->control, "%s", peer->control);
  s->slabs_total = peer->slabs_total;
  s->slabs_free = peer->slabs_free;
  s->reconnects = peer->reconnects;
  memcpy (s->why, peer->why, sizeof s->why);
}

static int
wait_up (struct fp_peer *peer, uint64_t deadline_ns, struct fp_error *error)
{
  FP_LOCK_SCOPE (&peer->lock);
  /* The session is counted a moment before the state is UP. */
  while (peer->session == 0 || peer->state == FP_SERVER_CONNECTING) {
    struct timespec until;
    char where[FP_ADDR_MAX + 1];

    if (peer->session > 0 && fp_deadline_passed (deadline_ns))
      break;
    if (peer->state == FP_SERVER_LOST ||
        (fp_deadline_passed (deadline_ns) &&
         fp_deadline_passed (atomic_load (&peer->learn_until_ns)))) {
      fp_addr_format (peer->addr, where);
      if (strncmp (peer->why, where, strlen (where)) == 0)
        return fp_fail (error, -ENOTCONN, "%s", peer->why);
      return fp_fail (error, -ENOTCONN, "%s: %s", where,
                      peer->why[0] != '\0' ? peer->why
                                           : "did not answer in time");
    }
    fp_timespec_after (&until, 50);
    /* A timeout means: look again. */
    (void) pthread_cond_timedwait (&peer->cond, &peer->lock, &until);
  }
  return 0;
}

int
fp_peer_wait_up (struct fp_peer *peer, uint64_t deadline_ns, bool *told,
                 struct fp_error *error)
{
  const struct fp_volume_params *p = peer->peers->p;
  uint64_t soon = FP_MIN (fp_deadline_in_ms (PATIENCE_MS), deadline_ns);
  int r;

  if (told == NULL || *told || p->waits == NULL)
    return wait_up (peer, deadline_ns, error);
  r = wait_up (peer, soon, error);
  /* An earlier failure is not a matter of time. */
  if (r == 0 || !fp_deadline_passed (soon) || fp_deadline_passed (deadline_ns))
    return r;
  *told = true;
  p->waits (p, error->text, (unsigned) fp_deadline_left_ms (deadline_ns));
  return wait_up (peer, deadline_ns, error);
}
