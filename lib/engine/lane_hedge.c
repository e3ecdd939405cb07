/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_hedge.c - hedged reads: one that takes long is sent to another copy,
 * too, and the first answer is taken.
 *
 *            sent                 after_ns             first answer
 *    read ---------> on its way -----------> two twins ------------> answered
 *                                                |
 *                                                +--> the other: late, until
 *                                                     its answer came, too
 *
 * What the late one does: it lands in memory of its own fragment, which is
 * nobody else's until then (promise 9), it is inside its extent, and it has
 * its deadline.  Its io is forgotten, and may be gone.  For a transport that
 * reads into registered memory that is the fragment's slot, as ever.  Else the
 * first of the twins reads into the caller's buffer, and is diverted to its
 * slot when the second one was faster; the second one always reads into its
 * slot.
 *
 * What is read is right: the second copy is in sync when it is asked, so it
 * has every write that was acknowledged by then.
 *
 * When a read has taken long is measured: longer than 99 of 100 reads from the
 * server that would be asked next.  (Not than those from its own: if they all
 * take long, that is no reason to wait.)
 *
 * How much that may cost is bounded.  Each request has one hedge at most, one
 * read in COST has one, all of it lives in spare fragments, and who finds none
 * waits for nothing but its first answer.
 *
 * A server that was slow again and again is not asked first for a while; then
 * with one read at a time, to see whether it is quick again.
 */

#include <config.h>

#include "base/checked.h"
#include "engine/lane_int.h"
#include "engine/mirror.h"

/* Before so many reads from a server it is not known what is usual there. */
#define SAMPLES_MIN 128
/* Less is the noise of any host. */
#define AFTER_MIN_NS 50000u

/* A hedge costs so many tokens, and each read brings one. */
#define COST 20u
#define BURST 16u

/* A read that takes after_ns was late, one that takes so many times as long
 * was slow, and its server gets points; each other read takes one back, or
 * some while it is avoided.  So it is if more than one read of 17 is late, or
 * one of 65 slow.  Of one that is well one of 100 is late, and one of some
 * thousands slow.
 */
#define SLOW 3u
#define SLOW_POINTS 64u
#define LATE_POINTS 16u
#define AVOIDED_AT 128u
#define TRUSTED_AT 64u
#define PROBE_POINTS 8u
/* A server that is avoided is read from again after so long, one read at a
 * time.  It is not longer, as it may be the other one that is slow by then.
 */
#define AVOIDED_NS (250 * FP_NS_PER_MS)

/* Nobody collected for so long: then a deadline has not passed. */
#define AWAY_NS (100 * FP_NS_PER_MS)

/* ---- what is usual ---- */

/* A quantile that needs no memory: it goes up by a half for each one above,
 * and comes down by so little for each other one that it stays where that is
 * one in a hundred.
 */
static void
learn (struct lane_conn *lc, uint64_t ns)
{
  if (lc->samples < SAMPLES_MIN) {
    lc->samples++;
    lc->p99_ns = FP_MAX (lc->p99_ns, ns);
  }
  else if (ns > lc->p99_ns)
    lc->p99_ns += lc->p99_ns / 2;
  else
    lc->p99_ns -= lc->p99_ns / 250;
}

/* f has taken so long, at least; over: and that is all. */
static void
judge (struct fp_lane *lane, struct frag *f, uint64_t ns, bool over)
{
  struct lane_conn *lc = &lane->conns[f->server];
  bool slow = ns / SLOW >= f->after_ns;
  unsigned forgiven = lc->avoided ? PROBE_POINTS : 1;

  if (f->judged || f->after_ns == FP_NEVER || (!slow && !over))
    return;
  f->judged = true;
  if (slow || ns >= f->after_ns)
    lc->points =
        FP_MIN (lc->points + (slow ? SLOW_POINTS : LATE_POINTS), AVOIDED_AT);
  else
    lc->points -= FP_MIN (lc->points, forgiven);
  if (slow || ns >= f->after_ns)
    lc->retry_ns = fp_now_ns () + AVOIDED_NS;
  if (lc->points == AVOIDED_AT)
    lc->avoided = true;
  else if (lc->points <= TRUSTED_AT)
    lc->avoided = false;
}

