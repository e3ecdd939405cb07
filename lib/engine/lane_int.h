/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_int.h - the inside of a lane, shared by the files that implement it.
 * lane.c creates and ends it.  lane_wait.c takes requests and waits for them.
 * lane_progress.c does one round: collect, look at deadlines, issue.
 * lane_issue.c cuts an io into transfers.  lane_copies.c chooses among several
 * copies, and writes to all of them.  lane_dirty_log.c marks what is being
 * written.  lane_deadline.c says how long things may take, and lane_fail.c
 * whom a failure is held against.  lane_hedge.c hedges reads, lane_flush.c
 * flushes, and lane_touch.c reads a byte of a server.  lane_front.c lets a
 * front end sleep in its own event loop.
 */

#ifndef FP_LANE_INT_H
#define FP_LANE_INT_H

#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>

#include <pthread.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "base/wakeup.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "extent/notifier.h"
#include "peer/peer.h"

#define NR_QUEUES 4 /* one for each transport bit */

/* Bytes of front ends' writes in flight on a connection, unless one io is
 * longer, while the lane also reads.  A read waits for those that were sent
 * before it: 21 us at 100 Gb/s.  A link of that speed has 64 KiB under way
 * during a round trip of 5 us.
 */
#define WRITES_AHEAD (256 * 1024)
/* ns; a lane that has read nothing for so long does not hold writes back */
#define READS_NS FP_NS_PER_S

/* Each kind has a free list of its own. */
enum frag_kind {
  FRAG_USUAL, /* for requests */
  /* For hedges and late answers, which so take no fragment from requests. */
  FRAG_SPARE,
  FRAG_BARE, /* has no slot: for ios whose memory is a buffer */
  NR_FRAG_KINDS
};

/* One transfer.  op comes first, so a completed op is its fragment. */
struct frag {
  struct fp_op op;
  struct fp_io *io;    /* NULL: a late answer, not waited for */
  unsigned char *slot; /* bounce memory, for a registered transport */
  enum frag_kind kind;
  unsigned char *user; /* caller's memory: source or destination */
  struct fp_extent *extent;
  uint64_t at; /* linear address: stripe.h */
  unsigned server;
  uint64_t sent_ns, deadline_ns;
  struct frag *prev, *next; /* list: active, oldest first; or free */
  uint64_t mark;            /* writes that were sent before it there */

  /* For a write to several copies: its first fragment, the head, else NULL.
   * All its fragments share the head's slot.  The head counts those in flight,
   * and knows their copies and what is held of fp_engine.range_lock.
   */
  struct frag *head;
  unsigned under_way;
  uint8_t copies; /* set of copies */
  uint64_t held_at;
  uint32_t held; /* bytes that are locked there; 0: none */

  /* For a read that may be hedged: lane_hedge.c. */
  bool watched;      /* the fields below are valid */
  bool hedged;       /* was sent to a second copy, or is that read */
  bool refused;      /* a hedge was due but not possible */
  bool judged;       /* points were counted for this read */
  struct frag *twin; /* the other twin, while both are there */
  uint64_t after_ns; /* hedge this long after sent_ns; or FP_NEVER */
  uint64_t look_ns;  /* time of the next look at it; or FP_NEVER */

  /* If not FP_TAIL_NONE, at and op.length name regions of a tail: dirty_log.h.
   * Always FP_TAIL_NONE while free.
   */
  enum fp_tail tail;
};

struct lane_conn {
  struct fp_conn *conn; /* NULL: no connection */
  uint64_t written;     /* number of writes ever sent */
  uint64_t flushed;     /* how many of them a READ followed */
  uint64_t flush_at;    /* linear address of the last write */
  unsigned inflight;    /* fragments in flight */
  uint64_t writing;     /* bytes of writes among them */
  uint64_t paced;       /* round in which a write had to wait for others */
  uint64_t refused_ns;  /* when a key was first refused here; 0: never */
  bool revoked;         /* the last one broke because a key was refused */

  /* Read statistics, for lane_hedge.c. */
  uint64_t p99_ns;
  unsigned samples;
  unsigned watched;  /* watched reads in flight */
  unsigned points;   /* points against the server */
  bool avoided;      /* read another copy while there is one */
  uint64_t retry_ns; /* when to try an avoided server again */
};

