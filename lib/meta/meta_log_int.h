/* SPDX-License-Identifier: BSD-3-Clause */
/* meta_log_int.h - the inside of the metadata log: meta_log.c has its thread,
 * meta_log_list.c the list of members, meta_log_start.c how it begins,
 * peer_record.c what a peer does for it.
 */

#ifndef FP_META_LOG_INT_H
#define FP_META_LOG_INT_H

#include <stdatomic.h>

#include <pthread.h>

#include "base/thread.h"
#include "meta/membership.h"
#include "meta/meta_log.h"
#include "peer/peer.h"
#include "proto/messages.h"
#include "volume/volume_int.h"

/* fp_extent.record */
enum {
  RECORD_NOTHING,
  RECORD_EXISTS,
  RECORD_GONE,    /* somebody waits for that */
  RECORD_REVERSE, /* nobody does any more: make it exist again */
  RECORD_DROP,    /* a copy that is not in sync any more: mirror.h */
  RECORD_IN_SYNC, /* one that is, again */
};

/* Different lists that not all had; then none but these is tried.  Those that
 * were found at the start are no more than there are servers.
 */
#define META_LOG_TRIED (64 + FP_MAX_SERVERS)

struct fp_meta_log {
  struct fp_volume *v;
  struct fp_thread thread;
  bool runs;
  _Atomic bool frozen; /* since the start */
  /* Of the start: whoever may know more is dead for good, by force=true. */
  bool forced;
  _Atomic bool known;        /* the map is what the servers have */
  _Atomic bool begun_by_all; /* the first list of this client is complete */
  uint64_t words;
  _Atomic uint64_t *map;
  _Atomic uint64_t unheard; /* servers that did not name what they hold yet */
  /* Under fp_volume.lock: what there was at the start was judged; the servers
   * that were not current then.
   */
  bool judged;
  uint64_t stale;

  pthread_mutex_t lock; /* no other is taken under it */
  pthread_cond_t cond;
  bool stop;
  uint32_t head, tail; /* extents to record, through next_wanted */
  unsigned nr_batch;
  uint64_t answers;   /* counts what peers were asked and have done */
  uint64_t up;        /* servers */
  uint64_t restarted; /* likewise: they know nothing any more */
  /* Of the lists of servers that were away at the start; and up to which
   * version the current members have said that ours counts.
   */
  uint64_t newest, outdone;
  uint64_t confirm; /* servers that wait for a complete list: any thread's */
  struct fp_uuid uuid[FP_MAX_SERVERS];
  uint64_t version, current; /* for who only looks */
  /* What is asked for by meta_log_change.c.  Listed: who is in the lists that
   * are written, current or not; the thread's own to change.
   */
  uint64_t joining, leave, listed;
  struct fp_member join; /* who joins, until it is listed */

  /* The thread's own. */
  uint64_t leaving;         /* listed, and not in the next list */
  uint64_t members;         /* current, as is to be */
  uint64_t durable, anchor; /* see meta_log.h */
  /* The current members of the last complete list, with those that came back
   * with nothing since: whoever has that list counts them.
   */
  unsigned nr_durable;
  uint64_t failed; /* were to be taken in last, and did not take the map */
  /* The lists that were sent since the durable one, and may be somewhere: of
   * nr current members, these are still who they were.  Until the first list
   * of this client is complete also the lists that were found and count, if
   * they are several (membership.h): of the current members these may have it.
   * Then `durable` are only those that are believed.
   */
  struct {
    uint64_t set;
    unsigned nr;
  } tried[META_LOG_TRIED];
  unsigned nr_tried;
  bool several; /* such lists were found, and are among them */
  bool list_due;
  bool unsettled;     /* it was stopped while something was to be recorded */
  bool begun;         /* a list of this client was sent */
  uint64_t attempted; /* whose list it was, if not all had it yet */
  uint64_t rejoin_ns; /* when to try again */
  struct fp_members list, sent; /* by place; and as it is sent */
  struct fp_map_change change;
  uint32_t batch[FP_MAX_GRANTS];
};

/* ---- peer_record.c ---- */