unsigned
lane_hedge_rank (struct fp_lane *lane, struct lane_conn *lc)
{
  if (!lc->avoided)
    return 1 + lc->inflight;
  if (lc->watched > 0 || lane->looked_ns < lc->retry_ns)
    return UINT32_MAX / 2 + lc->inflight;
  return 0;
}

/* ---- a second copy ---- */

/* Of the copy at p, if that is another one than a read from server s has, and
 * can be read; or NULL.
 */
static struct lane_conn *
other_conn (struct fp_lane *lane, struct fp_extent *p, unsigned s)
{
  unsigned server = atomic_load (&p->server);
  struct lane_conn *lc = &lane->conns[server];

  if (server == s || fp_extent_state (p) != FP_EXTENT_READY ||
      lc->samples < SAMPLES_MIN || lc->conn == NULL)
    return NULL;
  return lc;
}

static uint8_t
good_copies (struct fp_extents *t, uint64_t i)
{
  uint8_t in_sync = fp_mirror_in_sync (t, i);

  return in_sync & (uint8_t) ~fp_mirror_bad (t, i, in_sync);
}

static uint64_t
after_ns (struct fp_lane *lane, uint64_t i, unsigned s)
{
  struct fp_extents *t = lane->v->extents;
  uint8_t in_sync = good_copies (t, i);
  uint64_t ns = FP_NEVER;

  for (unsigned c = 0; c < t->copies; c++) {
    struct lane_conn *lc = NULL;

    if (in_sync >> c & 1)
      lc = other_conn (lane, fp_mirror_copy (t, i, c), s);
    if (lc != NULL)
      ns = FP_MIN (ns, FP_MAX (lc->p99_ns, (uint64_t) AFTER_MIN_NS));
  }
  return ns;
}

void
lane_hedge_watch (struct fp_lane *lane, struct frag *f, uint64_t i)
{
  const struct fp_transport_ops *ops = f->op.conn->ops;

  if (f->op.length > lane->v->p.slot_size ||
      (!ops->registered && ops->divert == NULL))
    return;
  f->watched = true;
  f->hedged = f->refused = f->judged = false;
  f->twin = NULL;
  lane->conns[f->server].watched++;
  lane->tokens = FP_MIN (lane->tokens + 1, BURST * COST);
  f->after_ns = after_ns (lane, i, f->server);
  f->look_ns = f->after_ns == FP_NEVER ? FP_NEVER : f->sent_ns + f->after_ns;
  lane->next_look_ns = FP_MIN (lane->next_look_ns, f->look_ns);
  /* Who polls for all went to sleep before there was this one. */
  if (lane->asleep && f->look_ns < lane->sleep_until_ns) {
    lane->sleep_until_ns = 0;
    fp_lane_wake (lane);
  }
}

/* From copy p, which was entered. */
static bool
send_to (struct fp_lane *lane, struct frag *f, struct fp_extent *p)
{
  struct lane_conn *lc = &lane->conns[p->copy.server];
  struct frag *h = lane->spare_frags;

  if (lc->conn == NULL || p->copy.server == f->server ||
      p->copy.remote.map != NULL ||
      lane_frag_size (lane, lc->conn->ops, f->op.length) < f->op.length)
    return false;
  h->head = NULL;
  h->user = f->user;
  h->op.kind = FP_OP_READ;
  h->op.length = f->op.length;
  h->op.local = h->slot;
  if (lane_post (lane, h, f->io, p, f->at) != ISSUED)
    return false;
  f->io->inflight--; /* two for one */
  h->watched = h->hedged = f->hedged = true;
  h->judged = false;
  h->after_ns = f->after_ns;
  h->look_ns = h->sent_ns + SLOW * h->after_ns;
  h->twin = f;
  f->twin = h;
  lc->watched++;
  return true;
}

