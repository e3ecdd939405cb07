/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_issue.c - cut an io into transfers, and hand them to the transport:
 *
 *   lane_issue                    cuts where an extent or stripe unit ends
 *     several copies:             lane_copies.c
 *       lane_issue_copies -> write_some -> write_all -> post_all
 *       lane_issue_copies -> read_one -> lane_transfer
 *     one copy, or one that the engine chose:
 *       issue_one -> lane_transfer -> send_frag, or copy_mapped (shm)
 *     the tail of a slab:         lane_dirty_log.c
 *       lane_issue_tail
 *     all of them:
 *       lane_post                 fp_transport_ops.post
 *
 * lane_progress.c calls it, and collects the transfers when they are over.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "engine/lane_int.h"
#include "extent/stripe.h"
#include "transport/local/mapped.h"

/* ns; least time between two requests of an io for memory that no server had
 */
#define ASK_NS (50 * FP_NS_PER_MS)
#define EARLY_KICK (16 * 1024) /* bytes; fragments this long go at once */

/* Return true if the engine itself made io, and chose its copy. */
static bool
is_internal (const struct fp_io *io)
{
  return io->target != NULL || io->migrate || io->forced;
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

/* Park io until there is a connection.  Without copies, fail a hasty io. */
static enum issue
no_connection (const struct fp_lane *lane, struct fp_io *io)
{
  if (fp_copies_several (lane->e->extents) || !io->hasty)
    return PARK;
  return fail_io (io, -EIO);
}

uint32_t
lane_frag_size (const struct fp_lane *lane, const struct frag *f,
                const struct fp_transport_ops *ops, uint64_t left)
{
  if (left > ops->max_transfer)
    left = ops->max_transfer;
  if (ops->registered && f->kind != FRAG_BARE && left > lane->e->p->slot_size)
    left = lane->e->p->slot_size;
  return (uint32_t) left;
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
  lane->free[f->kind] = f->next;
  f->watched = false;
  f->mark = lc->written;
  f->sent_ns = fp_now_ns ();
  f->deadline_ns = f->sent_ns + lane_transfer_ns (lane);
  if (f->op.kind == FP_OP_READ && !is_internal (io))
    lane->read_ns = f->sent_ns;
  lane_active_append (lane, f);
  if (io->front)
    lane_scan_for_front (lane, io, f->sent_ns);
  if (io->kind == FP_IO_WRITE && ops->registered) {
    lc->written++;
    lc->flush_at = at;
  }
  if (f->op.kind == FP_OP_WRITE)
    lc->writing += f->op.length;
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
  struct frag *f = lane->free[lane_kind_for (lane, io->buf)];

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
  f->op.length = lane_frag_size (lane, f, ops, left);
  f->op.local = lane_frag_memory (f, ops, f->user);
  if (io->kind == FP_IO_WRITE) {
    if (lane_is_paced (lane, lc, io)) {
      *out = PACED;
      return 0;
    }
    if (io->target == NULL)
      fp_extent_set_written (t, at >> t->shift, at & (t->extent_size - 1),
                             f->op.length);
    if (f->op.local != f->user)
      memcpy (f->op.local, f->user, f->op.length);
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
    if (io->generation == 0 || io->generation == p->copy.generation)
      return lane_transfer (lane, io, p, at, left);
    /* The extent has got other memory. */
    fp_extent_leave (t, p);
    return fail_io (io, -EIO);
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

enum issue
lane_issue (struct fp_lane *lane, struct fp_io *io)
{
  struct fp_extents *t = lane->e->extents;
  enum issue why = GO_ON;

  if (lane_is_stale (lane, io))
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
