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
 * Each link has a thread, because a server that does not answer must not
 * keep others waiting.  It alone talks on the control socket; others leave a
 * call with it and wait.
 *
 * Threads:  fp_link_release and fp_link_zero, which wait: any but the link's
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

struct fp_link;

int fp_link_new (struct fp_link **out, struct fp_volume *v, unsigned index);
int fp_link_start (struct fp_link *l);
/* It is the link of a server that joins while the volume is used: that server
 * alone, which has nothing of the volume.  Of a link that has ended all is
 * forgotten first.
 */
int fp_link_renew (struct fp_link *l, const struct fp_addr *addr,
                   const struct fp_uuid *server);
/* Nothing comes here any more, from now on; its place is closed.  -EBUSY:
 * something is here, and nothing changed.  Waits, as a call does.
 */
int fp_link_shut (struct fp_link *l);
void fp_link_unshut (struct fp_link *l);
/* It ends as one whose server has left: that forgets the volume. */
void fp_link_leave (struct fp_link *l, bool forget);
/* It said once what it holds. */
bool fp_link_heard (struct fp_link *l);
/* Who it is, or was when it was last there; false: nobody knows yet. */
bool fp_link_server (struct fp_link *l, struct fp_uuid *server);
/* The server has recorded that the volume has so many. */
bool fp_link_told (const struct fp_link *l, unsigned servers);
/* Ask it to end (discard: the volume with it), then wait for that. */
void fp_link_stop (struct fp_link *l, bool discard);
/* The volume stops: if this link has waited for an answer for a second it
 * hangs up.  The server keeps the volume for its lease then.
 */
void fp_link_hurry (struct fp_link *l);
void fp_link_join (struct fp_link *l);
void fp_link_free (struct fp_link *l);

/* Wait until the link is UP for the first time; beyond the deadline while the
 * server names what it has, but not longer than that much may take.  why says
 * what kept it.  After a second fp_volume_params.waits is told, if told is not
 * NULL and *told is false.
 */
int fp_link_wait_up (struct fp_link *l, uint64_t deadline_ns, bool *told,
                     char why[FP_WHY_MAX]);

unsigned fp_link_index (const struct fp_link *l);
/* A data connection broke: unless it is mended, the server was lost now, and
 * not when the link, which may be waiting for an answer, finds out.
 */
void fp_link_suspect (struct fp_link *l);
/* Return true if it was UP and `timeout` has passed since it was lost: a
 * caller with another way uses that.
 */
bool fp_link_given_up (const struct fp_link *l);

/* Over shm nobody refuses a load or a store to what is mapped here.  A client
 * that was stopped for longer than its lease (SIGSTOP, a frozen cgroup) wakes
 * up in the middle of a copy, to memory that may not be the volume's any more:
 * another client may have taken the volume over, and written to a copy that
 * the server made.  So no load or store counts unless the lease holds after
 * it. While it does no server has let anybody else in; a store that comes
 * later goes to old memory that nobody else is given.  If not, the transfer is
 * done over when the link has asked the server, as after a broken connection.
 *
 * mono_ns is the time after the transfer, coarse or not.  The lease runs from
 * when the last answered message was sent, less an eighth, by the clock that
 * the server on this same host uses: it stops while the host is suspended.
 */
bool fp_link_lease_holds (const struct fp_link *l, uint64_t mono_ns);
/* Return true if the lease holds by fp_boot_ns, which counts a suspended host.
 * Until then no other client can have written to this volume.
 */
bool fp_link_zeros_hold (const struct fp_link *l, uint64_t boot_ns);
/* Return true if the lease holds by fp_boot_ns and no other client had the
 * volume since the start: see fp_volume_is_ours.
 */
bool fp_link_is_ours (const struct fp_link *l, uint64_t boot_ns);

/* Give piece i, which is BUSY and the manager's, its memory: it becomes READY
 * once it is on the server's record, or comes back by fp_manager_return.
 */