static bool
hedge (struct fp_lane *lane, struct frag *f)
{
  struct fp_extents *t = lane->v->extents;
  uint64_t i = fp_extent_of (t, f->at >> t->shift);
  uint8_t in_sync = good_copies (t, i);
  struct fp_extent *best = NULL;
  unsigned least = 0;
  bool sent;

  for (unsigned c = 0; c < t->copies; c++) {
    struct fp_extent *p = fp_mirror_copy (t, i, c);
    struct lane_conn *lc = NULL;

    if (in_sync >> c & 1)
      lc = other_conn (lane, p, f->server);
    if (lc != NULL && lc->avoided && lc->watched > 0 &&
        !lane->conns[f->server].avoided)
      continue;
    if (lc != NULL && (best == NULL || lc->inflight < least)) {
      best = p;
      least = lc->inflight;
    }
  }
  if (best == NULL || fp_extent_enter (t, best) != FP_EXTENT_READY)
    return false;
  /* It may have been left behind before it was entered. */
  sent =
      (fp_mirror_in_sync (t, i) >> fp_copy_of (t, (uint64_t) (best - t->p)) &
       1) != 0 &&
      send_to (lane, f, best);
  if (!sent)
    fp_extent_leave (t, best);
  return sent;
}

/* It has taken long, and has no answer. */
static void
try_hedge (struct fp_lane *lane, struct frag *f)
{
  if (lane->tokens < COST || lane->spare_frags == NULL) {
    if (!f->refused)
      count (&lane->hedges_refused, 1);
    f->refused = true; /* once; it is tried again */
  }
  else if (hedge (lane, f)) {
    lane->tokens -= COST;
    count (&lane->hedges, 1);
  }
}

/* ---- what comes of it ---- */

/* What is counted with the spare ones goes on with the other one. */
static void
swap_spare (struct frag *f, struct frag *g)
{
  bool spare = f->spare;

  f->spare = g->spare;
  g->spare = spare;
}

/* Its io has its answer, and its buffer. */
static void
make_late (struct frag *f)
{
  f->io = NULL;
  if (f->op.local == f->user)
    f->op.conn->ops->divert (&f->op, f->slot);
}

bool
lane_hedge_done (struct fp_lane *lane, struct frag *f)
{
  struct lane_conn *lc = &lane->conns[f->server];
  struct frag *twin = f->twin;

  lc->watched--;
  if (f->op.status == 0) {
    /* Nobody may have looked since it came. */
    uint64_t least = lane->looked_ns - f->sent_ns;

    if (lane->looked_ns < f->sent_ns)
      least = 0;
    judge (lane, f, least, true);
    learn (lc, f->io != NULL ? fp_now_ns () - f->sent_ns : least);
  }
  if (f->io == NULL)
    return false;
  if (twin == NULL)
    return true;
  f->twin = twin->twin = NULL;
  if (f->op.status < 0) {
    /* The other one is the only one now. */
    if (twin->spare)
      swap_spare (f, twin);
    return false;
  }
  count (f->spare ? &lane->hedges_won : &lane->hedges_lost, 1);
  /* The fragment that is free again is one for requests. */
  if (f->spare)
    swap_spare (f, twin);
  make_late (twin);
  return true;
}

/* Those that nobody waits for, while nobody looked. */
static void
renew_deadlines (struct fp_lane *lane, uint64_t now)
{
  struct frag *next;

  for (struct frag *f = lane->active_head; f != NULL && f->deadline_ns <= now;
       f = next) {
    next = f->next;
    if (f->io != NULL)
      continue;
    lane_active_remove (lane, f);
    f->deadline_ns = now + lane_patience_ns (lane);
    lane_active_append (lane, f);
  }
}

void
lane_hedge_look (struct fp_lane *lane, uint64_t now)
{
  if (now - lane->looked_ns > AWAY_NS)
    renew_deadlines (lane, now);
  lane->looked_ns = now;
  if (now < lane->next_look_ns)
    return;
  for (struct frag *f = lane->active_head; f != NULL; f = f->next) {
    if (!f->watched || f->look_ns > now)
      continue;
    judge (lane, f, now - f->sent_ns, false);
    if (f->io != NULL && !f->hedged)
      try_hedge (lane, f);
    if (f->io != NULL && !f->hedged)
      f->look_ns = now + f->after_ns;
    else
      f->look_ns = f->judged ? FP_NEVER : f->sent_ns + SLOW * f->after_ns;
  }
  lane->next_look_ns = lane_hedge_next (lane);
}

uint64_t
lane_hedge_next (struct fp_lane *lane)
{
  uint64_t next = FP_NEVER;

  for (struct frag *f = lane->active_head; f != NULL; f = f->next)
    if (f->watched)
      next = FP_MIN (next, f->look_ns);
  return next;
}