struct io_list {
  struct fp_io *head, **tail;
};

/* A condition that a thread waits for, and what ends the wait early. */
struct lane_wait {
  bool (*is_over) (struct fp_lane *lane, const void *arg);
  const void *arg;
  uint64_t deadline_ns; /* by fp_now_ns, or FP_NEVER */
  const uint32_t *seen; /* not NULL: end when the count of changes differs */
};

struct fp_lane {
  struct fp_listener listener; /* listens to fp_extents.changes */
  struct fp_engine *e;
  unsigned index;
  unsigned nr_slots; /* without spare ones */
  unsigned nr_frags; /* with spare ones, and bare ones behind them */
  unsigned nr_bare;
  bool hedging;      /* reads are hedged: lane_hedge.c */
  _Atomic bool maps; /* was ever connected by a direct transport */
  _Atomic unsigned users;

  _Atomic unsigned knocking; /* threads that want the lock: pollers yield */
  pthread_mutex_t lock;      /* everything below, up to the counters */
  pthread_cond_t cond; /* an io is done, polling ended, or a look is due */
  bool polling;        /* a thread polls or sleeps for all */
  bool asleep;         /* that thread is in poll(2) */
  unsigned sleepers;   /* threads that wait on cond */
  unsigned watchers;   /* threads in lane_await */

  int epoll; /* readable when a queue has work: transport.h */
  struct fp_queue *queues[NR_QUEUES];
  unsigned opening[NR_QUEUES]; /* connections being opened, per queue */
  bool posted[NR_QUEUES];      /* ops were posted since the last kick */
  /* One mapping: a slot for each fragment that has one, then the buffers of
   * the front end.  Registered as a whole where a transport needs that.
   */
  unsigned char *slots, *buffers;
  size_t memory_size; /* bytes */
  struct frag *frags, *free[NR_FRAG_KINDS];
  struct frag *active_head, *active_tail;
  struct io_list pending, parked, completed;
  unsigned outstanding; /* ios submitted and not yet taken back (async) */
  struct lane_conn *conns;
  uint64_t round;          /* number of rounds of issue_pending */
  uint64_t read_ns;        /* when a front end's read was last issued */
  uint64_t next_scan_ns;   /* time of the next scan: lane_scan_by */
  uint64_t sleep_until_ns; /* when the sleeping poller wakes up by itself */
  uint64_t wait_ewma_ns;   /* moving average of waiting times */

  /* lane_hedge.c */
  uint64_t looked_ns;    /* when completions were last collected */
  uint64_t next_look_ns; /* no frag.look_ns is earlier */
  unsigned tokens;

  struct fp_wakeup wake;
  _Atomic bool woken;

  /* lane_front.c */
  struct fp_wakeup front_wake; /* for lane_front_wake */
  uint64_t front_until_ns;     /* end of the sleep, by fp_now_ns */
  _Atomic bool front_asleep;
  bool fresh; /* an io was started, and no round has looked at it */

  _Atomic uint64_t inflight, poll_hits, sleeps;
  _Atomic uint64_t hedges, hedges_won, hedges_lost, hedges_refused;
};

static inline void
list_init (struct io_list *l)
{
  l->head = NULL;
  l->tail = &l->head;
}

static inline void
list_push (struct io_list *l, struct fp_io *io)
{
  io->next = NULL;
  *l->tail = io;
  l->tail = &io->next;
}

static inline void
list_push_front (struct io_list *l, struct fp_io *io)
{
  io->next = l->head;
  l->head = io;
  if (io->next == NULL)
    l->tail = &io->next;
}

/* Remove and return the io that *at points to. */
static inline struct fp_io *
list_take (struct io_list *l, struct fp_io **at)
{
  struct fp_io *io = *at;

  *at = io->next;
  if (io->next == NULL)
    l->tail = at;
  io->next = NULL;
  return io;
}

static inline struct fp_io *
list_pop (struct io_list *l)
{
  return l->head == NULL ? NULL : list_take (l, &l->head);
}

/* Take the lock.  A thread that polls with the lock held lets it go. */
static inline pthread_mutex_t *
lane_lock (struct fp_lane *lane)
{
  atomic_fetch_add (&lane->knocking, 1);
  fp_lock (&lane->lock);
  atomic_fetch_sub (&lane->knocking, 1);
  return &lane->lock;
}

