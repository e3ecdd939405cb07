/* SPDX-License-Identifier: BSD-3-Clause */
/* peer.h - one donor as its client sees it: the control connection, its
 * heartbeat, the lanes' data connections, and the slabs that it lent.
 *
 *              control + data         a connection is lost
 *    DOWN ---> CONNECTING ------> UP ------------------>  CLOSING ---> DOWN
 *                  |                                     (break, collect,
 *                  +--> LOST: volume gone or fenced       unmap)
 *
 * Each peer has its own thread, so that a donor that does not answer delays
 * no other donor.  Only that thread uses the control socket; other threads
 * queue a call and wait.
 *
 * Errors:   a call returns 0 or -errno, -ENOTCONN if the donor is away.  It
 *           ends when the donor answers, or at the deadline of its message,
 *           which also ends the session.
 * Threads:  any, except that a function that waits (fp_peer_release,
 *           fp_peer_zero, fp_peer_check_empty) is not for the peer's own.
 * Memory:   calls do not allocate.
 */

#ifndef FP_PEER_H
#define FP_PEER_H

#include "base/error.h"
#include "extent/extent.h"
#include "extent/volume_params.h"
#include "extent/volume_status.h"
#include "transport/transport.h"

struct fp_peer;
struct fp_peers;

/* Make the peer of place `index`.  The caller stores it there. */
int fp_peer_new (struct fp_peer **out, struct fp_peers *peers, unsigned index);
int fp_peer_start (struct fp_peer *peer);
/* Prepare peer for the donor `server` at addr, which joins a volume in use
 * and holds nothing of it; no other donor is accepted.  An earlier thread of
 * peer has ended, and its state is cleared.
 */
int fp_peer_renew (struct fp_peer *peer, const struct fp_addr *addr,
                   const struct fp_uuid *server);
/* Return 0 if no extent is here or waits for memory here, else -EBUSY.  The
 * caller has closed the peer's place, so that new extents are sent back.
 * Waits, as a call does.
 */
int fp_peer_check_empty (struct fp_peer *peer);
/* Stop the peer of a donor that has left, and wait for its end.  forget: the
 * donor discards the volume.
 */
void fp_peer_leave (struct fp_peer *peer, bool forget);
/* Return true if the peer came up once, and so has heard what the donor
 * holds.
 */
bool fp_peer_heard (struct fp_peer *peer);
/* Return in *server the UUID of the donor, now or when last seen.  False: not
 * known yet.
 */
bool fp_peer_server (struct fp_peer *peer, struct fp_uuid *server);
/* Return true if the donor has recorded that the volume is on this many
 * servers.
 */
bool fp_peer_told (const struct fp_peer *peer, unsigned servers);
/* Fate of the volume at the donor when the peer ends. */
enum fp_peer_end {
  FP_PEER_KEEP, /* a volume without a name is kept until its lease is over */
  /* Discard a volume without a name.  Discard a named one only if this start
   * has made it and has failed.
   */
  FP_PEER_DISCARD,
  FP_PEER_FORGET, /* discard it in any case */
};
/* Ask the peer to end; fp_peer_join waits for that.  Only the first call
 * counts.
 */
void fp_peer_stop (struct fp_peer *peer, enum fp_peer_end end);
/* Hang up if the peer has waited for an answer for a second, because the
 * volume stops.  The donor then keeps the volume for its lease.
 */
void fp_peer_hurry (struct fp_peer *peer);
void fp_peer_join (struct fp_peer *peer);
void fp_peer_free (struct fp_peer *peer);

/* Wait until the peer is UP for the first time.  The wait may pass
 * deadline_ns while the donor lists its slabs, but only for as long as that
 * list may take.  On failure error says why.  If told is not NULL and *told is
 * false, call fp_volume_params.waits after one second.
 */
int fp_peer_wait_up (struct fp_peer *peer, uint64_t deadline_ns, bool *told,
                     struct fp_error *error);

unsigned fp_peer_index (const struct fp_peer *peer);
/* Note that a data connection broke.  Unless it is mended, the donor counts
 * as lost from now on.  The peer itself may notice later, as it may be
 * waiting for an answer.
 */
void fp_peer_suspect (struct fp_peer *peer);
/* Return how long a donor may be away before its copies are dropped, in ms.
 * If it is back earlier, they have missed nothing.
 */
unsigned fp_peer_grace_ms (const struct fp_volume_params *p);
/* Return true if the donor has been away for `timeout`, so that a caller with
 * an alternative uses that.
 */
bool fp_peer_given_up (const struct fp_peer *peer);

/* Queue extent i, which is BUSY and the allocator's, for memory here.  It
 * becomes READY once it is on the donor's record, or comes back by
 * fp_peer_ops.not_placed.
 */
void fp_peer_place (struct fp_peer *peer, uint64_t i);

