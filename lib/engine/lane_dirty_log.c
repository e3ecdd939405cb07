/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_dirty_log.c - the part of lane_issue.c for the dirty log (dirty_log.h):
 * bytes in the tails of slabs.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/tsan.h"
#include "engine/dirty_log.h"
#include "engine/lane_int.h"
#include "transport/local/mapped.h"

/* Read or write a mapped tail.  Return -EFAULT if its memory is missing.
 * Return -EAGAIN if the lease does not hold, so that the access does not
 * count.
 */
static int
transfer_mapped (struct fp_lane *lane, struct fp_extent *p,
                 enum fp_io_kind kind, unsigned first, void *buf, unsigned nr)
{
  unsigned char *far = (unsigned char *) p->copy.remote.map +
                       lane->e->extents->extent_size + first;
  struct fp_peer *peer = lane->e->peers->at[p->copy.server];
  int r = kind == FP_IO_READ ? fp_mapped_copy (buf, far, nr)
                             : fp_mapped_copy (far, buf, nr);

  if (r < 0)
    return r;
  /* Order this before the data that is stored next, for a client that finds
   * both.
   */
  fp_fence (memory_order_seq_cst);
  if (fp_lease_covers_mapped (lane->e->lease, p->copy.server, fp_mono_ns ()))
    return 0;
  fp_peer_poke (peer);
  return -EAGAIN;
}

/* Post a transfer of regions of entry k, whose copy was entered.  If this
 * returns GO_ON, the fragment is inside the extent and leaves it later.
 */
static enum issue
post (struct fp_lane *lane, struct fp_io *io, struct fp_extent *p, uint64_t k,
      enum fp_tail tail, unsigned first, unsigned nr, unsigned char *user)
{
  const struct fp_extents *t = lane->e->extents;
  struct fp_conn *conn = lane->conns[p->copy.server].conn;
  struct frag *f = lane->free[FRAG_USUAL];
  const struct fp_dirty_log *d = lane->e->dirty_log;
  enum issue why;

  if (conn == NULL) {
    fp_peer_poke (lane->e->peers->at[p->copy.server]);
    return PARK;
  }
  if (f == NULL)
    return BLOCKED;
  f->head = NULL;
  f->tail = tail;
  f->user = user;
  f->op.kind = io->tail != FP_TAIL_NONE && io->kind == FP_IO_READ
                   ? FP_OP_READ
                   : FP_OP_WRITE;
  f->op.length = nr;
  f->op.local = conn->ops->registered ? f->slot : user;
  if (conn->ops->registered && f->op.kind == FP_OP_WRITE)
    memcpy (f->slot, user, nr);
  if (tail == FP_TAIL_SET)
    fp_dirty_log_enter (lane->e, fp_extent_of (t, k),
                        (uint64_t) first << d->shift,
                        (uint64_t) nr << d->shift);
  why = lane_post (lane, f, io, p, (k << t->shift) + first);
  if (why == GO_ON && tail == FP_TAIL_CLEAR)
    fp_dirty_log_sent (lane->e, p->copy.server);
  if (why != GO_ON)
    f->tail = FP_TAIL_NONE;
  if (why != GO_ON && tail == FP_TAIL_SET)
    fp_dirty_log_leave (lane->e, fp_extent_of (t, k),
                        (uint64_t) first << d->shift,
                        (uint64_t) nr << d->shift);
  return why;
}

static unsigned char ones[FP_TAIL_SIZE] = { [0 ... FP_TAIL_SIZE - 1] = 1 };

/* Mark regions of one copy, which was entered.  If it is mapped, that is done
 * at once.  Else set *inside, because a fragment stays inside.
 */
static enum issue
say_some (struct fp_lane *lane, struct fp_io *io, struct fp_extent *p,
          uint64_t k, unsigned first, unsigned nr, bool *inside)
{
  enum issue why;

  if (p->copy.remote.map != NULL) {
    int r = transfer_mapped (lane, p, FP_IO_WRITE, first, ones, nr);

    if (r == -EFAULT && !lane_leave_behind (lane, p))
      return fail_io (io, -EIO);
    if (r < 0)
      return PARK;
    fp_dirty_log_was_set (lane->e, k, first, nr);
    return GO_ON;
  }
  why = post (lane, io, p, k, FP_TAIL_SET, first, nr, ones);
  if (why != GO_ON)
    return why;
  io->saying++;
  *inside = true;
  return PARK;
}

/* Mark all of [in, in + n) in one copy, as say_some does. */
static enum issue
say_one (struct fp_lane *lane, struct fp_io *io, struct fp_extent *p,
         uint64_t k, uint64_t in, uint64_t n, bool *inside)
{
  unsigned first, nr;

  for (;;) {
    unsigned from, end;
    enum issue why;

    switch (fp_dirty_log_look (lane->e, k, &p->copy, in, n, &first, &nr)) {
    case FP_DIRTY_LOG_READY:
      return GO_ON;
    case FP_DIRTY_LOG_WAIT:
      return PARK;
    case FP_DIRTY_LOG_SAY:
    default:
      break;
    }
    from = first;
    end = first + nr;
    fp_dirty_log_widen (lane->e, k, &first, &nr);
    why = say_some (lane, io, p, k, first, nr, inside);
    fp_dirty_log_let_go (lane->e, k, first, from - first);
    fp_dirty_log_let_go (lane->e, k, end, first + nr - end);
    if (why != GO_ON)
      return why;
  }
}