static inline void
lane_unlock (struct fp_lane *lane)
{
  pthread_mutex_t *m = &lane->lock;

  fp_unlockp (&m);
}

/* lane_front.c: a front end that sleeps in its own event loop */

/* Prepare to sleep on front_wake and lane->epoll, or until *until_ns.  Return
 * false if the front end must poll now.  Takes the lock.
 */
bool lane_front_sleep (struct fp_lane *lane, uint64_t *until_ns);
/* Wake the front end if it sleeps.  Any thread, with the lock or without. */
void lane_front_wake (struct fp_lane *lane);

/* Wake the polling thread and the front end, if they would sleep beyond ns. */
static inline void
lane_awake_by (struct fp_lane *lane, uint64_t ns)
{
  if (ns < lane->front_until_ns)
    lane_front_wake (lane);
  if (lane->asleep && ns < lane->sleep_until_ns) {
    lane->sleep_until_ns = 0;
    fp_lane_wake (lane);
  }
}

/* Scan the parked ios, and the deadlines of fragments, no later than at ns. */
static inline void
lane_scan_by (struct fp_lane *lane, uint64_t ns)
{
  if (ns < lane->next_scan_ns) {
    lane->next_scan_ns = ns;
    lane_awake_by (lane, ns);
  }
}

#define LANE_LOCK_SCOPE(lane)                                                 \
  FP_CLEANUP (fp_unlockp) pthread_mutex_t *_lane_lock = lane_lock (lane)

/* Return the kind of fragments for transfers to or from buf: bare ones if it
 * is in a buffer (fp_lane_buffer).
 */
static inline enum frag_kind
lane_kind_for (const struct fp_lane *lane, const void *buf)
{
  bool is_buffer = lane->nr_bare > 0 &&
                   (uintptr_t) buf - (uintptr_t) lane->buffers <
                       (size_t) lane->e->p->buffers * lane->e->p->buffer_size;

  return is_buffer ? FRAG_BARE : FRAG_USUAL;
}

/* Note that a write to several copies was not done everywhere.  Call this
 * before its part of fp_engine.range_lock is let go.
 */
static inline void
lane_unsettle (struct fp_lane *lane, struct fp_io *io)
{
  if (!io->unsettled)
    atomic_fetch_add (&lane->e->unsettled, 1);
  io->unsettled = true;
}

/* Result of an attempt to issue bytes of an io. */
enum issue {
  GO_ON, /* some were issued, or the io must be looked at again */
  /* No free slot, or the range is locked: nothing else is issued now either,
   * so that the order of requests is kept.
   */
  BLOCKED,
  /* Enough is being written on a connection.  No other write is issued there
   * now, but reads are.  The block layer does not order requests that are in
   * flight at the same time.
   */
  PACED,
  PARK,   /* the io waits for a change */
  FAILED, /* io->status is set */
};

static inline enum issue
fail_io (struct fp_io *io, int err)
{
  io->status = err;
  return FAILED;
}

/* lane_copies.c, with the lock held */

/* Issue the next `left` bytes of io, or fewer, at linear address `at`, where
 * there are several copies.  Bytes that are done or in flight are counted in
 * io->issued.
 */
enum issue lane_issue_copies (struct fp_lane *lane, struct fp_io *io,
                              uint64_t at, uint64_t left);
/* Handle the end, good or bad, of one fragment of a write to several copies.
 * It is still inside its extent.
 */
void lane_copy_done (struct fp_lane *lane, struct frag *f);
/* Handle the end of the last fragment of the write that has this head. */
void lane_write_done (struct fp_lane *lane, struct frag *head);

/* lane_hedge.c, with the lock held, if the lane is hedging */

/* Return how many more fragments a lane with these slots needs for hedges. */
static inline unsigned
lane_hedge_spares (unsigned slots)
{
  return (slots + 1) / 2;
}
/* Return how much speaks against reading from there.  The copy with the lowest
 * rank is read.
 */
unsigned lane_hedge_rank (struct fp_lane *lane, struct lane_conn *lc);
/* Watch f, a read of extent i that was just sent. */
void lane_hedge_watch (struct fp_lane *lane, struct frag *f, uint64_t i);
/* Handle the end of f, which is watched.  Return false if its io has its
 * answer, or will get it from f's twin.
 */