enum record_op {
  RECORD_OP_MAP,       /* what: struct fp_map_change */
  RECORD_OP_MAP_READ,  /* into the metadata log's map, beside what is there */
  RECORD_OP_MAP_WRITE, /* the metadata log's map; doubts before that */
  RECORD_OP_MEMBERS,   /* what: struct fp_members */
  RECORD_OP_SWEEP,     /* release what is not used */
  RECORD_OP_DOUBTS,    /* label what is believed as what it is */
};

/* Leave a request with a peer, which is answered when fp_peer_record_result
 * is true: -ENOTCONN if it is not up.  False: it is still at an earlier one.
 */
bool fp_peer_record (struct fp_peer *l, enum record_op op, const void *what);
bool fp_peer_record_result (struct fp_peer *l, int *result);
/* Nobody waits for the answer any more. */
void fp_peer_record_leave (struct fp_peer *l);
/* What the server said of the volume when the peer first came up. */
const struct fp_lookup_reply *fp_peer_said (const struct fp_peer *l);

/* ---- meta_log.c ---- */

/* Ask each of these servers, for so long; returns who did it.  *refused: who
 * answered -EINVAL or -EEXIST.
 */
uint64_t meta_log_ask (struct fp_meta_log *r, uint64_t servers,
                       enum record_op op, const void *what,
                       uint64_t deadline_ns, uint64_t *refused);
int meta_log_run (struct fp_meta_log *r);
/* meta_log_copies.c: which copies are in sync, as the map says at the start;
 * and a client is at work from now on.  Before anything is read or written.
 */
int meta_log_take_copies (struct fp_meta_log *r, uint64_t deadline_ns,
                          char why[FP_WHY_MAX]);
/* The same, for who only reads: nothing is recorded, so it has to have been
 * left with its copies alike.
 */
int meta_log_read_copies (struct fp_meta_log *r, char why[FP_WHY_MAX]);
/* Until all have done it, or the deadline; returns who. */
uint64_t meta_log_ask_all (struct fp_meta_log *r, uint64_t servers,
                           enum record_op op, uint64_t deadline_ns);
unsigned meta_log_patience_ms (const struct fp_meta_log *r);
void meta_log_wait_ms (struct fp_meta_log *r, unsigned ms); /* locked */

/* ---- meta_log_list.c, the metadata log's thread ---- */

/* Write the list of r->members.  -EAGAIN: it is still due; -EPERM: another
 * client has written a newer one.
 */
int meta_log_write_list (struct fp_meta_log *r, uint64_t deadline_ns);
/* So many current members may be enough to go on: membership.h. */
bool meta_log_may_shrink (const struct fp_meta_log *r, unsigned was,
                          unsigned is);
/* May the next list be theirs alone? */
bool meta_log_may_write (const struct fp_meta_log *r, uint64_t set);
/* Return the servers of `set` that may be the current members of the next
 * list; 0: they are too few.  One that is taken in may have to wait.
 */
uint64_t meta_log_next (const struct fp_meta_log *r, uint64_t set);
/* Note that a list of nr current members was sent, which these may have.
 * Return false if there are too many.
 */
bool meta_log_note_tried (struct fp_meta_log *r, uint64_t set, unsigned nr);
/* What is known of servers that came back with nothing: they are no members
 * until they were given everything, and none of *answered.
 */
void meta_log_note_restarted (struct fp_meta_log *r, uint64_t *answered);
/* The list is due.  Those that are away are left out, if enough are there. */
void meta_log_mend_list (struct fp_meta_log *r);
/* Members that are known to be away are not waited for. */
void meta_log_leave_out_dead (struct fp_meta_log *r);
/* One that is up and no current member is given everything. */
void meta_log_rejoin (struct fp_meta_log *r);

/* ---- meta_log_change.c, the metadata log's thread ---- */

/* Who is to join, or to leave: the list is due. */
void meta_log_note_changes (struct fp_meta_log *r);
/* Is there anything for that?  The lock is held. */
bool meta_log_asked (const struct fp_meta_log *r);
/* All have the list; the lock is held. */
void meta_log_changed (struct fp_meta_log *r);

#endif /* FP_META_LOG_INT_H */
