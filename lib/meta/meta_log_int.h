/* SPDX-License-Identifier: BSD-3-Clause */
/* meta_log_int.h - internals of the metadata log.  meta_log.c has its thread,
 * meta_log_list.c the list of members, and meta_log_change.c who joins and
 * leaves.  meta_log_start.c has the start, and meta_log_copies.c which copies
 * are in sync then.
 */

#ifndef FP_META_LOG_INT_H
#define FP_META_LOG_INT_H

#include <stdatomic.h>

#include <pthread.h>

#include "base/error.h"
#include "base/thread.h"
#include "meta/membership.h"
#include "meta/meta_log.h"
#include "peer/peer_record.h"
#include "peer/peers.h"
#include "proto/messages.h"

/* Values of fp_extent.record. */
enum {
  RECORD_NOTHING,
  RECORD_EXISTS,
  RECORD_GONE,   /* a thread waits until this is recorded */
  RECORD_UNDONE, /* that is not possible now; the thread has not seen it yet */
  RECORD_REVERSE, /* that wait is over without success: make it exist again */
  RECORD_DROP,    /* the copy is out of sync (mirror.h) */
  RECORD_IN_SYNC, /* the copy is in sync again */
};

/* Most incomplete lists that differ.  At this limit only these are tried
 * again.  Start-up finds at most one for each server.
 */
#define META_LOG_TRIED (64 + FP_MAX_SERVERS)

struct fp_meta_log {
  struct fp_peers *peers;
  struct fp_volume_params *p;
  struct fp_extents *extents;
  struct fp_lease *lease;
  struct fp_recorded *recorded;
  const struct fp_meta_log_ops *ops;
  char title[FP_NAME_MAX + 1]; /* name, or UUID if it has none */
  struct fp_thread thread;
  bool runs;
  /* Found at start-up: fp_meta_log_status. */
  _Atomic bool unclean;
  _Atomic uint64_t resync_bytes, resync_of;
  /* force=true: members that may know more are dead for good.  Set at
   * start-up.
   */
  bool forced;

  pthread_mutex_t lock; /* only fp_peers.lock is taken under it */
  pthread_cond_t cond;
  bool stop;
  uint32_t head, tail; /* queue of extents to record, through next_wanted */
  unsigned nr_batch;
  uint64_t answers;   /* counts what peers were asked and have done */
  uint64_t up;        /* set of servers */
  uint64_t restarted; /* set of servers that came back with nothing */
  /* newest: highest list version of servers that were away at start-up.
   * outdone: up to this version the current members have confirmed that ours
   * counts.
   */
  uint64_t newest, outdone;
  /* Servers that wait for a complete list.  Any thread may set them. */
  uint64_t confirm;
  struct fp_uuid uuid[FP_MAX_SERVERS];
  uint64_t current; /* members of the last complete list, for readers */
  /* Sets that meta_log_change.c works on.  listed: members of the lists that
   * are written, current or not; only the thread changes it.
   */
  uint64_t joining, leave, listed;
  struct fp_member join; /* the member that joins, until it is listed */

  /* Used by the metadata log's thread only. */
  uint64_t leaving; /* listed, and not in the next list */
  uint64_t members; /* current members of the next list */
  /* durable: members that are current in the last complete list.  anchor:
   * those that are current in every list sent since, too.
   */
  uint64_t durable, anchor;
  /* Current members of the last complete list, counting those that came back
   * with nothing since.  A client that has that list counts them, too.
   */
  unsigned nr_durable;
  uint64_t failed; /* members that did not take the map when last taken in */
  /* Lists sent since the durable one, which may be somewhere.  nr: their
   * current members.  set: those of them that did not come back with nothing
   * since.  Until this client's first list is complete, the lists found at
   * start-up are here too, if several count (membership.h).  Of these, set has
   * the current members that may have the list.  Then `durable` has only the
   * believed ones.
   */
  struct {
    uint64_t set;
    unsigned nr;
  } tried[META_LOG_TRIED];
  unsigned nr_tried;
  bool several; /* several lists were found, and are in tried */
  bool list_due;
  bool lost_due;      /* not all members have the lost bits of our map */
  bool unsettled;     /* stopped while changes waited to be recorded */
  bool begun;         /* a list of this client was sent */
  uint64_t attempted; /* members of the last list sent; 0 = all have it */
  uint64_t rejoin_ns; /* time of the next attempt to take members in */
  struct fp_members list, sent; /* by place; and packed, as sent */
  struct fp_map_change change;
  uint64_t holder; /* set: the server of an only copy; else none */
  uint32_t batch[FP_MAX_GRANTS];
};

