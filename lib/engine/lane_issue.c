/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/lane_int.h"
#include "extent/stripe.h"
#include "transport/local/mapped.h"

/* If a connection breaks after this many tries of an io, drop the copy. */
#define MANY_TRIES 3u
/* ns; a failed transfer is retried after this time, or earlier at a change */
#define RETRY_NS (10 * FP_NS_PER_MS)
/* ns; least time between two requests of an io for memory that no server had
 */
#define ASK_NS (50 * FP_NS_PER_MS)
/* Longest time between two scans.  Most waits end by an event or at a
 * deadline.  This limit is for conditions without either, such as that a
 * server has been away for long enough.
 */
#define SCAN_MAX_NS FP_NS_PER_S
/* ns; as SCAN_MAX_NS, while a front end's write is in flight */
#define FRONT_NS (250 * FP_NS_PER_MS)
#define EARLY_KICK (16 * 1024) /* bytes; fragments this long go at once */

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
  atomic_fetch_sub_explicit (&lane->inflight, 1, memory_order_relaxed);
  if (!io->sync) {
    io->end_ns = fp_now_ns ();
    list_push (&lane->completed, io);
  }
  io->done = true;
  if (lane->sleepers > 0)
    pthread_cond_broadcast (&lane->cond);
  /* Wake the sleeping poller: another thread collected what it waits for. */
  if (lane->asleep)
    fp_lane_wake (lane);
}

/* Return the time by which all servers that are back must have listed their
 * slabs, by fp_now_ns.  It may have passed.
 */
static uint64_t
learns_until (const struct fp_lane *lane)
{
  uint64_t until = 0;

  for (unsigned i = 0; i < lane->e->peers->nr; i++)
    until = FP_MAX (until, fp_peer_learns_until (lane->e->peers->at[i]));
  return until;
}

/* Return true if there is another way when the server is away.  A hasty read
 * has another copy, and the migration thread tries again later.
 */
static bool
has_other_way (const struct fp_io *io)
{
  return io->target != NULL || io->migrate || io->hasty ||
         io->tail != FP_TAIL_NONE;
}

/* Return how long io waits for servers that are away.  If it has another way
 * and was in flight, it gets that time twice.  The first time was spent on
 * finding out that the server is silent.
 */
static uint64_t
patience_ns (const struct fp_lane *lane, const struct fp_io *io)
{
  if (has_other_way (io))
    return (io->tries > 0 ? 2 : 1) * lane->e->p->timeout_ms * FP_NS_PER_MS;
  return lane->e->block.await_ms * FP_NS_PER_MS;
}

/* Return the next linear address of io.  Set *run to the consecutive bytes
 * there.
 */
static uint64_t
address (const struct fp_extents *t, const struct fp_io *io, uint64_t *run)
{
  uint64_t offset = io->offset + io->issued;

  if (!io->linear)
    return fp_stripe_at (t, offset, run);
  *run = t->extent_size - (offset & (t->extent_size - 1));
  return offset;
}

/* Return true if io is a front end's write that must not be sent any more. */
static bool
is_stale (const struct fp_lane *lane, const struct fp_io *io)
{
  return io->front && fp_block_is_stale (&lane->e->block, io->made_ns);
}

/* Return true if io, which cannot be sent now, has waited long enough. */
static bool
in_vain (const struct fp_lane *lane, const struct fp_io *io)
{
  uint64_t patience = patience_ns (lane, io);

  if (fp_lease_is_fenced (lane->e->lease))
    return true;
  if (fp_now_ns () - io->start_ns < patience && !is_stale (lane, io))
    return false;
  return has_other_way (io) || fp_deadline_passed (learns_until (lane));
}

/* Return when io, which cannot be sent now, has waited long enough, by
 * fp_now_ns.  That is at least a millisecond from now, because in_vain reads a
 * coarse clock.
 */
static uint64_t
give_up_ns (const struct fp_lane *lane, const struct fp_io *io)
{
  const struct fp_block *b = &lane->e->block;
  uint64_t now = fp_now_ns (), at = io->start_ns + patience_ns (lane, io);

  if (io->front) {
    uint64_t left = fp_block_left_ns (b, io->made_ns);
    uint64_t margin = (b->await_ms - b->send_ms) * FP_NS_PER_MS;

    at = FP_MIN (at, now + left - FP_MIN (left, margin));
  }
  if (!has_other_way (io))
    at = FP_MAX (at, learns_until (lane));
  return FP_MAX (at, now + FP_NS_PER_MS);
}

static void
park (struct fp_lane *lane, struct fp_io *io)
{
  lane_scan_by (lane, give_up_ns (lane, io));
  io->queued = true;
  list_push (&lane->parked, io);
}