enum issue
lane_log_dirty (struct fp_lane *lane, struct fp_io *io, uint64_t i,
                uint8_t set, uint64_t in, uint64_t n, uint8_t *kept)
{
  struct fp_extents *t = lane->e->extents;
  enum issue all = GO_ON;

  *kept = 0;
  if (io->saying > 0)
    return PARK; /* marks are not acknowledged yet */
  for (unsigned c = 0; c < t->copies; c++) {
    uint64_t k = c * t->nr + i;
    bool inside = false;
    enum issue why;

    if (!(set >> c & 1))
      continue;
    why = say_one (lane, io, &t->p[k], k, in, n, &inside);
    if (inside)
      *kept |= (uint8_t) (1u << c);
    if (why == FAILED)
      return FAILED;
    if (all == GO_ON || why == PARK)
      all = why == GO_ON ? all : why;
  }
  return all;
}

void
lane_tail_done (struct fp_lane *lane, struct frag *f)
{
  const struct fp_extents *t = lane->e->extents;
  const struct fp_dirty_log *d = lane->e->dirty_log;
  uint64_t k = f->at >> t->shift;
  unsigned first = (unsigned) (f->at & (t->extent_size - 1));
  unsigned nr = f->op.length;

  if (f->tail == FP_TAIL_SET) {
    if (f->op.status == 0)
      fp_dirty_log_was_set (lane->e, k, first, nr);
    fp_dirty_log_leave (lane->e, fp_extent_of (t, k),
                        (uint64_t) first << d->shift,
                        (uint64_t) nr << d->shift);
  }
  else if (f->tail == FP_TAIL_CLEARED && f->op.status == 0) {
    fp_dirty_log_was_cleared (lane->e, k, first, nr);
  }
  else if (f->tail != FP_TAIL_RAW && f->op.status < 0) {
    fp_dirty_log_not_cleared (lane->e, k, first, nr,
                              f->op.conn->ops->conn_broken (f->op.conn));
  }
}

/* Transfer a mapped tail at once, and report it as lane_tail_done does.
 * Return true on success.
 */
static bool
do_mapped (struct fp_lane *lane, struct fp_io *io, struct fp_extent *p,
           uint64_t k, unsigned first)
{
  struct fp_engine *e = lane->e;
  int r = transfer_mapped (lane, p, io->kind, first, io->buf, io->length);
  bool did = r == 0;

  /* The zeroing that asked for this goes on with the other copies. */
  if (r == -EFAULT && io->target == NULL)
    (void) lane_leave_behind (lane, p);

  if (did && io->tail == FP_TAIL_SET)
    fp_dirty_log_was_set (e, k, first, io->length);
  else if (did && io->tail == FP_TAIL_CLEARED)
    fp_dirty_log_was_cleared (e, k, first, io->length);
  else if (!did && (io->tail == FP_TAIL_CLEAR || io->tail == FP_TAIL_CLEARED))
    fp_dirty_log_not_cleared (e, k, first, io->length, false);
  return did;
}

static bool
enter (struct fp_extents *t, struct fp_extent *p, const struct fp_io *io)
{
  if (io->tail == FP_TAIL_CLEAR || io->tail == FP_TAIL_CLEARED) {
    atomic_fetch_add (&p->word, 1); /* the caller is inside too */
    return true;
  }
  return fp_extent_enter_frozen (t, p) == FP_EXTENT_READY;
}

enum issue
lane_issue_tail (struct fp_lane *lane, struct fp_io *io)
{
  struct fp_extents *t = lane->e->extents;
  uint64_t k = io->offset >> t->shift;
  unsigned first = (unsigned) (io->offset & (t->extent_size - 1));
  struct fp_extent *p = io->target != NULL ? io->target : &t->p[k];
  enum issue why = GO_ON;

  if (!enter (t, p, io))
    return fail_io (io, -EIO);
  if (!fp_dirty_log_is_kept (lane->e, &p->copy))
    why = fail_io (io, -EOPNOTSUPP);
  else if (io->generation != 0 && io->generation != p->copy.generation)
    why = fail_io (io, -EAGAIN);
  else if (p->copy.remote.map != NULL) {
    if (!do_mapped (lane, io, p, k, first))
      why = fail_io (io, -EIO);
    else
      io->issued = io->length;
  }
  else if (io->tail == FP_TAIL_CLEARED &&
           !fp_dirty_log_is_same (lane->e, p->copy.server))
    why = fail_io (io, -EAGAIN);
  else {
    why = post (lane, io, p, k, io->tail, first, io->length, io->buf);
    if (why == GO_ON) { /* the fragment is inside now */
      io->issued = io->length;
      return GO_ON;
    }
    /* Do not wait: the slab may have another use by then. */
    if (why == PARK)
      why = fail_io (io, -ENOTCONN);
  }
  fp_extent_leave (t, p);
  return why;
}
