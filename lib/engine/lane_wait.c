/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_wait.c - requests enter the engine here, and wait for their end. */

#include <config.h>

#include <assert.h>
#include <sched.h>
#include <string.h>

#include "base/checked.h"
#include "engine/lane_int.h"
#include "extent/stripe.h"
#include "transport/local/mapped.h"

bool
lane_arm (struct fp_lane *lane)
{
  if (!fp_wakeup_empty (&lane->wake) || atomic_load (&lane->woken))
    return true; /* look again */
  for (unsigned i = 0; i < NR_QUEUES; i++) {
    struct fp_queue *q = lane->queues[i];

    if (q != NULL && q->ops->arm (q))
      return true;
  }
  return false;
}

static bool
is_done (struct fp_lane *lane, const void *io)
{
  (void) lane;
  return ((const struct fp_io *) io)->done;
}

static bool
has_completed (struct fp_lane *lane, const void *arg)
{
  (void) arg;
  return lane->completed.head != NULL || lane->outstanding == 0;
}

/* Return true if the wait must end although w is not over: at its deadline, or
 * at a change.
 */
static bool
is_interrupted (const struct fp_lane *lane, const struct lane_wait *w)
{
  if (w->seen != NULL &&
      fp_notifier_count (&lane->e->extents->changes) != *w->seen)
    return true;
  return w->deadline_ns != FP_NEVER && fp_deadline_passed (w->deadline_ns);
}

/* Return how long the polling thread may sleep: until the next scan, the next
 * hedge or the deadline of w.
 */
static struct timespec
sleep_time (struct fp_lane *lane, const struct lane_wait *w, uint64_t now)
{
  uint64_t until = FP_MIN (lane->next_scan_ns, w->deadline_ns);
  uint64_t ns;

  if (lane->hedging)
    until = FP_MIN (until, lane_hedge_next (lane));
  lane->sleep_until_ns = until;
  ns = until > now ? until - now : 0;
  return (struct timespec) { .tv_sec = (time_t) (ns / FP_NS_PER_S),
                             .tv_nsec = (long) (ns % FP_NS_PER_S) };
}

bool
lane_may_poll (const struct fp_lane *lane)
{
  for (unsigned i = 0; i < NR_QUEUES; i++)
    if (lane->queues[i] != NULL &&
        atomic_load_explicit (&lane->queues[i]->sleep_at_once,
                              memory_order_relaxed))
      return false;
  return true;
}

/* Poll for all threads until w is over or interrupted. */
static void
poll_for_all (struct fp_lane *lane, const struct lane_wait *w)
{
  /* Not fp_now_ns, which stands still until the fp-clock thread runs. */
  uint64_t start = fp_mono_ns (), now = start;
  uint64_t budget = (uint64_t) lane->e->p->poll_us * 1000;
  struct pollfd fds[] = { { .fd = lane->wake.fd, .events = POLLIN },
                          { .fd = lane->epoll, .events = POLLIN } };
  struct timespec until;
  bool slept = false;

  /* Polling pays if the answer usually comes while we poll. */
  if (lane->wait_ewma_ns > budget + budget / 2)
    budget = 0;
  if (!lane_may_poll (lane))
    budget = 0;

  for (;;) {
    lane_progress (lane);
    if (w->is_over (lane, w->arg) || is_interrupted (lane, w))
      break;
    now = fp_mono_ns ();
    if (atomic_load_explicit (&lane->knocking, memory_order_relaxed) > 0) {
      lane_unlock (lane);
      sched_yield ();
      fp_lock (&lane->lock);
      continue;
    }
    if (now - start < budget)
      continue;
    if (lane_arm (lane))
      continue;
    slept = lane->asleep = true;
    until = sleep_time (lane, w, fp_now_ns ());
    lane_unlock (lane);
    /* An error or a timeout both mean: look again. */
    (void) ppoll (fds, sizeof fds / sizeof fds[0], &until, NULL);
    fp_lock (&lane->lock);
    lane->asleep = false;
  }
  now = fp_mono_ns ();
  lane->wait_ewma_ns += (now - start) / 8;
  lane->wait_ewma_ns -= lane->wait_ewma_ns / 8;
  fp_counter_add (slept ? &lane->sleeps : &lane->poll_hits, 1);
}

/* Make progress until w is over.  Return false if it was interrupted. */
static bool
wait_for (struct fp_lane *lane, const struct lane_wait *w)
{
  while (!w->is_over (lane, w->arg)) {
    if (is_interrupted (lane, w))
      return false;
    if (lane->polling) {
      lane->sleepers++;
      (void) fp_cond_wait_until (&lane->cond, &lane->lock, w->deadline_ns);
      lane->sleepers--;
      continue;
    }
    lane->polling = true;
    poll_for_all (lane, w);
    lane->polling = false;
    lane_front_wake (lane); /* no other thread polls now */
    if (lane->sleepers > 0)
      pthread_cond_broadcast (&lane->cond);
  }
  return true;
}

