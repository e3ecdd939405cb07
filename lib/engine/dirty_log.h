/* SPDX-License-Identifier: BSD-3-Clause */
/* dirty_log.h - mark where the copies of an extent may differ if this client
 * dies, so that the next client need not resync whole extents.
 *
 * A write reaches one copy before the others.  So each copy has a dirty log of
 * its own: one byte per region of the extent, in the tail of its slab
 * (FP_TAIL_SIZE).  If the byte is not 0, the region is being written.  The
 * tail is slab memory, written one-sidedly with the slab's key.  The server
 * keeps, copies and scrubs it with the data.
 *
 *   before   The byte is set, and acknowledged, before the first write to the
 *            region is sent to that copy.  So the order in which a transport
 *            delivers does not matter.
 *   after    When the region was quiet for a while, the migration thread
 *            clears the byte.
 *   attach   Two copies may differ in the regions that either of them marks.
 *            If a tail is missing or unreadable, they may differ anywhere
 *            (fp_dirty_log_differ).
 *
 * If a write reached copy A but not copy B, A's byte is set, or A has lost its
 * data too.  A byte is cleared only while all of these hold:
 *  - No write to its region is in flight to any copy.
 *  - No write that failed in part will be retried (fp_engine.unsettled), and
 *    none was given up (fp_extent.diverged).
 *  - The map cannot name a stale copy of the extent as in sync.
 *
 * A copy may be filled while its source receives a write that is also meant
 * for a third copy.  The new copy may then have data of that write without a
 * mark.  So before a moved or resynced copy counts, it marks all regions.
 *
 * The first write to a region that is not SET costs one more round trip.  In a
 * large volume, that would be most random writes.  So regions are set in
 * groups.  The volume has at most FP_DIRTY_LOG_GROUPS groups, or one per
 * extent if that is more.  Each region is cleared by itself.
 *
 * Threads:  any, except for new, free, and where a comment names a thread.
 * Memory:   only new allocates.
 */

#ifndef FP_DIRTY_LOG_H
#define FP_DIRTY_LOG_H

#include <stdatomic.h>

#include "engine/engine.h"
#include "proto/messages.h"

/* State of one region of one entry:
 *
 *   UNKNOWN   The byte may be anything.  It is set before the next write, or
 *             cleared if there is none.  The state at the start, and after
 *             the entry got other memory or a new label.
 *   CLEAR     The byte is 0.
 *   SET       The byte is not 0, and there was a write lately.
 *   COLD      The byte is not 0.  A write makes it SET.
 *   CLEARING  The heal lane is clearing the byte.  A writer waits,
 *             because another lane could overtake the zero.
 *   FAILED    The connection broke while the byte was being cleared.  The
 *             zero may land until that lane has another one (conn_break).
 *
 * A writer is counted in `users` before it looks at the states.  The sweep
 * sets CLEARING before it looks at `users`.  So one of them sees the other.
 */
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
  unsigned shift;             /* log2 of the bytes in a region */
  unsigned regions;           /* regions in an extent */
  unsigned group;             /* regions that are set together */
  _Atomic uint8_t *state;     /* per entry and region */
  _Atomic uint32_t *users;    /* per extent and region: writers */
  _Atomic uint64_t *labelled; /* per entry: generation that state is for */
  /* Per server: number of connections that the heal lane made, and that
   * number when the last clear that failed was sent.
   */
  _Atomic uint32_t opened[FP_MAX_SERVERS], failed[FP_MAX_SERVERS];
  _Atomic uint32_t sent;   /* opened[] when the current clear was sent */
  _Atomic bool waits;      /* a writer waits for a CLEARING region */
  _Atomic uint64_t marked; /* bytes to resync after a crash, at last sweep */
  uint64_t sweep_ns;       /* time of the next sweep, ns; migration thread's */
};

/* Create e->dirty_log.  -ENOMEM. */
int fp_dirty_log_new (struct fp_engine *e);
void fp_dirty_log_free (struct fp_engine *e);

