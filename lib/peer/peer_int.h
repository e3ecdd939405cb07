/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_int.h - internals of a peer, shared by its source files:
 *
 * - peer.c: the thread and its states
 * - peer_up.c: how a peer comes up
 * - peer_learn.c, peer_doubt.c: what the donor holds (peer_learn.h)
 * - peer_forget.c: what the donor no longer holds
 * - peer_calls.c, peer_place.c, peer_migrate.c, peer_join.c: what other
 *   threads ask of it
 * - peer_record.c: what the metadata log asks of it
 */

#ifndef FP_PEER_INT_H
#define FP_PEER_INT_H

#include <assert.h>
#include <poll.h>
#include <stdatomic.h>

#include <pthread.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sync.h"
#include "base/thread.h"
#include "extent/copies.h"
#include "peer/peer_learn.h"
#include "peer/peers.h"
#include "peer/session.h"

/* Deadline in ms of a message for which the donor may have to populate,
 * register or zero slabs.  LABEL has it, too.  The extent waits no longer
 * than the allocator lets it.  All other extents of a donor whose process is
 * stopped can be read and written meanwhile.
 */
#define PEER_SLOW_MS 15000 /* used by peer_soon, peer_slow */

#define PEER_BATCH 16 /* extents that get memory at a time */

enum call_kind {
  CALL_RELEASE,
  CALL_ZERO,
  /* peer_migrate.h */
  CALL_TARGET,
  CALL_DROP_TARGET,
  CALL_TAKE,
  CALL_REOPEN,
  CALL_MARK,
  CALL_DROP,
  CALL_CHECK_EMPTY, /* peer_join.c */
};

/* FREE -> WAITED -> DONE -> FREE; or, if the caller stops waiting, WAITED ->
 * LEFT -> FREE.  Only calls of fp_peer.kept are FREE again.
 */
enum call_state {
  CALL_FREE, /* not used, in fp_peer.kept */
  CALL_WAITED,
  CALL_LEFT, /* the caller has stopped waiting */
  CALL_DONE,
};

/* A request to the peer's thread: on the stack of the waiting caller, in
 * fp_take, or in fp_peer.kept.
 */
struct call {
  enum call_kind kind;
  struct fp_extent *extent;
  uint64_t offset, length;
  uint64_t slab; /* DROP */
  bool relabel;  /* REOPEN */
  bool open;     /* MARK */
  bool last;     /* ZERO: as in fp_peer_zero */

  int result;
  enum call_state state;
  struct call *next;
};

/* State of the peer's thread. */
enum peer_thread {
  THREAD_NONE,
  THREAD_RUNS,
  THREAD_ENDED, /* takes no call any more */
  THREAD_JOINED,
};

/* Knowledge that the peer has of its donor.  Until fp_peer_renew it only
 * grows.
 */
enum peer_stage {
  STAGE_NEW,
  STAGE_OPENED, /* the volume is, or was, open on this donor */
  STAGE_LISTED, /* the donor has listed all its slabs once */
};

#define PEER_KEPT 16 /* calls whose callers may stop waiting */

struct peer_record;

/* Transfers of one lane, which alone writes here, with its lock held.  The
 * space keeps lanes out of each other's cache lines.
 */
struct peer_counts {
  _Atomic uint64_t bytes_read, bytes_written, ops, errors;
  char space[96];
};

struct fp_peer {
  struct fp_peers *peers;
  unsigned index;
  const struct fp_addr *addr;
  struct fp_thread thread;
  int wake_fd;
  _Atomic unsigned end; /* enum fp_peer_end, set before `stop` */
  _Atomic bool stop;
  _Atomic bool mute;     /* see struct fp_peer_room */
  _Atomic bool sweep;    /* the donor holds slabs that we do not use */
  _Atomic bool lost_any; /* the donor held an extent that is LOST */
  _Atomic bool stuck;    /* see fp_peer_cannot_move */

  pthread_mutex_t lock; /* protects what follows, up to "Owned by" */
  pthread_cond_t cond;  /* a call is done, or the state changed */
  enum fp_server_state state;
  uint64_t session; /* number of times it came up */
  enum peer_thread life;
  struct fp_ctl *asked; /* control channel to hang up; NULL: no session */
  uint64_t busy_ns;     /* since when it works, ns; 0: it waits for work */
  uint64_t asks_ns;     /* when the unanswered message was sent; 0: none */
  bool asks_slow;       /* that message was sent with peer_patient */
  struct call *calls, **calls_tail;
  struct call kept[PEER_KEPT];
  /* Extents that wait for memory here (want_*), and those being worked on
   * (batch).  An entry of the batch that was withdrawn is FP_NO_EXTENT.
   */
  uint32_t want_head, want_tail, batch[PEER_BATCH];
  unsigned nr_want, nr_batch;
  uint64_t progress_ns; /* time of the last progress on them, ns */
  /* Recorded extents that are the peer's again, linked by next_wanted. */
  uint32_t settle_head;
  unsigned transport;
  const char *control; /* as fp_ctl_secured says; or NULL */
  char name[FP_NAME_MAX + 1];
  struct fp_uuid server;
  char why[FP_STATUS_REASON_MAX];
  uint64_t slabs_total, slabs_free, wanted, reconnects;
  bool draining; /* see struct fp_peer_room */

