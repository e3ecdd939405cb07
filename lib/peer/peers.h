/* SPDX-License-Identifier: BSD-3-Clause */
/* peers.h - the peers of a volume: what they share, and what they tell the
 * layers above.
 *
 * A peer calls nothing above itself but the functions of fp_peer_ops, and
 * fp_volume_params.waits at start-up.  It holds no lock then, so a function
 * may call the peer back.
 *
 * Each server of the volume has a place.  A peer stays at its place until the
 * volume stops, so that readers take no lock.  nr is raised when a new peer is
 * complete.  The place of a server that has left is FREE, until another server
 * gets it (servers.c).
 *
 * Errors:   0 or -errno, unless a comment says otherwise.
 * Threads:  any.  A peer calls the functions of fp_peer_ops on its own thread,
 *           but for not_placed.
 * Memory:   of fp_peer_ops only `connect` and `touch_others` allocate.
 */

#ifndef FP_PEERS_H
#define FP_PEERS_H

#include "extent/lease.h"
#include "extent/recorded.h"
#include "extent/volume_params.h"
#include "peer/peer.h"

/* Grants ahead of need: of the only peer of a volume, and of all peers.  Each
 * of several peers has one.
 */
#define FP_PEER_SPARES 2
#define FP_MAX_SPARES 4

/* The volume and its lanes, which peers know nothing of. */
struct fp_volume;
struct fp_lane;

struct fp_peer_ops {
  /* ---- what happened ---- */

  /* The server of this UUID has the volume, its lanes are connected, and its
   * labels are known.  Called just before the peer is UP.  restarted: the
   * server had forgotten the volume, and was given it again.
   */
  void (*coming_up) (struct fp_volume *v, unsigned server,
                     const struct fp_uuid *uuid, bool restarted);
  void (*up) (struct fp_volume *v); /* the peer is UP */
  /* The session is over; transfers may still be in flight. */
  void (*closing) (struct fp_volume *v, unsigned server);
  /* Called after CLOSING.  Not called after an attempt that failed before the
   * peer was UP, nor for LOST.
   */
  void (*down) (struct fp_volume *v);
  /* A server knows how many servers there are, or need not know.  Called
   * often.
   */
  void (*counted) (struct fp_volume *v);
  /* Entries got memory.  fresh: those that must be recorded before they become
   * READY.  There are none if the volume is not recorded.
   */
  void (*placed) (struct fp_volume *v, const uint32_t *fresh, unsigned nr);
  /* Entry k got no memory.  Also called by fp_peer_place. */
  void (*not_placed) (struct fp_volume *v, uint64_t k, unsigned server,
                      int err);
  /* The server refused to release entry k, which is recorded as released. */
  void (*kept) (struct fp_volume *v, uint64_t k);
  /* The answer to fp_peer_record is there. */
  void (*answered) (struct fp_volume *v);

  /* ---- the data connections of the lanes: as in lane.h ---- */

  int (*connect) (struct fp_lane *lane, unsigned server,
                  const struct fp_transport_ops *ops,
                  struct fp_conn_params *cp, uint64_t deadline_ns);
  void (*disconnect) (struct fp_lane *lane, unsigned server);
  bool (*is_broken) (struct fp_lane *lane, unsigned server);
  bool (*is_revoked) (struct fp_lane *lane, unsigned server);
  int (*event_fd) (struct fp_lane *lane, unsigned server);
  void (*event) (struct fp_lane *lane, unsigned server);
  int (*flush) (struct fp_lane *lane, unsigned server, struct fp_extent *p);
  void (*touch_others) (struct fp_volume *v, unsigned server,
                        const _Atomic bool *stop);

  /* ---- what the metadata log decides: as in meta_log.h ---- */

  bool (*is_behind) (struct fp_volume *v, uint64_t version);
  int (*confirm) (struct fp_volume *v, unsigned server,
                  const _Atomic bool *stop, uint64_t deadline_ns);
};

/* State of a place.  When a volume starts, its servers are NEW (`add`, not
 * listed yet), MEMBER or LEAVING (`remove`).  The place of a server that joins
 * later, and leaves, goes down this list.  If the volume is recorded, it goes
 * from JOINING to NEW, else by COUNTING to MEMBER.  A server that cannot join
 * goes back to FREE.  One that stays after all goes from LEAVING back to NEW
 * or MEMBER, or by RECOUNTING to MEMBER.
 *
 * NEW and MEMBER are open: their servers get extents, and their leases count.
 * All others are closed.  Code may rely on the order (fp_peers_is_server).
 */
