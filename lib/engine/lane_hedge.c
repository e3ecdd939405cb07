/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_hedge.c - hedged reads: a read that takes long is also sent to another
 * copy, and the first answer is used.
 *
 *            sent                 after_ns             first answer
 *    read ---------> in flight ------------> two twins ------------> answered
 *                                                |
 *                                                +--> the other twin: late,
 *                                                     until its answer came
 *
 * The late twin lands in memory of its own fragment, which has no other use
 * until then (transport.h, conn_break).  It stays inside its extent and keeps
 * its deadline. Its io is forgotten, and may be gone.  If the transport reads
 * into registered memory, the late twin's memory is the fragment's slot.  Else
 * the first twin reads into the caller's buffer.  If the second twin is
 * faster, the first one is diverted to its slot.  The second twin always reads
 * into its slot.
 *
 * The answer is right: the second copy is in sync when it is asked.  So it has
 * every write that was acknowledged by then.
 *
 * A read takes long if it is slower than 99 of 100 reads from the server that
 * would be asked next.  Times of its own server do not count: if all its reads
 * take long, that is no reason to wait.
 *
 * The cost is bounded.  Each read has at most one hedge, and at most one read
 * in COST is hedged.  Hedges use spare fragments only.  If there is none, the
 * read just waits for its first answer.
 *
 * A server that was slow again and again is not asked first for a while.  Then
 * it gets one read at a time, to see whether it is quick again.
 */

#include <config.h>

#include "base/checked.h"
#include "engine/lane_int.h"

/* Reads from a server before its usual time is known. */
#define SAMPLES_MIN 128
/* ns; shorter differences are noise on any host. */
#define AFTER_MIN_NS 50000u

/* A hedge costs COST tokens, and each read brings one.  At most BURST hedges
 * can be saved up.
 */
#define COST 20u
#define BURST 16u

/* Points against a server.  A read is late from after_ns on, and slow from
 * SLOW times that on; both add points.  Any other read takes back one point,
 * or PROBE_POINTS while the server is avoided.  So a server is avoided if more
 * than one read in 17 is late, or one in 65 is slow.  Of a healthy server, one
 * read in 100 is late, and one in some thousands is slow.
 */
#define SLOW 3u
#define SLOW_POINTS 64u
#define LATE_POINTS 16u
#define AVOIDED_AT 128u
#define TRUSTED_AT 64u
#define PROBE_POINTS 8u
/* After this time an avoided server is read from again, one read at a time.
 * The time is short, because the other server may be the slow one by then.
 */
#define AVOIDED_NS (250 * FP_NS_PER_MS)

/* If completions were not collected for this long, renew the deadlines of late
 * reads: they have not passed.
 */
#define AWAY_NS (100 * FP_NS_PER_MS)

/* ---- usual times ---- */

/* Track a quantile without memory.  The estimate rises by half for each read
 * above it, and falls a little for each other one.  It rests where one read in
 * a hundred is above.
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

/* Count points for f, which has taken at least ns.  over: f is complete. */
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

/* Return the connection to the copy at p if it can be read and is not on
 * server s, else NULL.
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
  uint8_t in_sync = fp_copies_in_sync (t, i);

  return in_sync & (uint8_t) ~fp_copies_bad (t, i, in_sync);
}

static uint64_t
after_ns (struct fp_lane *lane, uint64_t i, unsigned s)
{
  struct fp_extents *t = lane->e->extents;
  uint8_t in_sync = good_copies (t, i);
  uint64_t ns = FP_NEVER;

  for (unsigned c = 0; c < t->copies; c++) {
    struct lane_conn *lc = NULL;

    if (in_sync >> c & 1)
      lc = other_conn (lane, fp_copies_get (t, i, c), s);
    if (lc != NULL)
      ns = FP_MIN (ns, FP_MAX (lc->p99_ns, (uint64_t) AFTER_MIN_NS));
  }
  return ns;
}

void
lane_hedge_watch (struct fp_lane *lane, struct frag *f, uint64_t i)
{
  const struct fp_transport_ops *ops = f->op.conn->ops;

  if (f->op.length > lane->e->p->slot_size ||
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
  lane_awake_by (lane, f->look_ns);
}

/* Send the hedge of f to copy p, which was entered. */
static bool
send_to (struct fp_lane *lane, struct frag *f, struct fp_extent *p)
{
  struct lane_conn *lc = &lane->conns[p->copy.server];
  struct frag *h = lane->free[FRAG_SPARE];

  if (lc->conn == NULL || p->copy.server == f->server ||
      p->copy.remote.map != NULL ||
      lane_frag_size (lane, h, lc->conn->ops, f->op.length) < f->op.length)
    return false;
  h->head = NULL;
  h->user = f->user;
  h->op.kind = FP_OP_READ;
  h->op.length = f->op.length;
  h->op.local = h->slot;
  if (lane_post (lane, h, f->io, p, f->at) != GO_ON)
    return false;
  f->io->inflight--; /* both twins count as one */
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
  struct fp_extents *t = lane->e->extents;
  uint64_t i = fp_extent_of (t, f->at >> t->shift);
  uint8_t in_sync = good_copies (t, i);
  struct fp_extent *best = NULL;
  unsigned least = 0;
  bool sent;

  for (unsigned c = 0; c < t->copies; c++) {
    struct fp_extent *p = fp_copies_get (t, i, c);
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
  /* The copy may have been dropped before it was entered. */
  sent =
      (fp_copies_in_sync (t, i) >> fp_copy_of (t, (uint64_t) (best - t->p)) &
       1) != 0 &&
      send_to (lane, f, best);
  if (!sent)
    fp_extent_leave (t, best);
  return sent;
}

/* Hedge f, which has taken long, if there is a token and a spare fragment. */
static void
try_hedge (struct fp_lane *lane, struct frag *f)
{
  if (lane->tokens < COST || lane->free[FRAG_SPARE] == NULL) {
    if (!f->refused)
      fp_counter_add (&lane->hedges_refused, 1);
    f->refused = true; /* counted once, tried again */
  }
  else if (hedge (lane, f)) {
    lane->tokens -= COST;
    fp_counter_add (&lane->hedges, 1);
  }
}

/* ---- answers ---- */

/* Exchange which of two fragments counts as a spare one. */
static void
swap_spare (struct frag *f, struct frag *g)
{
  enum frag_kind kind = f->kind;

  f->kind = g->kind;
  g->kind = kind;
}

/* Detach f from its io, which has its answer and owns its buffer again. */
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
    /* Count the time to the last look: the answer may be that old. */
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
    /* The twin is the only one left. */
    if (twin->kind == FRAG_SPARE)
      swap_spare (f, twin);
    return false;
  }
  fp_counter_add (
      f->kind == FRAG_SPARE ? &lane->hedges_won : &lane->hedges_lost, 1);
  /* The fragment that is now free serves requests.  The late twin is spare. */
  if (f->kind == FRAG_SPARE)
    swap_spare (f, twin);
  make_late (twin);
  return true;
}

/* Renew deadlines of late reads: this lane did not look for a while. */
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
    f->deadline_ns = now + lane_transfer_ns (lane);
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