  /* When the last answered message was sent, by fp_mono_ns as asks_ns. */
  _Atomic uint64_t proof_ns;
  _Atomic bool ping_now;
  /* Until when the donor may list its slabs, ns. */
  _Atomic uint64_t learn_until_ns;
  _Atomic uint64_t down_ns;     /* first sign of a loss, ns; 0: none */
  _Atomic unsigned told;        /* number of servers it recorded; 0: unknown */
  _Atomic uint64_t distrust_ns; /* end of the distrust, ns; 0: none */

  /* Owned by the peer's thread. */
  struct fp_uuid client; /* UUID of this client in each HELLO */
  struct fp_session s;
  const struct fp_transport_ops *ops;
  struct peer_record *record; /* NULL: the volume has no metadata log */
  bool joins;                 /* the donor joined a volume in use */
  struct fp_uuid expected; /* with joins: the UUID that the donor must have */
  bool made;               /* the donor did not have the volume before */
  enum peer_stage stage;
  uint64_t learn_end_ns; /* upper limit of learn_until_ns; 0: not set */
  uint64_t epoch;        /* epoch of the volume at the last OPEN */
  /* State after an attempt to come up that fails: DOWN, or LOST. */
  enum fp_server_state after;
  bool anew;        /* the donor lost the volume, and is given it again */
  uint32_t attempt; /* number of attempts to come up */
  unsigned ping_ms;
  unsigned mend_first; /* the lane to reconnect first */
  uint64_t mend_ns;    /* when to retry a lane that failed; 0: none did */
  struct pollfd fds[2 + FP_MAX_LANES + 1];
  struct fp_grants grants; /* too large for a small stack */
  int grant_fds[FP_MAX_GRANTS];
  struct fp_labels labels;

  unsigned nr_spares;
  struct fp_copy spares[FP_PEER_SPARES];
  struct fp_copy batch_copies[PEER_BATCH];
  unsigned batch_slot[PEER_BATCH]; /* index in batch, for each copy */

  _Atomic uint64_t extents;
  struct peer_counts counts[FP_MAX_LANES + 1];
};

/* How long a volume that stops lets a peer wait for an answer, in ms. */
#define PEER_HURRY_MS 1000

/* Return true if the calling thread may make extent p OFFLINE itself, because
 * the peer's thread may be connecting for long.  p is BUSY, and its memory is
 * here.  The caller has the peer's lock, so no session begins meanwhile.
 * Without a session the donor lists nothing, and peer_judge_missing does not
 * run.  A LOST peer does run that, and answers soon.  With one copy a call
 * waits: there is no other copy to go on with.
 */
static inline bool
peer_can_fail_now (const struct fp_peer *peer, const struct fp_extent *p)
{
  return fp_copies_several (peer->peers->extents) && peer->asked == NULL &&
         peer->state != FP_SERVER_LOST &&
         (atomic_load (&p->word) & FP_EXTENT_USERS) == 0;
}

static inline void
peer_reach (struct fp_peer *peer, enum peer_stage stage)
{
  assert (stage <= peer->stage + 1);
  peer->stage = FP_MAX (peer->stage, stage);
}

static inline bool
peer_lane_broken (const struct fp_peer *peer, unsigned lane)
{
  return peer->peers->ops->is_broken (peer->peers->lanes[lane], peer->index);
}

/* peer.c, any thread */
void peer_wake (struct fp_peer *peer);
void peer_set_why (struct fp_peer *peer, const char *why);

/* The rest is for the peer's own thread, unless noted. */

/* Renew the lease: the donor answered a message that was sent at asked_ns, by
 * fp_boot_ns.
 */
void peer_renewed (struct fp_peer *peer, uint64_t asked_ns);
/* As peer_renewed, for the answer to OPEN.  -EPERM: another client may have
 * used the volume.
 */
int peer_opened (struct fp_peer *peer, uint64_t asked_ns, uint64_t epoch);

/* peer.c */