enum fp_place {
  FP_PLACE_FREE,       /* no server: none yet, or it has left */
  FP_PLACE_CONNECTING, /* a peer for a server that joins is coming up */
  FP_PLACE_JOINING,    /* the peer is up; the others must record the server */
  FP_PLACE_COUNTING,   /* not all others know the number of servers yet */
  FP_PLACE_RECOUNTING, /* like COUNTING, for a server that stays after all */
  FP_PLACE_NEW,        /* listed, or about to be; never current yet */
  FP_PLACE_MEMBER,
  FP_PLACE_LEAVING,
};

struct fp_peers {
  const struct fp_peer_ops *ops;
  struct fp_volume *v;
  /* The volume's.  A server that joins changes p->servers and p->domains. */
  struct fp_volume_params *p;
  struct fp_extents *extents;
  struct fp_lease *lease;
  struct fp_recorded *recorded;
  unsigned nr_lanes;
  struct fp_lane **lanes;
  _Atomic bool started; /* the volume has started */

  _Atomic unsigned nr;
  struct fp_peer *at[FP_MAX_SERVERS];
  /* Held to change a place.  No other lock is taken under it. */
  pthread_mutex_t lock;
  _Atomic uint8_t place[FP_MAX_SERVERS]; /* enum fp_place */
  /* Sets of places, from their states: open; COUNTING or RECOUNTING. */
  _Atomic uint64_t open, counting;
  /* If recorded: current members of the last complete list. */
  _Atomic uint64_t current;
  /* If recorded: servers that may be in no list that the next client finds,
   * under their present UUID.  They get no extents either (meta_log_change.c).
   */
  _Atomic uint64_t unlisted;
  _Atomic uint64_t drained; /* set of servers: being drained, or empty */
  _Atomic unsigned servers; /* number of servers that OPEN tells */

  /* Grants ahead of need, had or asked for.  Under extents->lock. */
  unsigned nr_claims, claims[FP_MAX_SERVERS];
};

/* Return the set of all places below nr. */
static inline uint64_t
fp_peers_all (const struct fp_peers *peers)
{
  unsigned n = atomic_load (&peers->nr);

  return n == 64 ? UINT64_MAX : (UINT64_C (1) << n) - 1;
}

/* Initialise the lock.  The owner sets the other fields; fp_engine_alloc sets
 * lanes and nr_lanes.
 */
void fp_peers_init (struct fp_peers *peers);
void fp_peers_destroy (struct fp_peers *peers);

static inline enum fp_place
fp_peers_place (const struct fp_peers *peers, unsigned i)
{
  return atomic_load (&peers->place[i]);
}

/* Change the state of place i.  Return false if it was not `from`.  The move
 * must be a legal one.
 */
bool fp_peers_move (struct fp_peers *peers, unsigned i, enum fp_place from,
                    enum fp_place to);

static inline bool
fp_peers_is_open (const struct fp_peers *peers, unsigned i)
{
  return atomic_load (&peers->open) >> i & 1;
}

/* Return true if place i has a server of the volume, or one that is joining
 * and has come up.
 */
static inline bool
fp_peers_is_server (const struct fp_peers *peers, unsigned i)
{
  return fp_peers_place (peers, i) > FP_PLACE_CONNECTING;
}

/* As fp_lease_holds.  Leases of closed places do not count: a client that
 * takes the volume over may not know those servers.
 */
static inline bool
fp_peers_are_leased (const struct fp_peers *peers)
{
  return fp_lease_holds (peers->lease, atomic_load (&peers->open),
                         atomic_load (&peers->current));
}

/* Return true if the server must hold no extents: it is drained, or its place
 * is closed.
 */
static inline bool
fp_peers_must_be_empty (const struct fp_peers *peers, unsigned server)
{
  return !fp_peers_is_open (peers, server) ||
         (atomic_load (&peers->drained) >> server & 1);
}

/* Return true if the server gets no extents, neither new nor moved ones. */
static inline bool
fp_peers_gets_none (const struct fp_peers *peers, unsigned server)
{
  return fp_peers_must_be_empty (peers, server) ||
         (atomic_load (&peers->unlisted) >> server & 1) != 0;
}

/* Return true if the peer, which has `has` grants ahead of need, may ask for
 * one more.  Then that is counted, until fp_peers_unclaim.  Both take
 * extents->lock.
 */
bool fp_peers_claim (struct fp_peers *peers, unsigned server, unsigned has);
void fp_peers_unclaim (struct fp_peers *peers, unsigned server);

#endif /* FP_PEERS_H */