/* ---- meta_log.c ---- */

/* Ask these servers, and wait until the deadline.  Return those that did it.
 * *refused: those that answered -EINVAL or -EEXIST.
 */
uint64_t meta_log_ask (struct fp_meta_log *log, uint64_t servers,
                       enum fp_record_op op, const void *what,
                       uint64_t deadline_ns, uint64_t *refused);
int meta_log_run (struct fp_meta_log *log);
/* meta_log_copies.c: decide from the map which copies are in sync, and record
 * that a client is at work.  Call before anything is read or written.
 */
int meta_log_take_copies (struct fp_meta_log *log, uint64_t deadline_ns,
                          struct fp_error *error);
/* Decide from the map which copies are in sync, for a read-only volume.
 * Nothing is recorded, so the last client must have left all copies equal.
 */
int meta_log_read_copies (struct fp_meta_log *log, struct fp_error *error);
/* Ask these servers until all have done it, or the deadline.  Return those
 * that did it.
 */
uint64_t meta_log_ask_all (struct fp_meta_log *log, uint64_t servers,
                           enum fp_record_op op, uint64_t deadline_ns);
unsigned meta_log_patience_ms (const struct fp_meta_log *log);
/* Wait for a wake-up, at most ms.  Call with the lock held. */
void meta_log_wait_ms (struct fp_meta_log *log, unsigned ms);

/* meta_log_copies.c: note in the map which extents are lost for good, as the
 * memory of all their copies is gone.  Do nothing while a member is unheard.
 * If some are new, a list is due.
 */
void meta_log_note_lost (struct fp_meta_log *log);
/* At start-up, once the members that leave have left: note that all extents
 * that are LOST are so for good, and tell the members.
 */
void meta_log_lose_rest (struct fp_meta_log *log);
/* Have the members record what is lost, before a list is written.  Return
 * false if some have not done so yet.  A list names a server by the UUID that
 * it came back with.  So the next client would not know that later copies are
 * missing, and would believe a member that missed writes.
 */
bool meta_log_tell_lost (struct fp_meta_log *log);

/* ---- meta_log_list.c, the metadata log's thread ---- */

/* Write the list of log->members.  -EAGAIN: the list is still due.  -EPERM:
 * another client has written a newer one.
 */
int meta_log_write_list (struct fp_meta_log *log, uint64_t deadline_ns);
/* Return true if `is` of `was` current members may be enough to go on
 * (membership.h).
 */
bool meta_log_may_shrink (const struct fp_meta_log *log, unsigned was,
                          unsigned is);
/* Return true if the next list may have exactly these as current members. */
bool meta_log_may_write (const struct fp_meta_log *log, uint64_t set);
/* Return the servers of `set` that may be the current members of the next
 * list, or 0 if they are too few.  A server that is taken in may have to wait.
 */
uint64_t meta_log_next (const struct fp_meta_log *log, uint64_t set);
/* Note that a list of nr current members was sent, and that those in `set` may
 * have it.  Return false if there are too many lists.
 */
bool meta_log_note_tried (struct fp_meta_log *log, uint64_t set, unsigned nr);
/* Take servers that came back with nothing out of the current members, and out
 * of *answered, until they are given everything.  Note what they lost.
 */
void meta_log_note_restarted (struct fp_meta_log *log, uint64_t *answered);
/* Write the list, which is due.  Leave out members that are away, if enough
 * are there.
 */
void meta_log_mend_list (struct fp_meta_log *log);
/* Make a list due that leaves out members known to be away, so that changes do
 * not wait for them.
 */
void meta_log_leave_out_dead (struct fp_meta_log *log);
/* Give the map to servers that are up but not current, and take them in. */
void meta_log_rejoin (struct fp_meta_log *log);

/* ---- meta_log_change.c, the metadata log's thread ---- */

/* Put servers that join or leave into the next list, which is due then. */
void meta_log_note_changes (struct fp_meta_log *log);
/* Return true if a server waits to join or leave.  Call with the lock held. */
bool meta_log_asked (const struct fp_meta_log *log);
/* Finish the joins and leaves of a list that all have.  Call with the lock
 * held.
 */
void meta_log_changed (struct fp_meta_log *log);

#endif /* FP_META_LOG_INT_H */
