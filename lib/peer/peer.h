/* SPDX-License-Identifier: BSD-3-Clause */
/* peer.h - a client's life with one server: the control connection, its
 * heartbeat, the lanes' data connections, and what the server lent.
 *
 *              control + data          any of it is lost
 *    DOWN ---> CONNECTING ------> UP ------------------> DRAINING ---> DOWN
 *                  |                                     (break, collect,
 *                  +--> LOST: it does not know this       let go)
 *                       volume any more
 *
 * Each peer has a thread, because a server that does not answer must not
 * keep others waiting.  It alone talks on the control socket; others leave a
 * call with it and wait.
 *
 * Threads:  fp_peer_release and fp_peer_zero, which wait: any but the peer's
 *           own.  The rest: any.
 * Errors:   a call returns 0 or -errno; -ENOTCONN: the server is away.
 *           Each call ends: when the server answered, or at the deadline of
 *           the message, which also ends the session.
 * Memory:   calls do not allocate.
 */

#ifndef FP_PEER_H
#define FP_PEER_H

#include "extent/extent.h"
#include "transport/transport.h"
#include "volume/volume.h"

struct fp_peer;

int fp_peer_new (struct fp_peer **out, struct fp_volume *v, unsigned index);
int fp_peer_start (struct fp_peer *l);
/* It is the peer of a server that joins while the volume is used: that server
 * alone, which has nothing of the volume.  Of a peer that has ended all is
 * forgotten first.
 */
int fp_peer_renew (struct fp_peer *l, const struct fp_addr *addr,
                   const struct fp_uuid *server);
/* Nothing comes here any more, from now on; its place is closed.  -EBUSY:
 * something is here, and nothing changed.  Waits, as a call does.
 */
int fp_peer_shut (struct fp_peer *l);
void fp_peer_unshut (struct fp_peer *l);
/* It ends as one whose server has left: that forgets the volume. */
void fp_peer_leave (struct fp_peer *l, bool forget);
/* It said once what it holds. */
bool fp_peer_heard (struct fp_peer *l);
/* Who it is, or was when it was last there; false: nobody knows yet. */
bool fp_peer_server (struct fp_peer *l, struct fp_uuid *server);
/* The server has recorded that the volume has so many. */
bool fp_peer_told (const struct fp_peer *l, unsigned servers);
/* Ask it to end (discard: the volume with it), then wait for that. */
void fp_peer_stop (struct fp_peer *l, bool discard);
/* The volume stops: if this peer has waited for an answer for a second it
 * hangs up.  The server keeps the volume for its lease then.
 */
void fp_peer_hurry (struct fp_peer *l);
void fp_peer_join (struct fp_peer *l);
void fp_peer_free (struct fp_peer *l);

/* Wait until the peer is UP for the first time; beyond the deadline while the
 * server names what it has, but not longer than that much may take.  why says
 * what kept it.  After a second fp_volume_params.waits is told, if told is not
 * NULL and *told is false.
 */
int fp_peer_wait_up (struct fp_peer *l, uint64_t deadline_ns, bool *told,
                     char why[FP_WHY_MAX]);

unsigned fp_peer_index (const struct fp_peer *l);
/* A data connection broke: unless it is mended, the server was lost now, and
 * not when the peer, which may be waiting for an answer, finds out.
 */
void fp_peer_suspect (struct fp_peer *l);
/* Return true if it was UP and `timeout` has passed since it was lost: a
 * caller with another way uses that.
 */
bool fp_peer_given_up (const struct fp_peer *l);

/* Over shm nobody refuses a load or a store to what is mapped here.  A client
 * that was stopped for longer than its lease (SIGSTOP, a frozen cgroup) wakes
 * up in the middle of a copy, to memory that may not be the volume's any more:
 * another client may have taken the volume over, and written to a copy that
 * the server made.  So no load or store counts unless the lease holds after
 * it. While it does no server has let anybody else in; a store that comes
 * later goes to old memory that nobody else is given.  If not, the transfer is
 * done over when the peer has asked the server, as after a broken connection.
 *
 * mono_ns is the time after the transfer, coarse or not.  The lease runs from
 * when the last answered message was sent, less an eighth, by the clock that
 * the server on this same host uses: it stops while the host is suspended.
 */
bool fp_peer_lease_holds (const struct fp_peer *l, uint64_t mono_ns);
/* Return true if the lease holds by fp_boot_ns, which counts a suspended host.
 * Until then no other client can have written to this volume.
 */