static void
wait_for_io (struct fp_lane *lane, const struct fp_io *io)
{
  if (io->done)
    return;
  (void) wait_for (lane, &(struct lane_wait) {
                             .is_over = is_done,
                             .arg = io,
                             .deadline_ns = FP_NEVER,
                         });
}

bool
lane_await (struct fp_lane *lane, const struct lane_wait *w)
{
  bool over;

  lane->watchers++;
  over = wait_for (lane, w);
  lane->watchers--;
  return over;
}

static void
enqueue (struct fp_lane *lane, struct fp_io *io)
{
  io->status = 0;
  io->issued = io->inflight = io->saying = 0;
  io->tries = io->breaks = 0;
  io->asked_ns = 0;
  io->done = io->redo = io->failed = io->broke = false;
  io->spread = io->unsettled = io->waited = false;
  io->queued = true;
  if (io->front && io->made_ns == 0)
    io->made_ns = fp_mono_ns ();
  fp_counter_add (&lane->inflight, 1);
  /* A forced io makes earlier writes visible.  It must not wait for later
   * writes: these may wait for the thread that issued it.
   */
  if (io->forced)
    list_push_front (&lane->pending, io);
  else
    list_push (&lane->pending, io);
}

void
fp_lane_start (struct fp_lane *lane, struct fp_io *io)
{
  io->sync = io->forced = false;
  io->start_ns = fp_now_ns ();
  io->made_ns = 0;
  io->front = io->kind == FP_IO_WRITE && !io->migrate;
  assert (lane_kind_for (lane, io->buf) == FRAG_USUAL ||
          lane_kind_for (lane, (char *) io->buf + io->length - 1) ==
              FRAG_BARE);
  LANE_LOCK_SCOPE (lane);
  lane->outstanding++;
  enqueue (lane, io);
  lane->fresh = true;
  lane_front_wake (lane);
}

struct fp_io *
fp_lane_collect (struct fp_lane *lane, uint64_t deadline_ns)
{
  struct fp_io *ios;

  LANE_LOCK_SCOPE (lane);
  atomic_store (&lane->front_asleep, false);
  lane_progress (lane);
  (void) wait_for (lane, &(struct lane_wait) {
                             .is_over = has_completed,
                             .deadline_ns = deadline_ns,
                         });
  ios = lane->completed.head;
  for (struct fp_io *io = ios; io != NULL; io = io->next)
    lane->outstanding--;
  list_init (&lane->completed);
  return ios;
}

static int
run_sync (struct fp_lane *lane, struct fp_io *io)
{
  io->sync = true;
  LANE_LOCK_SCOPE (lane);
  enqueue (lane, io);
  /* Send io before this thread waits: the polling thread may be asleep. */
  lane_progress (lane);
  wait_for_io (lane, io);
  return io->status;
}

/* Copy a run of one extent.  Return false if io must take the normal way. */
static inline bool
copy_run (struct fp_lane *lane, enum fp_io_kind kind, void *buf,
          uint32_t length, uint64_t at)
{
  struct fp_extents *t = lane->e->extents;
  uint64_t i = at >> t->shift, in = at & (t->extent_size - 1);
  struct fp_extent *p = &t->p[i];
  bool did = false;
  uint64_t run;

  if (fp_extent_enter (t, p) != FP_EXTENT_READY)
    return false;
  if (p->copy.remote.map != NULL) {
    unsigned char *far = (unsigned char *) p->copy.remote.map + in;
    int r = 0;

    if (kind == FP_IO_WRITE) {
      fp_extent_set_written (t, i, in, length);
      r = fp_mapped_copy (far, buf, length);
      fp_extent_wrote (t, i, in, length);
    }
    else if (!fp_extent_run (t, i, in, length, &run) && run == length) {
      memset (buf, 0, length);
    }
    else {
      r = fp_mapped_copy (buf, far, length);
    }
    /* The coarse clock lags by one tick at most.  The lease is kept an eighth
     * short for cases like this.  The precise clock would cost a tenth of all
     * this.
     */
    did = r == 0 && fp_lease_covers_mapped (lane->e->lease, p->copy.server,
                                            fp_mono_coarse_ns ());
  }
  fp_extent_leave (t, p);
  return did;
}

/* Copy by loads and stores if all extents are mapped: no lock, no fragment.
 * Return false if one is not; the caller then does everything over.
 */
static bool
copy_direct (struct fp_lane *lane, enum fp_io_kind kind, void *buf,
             uint32_t length, uint64_t offset)
{
  const struct fp_extents *t = lane->e->extents;
  unsigned char *user = buf;

  for (;;) {
    uint64_t run, at = fp_stripe_at (t, offset, &run);
    uint32_t n = (uint32_t) FP_MIN ((uint64_t) length, run);

    if (!copy_run (lane, kind, user, n, at))
      return false;
    if (n == length)
      return true;
    user += n;
    offset += n;
    length -= n;
  }
}