/* Return true if this copy has a tail. */
static inline bool
fp_dirty_log_is_kept (const struct fp_engine *e, const struct fp_copy *copy)
{
  return copy->remote.length >= e->extents->extent_size + FP_TAIL_SIZE;
}

/* Count [in, in + length) of extent i as being written, or as not any more. */
void fp_dirty_log_enter (struct fp_engine *e, uint64_t i, uint64_t in,
                         uint64_t length);
void fp_dirty_log_leave (struct fp_engine *e, uint64_t i, uint64_t in,
                         uint64_t length);

enum fp_dirty_log_need {
  FP_DIRTY_LOG_READY, /* the copy may be written to */
  FP_DIRTY_LOG_SAY,   /* first set regions *first to *first + *nr - 1 */
  FP_DIRTY_LOG_WAIT,  /* wait: one of the regions is being cleared */
};

/* Return what is needed before [in, in + length) of entry k is written at
 * copy.  The caller is inside the extent.  The write is counted already: by
 * fp_dirty_log_enter, or in fp_engine.unsettled.
 */
enum fp_dirty_log_need fp_dirty_log_look (struct fp_engine *e, uint64_t k,
                                          const struct fp_copy *copy,
                                          uint64_t in, uint64_t length,
                                          unsigned *first, unsigned *nr);
/* Widen [*first, *first + *nr) to its groups, as far as they must be set too.
 * The added regions count as used until they are let go.
 */
void fp_dirty_log_widen (struct fp_engine *e, uint64_t k, unsigned *first,
                         unsigned *nr);
void fp_dirty_log_let_go (struct fp_engine *e, uint64_t k, unsigned first,
                          unsigned nr);
/* Report the result of setting or clearing regions.  The caller is inside the
 * extent.  may_land: the connection broke, so the zero may still land.
 */
void fp_dirty_log_was_set (struct fp_engine *e, uint64_t k, unsigned first,
                           unsigned nr);
void fp_dirty_log_was_cleared (struct fp_engine *e, uint64_t k, unsigned first,
                               unsigned nr);
void fp_dirty_log_not_cleared (struct fp_engine *e, uint64_t k, unsigned first,
                               unsigned nr, bool may_land);

/* opened: the heal lane has another connection to the server.  sent: a clear
 * is about to be sent, or was, on the present connection.  is_same: return
 * true if that connection is still the present one.  Call opened and is_same
 * with the lock of the heal lane held.
 */
void fp_dirty_log_opened (struct fp_engine *e, unsigned server);
void fp_dirty_log_sent (struct fp_engine *e, unsigned server);
bool fp_dirty_log_is_same (struct fp_engine *e, unsigned server);

/* ---- marks.c: functions that wait for transfers ---- */

/* Make every in-sync copy of extent i mark [in, in + length) as being written.
 * The marks stay while the caller is counted in fp_engine.unsettled.  If some
 * copies are not marked yet, return -EAGAIN: try again after a change.  -EIO:
 * some marks could not be written, and no change may tell when they can.  So
 * try again soon.  Waits; any thread.
 */
int fp_dirty_log_say (struct fp_lane *lane, uint64_t i, uint64_t in,
                      uint64_t length);

/* Mark all regions of p: an entry that does not count yet, or a move's target
 * for entry k.  Return 0, also without a tail, or -ENOTCONN.  Migration thread
 * only.
 */
int fp_dirty_log_say_all (struct fp_engine *e, uint64_t k,
                          struct fp_extent *p);
/* Clear the regions that were quiet, if a sweep is due.  Migration thread
 * only.
 */
void fp_dirty_log_sweep (struct fp_engine *e, const _Atomic bool *stop);

/* Mark where copy c of extent i may have missed what the copy `believed` has.
 * These are the regions that either dirty log says were being written, or all
 * if one cannot be read.  Return the bytes marked.  Only the thread that
 * starts the volume.
 */
uint64_t fp_dirty_log_differ (struct fp_engine *e, uint64_t i, unsigned c,
                              unsigned believed);

#endif /* FP_DIRTY_LOG_H */
