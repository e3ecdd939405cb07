/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_int.h - the inside of a peer, for the files that are one: peer.c has
 * its thread and its states, peer_up.c how it comes up, peer_learn.h what the
 * server holds (peer_forget.c, what it does not hold any more), peer_calls.c
 * what others ask of it, peer_record.c what the metadata log does.
 */

#ifndef FP_PEER_INT_H
#define FP_PEER_INT_H

#include <poll.h>
#include <stdatomic.h>

#include <pthread.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "engine/mirror.h"
#include "meta/meta_log.h"
#include "peer/peer.h"
#include "peer/peer_learn.h"
#include "peer/session.h"
#include "volume/volume_int.h"

/* Deadline of a message for which the server may have to populate, register
 * or zero slabs, in milliseconds.  Of LABEL, too: who waits for the extent
 * waits no longer than the allocator lets it, and all else that is on a server
 * whose process is stopped can be read and written meanwhile.
 */
#define PEER_SLOW_MS 15000 /* peer_soon, peer_slow */

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
  CALL_SHUT, /* peer_join.c */
};

/* On the stack of who waits for it. */
struct call {
  enum call_kind kind;
  struct fp_extent *extent;
  uint64_t offset, length;
  uint64_t slab; /* DROP */
  bool relabel;  /* REOPEN */
  bool open;     /* MARK */
  bool last;     /* ZERO: as in fp_peer_zero */

  int result;
  bool done;
  bool kept; /* of fp_peer.kept, and taken */
  bool left; /* nobody waits for it any more */
  struct call *next;
};

#define PEER_KEPT 16 /* calls whose callers may leave */

struct peer_record;

struct fp_peer {
  struct fp_volume *v;
  unsigned index;
  const struct fp_addr *addr;
  struct fp_thread thread;
  bool started;
  int wake_fd;
  _Atomic bool stop, discard;
  _Atomic bool forget;   /* discard also what others had before */
  _Atomic bool mute;     /* see fp_peer_room */
  _Atomic bool sweep;    /* the server holds what we do not use */
  _Atomic bool lost_any; /* it held an extent that is LOST */

  pthread_mutex_t lock; /* until the thread's own */
  pthread_cond_t cond;  /* a call is done, or the state changed */
  enum fp_server_state state;
  uint64_t session;     /* counts the times it came up */
  bool ended;           /* the thread has */
  struct fp_ctl *asked; /* in a session: for fp_peer_hurry */
  uint64_t busy_ns;     /* since when it asks things; 0: it waits for such */
  uint64_t asks_ns;     /* peer_soon, until there is an answer: or 0 */
  struct call *calls, **calls_tail;
  struct call kept[PEER_KEPT];
  /* Extents that are to get memory here: waiting, and being worked at.  A
   * number of the batch that was withdrawn is FP_NO_EXTENT.
   */
  uint32_t want_head, want_tail, batch[PEER_BATCH];
  unsigned nr_want, nr_batch;
  uint64_t progress_ns; /* when something was last done about them */
  /* Extents that are recorded, and ours again: through next_wanted. */
  uint32_t settle_head;
  bool shut; /* what comes is sent back */
  unsigned transport;
  const char *control; /* as fp_ctl_secured says; or NULL */
  char name[FP_NAME_MAX + 1];
  struct fp_uuid server;
  char why[FP_WHY_MAX];
  uint64_t slabs_total, slabs_free, wanted, reconnects;

  _Atomic uint64_t proof_ns; /* what was asked then is answered; as asks_ns */
  _Atomic bool ping_now;
  /* End of the lease: for mapped memory, by fp_mono_ns; for unwritten zeros,
   * by fp_boot_ns.
   */
  _Atomic uint64_t lease_ns, zeros_ns;
  _Atomic bool ours; /* nobody else had the volume before this session */
  /* Until when its server may name what it has. */
  _Atomic uint64_t learn_until_ns;
  _Atomic uint64_t down_ns; /* when it was lost; 0: it is UP, or never was */
  _Atomic unsigned told;    /* so many servers; 0: not known */
  _Atomic uint64_t distrust_ns; /* until then; 0: not */

  /* The thread's own. */
  struct fp_uuid client; /* what it is called in HELLO, each time */
  struct fp_session s;
  const struct fp_transport_ops *ops;
  struct peer_record *record; /* NULL: the volume is not recorded */
  bool joins;                 /* while the volume is used */
  struct fp_uuid expected;    /* joins: it has to be this one */
  bool made;                  /* the volume was new to the server */
  bool opened;                /* the volume is, or was, on this server */
  uint64_t learn_end_ns;      /* the latest learn_until_ns of a session */
  uint64_t epoch;   /* of the volume there, when it was last opened */
  bool learned;     /* all that it held at the start was listed once */
  bool lost;        /* it forgot a volume that it had */
  bool anew;        /* and is told of it once more */
  uint32_t attempt; /* how often it tried to come up */
  unsigned ping_ms;
  unsigned mend_first; /* which lane to connect first */
  uint64_t mend_ns;    /* when to connect a lane again that failed; 0: none */
  struct pollfd fds[2 + FP_MAX_LANES + 1];
  struct fp_grants grants; /* too large for a small stack */
  int grant_fds[FP_MAX_GRANTS];
  struct fp_labels labels;

