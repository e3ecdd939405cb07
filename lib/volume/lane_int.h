/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_int.h - the inside of a lane, for the files that are one: lane.c makes
 * and ends it, lane_issue.c cuts, sends and collects, lane_wait.c waits.
 */

#ifndef FP_LANE_INT_H
#define FP_LANE_INT_H

#include <poll.h>
#include <stdatomic.h>

#include <pthread.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/link.h"
#include "volume/sync.h"
#include "volume/volume_int.h"

#define NR_QUEUES 4 /* one for each transport bit */

/* One transfer.  The op comes first: a completed op is its fragment. */
struct frag {
  struct fp_op op;
  struct fp_io *io;
  unsigned char *slot; /* bounce memory, of a registered transport */
  unsigned char *user; /* where the bytes come from or go to */
  struct fp_piece *piece;
  uint64_t at; /* linear: stripe.h */
  unsigned server;
  uint64_t deadline_ns;
  struct frag *prev, *next; /* active, oldest first; or free */

  /* Of a write to several copies: the first of its fragments, whose slot they
   * share; else NULL.  It tells how many are under way, to which copies, and
   * what is held of fp_volume.overlap.
   */
  struct frag *head;
  unsigned under_way;
  uint8_t copies;
  uint64_t held_at;
  uint32_t held;
};

struct lane_conn {
  struct fp_conn *conn; /* NULL: away */
  uint64_t written;     /* writes sent on it, ever */
  uint64_t flushed;     /* so many of them were followed by a READ */
  uint64_t flush_at;    /* somewhere it wrote */
  unsigned inflight;    /* fragments */
};

struct io_list {
  struct fp_io *head, **tail;
};

struct fp_lane {
  struct fp_volume *v;
  unsigned index;
  unsigned nr_slots;
  _Atomic unsigned users;

  _Atomic unsigned knocking; /* threads that want the lock: let them */
  pthread_mutex_t lock;      /* everything below, until the counters */
  pthread_cond_t cond;       /* an io is done, or nobody polls now */
  bool polling;              /* a thread is polling or asleep for all */
  bool asleep;               /* that thread is in poll(2) */
  unsigned sleepers;         /* threads in cond */

  struct fp_queue *queues[NR_QUEUES];
  bool posted[NR_QUEUES]; /* since the last kick */
  unsigned char *slots;
  struct frag *frags, *free_frags;
  struct frag *active_head, *active_tail;
  struct io_list pending, parked, completed;
  unsigned outstanding; /* ios submitted and not taken back (async) */
  struct lane_conn *conns;
  uint64_t next_scan_ns;
  uint64_t wait_ewma_ns; /* how long waits took lately */

  int wake_fd;
  _Atomic bool woken;

  _Atomic uint64_t reads, writes, errors, bytes_read, bytes_written;
  _Atomic uint64_t inflight, poll_hits, sleeps;
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

/* Of a write to several copies, and before what is held of fp_volume.overlap
 * is let go: it was not done everywhere.
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

/* lane_copies.c, with the lock held: pieces that have several copies */

/* Of io the next `left` bytes, or fewer, which are at linear address at: what
 * was done or is under way is counted in io->issued.
 */
enum issue lane_issue_copies (struct fp_lane *lane, struct fp_io *io,
                              uint64_t at, uint64_t left);
/* A fragment of a write to several copies is over, and inside its piece still.
 */
void lane_copy_written (struct fp_lane *lane, struct frag *f);
/* All of them are, of which this is the head. */
void lane_copies_written (struct fp_lane *lane, struct frag *head);

/* lane_issue.c, with the lock held */

void lane_frag_put (struct fp_lane *lane, struct frag *f);
/* So much of left can go in one fragment to a copy that is reached by ops. */
uint32_t lane_frag_size (const struct fp_lane *lane,
                         const struct fp_transport_ops *ops, uint64_t left);
/* Start the transfer of f, the first free fragment, whose op has kind, length
 * and local, to or from the copy at p, which was entered; at: the address of
 * that entry.
 */
enum issue lane_post (struct fp_lane *lane, struct frag *f, struct fp_io *io,
                      struct fp_piece *p, uint64_t at);
/* A run that lies in one READY copy, which was entered.  Returns its length,
 * or 0 with *out saying why not.
 */
uint32_t lane_issue_frag (struct fp_lane *lane, struct fp_io *io,
                          struct fp_piece *p, uint64_t at, uint32_t left,
                          enum issue *out);

/* One round: collect, decide, issue.  Returns true if anything completed. */
bool lane_progress (struct fp_lane *lane);

/* lane_wait.c, with the lock held */

/* What to poll before sleeping, the wake-up first; true: do not sleep. */
bool lane_arm (struct fp_lane *lane, struct pollfd fds[NR_QUEUES + 1],
               nfds_t *nr);

#endif /* FP_LANE_INT_H */
