/* SPDX-License-Identifier: BSD-3-Clause */
/* dirty_log.h - where the copies of an extent may differ when this client
 * dies: so that whoever attaches the volume next need not make all of it
 * equal.
 *
 * A write is in one copy before it is in the others.  So each copy says by
 * itself which parts of it, its regions, are being written: a byte of each, in
 * the tail of its slab (FP_TAIL_SIZE), which is not 0.  The tail is in the
 * memory of the slab: it is written one-sidedly by its key, is there for as
 * long as the data, is scrubbed, kept and copied by its server with them.
 *
 *   before   the first write to a region of a copy is sent its byte is, and
 *            that was acknowledged: nothing is assumed of the order in which
 *            a transport delivers
 *   after    the region was quiet for a while the byte is cleared, by the
 *            migration thread
 *   attach   what any of two copies says of a region is what they may differ
 *            in.  If what one of them says cannot be read, or it has no tail,
 *            that is all of it (meta_log_copies.c).
 *
 * If a write reached copy A and not B, then A says so, or has lost its data,
 * too.  The byte is cleared when no write to that region is under way to any
 * copy, and none that failed in part is to be tried again
 * (fp_volume.unsettled) or was given up (diverged); and while the map may say
 * of a copy that it is in sync which is not, nothing is cleared.  A copy that
 * gets its data from another one, by a move or because it is made anew beside
 * one more that counts, could have a write that is under way to that one and
 * of which it says nothing: so it says that all is being written, before it
 * counts.
 *
 * Each region of each entry is in one of these states:
 *
 *   UNKNOWN   its byte may be anything: it is set before the next write, and
 *             cleared if there is none.  All are at the start, and when the
 *             entry has another memory, or a new label.
 *   CLEAR     it is 0
 *   SET       it is not 0, and there was a write of late
 *   COLD      it is not 0; a write makes it SET
 *   CLEARING  it is being cleared, on the migration lane: who wants to write
 *             waits, as another lane could be faster
 *   FAILED    so it was, and the connection broke: the zero may land until
 *             there is another one on that lane (conn_break)
 *
 * The first write to a region that is not SET takes a round trip more.  In a
 * large volume that would be most random writes: so as many regions are set
 * together as makes FP_DIRTY_LOG_GROUPS at most of it, and each of them is
 * cleared by itself.
 *
 * Who writes is counted in `users` before it looks at the states; who clears
 * makes it CLEARING before it looks at `users`: one of them sees the other.
 *
 * Threads:  any, but for new, free, sweep (the migration thread's) and what
 *           says so.
 * Memory:   only new allocates.
 */

#ifndef FP_DIRTY_LOG_H
#define FP_DIRTY_LOG_H

#include "volume/volume_int.h"

enum fp_dirty_log_state {
  FP_DIRTY_LOG_UNKNOWN,
  FP_DIRTY_LOG_CLEAR,
  FP_DIRTY_LOG_SET,
  FP_DIRTY_LOG_COLD,
  FP_DIRTY_LOG_CLEARING,
  FP_DIRTY_LOG_FAILED,
};

#define FP_DIRTY_LOG_GROUPS 16384u

struct fp_dirty_log {
  unsigned shift;             /* log2 of the bytes of a region */
  unsigned regions;           /* of an extent */
  unsigned group;             /* so many of them are set together */
  _Atomic uint8_t *state;     /* of each entry's regions */
  _Atomic uint32_t *users;    /* of each extent's */
  _Atomic uint64_t *labelled; /* the generation of each entry's state */
  /* How often the migration lane was connected to a server; and that, when
   * what failed last was sent there.
   */
  _Atomic uint32_t opened[FP_MAX_SERVERS], failed[FP_MAX_SERVERS];
  _Atomic uint32_t sent;   /* likewise, of what is on its way */
  _Atomic bool waits;      /* for what is CLEARING */
  _Atomic uint64_t marked; /* bytes of extents, at the end of the last sweep */
  uint64_t sweep_ns;       /* the migration thread's */
};

int fp_dirty_log_new (struct fp_volume *v);
void fp_dirty_log_free (struct fp_volume *v);

/* Does this copy have a place for it? */
static inline bool
fp_dirty_log_is_kept (const struct fp_volume *v, const struct fp_copy *copy)
{
  return copy->remote.length >= v->extents->extent_size + FP_TAIL_SIZE;
}

/* [in, in + length) of extent i is being written, and is not any more. */
void fp_dirty_log_enter (struct fp_volume *v, uint64_t i, uint64_t in,
                         uint64_t length);
void fp_dirty_log_leave (struct fp_volume *v, uint64_t i, uint64_t in,
                         uint64_t length);

enum fp_dirty_log_need {
  FP_DIRTY_LOG_READY, /* it may be written to */
  FP_DIRTY_LOG_SAY,   /* regions *first to *first + *nr - 1 are to be set */
  FP_DIRTY_LOG_WAIT,  /* one of them is being cleared */
};

/* What entry k, at that copy, which was entered, needs before [in, in +
 * length) is written there.  Who asks was counted before: in users, or in
 * fp_volume.unsettled.
 */
enum fp_dirty_log_need fp_dirty_log_look (struct fp_volume *v, uint64_t k,
                                          const struct fp_copy *copy,
                                          uint64_t in, uint64_t length,
                                          unsigned *first, unsigned *nr);
/* And with these the others of their groups, which are held then: by letting
 * them go.
 */
void fp_dirty_log_widen (struct fp_volume *v, uint64_t k, unsigned *first,
                         unsigned *nr);
void fp_dirty_log_let_go (struct fp_volume *v, uint64_t k, unsigned first,
                          unsigned nr);
/* What became of that; whoever says so is inside.  may_land: it broke. */
void fp_dirty_log_was_set (struct fp_volume *v, uint64_t k, unsigned first,
                           unsigned nr);
void fp_dirty_log_was_cleared (struct fp_volume *v, uint64_t k, unsigned first,
                               unsigned nr);
void fp_dirty_log_not_cleared (struct fp_volume *v, uint64_t k, unsigned first,
                               unsigned nr, bool may_land);

/* Under the lock of the migration lane: it has another connection to that
 * server; a byte was sent to be cleared on the one that it has; is that still
 * the one?
 */
void fp_dirty_log_opened (struct fp_volume *v, unsigned server);
void fp_dirty_log_sent (struct fp_volume *v, unsigned server);
bool fp_dirty_log_is_same (struct fp_volume *v, unsigned server);

/* Any thread that may wait; unsettled counts it.  Every in-sync copy of extent
 * i says that [in, in + length) is being written, and will until it is not
 * unsettled any more.  -EAGAIN: not all do yet.
 */
int fp_dirty_log_say (struct fp_lane *lane, uint64_t i, uint64_t in,
                      uint64_t length);

/* The migration thread.  What is at p, an entry that does not count yet or a
 * move's target for entry k, says that all of it is being written.
 */
int fp_dirty_log_say_all (struct fp_volume *v, uint64_t k,
                          struct fp_extent *p);
/* Clear what was quiet, if it is time for that. */
void fp_dirty_log_sweep (struct fp_volume *v, const _Atomic bool *stop);

/* The start's thread.  What entry k says: v->dirty_log->regions bytes.  False:
 * nobody knows.
 */
bool fp_dirty_log_read (struct fp_volume *v, uint64_t k,
                        unsigned char bytes[FP_TAIL_SIZE]);

#endif /* FP_DIRTY_LOG_H */