bool lane_hedge_done (struct fp_lane *lane, struct frag *f);
/* Hedge reads that take too long.  Called after everything was collected. */
void lane_hedge_look (struct fp_lane *lane, uint64_t now);
/* Return when to look again, or FP_NEVER. */
uint64_t lane_hedge_next (struct fp_lane *lane);

/* lane_dirty_log.c, with the lock held: dirty_log.h */

/* Make the copies of the set, which were entered, mark [in, in + n) of extent
 * i as being written.  Return GO_ON once all do.  Else io waits, or fails.
 * *kept: copies of the set that fragments are inside of now.
 */
enum issue lane_log_dirty (struct fp_lane *lane, struct fp_io *io, uint64_t i,
                           uint8_t set, uint64_t in, uint64_t n,
                           uint8_t *kept);
/* Issue an io that reads or writes a tail. */
enum issue lane_issue_tail (struct fp_lane *lane, struct fp_io *io);
/* Handle the end of a fragment of a tail, which is still inside its extent. */
void lane_tail_done (struct fp_lane *lane, struct frag *f);

/* lane_fail.c, with the lock held */

/* Return true if the server refused the key. */
bool lane_refused (const struct frag *f);
/* f failed, and would fail again: mark its copy as bad, if there is another
 * one.  Return true if that can do the io.
 */
bool lane_blame_copy (struct fp_lane *lane, const struct frag *f);
/* Return true if f must be retried: it failed on a connection that is up. */
bool lane_must_retry (struct fp_lane *lane, const struct frag *f);
/* Hold against copy p that some of its mapped memory is missing.  p is not the
 * target of a move.  Return true if requests go on with other copies.
 */
bool lane_leave_behind (struct fp_lane *lane, const struct fp_extent *p);
/* Some of the mapped memory of p is missing.  Return PARK if another copy can
 * do io, else FAILED.
 */
enum issue lane_missing (struct fp_lane *lane, struct fp_io *io,
                         const struct fp_extent *p);

/* lane_deadline.c, with the lock held.  Times are by fp_now_ns. */

/* Return true if io is a front end's write that must not be sent any more. */
static inline bool
lane_is_stale (const struct fp_lane *lane, const struct fp_io *io)
{
  return io->front && fp_block_is_stale (&lane->e->block, io->made_ns);
}

/* Return true if io, with nothing in flight, has waited long enough, or if
 * this client is fenced.
 */
bool lane_in_vain (const struct fp_lane *lane, const struct fp_io *io);
/* Return when that will be so. */
uint64_t lane_give_up_ns (const struct fp_lane *lane, const struct fp_io *io);
/* Return how long a transfer may take, in ns.  The only in-sync copy of an
 * extent has more time: lane_is_late.
 */
uint64_t lane_transfer_ns (const struct fp_lane *lane);
/* Return true if f takes too long, by our clock or by the front end's. */
bool lane_is_late (const struct fp_lane *lane, const struct frag *f,
                   uint64_t now);
/* Return when that may be so by our clock. */
uint64_t lane_late_ns (const struct fp_lane *lane, const struct frag *f,
                       uint64_t now);
/* Scan when the time of io, a front end's write, is over. */
void lane_scan_for_front (struct fp_lane *lane, const struct fp_io *io,
                          uint64_t now);

/* lane_issue.c, with the lock held */

/* Issue as much of io as there are free fragments for. */
enum issue lane_issue (struct fp_lane *lane, struct fp_io *io);

/* Return true, and note the time in io, if io may ask for memory for its
 * extent now.  Schedule the next time.
 */
bool lane_may_ask (struct fp_lane *lane, struct fp_io *io);
/* Return how much of `left` fits fragment f on transport ops. */
uint32_t lane_frag_size (const struct fp_lane *lane, const struct frag *f,
                         const struct fp_transport_ops *ops, uint64_t left);
/* Return true if io, which writes on lc, must wait for others there.  An io
 * that was begun goes on.
 */
