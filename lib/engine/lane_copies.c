/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_copies.c - requests for an extent with several copies.  A write goes to
 * all in-sync ones, a read to the least busy one (mirror.h).
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/tsan.h"
#include "engine/dirty_log.h"
#include "engine/lane_int.h"
#include "transport/local/mapped.h"

/* For a read no copy of the set in_sync can be used now, for a write not all
 * of them.  Return PARK if one may become usable, else fail io.
 */
static enum issue
wait_for_copy (struct fp_lane *lane, struct fp_io *io, uint64_t i,
               uint8_t in_sync)
{
  struct fp_extents *t = lane->e->extents;
  uint8_t set = io->only != 0 ? in_sync & io->only : in_sync;

  for (unsigned c = 0; c < t->copies; c++) {
    struct fp_extent *p = fp_copies_get (t, i, c);
    enum fp_extent_state s = fp_extent_state (p);

    if ((set >> c & 1) && s != FP_EXTENT_LOST &&
        !(s == FP_EXTENT_OFFLINE && io->hasty))
      return PARK;
  }
  if (fp_copies_in_sync (t, i) != in_sync)
    return GO_ON; /* look again */
  return fail_io (io, -EIO);
}

/* ---- reading ---- */

/* Return the READY copy of the set with the least to do, or -1.  If reads are
 * hedged, copies that were slow lately come last.
 */
static int
least_busy (struct fp_lane *lane, uint64_t i, uint8_t set)
{
  struct fp_extents *t = lane->e->extents;
  unsigned least = 0;
  int best = -1;

  for (unsigned c = 0; c < t->copies; c++) {
    struct fp_extent *p = fp_copies_get (t, i, c);
    struct lane_conn *lc = &lane->conns[atomic_load (&p->server)];
    unsigned rank;

    if (!(set >> c & 1) || fp_extent_state (p) != FP_EXTENT_READY)
      continue;
    rank = lane->hedging ? lane_hedge_rank (lane, lc) : lc->inflight;
    if (best < 0 || rank < least) {
      best = (int) c;
      least = rank;
    }
  }
  return best;
}

static enum issue
read_one (struct fp_lane *lane, struct fp_io *io, uint64_t i, uint8_t in_sync,
          uint64_t at, uint64_t left)
{
  struct fp_extents *t = lane->e->extents;
  uint8_t set = in_sync & (uint8_t) ~fp_copies_bad (t, i, in_sync);
  enum issue why = PARK;
  int c;

  if (io->only != 0)
    set &= io->only;
  while ((c = least_busy (lane, i, set)) >= 0) {
    struct fp_extent *p = fp_copies_get (t, i, (unsigned) c);

    set &= (uint8_t) ~(1u << c);
    if (fp_extent_enter (t, p) != FP_EXTENT_READY)
      continue;
    /* The copy may have been dropped before it was entered. */
    if (!fp_copy_counts (t, fp_copies_entry (t, i, (unsigned) c))) {
      fp_extent_leave (t, p);
      continue;
    }
    why = lane_transfer (lane, io, p, at, left);
    if (why != PARK)
      return why;
  }
  return wait_for_copy (lane, io, i, in_sync);
}

/* ---- writing ---- */

static void
let_go (struct fp_lane *lane, uint64_t at, uint32_t length)
{
  const struct fp_extents *t = lane->e->extents;

  fp_dirty_log_leave (lane->e, at >> t->shift, at & (t->extent_size - 1),
                      length);
  fp_engine_unlock (lane->e, at >> t->shift, at & (t->extent_size - 1),
                    length);
}

static void
leave_all (struct fp_extents *t, uint64_t i, uint8_t set)
{
  for (unsigned c = 0; c < t->copies; c++)
    if (set >> c & 1)
      fp_extent_leave (t, fp_copies_get (t, i, c));
}

/* Enter all in-sync copies, or none. */
static bool
enter_all (struct fp_extents *t, uint64_t i, uint8_t in_sync)
{
  for (unsigned c = 0; c < t->copies; c++) {
    if (!(in_sync >> c & 1))
      continue;
    if (fp_extent_enter (t, fp_copies_get (t, i, c)) != FP_EXTENT_READY) {
      leave_all (t, i, in_sync & (uint8_t) ((1u << c) - 1));
      return false;
    }
  }
  /* A copy that became in sync meanwhile would miss this write. */
  if (fp_copies_in_sync (t, i) == in_sync)
    return true;
  leave_all (t, i, in_sync);
  return false;
}

