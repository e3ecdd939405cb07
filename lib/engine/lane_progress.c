/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_progress.c - one round of a lane: collect the transfers that are over,
 * look at deadlines, issue what can go, and ring the doorbells.
 *
 *   lane_progress
 *     poll of the transport     -> frag_done, for each transfer that is over
 *                                    -> settle -> complete, or park
 *     lane_hedge_look           -> lane_hedge.c
 *     scan, at its time         -> breaks connections; parked ios are pending
 *     issue_pending             -> lane_issue, for each pending io
 *     kick of the transport
 *
 * If the connection of a transfer broke, or another copy can do it, frag_done
 * sets redo.  Then settle parks the io until the next change, or for RETRY_NS.
 * All of it is issued again, to the copies that are in sync by then.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/lane_int.h"
#include "extent/stripe.h"

/* A copy is dropped if connections broke in this many tries of one io. */
#define MANY_BREAKS 3u
/* ns; a failed transfer is retried after this time, or earlier at a change */
#define RETRY_NS (10 * FP_NS_PER_MS)
/* Longest time between two scans.  Most waits end by an event or at a
 * deadline.
 */
#define SCAN_MAX_NS FP_NS_PER_S

/* Note that the failed io may have reached some copies and not others. */
static void
diverge (struct fp_lane *lane, const struct fp_io *io)
{
  struct fp_extents *t = lane->e->extents;
  uint64_t run;

  for (uint64_t n = 0; n < io->length; n += run) {
    uint64_t at = io->offset + n;

    if (!io->linear)
      at = fp_stripe_at (t, at, &run);
    else
      run = t->extent_size - (at & (t->extent_size - 1));
    fp_mirror_diverged (lane->e, at >> t->shift);
  }
}

static void
complete (struct fp_lane *lane, struct fp_io *io, int status)
{
  assert (!io->done && io->inflight == 0 && !io->queued);
  io->status = status;
  if (status < 0 && io->spread)
    diverge (lane, io);
  if (io->unsettled)
    atomic_fetch_sub (&lane->e->unsettled, 1);
  if (io->waited)
    atomic_fetch_add (&lane->e->waits, 1);
  fp_counter_add (&lane->inflight, UINT64_MAX);
  if (!io->sync) {
    io->end_ns = fp_now_ns ();
    list_push (&lane->completed, io);
  }
  io->done = true;
  if (lane->sleepers > 0)
    pthread_cond_broadcast (&lane->cond);
  /* Wake the poller or the front end, if it sleeps: another thread collected
   * its transfer.
   */
  if (lane->asleep)
    fp_lane_wake (lane);
  else
    lane_front_wake (lane);
}

static void
park (struct fp_lane *lane, struct fp_io *io)
{
  lane_scan_by (lane, lane_give_up_ns (lane, io));
  io->queued = true;
  list_push (&lane->parked, io);
}

/* If no fragment of io is in flight, complete it, or start it over. */
static void
settle (struct fp_lane *lane, struct fp_io *io)
{
  if (io->inflight > 0)
    return;
  if (io->queued) {
    /* Let issue_pending end it, or start it over. */
    if (io->redo || io->status < 0)
      lane_scan_by (lane, fp_now_ns ());
    return;
  }
  if (io->status < 0) {
    complete (lane, io, io->status);
  }
  else if (io->redo) {
    /* This is safe: reads and writes of the same bytes can be done twice. */
    io->redo = false;
    io->issued = 0;
    io->tries++;
    io->broke = false;
    if (lane_in_vain (lane, io)) {
      complete (lane, io, -EIO);
      return;
    }
    lane_scan_by (lane, fp_now_ns () + RETRY_NS);
    park (lane, io);
  }
  else if (io->issued == io->length) {
    complete (lane, io, 0);
  }
}

void
lane_frag_put (struct fp_lane *lane, struct frag *f)
{
  f->tail = FP_TAIL_NONE;
  f->next = lane->free[f->kind];
  lane->free[f->kind] = f;
}