  unsigned nr_spares;
  struct fp_copy spares[FP_PEER_SPARES];
  struct fp_copy batch_copies[PEER_BATCH];
  unsigned batch_slot[PEER_BATCH]; /* of batch, for each copy */

  _Atomic uint64_t extents, bytes_read, bytes_written, ops_done, errors;
};

/* Who stops the volume waits for so long for answers that others wait for. */
#define PEER_HURRY_MS 1000

/* Return true if the calling thread may make extent p OFFLINE itself, because
 * the peer's thread may connect for long.  p is BUSY, and its memory is here.
 * The caller has the peer's lock: until it lets go of that no session begins.
 * Without one the server lists nothing, and peer_judge_missing does not run.
 * A LOST peer does run that, and answers soon.  With one copy a call waits:
 * there is no other copy to go on with.
 */
static inline bool
peer_can_fail_now (const struct fp_peer *l, const struct fp_extent *p)
{
  return fp_volume_is_mirrored (l->v) && l->asked == NULL &&
         l->state != FP_SERVER_LOST &&
         (atomic_load (&p->word) & FP_EXTENT_USERS) == 0;
}

/* peer.c, any thread */
void peer_wake (struct fp_peer *l);
void peer_set_why (struct fp_peer *l, const char *why);

/* The rest: the peer's own thread. */

/* The server answered what was asked at asked_ns, by fp_boot_ns. */
void peer_renewed (struct fp_peer *l, uint64_t asked_ns);
/* Likewise, to OPEN.  -EPERM: another client may have used the volume. */
int peer_opened (struct fp_peer *l, uint64_t asked_ns, uint64_t epoch);

/* peer.c */

/* Deadline of a message that a sound server answers soon: as long as it does
 * not, fp_peer_zero and fp_peer_release look whether to cut it off.
 */
uint64_t peer_soon (struct fp_peer *l);
/* Of one for which it may have much to do: GRANT, unless it is ahead; LIST;
 * many slabs.
 */
uint64_t peer_slow (struct fp_peer *l);
/* It waits for no answer now. */
void peer_answered (struct fp_peer *l);
/* Connect the lanes again whose connections broke, as many as possible, while
 * the session is sound.  Return -errno, with why set, if the session must end.
 */
int peer_mend_lanes (struct fp_peer *l);
/* peer_calls.c: a lane cannot be connected, as it is to others over another
 * device.  If those are idle, nobody knows whether that is there still: each
 * reads a byte, and who waits for a broken one sees what came of it.
 */
void peer_look_at_others (struct fp_peer *l);
void peer_move (struct fp_peer *l, enum fp_server_state to);
void peer_let_go (struct fp_peer *l);

/* peer_up.c: DOWN to UP, or back. */
int peer_come_up (struct fp_peer *l, char why[FP_WHY_MAX]);

/* peer_calls.c */

/* Returns a negative errno value if the session ended. */
int peer_do_calls (struct fp_peer *l);
void peer_fail_calls (struct fp_peer *l);
/* Whether a call that ended so leaves the session unsound. */
bool peer_session_broken (int r);

void peer_call (struct fp_peer *l, struct call *c);
/* The same, and wait for its end. */
int peer_run_call (struct fp_peer *l, struct call *c);

/* peer_join.c */
int peer_do_shut (struct fp_peer *l);
/* Tell the server how many there are, if it does not know. */
int peer_recount (struct fp_peer *l, uint64_t deadline_ns);

/* peer_record.c */
int peer_record_new (struct fp_peer *l);
void peer_record_free (struct fp_peer *l);
void peer_record_renew (struct fp_peer *l);
/* What does the server know of the volume, before we change anything? */
int peer_lookup (struct fp_peer *l, uint64_t deadline_ns);
/* Likewise, also when it was asked before. */
int peer_lookup_again (struct fp_peer *l, uint64_t deadline_ns);
/* As peer_do_calls. */
int peer_do_records (struct fp_peer *l);
void peer_fail_records (struct fp_peer *l);
/* What was left by fp_peer_settle; up: the session is sound. */
void peer_settle (struct fp_peer *l, bool up);

/* peer_migrate.c */
int peer_do_move_call (struct fp_peer *l, struct call *c);
/* 0: the extent is not BUSY any more. */
int peer_finish_reopen (struct fp_peer *l, struct call *c, int r, bool up);
/* The migration thread's target, if it is here: nobody uses it any more, and
 * when all are out it is forgotten.
 */
void peer_shut_target (struct fp_peer *l);
void peer_forget_target (struct fp_peer *l);

/* peer_place.c */

/* Up to count slabs, imported.  ahead: nobody waits for them.  Returns how
 * many, or -errno.
 */
int peer_ask_for_grants (struct fp_peer *l, struct fp_copy *copies,
                         unsigned count, bool ahead);
/* These slabs cannot be used here: others may want them. */
int peer_give_back (struct fp_peer *l, struct fp_copy *copies, unsigned n);

/* Likewise; not all that are waiting at a time. */
int peer_do_places (struct fp_peer *l);
/* Grants ahead of need, when none is left. */
int peer_refill (struct fp_peer *l);
void peer_drop_spares (struct fp_peer *l);
void peer_fail_places (struct fp_peer *l);

#endif /* FP_PEER_INT_H */
