/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_int.h - the inside of a lane, for the files that are one: lane.c makes
 * and ends it, lane_issue.c cuts, sends and collects, lane_copies.c does that
 * for several copies, lane_fail.c judges what failed, lane_hedge.c asks a
 * second one, lane_wait.c waits.
 */

#ifndef FP_LANE_INT_H
#define FP_LANE_INT_H

#include <poll.h>
#include <stdatomic.h>

#include <pthread.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "peer/peer.h"
#include "volume/volume_int.h"

#define NR_QUEUES 4 /* one for each transport bit */

/* One transfer.  The op comes first: a completed op is its fragment. */
struct frag {
  struct fp_op op;
  struct fp_io *io;    /* NULL: a late one, which nobody waits for */
  unsigned char *slot; /* bounce memory, of a registered transport */
  unsigned char *user; /* where the bytes come from or go to */
  struct fp_extent *extent;
  uint64_t at; /* linear: stripe.h */
  unsigned server;
  uint64_t sent_ns, deadline_ns;
  struct frag *prev, *next; /* active, oldest first; or free */

  /* Of a write to several copies: the first of its fragments, whose slot they
   * share; else NULL.  It tells how many are under way, to which copies, and
   * what is held of fp_volume.range_lock.
   */
  struct frag *head;
  unsigned under_way;
  uint8_t copies;
  uint64_t held_at;
  uint32_t held;

  /* Of a read that may be hedged: lane_hedge.c. */
  bool spare;        /* it comes from fp_lane.spare_frags */
  bool watched;      /* what follows counts */
  bool hedged;       /* it was sent to another copy, too, or is that one */
  bool refused;      /* it should have been, and could not */
  bool judged;       /* whether it was slow */
  struct frag *twin; /* the other one of the two, as long as there are two */
  uint64_t after_ns; /* so long after sent_ns it is hedged; or FP_NEVER */
  uint64_t look_ns;  /* when something is to be done about it; likewise */

  enum fp_tail tail; /* at, length: what of it; dirty_log.h.  None, if free */
};

#define FP_NEVER UINT64_MAX

struct lane_conn {
  struct fp_conn *conn; /* NULL: away */
  uint64_t written;     /* writes sent on it, ever */
  uint64_t flushed;     /* so many of them were followed by a READ */
  uint64_t flush_at;    /* somewhere it wrote */
  unsigned inflight;    /* fragments */
  uint64_t refused_ns;  /* when a key was first refused on it; 0: never */
  bool revoked;         /* it broke as a key was refused */

  /* lane_hedge.c: what is known of its reads. */
  uint64_t p99_ns;
  unsigned samples;
  unsigned watched;  /* in flight now */
  unsigned points;   /* against it */
  bool avoided;      /* another copy is read as long as there is one */
  uint64_t retry_ns; /* until then */
};

struct io_list {
  struct fp_io *head, **tail;
};

struct fp_lane {
  struct fp_volume *v;
  unsigned index;
  unsigned nr_slots; /* spare ones not counted */
  unsigned nr_frags; /* with them */
  bool hedging;      /* lane_hedge.c is asked */
  _Atomic unsigned users;

  _Atomic unsigned knocking; /* threads that want the lock: let them */
  pthread_mutex_t lock;      /* everything below, until the counters */
  pthread_cond_t cond;       /* an io is done, or nobody polls now */
  bool polling;              /* a thread is polling or asleep for all */
  bool asleep;               /* that thread is in poll(2) */
  unsigned sleepers;         /* threads in cond */

  struct fp_queue *queues[NR_QUEUES];
  unsigned opening[NR_QUEUES]; /* threads that make a connection on each */
  bool posted[NR_QUEUES];      /* since the last kick */
  unsigned char *slots;
  struct frag *frags, *free_frags;
  /* Hedges, and late answers: these take no fragment from requests. */
  struct frag *spare_frags;
  struct frag *active_head, *active_tail;
  struct io_list pending, parked, completed;
  unsigned outstanding; /* ios submitted and not taken back (async) */
  struct lane_conn *conns;
  uint64_t next_scan_ns;
  uint64_t wait_ewma_ns; /* how long waits took lately */

  /* lane_hedge.c */
  uint64_t looked_ns;      /* when completions were last looked for */
  uint64_t next_look_ns;   /* no frag.look_ns is earlier */
  uint64_t sleep_until_ns; /* who is asleep wakes up by himself */
  unsigned tokens;

  int wake_fd;
  _Atomic bool woken;