void
lane_active_remove (struct fp_lane *lane, struct frag *f)
{
  if (f->prev != NULL)
    f->prev->next = f->next;
  else
    lane->active_head = f->next;
  if (f->next != NULL)
    f->next->prev = f->prev;
  else
    lane->active_tail = f->prev;
}

void
lane_active_append (struct fp_lane *lane, struct frag *f)
{
  f->next = NULL;
  f->prev = lane->active_tail;
  if (f->prev != NULL)
    f->prev->next = f;
  else
    lane->active_head = f;
  lane->active_tail = f;
  lane_scan_by (lane, f->deadline_ns);
}

static void
unpark_all (struct fp_lane *lane)
{
  uint64_t now = lane->parked.head != NULL ? fp_now_ns () : 0;
  struct fp_io *io;

  while ((io = list_pop (&lane->parked)) != NULL) {
    io->waited |= now - io->start_ns >= FP_WAITED_MS * FP_NS_PER_MS;
    list_push (&lane->pending, io);
  }
}

/* The connection of f broke: retry its io.  If this is the MANY_BREAKS-th try
 * in which one did, mended connections break again.  So drop this copy, or
 * stop filling it.
 */
static void
retry_or_drop (struct fp_lane *lane, const struct frag *f)
{
  struct fp_io *io = f->io;

  if (!io->broke)
    io->breaks++;
  io->broke = true;
  if (io->breaks < MANY_BREAKS || !fp_copies_several (lane->e->extents))
    io->redo = true;
  else if (io->target != NULL)
    io->status = -EIO;
  else {
    (void) lane_blame_copy (lane, f);
    io->redo = true;
  }
}

/* Handle the end of a transfer.  Its slot may be reused now. */
static void
frag_done (struct fp_lane *lane, struct frag *f)
{
  struct fp_extents *t = lane->e->extents;
  struct frag *head = f->head;
  struct fp_io *io = f->io;
  int status = f->op.status;
  /* If false, there is another answer, and io may be gone. */
  bool counts = !f->watched || lane_hedge_done (lane, f);

  if (counts && status == 0 && f->op.kind == FP_OP_READ &&
      f->op.local != f->user)
    memcpy (f->user, f->op.local, f->op.length);
  lane_active_remove (lane, f);
  if (status == 0 && f->op.kind == FP_OP_READ)
    lane->conns[f->server].flushed =
        FP_MAX (lane->conns[f->server].flushed, f->mark);
  /* However the write ended, it may have landed. */
  if (f->tail != FP_TAIL_NONE)
    lane_tail_done (lane, f);
  else if (f->op.kind == FP_OP_WRITE && io->target == NULL)
    fp_extent_wrote (t, f->at >> t->shift, f->at & (t->extent_size - 1),
                     f->op.length);
  if (head != NULL)
    lane_copy_done (lane, f);
  fp_extent_leave (t, f->extent);
  if (f->op.kind == FP_OP_WRITE)
    lane->conns[f->server].writing -= f->op.length;
  lane->conns[f->server].inflight--;
  fp_peer_count (lane->e->peers->at[f->server], lane->index, f->op.kind,
                 f->op.length, status);
  if (status < 0) {
    if (counts)
      io->failed = true;
    /* With copies all of the io is sent again, over a mended connection.  Or
     * it goes without this copy, once that is out of sync (restore.h).
     */
    if (head != NULL)
      lane_unsettle (lane, io);
    if (f->op.conn->ops->conn_broken (f->op.conn)) {
      lane->conns[f->server].revoked |= lane_refused (f);
      fp_peer_suspect (lane->e->peers->at[f->server]);
      fp_notifier_raise (&t->changes);
      if (fp_copies_several (lane->e->extents))
        fp_mirror_poke (lane->e);
      if (counts)
        retry_or_drop (lane, f);
    }
    else if (counts) {
      if (lane_must_retry (lane, f))
        io->redo = true;
      else
        io->status = -EIO;
    }
    else if (!lane_refused (f)) {
      (void) lane_blame_copy (lane, f);
    }
    fp_peer_poke (lane->e->peers->at[f->server]);
    if (counts &&
        io->tail != FP_TAIL_NONE) { /* the slab may get another use */
      io->redo = false;
      io->status = -EIO;
    }
  }
  if (f->tail == FP_TAIL_SET && io->tail == FP_TAIL_NONE && --io->saying == 0)
    unpark_all (lane);
  if (head != f)
    lane_frag_put (lane, f);
  if (head != NULL && --head->under_way == 0)
    lane_write_done (lane, head);
  if (counts) {
    io->inflight--;
    settle (lane, io);
  }
}