static int
lane_io (struct fp_block *b, struct fp_block_request *r, enum fp_io_kind kind)
{
  struct fp_engine *e = fp_engine_of (b);
  struct fp_lane *lane = e->lanes[r->lane];
  uint32_t length = (uint32_t) r->length;
  struct fp_io io;

  assert (r->length > 0 && r->length <= FP_MAX_IO);
  /* Writes to several copies must be ordered: lane_copies.c. */
  if (atomic_load_explicit (&lane->maps, memory_order_relaxed) &&
      e->extents->copies == 1 &&
      !(r->made_ns != 0 && fp_block_is_stale (b, r->made_ns)) &&
      copy_direct (lane, kind, r->buf, length, r->offset))
    return 0;
  if (r->start_ns == 0)
    r->start_ns = fp_now_ns ();
  io = (struct fp_io) {
    .kind = kind,
    .length = length,
    .offset = r->offset,
    .buf = r->buf,
    .start_ns = r->start_ns,
    .made_ns = r->made_ns,
    .front = kind == FP_IO_WRITE,
  };
  return run_sync (lane, &io);
}

int
lane_read (struct fp_block *b, struct fp_block_request *r)
{
  return lane_io (b, r, FP_IO_READ);
}

int
lane_write (struct fp_block *b, struct fp_block_request *r)
{
  return lane_io (b, r, FP_IO_WRITE);
}

int
lane_read_copy (struct fp_block *b, struct fp_block_request *r, unsigned copy)
{
  struct fp_lane *lane = fp_engine_of (b)->lanes[r->lane];
  struct fp_io io = {
    .kind = FP_IO_READ,
    .length = (uint32_t) r->length,
    .offset = r->offset,
    .buf = r->buf,
    .only = (uint8_t) (1u << copy),
    .hasty = true,
    .start_ns = fp_now_ns (),
  };

  return run_sync (lane, &io);
}

int
fp_lane_write_at (struct fp_lane *lane, const void *buf, uint32_t length,
                  uint64_t at, uint64_t made_ns)
{
  struct fp_io io = {
    .kind = FP_IO_WRITE,
    .length = length,
    .offset = at,
    .buf = (void *) (uintptr_t) buf,
    .linear = true,
    .start_ns = fp_now_ns (),
    .made_ns = made_ns,
    .front = true,
  };

  return run_sync (lane, &io);
}

struct fp_io
lane_placing_io (const struct fp_engine *e, void *buf, uint32_t length,
                 uint64_t at)
{
  return (struct fp_io) {
    .kind = FP_IO_READ,
    .length = length,
    .offset = at,
    .buf = buf,
    .forced = true,
    .linear = true,
    /* If this server is away, another copy has the writes in question. */
    .hasty = fp_copies_several (e->extents),
    .start_ns = fp_now_ns (),
  };
}

int
fp_lane_sync_read (struct fp_lane *lane, void *buf, uint32_t length,
                   uint64_t at)
{
  struct fp_io io = lane_placing_io (lane->e, buf, length, at);

  return run_sync (lane, &io);
}

void
fp_lane_sync_begin (struct fp_lane *lane, struct fp_io *io)
{
  io->sync = true;
  io->front = false;
  io->made_ns = 0;
  io->start_ns = fp_now_ns ();
  LANE_LOCK_SCOPE (lane);
  enqueue (lane, io);
  lane_progress (lane);
}

bool
fp_lane_sync_await (struct fp_lane *lane, const struct fp_io *io,
                    const uint32_t *seen, uint64_t deadline_ns)
{
  const struct lane_wait w = {
    .is_over = is_done,
    .arg = io,
    .deadline_ns = deadline_ns,
    .seen = seen,
  };

  LANE_LOCK_SCOPE (lane);
  /* The end of io wakes this thread.  A change does so only if asked. */
  return seen == NULL ? wait_for (lane, &w) : lane_await (lane, &w);
}

static bool
is_outside (struct fp_lane *lane, const void *p)
{
  for (const struct frag *f = lane->active_head; f != NULL; f = f->next)
    if (f->extent == p)
      return false;
  return true;
}

bool
fp_lanes_drain (struct fp_engine *e, struct fp_extent *p, uint64_t deadline_ns)
{
  for (unsigned i = 0;
       (atomic_load (&p->word) & FP_EXTENT_USERS) != 0 && i < e->nr_lanes;
       i++) {
    struct fp_lane *lane = e->lanes[i];

    LANE_LOCK_SCOPE (lane);
    if (!lane_await (lane, &(struct lane_wait) {
                               .is_over = is_outside,
                               .arg = p,
                               .deadline_ns = deadline_ns,
                           }))
      return false;
  }
  /* The operations that are left do one load or store of mapped memory, or
   * their threads wait for the transfers.
   */
  return fp_extent_drained (e->extents, p, deadline_ns);
}

void
fp_lane_sync_cancel (struct fp_lane *lane, struct fp_io *io)
{
  {
    LANE_LOCK_SCOPE (lane);
    if (io->done)
      return;
    if (io->status == 0)
      io->status = -ECANCELED;
  }
  fp_lane_wake (lane); /* io may be parked */
}