bool fp_peer_zeros_hold (const struct fp_peer *l, uint64_t boot_ns);
/* Return true if the lease holds by fp_boot_ns and no other client had the
 * volume since the start: see fp_volume_is_leased.
 */
bool fp_peer_is_leased (const struct fp_peer *l, uint64_t boot_ns);

/* Give extent i, which is BUSY and the allocator's, its memory: it becomes
 * READY once it is on the server's record, or comes back by
 * fp_allocator_return.
 */
void fp_peer_place (struct fp_peer *l, uint64_t i);

struct fp_peer_room {
  uint64_t free;     /* slabs, as the server last said */
  uint64_t wanted;   /* slabs of ours that it asked back, and still misses */
  unsigned extents;  /* that wait for it */
  bool mute;         /* some were withdrawn, and it has said nothing since */
  bool distrusted;   /* fp_peer_distrust */
  uint64_t waits_ns; /* how long nothing has become of them */
  uint64_t held;     /* extents that are here */
};
/* False: it is not UP; the numbers are right all the same. */
bool fp_peer_room (struct fp_peer *l, struct fp_peer_room *room);
/* One slab that it asked for went back: not to be given twice, until it says
 * what is missing now.
 */
void fp_peer_reclaimed (struct fp_peer *l);
/* Take back the entries that wait for memory here and that may_go returns true
 * for: they are the allocator's again, linked by next_wanted.  may_go is
 * called with the peer's lock held, and takes no lock.
 */
uint32_t fp_peer_withdraw (struct fp_peer *l,
                           bool (*may_go) (struct fp_volume *v, uint64_t k,
                                           const void *arg),
                           const void *arg);

/* Give back the memory of extent p, which is BUSY and drained.  Moves it to
 * EMPTY, or on failure to READY or OFFLINE.  -ETIMEDOUT: that will be later.
 * If another in-sync copy is at a server that answers, of each extent, one
 * that does not for 3/8 of the timeout, 1 to 4 s, is cut off.
 */
int fp_peer_release (struct fp_peer *l, struct fp_extent *p,
                     uint64_t deadline_ns);
/* Zero a range of extent p, which is BUSY and drained.  Moves it to READY, or
 * to OFFLINE if the session ended.  -ETIMEDOUT likewise.  last: its other
 * in-sync copies, if there are any, are zeros there, so that the range is
 * unwritten.
 */
int fp_peer_zero (struct fp_peer *l, struct fp_extent *p, uint64_t offset,
                  uint64_t length, bool last, uint64_t deadline_ns);

/* Extent i, which is BUSY, has its memory here and is recorded: make it READY,
 * or OFFLINE if the server is away.
 */
void fp_peer_settle (struct fp_peer *l, uint64_t i);

/* Return true if it was lost, is back, and is listing its slabs.  It may have
 * to register all of them first.
 */
bool fp_peer_is_learning (const struct fp_peer *l);

/* It was not there at the start, and nobody waits for it. */
void fp_peer_away (struct fp_peer *l);

/* How long it has been down, or a data connection of it; 0: it is not. */
uint64_t fp_peer_away_ms (const struct fp_peer *l);
/* It has been for so long, and its thread waits for an answer: end that.
 * False: not for so long yet.
 */
bool fp_peer_cut (struct fp_peer *l, unsigned ms);
/* Entry k, which is no in-sync copy, has no memory any more as far as we know:
 * what its server has of it is released when that is back.  True: it is EMPTY
 * now.
 */
bool fp_peer_abandon (struct fp_volume *v, uint64_t k);
/* Entry k, which is no in-sync copy, has memory that cannot be used: it goes
 * back to its server.
 */
void fp_peer_discard (struct fp_volume *v, uint64_t k);
/* That was so on a connection that is sound: for a while, or until it comes up
 * again, no copy of what others have is made there.
 */
void fp_peer_distrust (struct fp_peer *l);
/* As fp_peer_abandon, if its extent has no in-sync copy, and it is what is
 * left of one that was trimmed: its server was away then, or did not release
 * it.
 */
void fp_peer_tidy (struct fp_volume *v, uint64_t k);

/* Count a transfer. */
void fp_peer_count (struct fp_peer *l, enum fp_op_kind kind, uint32_t length,
                    int status);
/* A data connection is broken or should be: have a look. */
void fp_peer_poke (struct fp_peer *l);

void fp_peer_status (struct fp_peer *l, struct fp_server_status *s);

#endif /* FP_PEER_H */