void fp_link_place (struct fp_link *l, uint64_t i);

struct fp_link_room {
  uint64_t free;     /* slabs, as the server last said */
  uint64_t wanted;   /* slabs of ours that it asked back, and still misses */
  unsigned pieces;   /* that wait for it */
  bool mute;         /* some were withdrawn, and it has said nothing since */
  bool distrusted;   /* fp_link_distrust */
  uint64_t waits_ns; /* how long nothing has become of them */
  uint64_t held;     /* pieces that are here */
};
/* False: it is not UP; the numbers are right all the same. */
bool fp_link_room (struct fp_link *l, struct fp_link_room *room);
/* One slab that it asked for went back: not to be given twice, until it says
 * what is missing now.
 */
void fp_link_gave (struct fp_link *l);
/* Take back the entries that wait for memory here and that may_go returns true
 * for: they are the manager's again, linked by next_wanted.  may_go is called
 * with the link's lock held, and takes no lock.
 */
uint32_t fp_link_withdraw (struct fp_link *l,
                           bool (*may_go) (struct fp_volume *v, uint64_t k,
                                           const void *arg),
                           const void *arg);

/* Give back the memory of piece p, which is BUSY and drained.  Moves it to
 * EMPTY, or on failure to READY or OFFLINE.  -ETIMEDOUT: that will be later.
 * If another live copy is at a server that answers, of each piece, one that
 * does not for 3/8 of the timeout, 1 to 4 s, is cut off.
 */
int fp_link_release (struct fp_link *l, struct fp_piece *p,
                     uint64_t deadline_ns);
/* Zero a range of piece p, which is BUSY and drained.  Moves it to READY, or
 * to OFFLINE if the session ended.  -ETIMEDOUT likewise.  last: its other live
 * copies, if there are any, are zeros there, so that the range is unwritten.
 */
int fp_link_zero (struct fp_link *l, struct fp_piece *p, uint64_t offset,
                  uint64_t length, bool last, uint64_t deadline_ns);

/* Piece i, which is BUSY, has its memory here and is recorded: make it READY,
 * or OFFLINE if the server is away.
 */
void fp_link_settle (struct fp_link *l, uint64_t i);

/* Return true if it was lost, is back, and is listing its slabs.  It may have
 * to register all of them first.
 */
bool fp_link_is_learning (const struct fp_link *l);

/* It was not there at the start, and nobody waits for it. */
void fp_link_away (struct fp_link *l);

/* How long it has been down, or a data connection of it; 0: it is not. */
uint64_t fp_link_away_ms (const struct fp_link *l);
/* It has been for so long, and its thread waits for an answer: end that.
 * False: not for so long yet.
 */
bool fp_link_cut (struct fp_link *l, unsigned ms);
/* Entry k, which is no live copy, has no memory any more as far as we know:
 * what its server has of it is released when that is back.  True: it is EMPTY
 * now.
 */
bool fp_link_abandon (struct fp_volume *v, uint64_t k);
/* Entry k, which is no live copy, has memory that cannot be used: it goes back
 * to its server.
 */
void fp_link_discard (struct fp_volume *v, uint64_t k);
/* That was so on a connection that is sound: for a while, or until it comes up
 * again, no copy of what others have is made there.
 */
void fp_link_distrust (struct fp_link *l);
/* As fp_link_abandon, if its piece has no live copy, and it is what is left of
 * one that was trimmed: its server was away then, or did not release it.
 */
void fp_link_tidy (struct fp_volume *v, uint64_t k);

/* Count a transfer. */
void fp_link_count (struct fp_link *l, enum fp_op_kind kind, uint32_t length,
                    int status);
/* A data connection is broken or should be: have a look. */
void fp_link_poke (struct fp_link *l);

void fp_link_status (struct fp_link *l, struct fp_server_status *s);

#endif /* FP_PEER_H */