  _Atomic uint64_t reads, writes, errors, bytes_read, bytes_written;
  _Atomic uint64_t inflight, poll_hits, sleeps;
  _Atomic uint64_t hedges, hedges_won, hedges_lost, hedges_refused;
  struct fp_hist read_ns, write_ns;
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

static inline struct fp_io *
list_pop (struct io_list *l)
{
  struct fp_io *io = l->head;

  if (io != NULL) {
    l->head = io->next;
    if (l->head == NULL)
      l->tail = &l->head;
    io->next = NULL;
  }
  return io;
}

/* Take the lock from whoever polls with it held. */
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

#define LANE_LOCK_SCOPE(lane)                                                 \
  FP_CLEANUP (fp_unlockp) pthread_mutex_t *_lane_lock = lane_lock (lane)

static inline void
count (_Atomic uint64_t *counter, uint64_t n)
{
  atomic_fetch_add_explicit (counter, n, memory_order_relaxed);
}

/* Of a write to several copies, and before what is held of
 * fp_volume.range_lock is let go: it was not done everywhere.
 */
static inline void
lane_unsettle (struct fp_lane *lane, struct fp_io *io)
{
  if (!io->unsettled)
    atomic_fetch_add (&lane->v->unsettled, 1);
  io->unsettled = true;
}

enum issue { ISSUED, NO_SLOT, PARK, FAILED };

static inline enum issue
fail_io (struct fp_io *io, int err)
{
  io->status = err;
  return FAILED;
}

/* lane_copies.c, with the lock held: extents that have several copies */

/* Of io the next `left` bytes, or fewer, which are at linear address at: what
 * was done or is under way is counted in io->issued.
 */
enum issue lane_issue_copies (struct fp_lane *lane, struct fp_io *io,
                              uint64_t at, uint64_t left);
/* A fragment of a write to several copies is over, and inside its extent
 * still.
 */
void lane_copy_written (struct fp_lane *lane, struct frag *f);
/* All of them are, of which this is the head. */
void lane_copies_written (struct fp_lane *lane, struct frag *head);

/* lane_hedge.c, with the lock held, if the lane is hedging */

/* So many more fragments a lane with these slots needs for that. */
static inline unsigned
lane_hedge_spares (unsigned slots)
{
  return (slots + 1) / 2;
}
/* How much speaks against reading from there: the copy with the least is
 * taken.
 */
unsigned lane_hedge_rank (struct fp_lane *lane, struct lane_conn *lc);
/* f was just sent, a read of extent i. */
void lane_hedge_watch (struct fp_lane *lane, struct frag *f, uint64_t i);
/* f, which is watched, is over.  False: its io has its answer already, or will
 * get it from f's twin.
 */
bool lane_hedge_done (struct fp_lane *lane, struct frag *f);
/* Everything was collected just now: what has taken too long? */
void lane_hedge_look (struct fp_lane *lane, uint64_t now);
/* When to look again. */
uint64_t lane_hedge_next (struct fp_lane *lane);

/* lane_dirty_log.c, with the lock held: dirty_log.h */

/* The copies of the set, which were entered, all say that [in, in + n) of
 * extent i is being written: ISSUED.  Else io waits; *kept: those of the set
 * that fragments are inside of now.
 */
enum issue lane_log_dirty (struct fp_lane *lane, struct fp_io *io, uint64_t i,
                           uint8_t set, uint64_t in, uint64_t n,
                           uint8_t *kept);
/* An io that is about a tail. */
enum issue lane_issue_tail (struct fp_lane *lane, struct fp_io *io);
/* A fragment of a tail is over, and inside its extent still. */
void lane_tail_done (struct fp_lane *lane, struct frag *f);

/* lane_fail.c, with the lock held */

/* The server answered that the key opens nothing. */
bool lane_refused (const struct frag *f);
/* f failed, and would again: that is held against its copy.  Is there another
 * one to go on with?
 */
bool lane_other_copy (struct fp_lane *lane, const struct frag *f);
/* f failed on a connection that is sound.  Is it done over? */
bool lane_done_over (struct fp_lane *lane, const struct frag *f);
/* Hold it against copy p, which is no target of a move, that some of its
 * mapped memory is missing.  Return true if requests go on with other copies.
 */
bool lane_leave_behind (struct fp_lane *lane, const struct fp_extent *p);
/* Some of the mapped memory of p is missing.  Return PARK if another copy can
 * do io, else FAILED.
 */
enum issue lane_missing (struct fp_lane *lane, struct fp_io *io,
                         const struct fp_extent *p);
/* It is late, and of the only in-sync copy of its extent: it gets the whole
 * timeout, as on a volume of one copy.
 */
bool lane_sole (const struct fp_lane *lane, const struct frag *f,
                uint64_t now);

/* lane_issue.c, with the lock held */

void lane_frag_put (struct fp_lane *lane, struct frag *f);
/* Those that are in flight, by their deadlines. */
void lane_active_remove (struct fp_lane *lane, struct frag *f);
void lane_active_append (struct fp_lane *lane, struct frag *f);
/* How long a transfer may take. */
uint64_t lane_patience_ns (const struct fp_lane *lane);
/* So much of left can go in one fragment to a copy that is reached by ops. */
uint32_t lane_frag_size (const struct fp_lane *lane,
                         const struct fp_transport_ops *ops, uint64_t left);
/* Start the transfer of f, the first of its free fragments, whose op has kind,
 * length and local, to or from the copy at p, which was entered; at: the
 * address of that entry.
 */
enum issue lane_post (struct fp_lane *lane, struct frag *f, struct fp_io *io,
                      struct fp_extent *p, uint64_t at);
/* A run that lies in one READY copy, which was entered.  Returns its length,
 * or 0 with *out saying why not.
 */
uint32_t lane_issue_frag (struct fp_lane *lane, struct fp_io *io,
                          struct fp_extent *p, uint64_t at, uint32_t left,
                          enum issue *out);

/* One round: collect, decide, issue.  Returns true if anything completed. */
bool lane_progress (struct fp_lane *lane);

/* lane_wait.c, with the lock held */

/* What to poll before sleeping, the wake-up first; true: do not sleep. */
bool lane_arm (struct fp_lane *lane, struct pollfd fds[NR_QUEUES + 1],
               nfds_t *nr);

#endif /* FP_LANE_INT_H */