static void
issue_pending (struct fp_lane *lane)
{
  struct fp_io **at = &lane->pending.head, *io;
  bool paced = false;

  lane->round++;
  lane->fresh = false;
  while ((io = *at) != NULL) {
    enum issue r = lane_issue (lane, io);

    if ((r == BLOCKED || r == PACED) && io->front && !paced)
      lane_scan_for_front (lane, io, fp_now_ns ());
    if (r == BLOCKED)
      return;
    if (r == PACED) {
      paced = true; /* later ones have more time */
      at = &io->next;
      continue;
    }
    list_take (&lane->pending, at);
    io->queued = false;
    /* A parked io goes on later from where it stood.  Otherwise settle
     * decides, once nothing is in flight.
     */
    if (r == PARK && !io->redo && io->status == 0) {
      if (io->inflight == 0 && lane_in_vain (lane, io))
        complete (lane, io, -EIO);
      else
        park (lane, io);
    }
    else
      settle (lane, io);
  }
}

/* Break connections that are silent for too long, and retry the parked ios.
 * Parked ios that have waited long enough fail in issue_pending.  Set the time
 * of the next scan.
 */
static void
scan (struct fp_lane *lane, uint64_t now)
{
  lane->next_scan_ns = now + SCAN_MAX_NS;
  for (struct frag *f = lane->active_head; f != NULL; f = f->next) {
    struct fp_conn *c = f->op.conn;

    if (c->ops->conn_broken (c))
      continue;
    if (lane_is_late (lane, f, now)) {
      c->ops->conn_break (c);
      fp_peer_poke (lane->e->peers->at[f->server]);
      continue;
    }
    lane_scan_by (lane, lane_late_ns (lane, f, now));
    if (f->io != NULL && f->io->front)
      lane_scan_for_front (lane, f->io, now);
  }
  unpark_all (lane);
}

/* Make the threads in lane_await look again. */
static void
tell_watchers (struct fp_lane *lane)
{
  if (lane->sleepers > 0)
    pthread_cond_broadcast (&lane->cond);
  if (lane->asleep)
    fp_lane_wake (lane);
}

bool
lane_progress (struct fp_lane *lane)
{
  bool any = false;
  uint64_t now;

  for (unsigned i = 0; i < NR_QUEUES; i++) {
    struct fp_op *op;

    if (lane->queues[i] == NULL)
      continue;
    while ((op = lane->queues[i]->ops->poll (lane->queues[i])) != NULL) {
      any = true;
      while (op != NULL) {
        struct fp_op *next = op->next;

        frag_done (lane, (struct frag *) op);
        op = next;
      }
    }
  }
  now = fp_now_ns ();
  if (atomic_load_explicit (&lane->woken, memory_order_relaxed) &&
      atomic_exchange (&lane->woken, false)) {
    any = true;
    lane->next_scan_ns = 0;
  }
  if (lane->hedging)
    lane_hedge_look (lane, now);
  if (now >= lane->next_scan_ns)
    scan (lane, now);
  issue_pending (lane);
  for (unsigned i = 0; i < NR_QUEUES; i++) {
    if (lane->posted[i]) {
      lane->posted[i] = false;
      lane->queues[i]->ops->kick (lane->queues[i]);
    }
  }
  if (lane->watchers > 0)
    tell_watchers (lane);
  return any;
}