/* Set *n to how many bytes can go to all copies in one transfer each. */
static enum issue
write_size (struct fp_lane *lane, const struct fp_io *io, uint64_t i,
            uint8_t in_sync, uint64_t left, uint32_t *n)
{
  struct fp_extents *t = lane->e->extents;
  struct frag *f = lane->free[lane_kind_for (lane, io->buf)];

  left = FP_MIN (left, (uint64_t) FP_ENGINE_LOCK_MAX);
  for (unsigned c = 0; c < t->copies; c++) {
    struct fp_extent *p = fp_copies_get (t, i, c);
    struct lane_conn *lc;

    if (!(in_sync >> c & 1) || p->copy.remote.map != NULL)
      continue;
    lc = &lane->conns[p->copy.server];
    if (lc->conn == NULL)
      continue; /* post_all handles that */
    if (f == NULL)
      return BLOCKED;
    left = lane_frag_size (lane, f, lc->conn->ops, left);
    if (lane_is_paced (lane, lc, io))
      return PACED;
    f = f->next;
  }
  *n = (uint32_t) left;
  return GO_ON;
}

/* Write to copy p, which is mapped.  Return -EAGAIN if that does not count and
 * the write must be retried, -EIO if it failed.
 */
static int
store (struct fp_lane *lane, struct fp_extent *p, uint64_t in,
       const unsigned char *user, uint32_t n)
{
  struct fp_peer *peer = lane->e->peers->at[p->copy.server];
  int r = fp_mapped_copy ((unsigned char *) p->copy.remote.map + in, user, n);

  fp_extent_wrote (lane->e->extents, (uint64_t) (p - lane->e->extents->p), in,
                   n);
  if (r < 0)
    return lane_leave_behind (lane, p) ? -EAGAIN : -EIO;
  if (fp_lease_covers_mapped (lane->e->lease, p->copy.server, fp_mono_ns ()))
    return 0;
  fp_peer_poke (peer);
  return -EAGAIN;
}

/* Send the write to the copies of the set that are not mapped.  All of the set
 * were entered.  Return the set of copies to which it could not be sent.
 */
static uint8_t
post_all (struct fp_lane *lane, struct fp_io *io, uint64_t i, uint8_t set,
          uint64_t at, uint32_t n, struct frag **head)
{
  struct fp_extents *t = lane->e->extents;
  unsigned char *user = (unsigned char *) io->buf + io->issued;
  const unsigned char *filled = NULL; /* the slot that has the bytes */
  uint8_t missed = 0;

  for (unsigned c = 0; c < t->copies; c++) {
    struct fp_extent *p = fp_copies_get (t, i, c);
    struct frag *f = lane->free[lane_kind_for (lane, io->buf)];
    struct fp_conn *conn;

    if (!(set >> c & 1) || p->copy.remote.map != NULL)
      continue;
    conn = lane->conns[p->copy.server].conn;
    if (conn == NULL || f == NULL) { /* the io is issued once more */
      fp_peer_poke (lane->e->peers->at[p->copy.server]);
      missed |= (uint8_t) (1u << c);
      continue;
    }
    f->head = *head != NULL ? *head : f;
    f->user = user;
    f->op.kind = FP_OP_WRITE;
    f->op.length = n;
    f->op.local = lane_frag_memory (f->head, conn->ops, user);
    /* The head may be of another transport, and its slot still unused. */
    if (f->op.local != user && filled != f->op.local) {
      memcpy (f->op.local, user, n);
      filled = f->op.local;
    }
    /* The entries of copy c are nr extents behind those of copy c - 1. */
    if (lane_post (lane, f, io, p, at + ((uint64_t) c * t->nr << t->shift)) !=
        GO_ON) {
      missed |= (uint8_t) (1u << c);
      continue;
    }
    if (*head == NULL) {
      f->under_way = 0;
      *head = f;
    }
    (*head)->under_way++;
  }
  return missed;
}