/* Return the deadline of a message that a sound donor answers soon.  While it
 * is unanswered, fp_peer_zero and fp_peer_release check whether to cut the
 * donor off.
 */
uint64_t peer_soon (struct fp_peer *peer);
/* Return the highest version of a list of members that this client has
 * written, or found when it attached the volume.
 */
uint64_t peer_attached_version (const struct fp_peer *peer);
/* Return the deadline of a message that may mean much work for the donor:
 * GRANT, unless ahead of need; LIST; many slabs.  The session is up.  As with
 * peer_soon, but the donor is cut off only after half of await_ms.  Call
 * peer_answered after the answer.
 */
uint64_t peer_patient (struct fp_peer *peer);
/* Return the deadline of the same messages while the session begins.  The
 * donor is not cut off before that.
 */
uint64_t peer_slow (struct fp_peer *peer);
/* Note that the thread waits for no answer now. */
void peer_answered (struct fp_peer *peer);
/* Reconnect the lanes whose connections broke, as many as possible, while the
 * session is sound.  Return -errno, with fp_peer.why set, if the session must
 * end.
 */
int peer_mend_lanes (struct fp_peer *peer);
/* Probe the lanes' connections to other donors.  This is for -EXDEV: a lane
 * cannot connect, because its other connections use another RDMA device.  If
 * these are idle, it is not known whether that device is still there.  So one
 * byte is read over each of them, which finds the broken ones.
 */
void peer_touch_others (struct fp_peer *peer);
void peer_move (struct fp_peer *peer, enum fp_server_state to);
void peer_let_go (struct fp_peer *peer);

/* peer_up.c: go from DOWN to UP.  On failure undo it, set error and return
 * -errno.
 */
int peer_come_up (struct fp_peer *peer, struct fp_error *error);

/* peer_calls.c */

/* Run the queued calls.  Return -errno if the session ended. */
int peer_do_calls (struct fp_peer *peer);
void peer_fail_calls (struct fp_peer *peer);
/* Return true if a call that ended with r leaves the session unusable. */
bool peer_session_broken (int r);

void peer_call (struct fp_peer *peer, struct call *c);
/* Queue a call for the peer's thread, and wait for its end; peer_call does
 * not wait.  Both are for other threads.
 */
int peer_run_call (struct fp_peer *peer, struct call *c);

/* peer_join.c */
int peer_do_check_empty (struct fp_peer *peer);
/* Tell the donor how many servers the volume has, if it does not know. */
int peer_recount (struct fp_peer *peer, uint64_t deadline_ns);

/* peer_record.c */
int peer_record_new (struct fp_peer *peer);
void peer_record_free (struct fp_peer *peer);
void peer_record_renew (struct fp_peer *peer);
/* Ask what the donor knows of the volume, before anything is changed there. */
int peer_lookup (struct fp_peer *peer, uint64_t deadline_ns);
/* As peer_lookup, even if the donor was asked before. */
int peer_lookup_again (struct fp_peer *peer, uint64_t deadline_ns);
/* Run the request of the metadata log, if any.  Return as peer_do_calls does.
 */
int peer_do_records (struct fp_peer *peer);
void peer_fail_records (struct fp_peer *peer);
/* Settle the extents that fp_peer_settle has queued.  up: the session is
 * sound.
 */
void peer_settle (struct fp_peer *peer, bool up);

/* peer_migrate.c */
int peer_do_move_call (struct fp_peer *peer, struct call *c);
/* End a REOPEN whose result is r.  Return 0 if the extent is not BUSY any
 * more.
 */
int peer_finish_reopen (struct fp_peer *peer, struct call *c, int r, bool up);
/* If the migration target is here: let no transfer enter it any more; then
 * wait until all have left, and forget it.
 */
void peer_shut_target (struct fp_peer *peer);
void peer_forget_target (struct fp_peer *peer);

/* peer_place.c */

/* Get up to count slabs, and import them.  ahead: no extent waits for them.
 * Return how many, or -errno.
 */
int peer_ask_for_grants (struct fp_peer *peer, struct fp_copy *copies,
                         unsigned count, bool ahead);
/* Release slabs that cannot be used here, so that others can have them. */
int peer_give_back (struct fp_peer *peer, struct fp_copy *copies, unsigned n);

/* Get memory for a part of the waiting extents.  Return as peer_do_calls
 * does.
 */
int peer_do_places (struct fp_peer *peer);
/* Fetch grants ahead of need, when none is left. */
int peer_refill (struct fp_peer *peer);
void peer_drop_spares (struct fp_peer *peer);
void peer_fail_places (struct fp_peer *peer);

#endif /* FP_PEER_INT_H */