struct fp_peer_room {
  uint64_t free;     /* slabs, as the donor last reported */
  uint64_t wanted;   /* slabs that the donor wants back and still misses */
  bool draining;     /* the donor is being drained */
  unsigned extents;  /* extents that wait for memory here */
  bool mute;         /* some were withdrawn, and the donor was silent since */
  bool distrusted;   /* see fp_peer_distrust */
  uint64_t waits_ns; /* time without progress on these extents, ns */
  uint64_t held;     /* extents that have memory here */
};
/* Fill in *room.  Return true if the peer is UP; the numbers are right in any
 * case.
 */
bool fp_peer_room (struct fp_peer *peer, struct fp_peer_room *room);
/* Note that one slab that the donor asked for went back.  Without this it
 * would be given twice, until the donor reports what is missing then.
 */
void fp_peer_reclaimed (struct fp_peer *peer);
/* Note whether nothing that the donor asks for can be moved.  The next PING
 * says so.
 */
void fp_peer_cannot_move (struct fp_peer *peer, bool stuck);
/* Take back the entries that wait for memory here and for which may_go
 * returns true.  They are the allocator's again, linked by next_wanted;
 * return the first.  may_go is called with the peer's lock held, and takes no
 * lock.
 */
uint32_t fp_peer_withdraw (struct fp_peer *peer,
                           bool (*may_go) (uint64_t k, const void *arg),
                           const void *arg);

/* Give back the memory of extent p, which is BUSY and drained.  p becomes
 * EMPTY, or on failure READY or OFFLINE.  -ETIMEDOUT: it does so later.  A
 * donor that does not answer for 3/8 of `timeout`, 1 to 4 s, is cut off.  If
 * it was busy with much work (GRANT), that is half of `await`, 4 s at least.
 * This happens only if each extent with an in-sync copy there has another
 * one, at a donor that answers.
 */
int fp_peer_release (struct fp_peer *peer, struct fp_extent *p,
                     uint64_t deadline_ns);
/* Zero a range of extent p, which is BUSY and drained.  p becomes READY, or
 * OFFLINE if the session ended.  -ETIMEDOUT: it does so later.  last: all
 * other in-sync copies are zeros there already, so the range becomes
 * unwritten.
 */
int fp_peer_zero (struct fp_peer *peer, struct fp_extent *p, uint64_t offset,
                  uint64_t length, bool last, uint64_t deadline_ns);

/* Make extent i READY, or OFFLINE if the donor is away.  i is BUSY, has its
 * memory here, and is recorded.
 */
void fp_peer_settle (struct fp_peer *peer, uint64_t i);

/* Return the time by which a donor that was lost and is back must have listed
 * its slabs, by fp_now_ns, or 0.  It may have passed.  The donor may have to
 * register all slabs first.
 */
uint64_t fp_peer_learns_until (const struct fp_peer *peer);

/* Mark the donor as away from now on.  At start-up: the start does not wait
 * for it.
 */
void fp_peer_away (struct fp_peer *peer);

/* Return for how many ms the donor, or a data connection to it, has been
 * down; 0: neither is.
 */
uint64_t fp_peer_away_ms (const struct fp_peer *peer);
/* If the donor has been away for ms, and the peer's thread waits for an
 * answer, hang up.  If it is away for less, return how many ms are left; else
 * 0.
 */
unsigned fp_peer_cut (struct fp_peer *peer, unsigned ms);
/* Treat the memory of entry k, which is no in-sync copy, as gone, unless k is
 * READY.  The donor releases it once it is back.  Return true if k is EMPTY
 * now.
 */
bool fp_peer_abandon (struct fp_peers *peers, uint64_t k);
/* Give back the memory of entry k, which is no in-sync copy and cannot be
 * used.
 */
void fp_peer_discard (struct fp_peers *peers, uint64_t k);
/* Note that memory here could not be used although the connection is sound.
 * For 10 s, or until the peer comes up again, the donor gets no copy that
 * must be filled from others.
 */
void fp_peer_distrust (struct fp_peer *peer);
/* As fp_peer_abandon, for the memory of a trimmed extent, which has no in-sync
 * copy.  When it was trimmed, the donor was away or did not release
 * it.
 */
void fp_peer_tidy (struct fp_peers *peers, uint64_t k);

/* Count a transfer in the peer's statistics.  The caller holds the lock of the
 * lane with this index.
 */
void fp_peer_count (struct fp_peer *peer, unsigned lane, enum fp_op_kind kind,
                    uint32_t length, int status);
/* Wake the peer's thread, as after a data connection broke or should break. */
void fp_peer_poke (struct fp_peer *peer);

void fp_peer_status (struct fp_peer *peer, struct fp_server_status *s);

#endif /* FP_PEER_H */