void
lane_copy_done (struct fp_lane *lane, struct frag *f)
{
  struct fp_extents *t = lane->e->extents;
  uint64_t k = f->at >> t->shift, in = f->at & (t->extent_size - 1);
  /* A copy that was dropped meanwhile counts as missed.  Its resync may have
   * read this range here before the write landed.
   */
  uint8_t reached =
      f->head->copies & fp_copies_in_sync (t, fp_extent_of (t, k));

  if (f->op.status < 0)
    reached &= (uint8_t) ~(1u << fp_copy_of (t, k));
  fp_copies_missed (lane->e->extents, fp_extent_of (t, k), in, f->op.length,
                    reached);
}

void
lane_write_done (struct fp_lane *lane, struct frag *head)
{
  let_go (lane, head->held_at, head->held);
  lane_frag_put (lane, head);
}

/* Send the write to all copies of the set, which were entered.  Each copy is
 * left when its transfer is over.
 */
static void
write_all (struct fp_lane *lane, struct fp_io *io, uint64_t i, uint8_t set,
           uint64_t at, uint32_t n)
{
  struct fp_extents *t = lane->e->extents;
  uint64_t in = at & (t->extent_size - 1);
  struct frag *head = NULL;
  uint8_t missed = post_all (lane, io, i, set, at, n, &head), mapped = 0;

  for (unsigned c = 0; c < t->copies; c++) {
    struct fp_extent *p = fp_copies_get (t, i, c);
    int r;

    if (!(set >> c & 1) || p->copy.remote.map == NULL)
      continue;
    mapped |= (uint8_t) (1u << c);
    r = store (lane, p, in, (unsigned char *) io->buf + io->issued, n);
    if (r < 0)
      missed |= (uint8_t) (1u << c);
    if (r == -EIO)
      io->status = -EIO;
  }
  /* As in lane_copy_done: a copy may have been dropped meanwhile.  The
   * fence orders the stores before the look.
   */
  fp_fence (memory_order_seq_cst);
  fp_copies_missed (lane->e->extents, i, in, n,
                    set & (uint8_t) ~missed & fp_copies_in_sync (t, i));
  if (missed != 0) {
    lane_unsettle (lane, io);
    io->redo = true;
  }
  leave_all (t, i, mapped | missed);
  if (head != NULL) {
    head->copies = set & (uint8_t) ~missed;
    head->held_at = at;
    head->held = n;
  }
  else {
    let_go (lane, at, n);
  }
  io->spread = true;
  io->issued += n;
}

static enum issue
write_some (struct fp_lane *lane, struct fp_io *io, uint64_t i,
            uint8_t in_sync, uint64_t at, uint64_t left)
{
  struct fp_extents *t = lane->e->extents;
  uint64_t in = at & (t->extent_size - 1);
  uint8_t kept = 0;
  enum issue why;
  uint32_t n;

  io->asked_ns = 0;
  if (!enter_all (t, i, in_sync)) {
    fp_mirror_poke (lane->e);
    return fp_copies_in_sync (t, i) == in_sync
               ? wait_for_copy (lane, io, i, in_sync)
               : GO_ON; /* look again */
  }
  why = write_size (lane, io, i, in_sync, left, &n);
  if (why == GO_ON && !fp_engine_lock (lane->e, i, in, n))
    why = BLOCKED;
  if (why != GO_ON) {
    leave_all (t, i, in_sync);
    return why;
  }
  fp_dirty_log_enter (lane->e, i, in, n);
  why = lane_log_dirty (lane, io, i, in_sync, in, n, &kept);
  if (why != GO_ON) {
    let_go (lane, at, n);
    leave_all (t, i, in_sync & (uint8_t) ~kept);
    return why;
  }
  fp_extent_set_written (t, i, in, n);
  write_all (lane, io, i, in_sync, at, n);
  return GO_ON;
}

enum issue
lane_issue_copies (struct fp_lane *lane, struct fp_io *io, uint64_t at,
                   uint64_t left)
{
  struct fp_extents *t = lane->e->extents;
  uint64_t i = at >> t->shift;
  uint8_t in_sync = fp_copies_in_sync (t, i);

  if (in_sync == 0)
    return lane_issue_nothing (lane, io, i, left);
  return io->kind == FP_IO_READ ? read_one (lane, io, i, in_sync, at, left)
                                : write_some (lane, io, i, in_sync, at, left);
}