static inline bool
lane_is_paced (const struct fp_lane *lane, struct lane_conn *lc,
               const struct fp_io *io)
{
  if (!io->front || io->issued > 0)
    return false;
  if (lc->writing > 0 && lc->writing + io->length > WRITES_AHEAD &&
      fp_now_ns () < lane->read_ns + READS_NS)
    lc->paced = lane->round;
  return lc->paced == lane->round;
}
/* Return the memory that f transfers: its slot if ops needs registered memory
 * and f has a slot, else user.
 */
static inline void *
lane_frag_memory (const struct frag *f, const struct fp_transport_ops *ops,
                  void *user)
{
  return ops->registered && f->kind != FRAG_BARE ? f->slot : user;
}
/* Start the transfer of f to or from the copy at p, which was entered.  f is
 * the first fragment of its free list.  kind, length and local of its op are
 * set.  at is the linear address at that entry.
 */
enum issue lane_post (struct fp_lane *lane, struct frag *f, struct fp_io *io,
                      struct fp_extent *p, uint64_t at);
/* Transfer the next `left` bytes of io, or fewer, to or from the copy at p,
 * which was entered.  Leave p now, or when the transfer is over.
 */
enum issue lane_transfer (struct fp_lane *lane, struct fp_io *io,
                          struct fp_extent *p, uint64_t at, uint64_t left);
/* Issue io where no copy of extent i is in use.  Read `left` zeros if this
 * client still has the volume.  For a write ask for memory, and return PARK,
 * or GO_ON if the extent must be looked at again.
 */
enum issue lane_issue_nothing (struct fp_lane *lane, struct fp_io *io,
                               uint64_t i, uint64_t left);

/* lane_progress.c, with the lock held */

/* Do one round: collect, decide, issue.  Return true if anything completed. */
bool lane_progress (struct fp_lane *lane);
void lane_frag_put (struct fp_lane *lane, struct frag *f);
/* Remove f from the list of fragments in flight, or append it.  The list is
 * ordered by deadline.
 */
void lane_active_remove (struct fp_lane *lane, struct frag *f);
void lane_active_append (struct fp_lane *lane, struct frag *f);

/* lane_wait.c, with the lock held */

/* Make progress until w is over.  Return false if its deadline came first, or
 * a change.
 */
bool lane_await (struct fp_lane *lane, const struct lane_wait *w);

/* Return false if polling would keep this host from doing the transfers. */
bool lane_may_poll (const struct fp_lane *lane);

/* Prepare to sleep on lane->wake and lane->epoll.  Return true if the caller
 * must not sleep.
 */
bool lane_arm (struct fp_lane *lane);

/* Return the io of fp_lane_sync_read: a read of the server that places earlier
 * writes of the same queue pair.
 */
struct fp_io lane_placing_io (const struct fp_engine *e, void *buf,
                              uint32_t length, uint64_t at);

/* ---- the engine's operations: block.h ---- */

int lane_read (struct fp_block *b, struct fp_block_request *r);
int lane_write (struct fp_block *b, struct fp_block_request *r);
int lane_read_copy (struct fp_block *b, struct fp_block_request *r,
                    unsigned copy);
/* Add this lane's counts to the status.  lane.c */
void lane_status (struct fp_lane *lane, struct fp_volume_status *s);

/* zero.c and zero_copies.c */
int zero_range (struct fp_block *b, struct fp_block_request *r);
bool zero_is_fast (struct fp_block *b, uint64_t length, uint64_t offset,
                   bool trim);
void find_hole (struct fp_block *b, uint64_t offset, uint64_t limit,
                bool *hole, uint64_t *length);

/* Zero [in, in + length) of extent i, which has copies in use.  release: the
 * range is the whole extent, and its memory is released.  -EAGAIN: try again
 * after a change.  -EBUSY: a copy cannot be zeroed now, and no change may tell
 * when it can.  -EIO: the deadline has passed, or a server refused.  On
 * success, move *deadline on by the time that this call took.  Any thread.
 */
int zero_at_copies (struct fp_engine *e, uint64_t i, uint64_t in,
                    uint64_t length, bool release, uint64_t *deadline);

/* lane_flush.c */
int lane_flush_all (struct fp_block *b);
/* Set *at to a linear address that can be read on that server: *at itself if
 * its extent is still there, else any.  Return false if no entry there can be
 * read now.
 */
bool lane_place_to_read (struct fp_engine *e, unsigned server, uint64_t *at);

#endif /* FP_LANE_INT_H */