bool
lane_may_ask (struct fp_lane *lane, struct fp_io *io)
{
  uint64_t now = fp_now_ns ();
  bool may = io->asked_ns == 0 || now >= io->asked_ns + ASK_NS;

  /* All ios ask at the same times: each refusal wakes all of them. */
  if (may)
    io->asked_ns = now - now % ASK_NS;
  lane_scan_by (lane, io->asked_ns + ASK_NS);
  return may;
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
    if (in_vain (lane, io)) {
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
  struct frag **list = f->spare ? &lane->spare_frags : &lane->free_frags;

  f->tail = FP_TAIL_NONE;
  f->next = *list;
  *list = f;
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

/* The connection of f broke: retry its io.  If that was done MANY_TRIES times,
 * mended connections break again, so drop this copy, or stop filling it.
 */
static void
retry_or_drop (struct fp_lane *lane, const struct frag *f)
{
  struct fp_io *io = f->io;

  if (io->tries < MANY_TRIES || !fp_copies_several (lane->e->extents))
    io->redo = true;
  else if (io->target != NULL)
    io->status = -EIO;
  else {
    (void) lane_other_copy (lane, f);
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
  /* However the write ended, it may have landed. */
  if (f->tail != FP_TAIL_NONE)
    lane_tail_done (lane, f);
  else if (f->op.kind == FP_OP_WRITE && io->target == NULL)
    fp_extent_wrote (t, f->at >> t->shift, f->at & (t->extent_size - 1),
                     f->op.length);
  if (head != NULL)
    lane_copy_done (lane, f);
  fp_extent_leave (t, f->extent);
  lane->conns[f->server].inflight--;
  fp_peer_count (lane->e->peers->at[f->server], f->op.kind, f->op.length,
                 status);
  if (status < 0) {
    if (counts)
      io->failed = true;
    /* All of the io is sent again: over a mended connection, or without this
     * copy once that is recorded as out of sync (restore.h).
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
      (void) lane_other_copy (lane, f);
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
    lane_copies_done (lane, head);
  if (counts) {
    io->inflight--;
    settle (lane, io);
  }
}

/* Return how long a transfer may take.  With several copies it is 3/8 of the
 * timeout.  The rest is for leaving out the copy, and for the other one.
 */
uint64_t
lane_patience_ns (const struct fp_lane *lane)
{
  uint64_t timeout = (uint64_t) lane->e->p->timeout_ms * 1000000u;

  return fp_copies_several (lane->e->extents) ? timeout / 8 * 3 : timeout;
}

/* Park io until there is a connection.  Without copies, fail a hasty io. */
static enum issue
no_connection (const struct fp_lane *lane, struct fp_io *io)
{
  if (fp_copies_several (lane->e->extents) || !io->hasty)
    return PARK;
  return fail_io (io, -EIO);
}

uint32_t
lane_frag_size (const struct fp_lane *lane, const struct fp_transport_ops *ops,
                uint64_t left)
{
  if (left > ops->max_transfer)
    left = ops->max_transfer;
  if (ops->registered && left > lane->e->p->slot_size)
    left = lane->e->p->slot_size;
  return (uint32_t) left;
}

/* Scan when the time of io, a front end's write, is over.  After this process
 * was stopped, fp_now_ns goes on by less than the front end's clock, but by
 * more than FRONT_NS.  So the first look after that scans.
 */
static void
scan_for_front (struct fp_lane *lane, const struct fp_io *io, uint64_t now)
{
  uint64_t left = fp_block_left_ns (&lane->e->block, io->made_ns);

  left = FP_MIN (left, FRONT_NS);
  lane_scan_by (lane, now + FP_MAX (left, FP_NS_PER_MS));
}

enum issue
lane_post (struct fp_lane *lane, struct frag *f, struct fp_io *io,
           struct fp_extent *p, uint64_t at)
{
  struct fp_copy *copy = &p->copy;
  struct lane_conn *lc = &lane->conns[copy->server];
  const struct fp_transport_ops *ops;
  int r;

  if (lc->conn == NULL)
    return no_connection (lane, io);
  ops = lc->conn->ops;
  f->io = io;
  f->extent = p;
  f->at = at;
  f->server = copy->server;
  f->op.raddr =
      copy->remote.raddr + (at & (lane->e->extents->extent_size - 1));
  if (f->tail != FP_TAIL_NONE)
    f->op.raddr += lane->e->extents->extent_size;
  f->op.rkey = copy->remote.rkey;
  r = ops->post (lc->conn, &f->op);
  if (r == -EAGAIN)
    return BLOCKED;
  if (r < 0) {
    fp_peer_poke (lane->e->peers->at[copy->server]);
    return no_connection (lane, io);
  }
  if (f->spare)
    lane->spare_frags = f->next;
  else
    lane->free_frags = f->next;
  f->watched = false;
  f->sent_ns = fp_now_ns ();
  f->deadline_ns = f->sent_ns + lane_patience_ns (lane);
  lane_active_append (lane, f);
  if (io->front)
    scan_for_front (lane, io, f->sent_ns);
  if (io->kind == FP_IO_WRITE && ops->registered) {
    lc->written++;
    lc->flush_at = at;
  }
  lc->inflight++;
  lane->posted[__builtin_ctz (ops->bit)] = true;
  if (f->op.length >= EARLY_KICK)
    ops->kick (lc->conn->queue);
  io->inflight++;
  return GO_ON;
}

/* Send the next `left` bytes, or fewer, as one fragment, which stays inside p.
 * Return their number, or 0 with the reason in *out.
 */
static uint32_t
send_frag (struct fp_lane *lane, struct fp_io *io, struct fp_extent *p,
           uint64_t at, uint64_t left, enum issue *out)
{
  struct fp_extents *t = lane->e->extents;
  struct lane_conn *lc = &lane->conns[p->copy.server];
  const struct fp_transport_ops *ops;
  struct frag *f = lane->free_frags;

  if (lc->conn == NULL) {
    *out = no_connection (lane, io);
    return 0;
  }
  ops = lc->conn->ops;
  *out = BLOCKED;
  if (f == NULL)
    return 0;
  f->head = NULL;
  f->user = (unsigned char *) io->buf + io->issued;
  f->op.kind = io->kind == FP_IO_READ ? FP_OP_READ : FP_OP_WRITE;
  f->op.length = lane_frag_size (lane, ops, left);
  f->op.local = ops->registered ? f->slot : f->user;
  if (io->kind == FP_IO_WRITE) {
    if (io->target == NULL)
      fp_extent_set_written (t, at >> t->shift, at & (t->extent_size - 1),
                             f->op.length);
    if (ops->registered)
      memcpy (f->slot, f->user, f->op.length);
  }
  *out = lane_post (lane, f, io, p, at);
  return *out == GO_ON ? f->op.length : 0;
}

/* Load or store `left` bytes of p, which is mapped. */
static enum issue
copy_mapped (struct fp_lane *lane, struct fp_io *io, struct fp_extent *p,
             uint64_t at, uint64_t left)
{
  struct fp_extents *t = lane->e->extents;
  uint64_t i = at >> t->shift, in = at & (t->extent_size - 1);
  unsigned char *far = (unsigned char *) p->copy.remote.map + in;
  unsigned char *user = (unsigned char *) io->buf + io->issued;
  int r;

  if (io->kind == FP_IO_READ && io->migrate)
    r = fp_mapped_copy_while_written (user, far, left);
  else if (io->kind == FP_IO_READ)
    r = fp_mapped_copy (user, far, left);
  else if (io->target != NULL)
    r = fp_mapped_copy (far, user, left);
  else {
    fp_extent_set_written (t, i, in, left);
    r = fp_mapped_copy (far, user, left);
    fp_extent_wrote (t, i, in, left);
  }
  if (r < 0)
    return lane_missing (lane, io, p);
  if (fp_lease_covers_mapped (lane->e->lease, p->copy.server, fp_mono_ns ()))
    return GO_ON;
  fp_peer_poke (lane->e->peers->at[p->copy.server]);
  return PARK;
}

/* Return true if the engine itself made io, and chose its copy. */
static bool
is_internal (const struct fp_io *io)
{
  return io->target != NULL || io->migrate || io->forced;
}

enum issue
lane_transfer (struct fp_lane *lane, struct fp_io *io, struct fp_extent *p,
               uint64_t at, uint64_t left)
{
  struct fp_extents *t = lane->e->extents;
  uint64_t i = fp_extent_of (t, at >> t->shift), run;
  enum issue why = GO_ON;

  io->asked_ns = 0;
  if (io->kind == FP_IO_READ && !io->forced && io->target == NULL &&
      !fp_extent_run (t, i, at & (t->extent_size - 1), left, &run)) {
    left = run;
    if (fp_lease_covers_zeros (lane->e->lease, p->copy.server,
                               fp_boot_ns ())) {
      memset ((unsigned char *) io->buf + io->issued, 0, run);
    }
    else {
      fp_peer_poke (lane->e->peers->at[p->copy.server]);
      why = PARK;
    }
  }
  else if (p->copy.remote.map != NULL) {
    why = copy_mapped (lane, io, p, at, left);
  }
  else {
    uint32_t n = send_frag (lane, io, p, at, left, &why);

    if (n > 0) { /* the fragment is inside p now */
      io->issued += n;
      if (lane->hedging && io->kind == FP_IO_READ && io->only == 0 &&
          !is_internal (io))
        lane_hedge_watch (lane, lane->active_tail, i);
      return GO_ON;
    }
  }
  if (why == GO_ON)
    io->issued += (uint32_t) left;
  fp_extent_leave (t, p);
  return why;
}

enum issue
lane_issue_nothing (struct fp_lane *lane, struct fp_io *io, uint64_t i,
                    uint64_t left)
{
  struct fp_engine *e = lane->e;
  int err = 0;

  if (fp_lease_is_fenced (e->lease))
    return fail_io (io, -EIO);
  if (io->kind == FP_IO_READ) {
    if (!fp_peers_are_leased (e->peers))
      return io->hasty ? fail_io (io, -EIO) : PARK;
    memset ((unsigned char *) io->buf + io->issued, 0, left);
    io->issued += (uint32_t) left;
    return GO_ON;
  }
  if (is_internal (io))
    return fail_io (io, -EIO);
  if (fp_mirror_form (e, i, &err))
    return GO_ON; /* look again */
  if (io->asked_ns != 0 && err != 0)
    return fail_io (io, err);
  if (lane_may_ask (lane, io))
    fp_mirror_want (e, i);
  return PARK;
}

/* Issue the next `left` bytes of io, or fewer.  They can go to or come from
 * one copy: the only one, or the one that the engine chose.
 */
static enum issue
issue_one (struct fp_lane *lane, struct fp_io *io, uint64_t at, uint64_t left)
{
  struct fp_extents *t = lane->e->extents;
  uint64_t i = at >> t->shift;
  struct fp_extent *p = io->target != NULL ? io->target : &t->p[i];

  if (io->forced && io->hasty && !fp_copy_counts (t, i))
    return fail_io (io, -EIO);
  switch (io->owner     ? fp_extent_enter_busy (t, p)
          : io->migrate ? fp_extent_enter_frozen (t, p)
                        : fp_extent_enter (t, p)) {
  case FP_EXTENT_READY:
    return lane_transfer (lane, io, p, at, left);
  case FP_EXTENT_EMPTY:
    return io->target != NULL ? fail_io (io, -EIO)
                              : lane_issue_nothing (lane, io, i, left);
  case FP_EXTENT_LOST:
    return fail_io (io, -EIO);
  case FP_EXTENT_OFFLINE:
    if (io->target != NULL || io->hasty)
      return fail_io (io, -EIO);
    return PARK;
  case FP_EXTENT_BUSY:
  case FP_EXTENT_FROZEN:
  default:
    return PARK;
  }
}

/* Issue as much of io as there are free fragments for. */
static enum issue
issue (struct fp_lane *lane, struct fp_io *io)
{
  struct fp_extents *t = lane->e->extents;
  enum issue why = GO_ON;

  if (is_stale (lane, io))
    return PARK;
  if (io->tail != FP_TAIL_NONE)
    return io->status == 0 ? lane_issue_tail (lane, io) : GO_ON;
  while (why == GO_ON && io->issued < io->length && !io->redo &&
         io->status == 0) {
    uint64_t left, at = address (t, io, &left);

    left = FP_MIN (left, (uint64_t) (io->length - io->issued));
    why = fp_copies_several (t) && !is_internal (io)
              ? lane_issue_copies (lane, io, at, left)
              : issue_one (lane, io, at, left);
  }
  return why;
}

static void
issue_pending (struct fp_lane *lane)
{
  struct fp_io *io;

  while ((io = lane->pending.head) != NULL) {
    enum issue r = issue (lane, io);

    if (r == BLOCKED) {
      if (io->front)
        scan_for_front (lane, io, fp_now_ns ());
      return;
    }
    list_pop (&lane->pending);
    io->queued = false;
    /* A parked io goes on later from where it stood.  Otherwise settle
     * decides, once nothing is in flight.
     */
    if (r == PARK && !io->redo && io->status == 0) {
      if (io->inflight == 0 && in_vain (lane, io))
        complete (lane, io, -EIO);
      else
        park (lane, io);
    }
    else
      settle (lane, io);
  }
}

/* Return true if f takes too long, by our clock or by the front end's. */
static bool
is_late (const struct fp_lane *lane, const struct frag *f, uint64_t now)
{
  if (f->io != NULL && f->io->front &&
      fp_block_left_ns (&lane->e->block, f->io->made_ns) == 0)
    return true;
  return f->deadline_ns <= now && !lane_sole (lane, f, now);
}

/* Return how long a transfer of the only in-sync copy may take, in ns:
 * lane_sole.
 */
static uint64_t
whole_ns (const struct fp_lane *lane)
{
  return lane->e->p->timeout_ms * FP_NS_PER_MS;
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
    if (is_late (lane, f, now)) {
      c->ops->conn_break (c);
      fp_peer_poke (lane->e->peers->at[f->server]);
      continue;
    }
    lane_scan_by (lane, f->deadline_ns > now ? f->deadline_ns
                                             : f->sent_ns + whole_ns (lane));
    if (f->io != NULL && f->io->front)
      scan_for_front (lane, f->io, now);
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
