/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memlock.h"
#include "base/sync.h"
#include "base/thread.h"
#include "extent/stripe.h"
#include "heal/check.h"
#include "heal/migrate_int.h"
#include "peer/peer.h"

#define AGAIN_MS 2          /* pause between two tries, for others' requests */
#define PATIENCE_TIMEOUTS 4 /* a block is tried for `timeout` times this */

/* Results for a block. */
enum { SAME, DIFFERS, MENDED };

struct fp_check {
  struct fp_engine *e;
  struct fp_lane *lane; /* shared with the migration thread */
  _Atomic bool stop;

  pthread_mutex_t lock; /* protects what follows */
  pthread_cond_t cond;
  struct fp_thread thread;
  bool joinable;
  struct fp_check_status status;
  uint64_t start_ns;

  /* Used by the check thread only. */
  struct fp_block *top; /* the layers above the engine, or itself */
  bool repair;
  uint64_t rate, next_ns;
  unsigned char *memory;

  /* The block that is being checked. */
  uint64_t i, in;
  uint32_t length;
  uint8_t set;          /* in-sync copies that were entered */
  bool held;            /* the block is locked, the copies are entered */
  bool late;            /* transfers under way were told to end */
  bool seen;            /* did differ, and is not repaired yet */
  bool tired;           /* another block of the extent timed out */
  uint64_t deadline_ns; /* when the block is unlocked at the latest */
  uint64_t differs_at;  /* first byte that differs */
  struct fp_io ios[FP_MAX_COPIES];
};

static struct fp_extent *
copy_at (struct fp_check *c, unsigned copy)
{
  return fp_copies_get (c->e->extents, c->i, copy);
}

static bool
is_over (struct fp_check *c)
{
  return atomic_load (&c->stop) || fp_lease_is_fenced (c->e->lease);
}

/* Make the thread end.  Call with the lock held. */
static void
tell_to_stop (struct fp_check *c)
{
  atomic_store (&c->stop, true);
  pthread_cond_broadcast (&c->cond);
  fp_notifier_raise (&c->e->extents->changes);
}

static void
pause_ms (struct fp_check *c, unsigned ms)
{
  struct timespec until;

  fp_timespec_after (&until, ms);
  FP_LOCK_SCOPE (&c->lock);
  if (!atomic_load (&c->stop))
    (void) pthread_cond_timedwait (&c->cond, &c->lock, &until);
}

/* ---- one block: locking ---- */

static void
leave (struct fp_check *c, uint8_t set)
{
  for (unsigned k = 0; k < c->e->extents->copies; k++)
    if (set >> k & 1)
      fp_extent_leave (c->e->extents, copy_at (c, k));
}

static bool
enter (struct fp_check *c)
{
  struct fp_extents *t = c->e->extents;
  uint8_t in = 0;

  for (unsigned k = 0; k < t->copies; k++) {
    struct fp_extent *p = copy_at (c, k);

    if (!(c->set >> k & 1))
      continue;
    /* Enter as the migration thread does, so that it does not count as use. */
    if (fp_extent_state (p) != FP_EXTENT_READY ||
        fp_extent_enter_frozen (t, p) != FP_EXTENT_READY)
      break;
    in |= (uint8_t) (1u << k);
  }
  if (in == c->set && fp_copies_in_sync (t, c->i) == c->set)
    return true;
  leave (c, in);
  return false;
}

/* Enter the copies and lock the block.  -ENOENT: it was trimmed.  -ENODATA:
 * there are no two copies.  -EAGAIN: try again.
 */
static int
hold (struct fp_check *c)
{
  struct fp_extents *t = c->e->extents;

  c->set = fp_copies_in_sync (t, c->i);
  if (c->set == 0)
    return -ENOENT;
  if ((c->set & (c->set - 1)) == 0)
    return -ENODATA;
  if (fp_copies_bad (t, c->i, c->set) != 0 || !enter (c)) {
    fp_mirror_poke (c->e); /* like a write: one may have died */
    return -EAGAIN;
  }
  if (!fp_engine_lock (c->e, c->i, c->in, c->length)) {
    leave (c, c->set);
    return -EAGAIN;
  }
  c->held = true;
  c->late = false;
  c->deadline_ns = fp_deadline_in_ms (migrate_pause_ms (c->e));
  return 0;
}

static void
let_go (struct fp_check *c)
{
  if (!c->held)
    return;
  c->held = false;
  fp_engine_unlock (c->e, c->i, c->in, c->length);
  leave (c, c->set);
}

/* ---- one block: transfers ---- */

static unsigned char *
memory_of (struct fp_check *c, unsigned copy)
{
  return c->memory + (size_t) copy * FP_CHECK_BLOCK;
}

static unsigned
first_of (uint8_t set)
{
  return (unsigned) __builtin_ctz (set);
}

static bool
must_end (struct fp_check *c)
{
  if (is_over (c) || fp_deadline_passed (c->deadline_ns))
    return true;
  for (unsigned k = 0; k < c->e->extents->copies; k++) {
    enum fp_extent_state s = fp_extent_state (copy_at (c, k));

    if ((c->set >> k & 1) && s != FP_EXTENT_READY && s != FP_EXTENT_FROZEN)
      return true;
  }
  return false;
}

static void
begin (struct fp_check *c, struct fp_lane *lane, unsigned copy,
       enum fp_io_kind kind, void *buf, uint32_t length)
{
  struct fp_extents *t = c->e->extents;

  c->ios[copy] = (struct fp_io) {
    .kind = kind,
    .length = length,
    .offset = (fp_copies_entry (t, c->i, copy) << t->shift) + c->in,
    .buf = buf,
    .forced = length == 1,
    .linear = true,
    .migrate = true,
    .target = copy_at (c, copy),
  };
  fp_lane_sync_begin (lane, &c->ios[copy]);
}

/* Return true once io is done, false if it must be cancelled. */
static bool
await_io (struct fp_check *c, struct fp_lane *lane, const struct fp_io *io)
{
  for (;;) {
    uint32_t seen = fp_notifier_count (&c->e->extents->changes);

    if (c->late)
      return fp_lane_sync_await (lane, io, NULL, FP_NEVER);
    if (must_end (c))
      return false;
    if (fp_lane_sync_await (lane, io, &seen, c->deadline_ns))
      return true;
  }
}

/* Wait until the transfers of these copies are done.  If that takes too long,
 * cancel them, and unlock the block unless they are writes.
 */
static int
await (struct fp_check *c, struct fp_lane *lane, uint8_t set)
{
  int r = 0;

  for (unsigned k = 0; k < c->e->extents->copies; k++) {
    if (!(set >> k & 1))
      continue;
    if (!await_io (c, lane, &c->ios[k])) {
      c->late = true;
      for (unsigned n = k; n < c->e->extents->copies; n++)
        if (set >> n & 1)
          fp_lane_sync_cancel (lane, &c->ios[n]);
      if (c->ios[k].kind == FP_IO_READ)
        let_go (c);
      (void) fp_lane_sync_await (lane, &c->ios[k], NULL, FP_NEVER);
    }
    if (c->ios[k].status < 0)
      r = -EAGAIN;
  }
  return c->late ? -EAGAIN : r;
}

static int
read_all (struct fp_check *c)
{
  for (unsigned k = 0; k < c->e->extents->copies; k++)
    if (c->set >> k & 1)
      begin (c, c->lane, k, FP_IO_READ, memory_of (c, k), c->length);
  return await (c, c->lane, c->set);
}

/* Return the copies that differ from the first one. */
static uint8_t
compare (struct fp_check *c)
{
  unsigned first = first_of (c->set);
  const unsigned char *a = memory_of (c, first);
  uint64_t at = c->length;
  uint8_t differ = 0;

  for (unsigned k = first + 1; k < c->e->extents->copies; k++) {
    const unsigned char *b = memory_of (c, k);
    uint32_t n = 0;

    if (!(c->set >> k & 1) || memcmp (a, b, c->length) == 0)
      continue;
    differ |= (uint8_t) (1u << k);
    while (a[n] == b[n])
      n++;
    at = FP_MIN (at, (uint64_t) n);
  }
  c->differs_at = c->in + at;
  return differ;
}

/* Make later reads see every write that was acknowledged to any lane. */
static int
flush (struct fp_check *c)
{
  struct fp_engine *e = c->e;
  unsigned char byte;

  for (unsigned n = 0; n < e->p->lanes; n++)
    for (unsigned k = 0; k < e->extents->copies; k++) {
      unsigned server;
      uint64_t at, mark;

      if (!(c->set >> k & 1))
        continue;
      server = atomic_load (&copy_at (c, k)->server);
      mark = fp_lane_unflushed (e->lanes[n], server, &at);
      if (mark == 0)
        continue;
      begin (c, e->lanes[n], k, FP_IO_READ, &byte, 1);
      if (await (c, e->lanes[n], (uint8_t) (1u << k)) < 0 ||
          !fp_lane_flushed (e->lanes[n], server, mark))
        return -EAGAIN;
    }
  return 0;
}

/* Return true if no write or zeroing is in some copies only, or was when they
 * were read.  One that is counts as unsettled from before it unlocks its range
 * until it is over.  If it failed, the extent is marked as diverged before
 * that.
 */
static bool
is_settled (struct fp_check *c)
{
  return atomic_load (&c->e->unsettled) == 0 &&
         !atomic_load (&c->e->extents->p[c->i].diverged) &&
         fp_copies_in_sync (c->e->extents, c->i) == c->set;
}

static int
mend (struct fp_check *c, uint8_t differ)
{
  struct fp_engine *e = c->e;
  void *right = memory_of (c, first_of (c->set));
  int r;

  for (unsigned k = 0; k < e->extents->copies; k++)
    if (differ >> k & 1)
      begin (c, c->lane, k, FP_IO_WRITE, right, c->length);
  r = await (c, c->lane, differ);
  /* A copy that is being moved, or that is the source of a resync, has
   * changed.
   */
  for (unsigned k = 0; k < e->extents->copies; k++)
    if (differ >> k & 1)
      fp_extent_wrote (e->extents, fp_copies_entry (e->extents, c->i, k),
                       c->in, c->length);
  /* A write that was sent and failed may land later, on top of what another
   * lane has written by then.  So the copy is resynced over this lane.  The
   * server accepts the lane's next connection only when the last one is over.
   */
  for (unsigned k = 0; k < e->extents->copies; k++)
    if ((differ >> k & 1) && c->ios[k].failed)
      (void) fp_mirror_failed (e, fp_copies_entry (e->extents, c->i, k));
  fp_copies_missed (e->extents, c->i, c->in, c->length, c->set);
  if (r == 0)
    r = read_all (c);
  if (r == 0)
    r = compare (c) == 0 ? MENDED : -EAGAIN;
  return r;
}

static int
look_held (struct fp_check *c)
{
  uint64_t at;
  uint8_t differ = 0;
  int r = read_all (c);

  if (r == 0)
    differ = compare (c);
  if (r < 0 || differ == 0)
    return r;
  r = flush (c);
  if (r == 0)
    r = read_all (c);
  if (r < 0)
    return r;
  differ = compare (c);
  if (differ == 0)
    return SAME;
  if (!is_settled (c))
    return -EAGAIN;
  /* If a layer knows which copy is right, the caller lets it repair. */
  if (!c->repair || fp_block_repairer (c->top) != NULL)
    return DIFFERS;
  c->seen = true;
  at = c->differs_at;
  r = mend (c, differ);
  c->differs_at = at;
  return r;
}

/* Return true if a copy is lost, or its server was lost more than `timeout`
 * ago.
 */
static bool
is_given_up (struct fp_check *c)
{
  for (unsigned k = 0; k < c->e->extents->copies; k++) {
    struct fp_extent *p = copy_at (c, k);

    if ((c->set >> k & 1) &&
        (fp_extent_state (p) == FP_EXTENT_LOST ||
         fp_peer_given_up (c->e->peers->at[atomic_load (&p->server)])))
      return true;
  }
  return false;
}

/* Check the block.  Return SAME, DIFFERS or MENDED; -ENOENT or -ENODATA, as
 * hold; -ETIMEDOUT; or -ECANCELED.
 */
static int
look (struct fp_check *c)
{
  unsigned patience = c->tired ? 0 : PATIENCE_TIMEOUTS * c->e->p->timeout_ms;
  uint64_t deadline = fp_deadline_in_ms (patience);

  c->seen = false;
  for (;;) {
    int r = hold (c);

    if (r == 0) {
      r = look_held (c);
      let_go (c);
    }
    if (is_over (c))
      return c->seen ? DIFFERS : -ECANCELED;
    /* The repair took effect without an answer, or others have written it. */
    if (r == SAME && c->seen)
      return MENDED;
    if (r >= 0)
      return r;
    if (r == -ENOENT || r == -ENODATA)
      return c->seen ? DIFFERS : r;
    if (is_given_up (c) || fp_deadline_passed (deadline))
      return c->seen ? DIFFERS : -ETIMEDOUT;
    pause_ms (c, AGAIN_MS);
  }
}

/* ---- all blocks ---- */

/* Call with the lock held. */
static void
note_offset (struct fp_check_status *s, uint64_t offset)
{
  unsigned n = s->nr_offsets;

  if (n == FP_CHECK_OFFSETS && s->offsets[n - 1] <= offset)
    return;
  if (n < FP_CHECK_OFFSETS)
    s->nr_offsets = n + 1;
  else
    n--;
  for (; n > 0 && s->offsets[n - 1] > offset; n--)
    s->offsets[n] = s->offsets[n - 1];
  s->offsets[n] = offset;
}

static void
note (struct fp_check *c, int r)
{
  FP_LOCK_SCOPE (&c->lock);
  struct fp_check_status *s = &c->status;

  if (r < 0) {
    s->skipped++;
    return;
  }
  s->compared++;
  s->all_compared++;
  if (r == SAME)
    return;
  s->differ++;
  s->all_differ++;
  note_offset (s, fp_stripe_offset (c->e->extents, c->i, c->differs_at));
  if (r == MENDED) {
    s->repaired++;
    s->all_repaired++;
  }
}

static void
note_degraded (struct fp_check *c)
{
  FP_LOCK_SCOPE (&c->lock);
  c->status.degraded++;
}

static void
keep_to_rate (struct fp_check *c)
{
  if (c->rate == 0)
    return;
  c->next_ns =
      FP_MAX (c->next_ns, fp_now_ns ()) + c->length * FP_NS_PER_S / c->rate;
  while (!is_over (c) && !fp_deadline_passed (c->next_ns))
    pause_ms (c, (unsigned) FP_MAX (
                     FP_MIN (fp_deadline_left_ms (c->next_ns), 100), 1));
}

/* Find the next block of extent c->i, from c->in on, that was ever written. */
static bool
next_block (struct fp_check *c)
{
  struct fp_extents *t = c->e->extents;
  uint64_t end = fp_extent_length (t, c->i), run;

  while (c->in < end) {
    if (fp_extent_run (t, c->i, c->in, end - c->in, &run)) {
      c->length = (uint32_t) FP_MIN (run, (uint64_t) FP_CHECK_BLOCK);
      return true;
    }
    c->in += run;
  }
  return false;
}

/* Let the layer that knows which copy is right repair the block, which may lie
 * in several stripe units.
 */
static int
repair_above (struct fp_check *c)
{
  struct fp_block *b = fp_block_repairer (c->top);
  const struct fp_extents *t = c->e->extents;
  uint64_t unit = UINT64_C (1) << t->unit_shift, n;
  int result = -EAGAIN;

  if (b == NULL)
    return -EOPNOTSUPP;
  for (uint64_t at = c->in; at < c->in + c->length; at += n) {
    int r;

    n = FP_MIN (unit - at % unit, c->in + c->length - at);
    r = b->ops->repair (b, n, fp_stripe_offset (t, c->i, at));
    if (r == 0)
      result = 0;
    else if (r != -EAGAIN)
      return r;
  }
  return result;
}

static void
check_extent (struct fp_check *c)
{
  struct fp_extents *t = c->e->extents;
  bool degraded = false;

  c->tired = false;
  /* Stop if the extent is trimmed: what was compared of it is gone, too. */
  for (c->in = 0; !is_over (c) && next_block (c); c->in += c->length) {
    uint8_t in_sync = fp_copies_in_sync (t, c->i);
    int r;

    if (in_sync == 0)
      return;
    if (in_sync != fp_copies_all (t) && !degraded) {
      note_degraded (c);
      degraded = true;
    }
    r = look (c);
    if (r == -ECANCELED || r == -ENOENT)
      return;
    if (r == DIFFERS && c->repair && repair_above (c) == 0)
      r = MENDED;
    note (c, r);
    c->tired = r == -ETIMEDOUT;
    if (r != -ENODATA)
      keep_to_rate (c);
  }
}

static uint64_t
count_blocks (struct fp_check *c)
{
  struct fp_extents *t = c->e->extents;
  uint64_t n = 0;

  for (c->i = 0; c->i < t->nr; c->i++)
    for (c->in = 0; fp_copies_in_sync (t, c->i) != 0 && next_block (c);
         c->in += c->length)
      n++;
  return n;
}

static void
check_main (void *arg)
{
  struct fp_check *c = arg;
  uint64_t blocks = count_blocks (c);

  {
    FP_LOCK_SCOPE (&c->lock);
    c->status.blocks = blocks;
  }
  for (c->i = 0; c->i < c->e->extents->nr && !is_over (c); c->i++)
    check_extent (c);
  munmap (c->memory, (size_t) FP_CHECK_BLOCK * c->e->extents->copies);
  FP_LOCK_SCOPE (&c->lock);
  c->status.since_ns = fp_now_ns () - c->start_ns;
  if (fp_lease_is_fenced (c->e->lease)) {
    c->status.state = FP_CHECK_FAILED;
    snprintf (c->status.why, sizeof c->status.why,
              "fenced: another client has taken the volume over");
  }
  else
    c->status.state =
        atomic_load (&c->stop) ? FP_CHECK_CANCELLED : FP_CHECK_DONE;
}

/* ---- starting and ending it ---- */

/* Join a thread that has ended its check.  The lock may be held: that thread
 * does not take it again.
 */
static void
join (struct fp_check *c)
{
  if (c->joinable && fp_thread_join (&c->thread) < 0)
    abort (); /* joined twice: a bug */
  c->joinable = false;
}

static int
start (struct fp_check *c, bool repair, uint64_t rate)
{
  struct fp_check_status *s = &c->status;
  size_t size = (size_t) FP_CHECK_BLOCK * c->e->extents->copies;
  void *memory;
  int r;

  join (c);
  r = fp_map_filled (&memory, size);
  if (r < 0)
    return r;
  c->memory = memory;
  *s = (struct fp_check_status) {
    .state = FP_CHECK_RUNNING,
    .number = s->number + 1,
    .repair = repair,
    .block_size = FP_CHECK_BLOCK,
    .all_compared = s->all_compared,
    .all_differ = s->all_differ,
    .all_repaired = s->all_repaired,
  };
  c->repair = repair;
  c->rate = rate != 0 ? rate : c->e->p->move_rate;
  c->next_ns = 0;
  c->start_ns = fp_now_ns ();
  atomic_store (&c->stop, false);
  r = fp_thread_create (&c->thread, "fp-check", check_main, c);
  c->joinable = r == 0;
  if (r < 0) {
    munmap (c->memory, size);
    s->state = FP_CHECK_FAILED;
    snprintf (s->why, sizeof s->why, "cannot create a thread: %s",
              strerror (-r));
  }
  return r;
}

int
fp_check_start (struct fp_check *c, struct fp_block *top, bool repair,
                uint64_t rate, struct fp_error *error)
{
  struct fp_engine *e = c->e;
  int r;

  error->text[0] = '\0';
  if (e->p->read_only)
    return fp_fail (error, -EROFS,
                    FP_READ_ONLY_WHY "attach it read-write to check it");
  if (!fp_copies_several (e->extents))
    return fp_fail (
        error, -EINVAL,
        "the volume has one copy of each extent (copies=1): there is "
        "nothing to compare");
  FP_LOCK_SCOPE (&c->lock);
  if (c->status.state == FP_CHECK_RUNNING)
    return fp_fail (error, -EBUSY,
                    "a check of this volume is already running");
  c->top = top;
  r = start (c, repair, rate);
  if (r < 0)
    fp_fail (error, r, "cannot start the check: %s", strerror (-r));
  return r;
}

int
fp_check_cancel (struct fp_check *c, struct fp_error *error)
{
  error->text[0] = '\0';
  FP_LOCK_SCOPE (&c->lock);
  if (c->status.state != FP_CHECK_RUNNING)
    return fp_fail (error, -ENOENT, "no check of this volume is running");
  tell_to_stop (c);
  return 0;
}

void
fp_check_status (struct fp_check *c, struct fp_check_status *s)
{
  uint64_t done;

  FP_LOCK_SCOPE (&c->lock);
  *s = c->status;
  if (s->state != FP_CHECK_RUNNING)
    return;
  s->since_ns = fp_now_ns () - c->start_ns;
  done = s->compared + s->skipped;
  if (done > 0 && s->blocks > done)
    s->left_ns = s->since_ns / done * (s->blocks - done);
}

int
fp_check_new (struct fp_check **out, struct fp_engine *e)
{
  struct fp_check *c = calloc (1, sizeof *c);

  if (c == NULL)
    return -ENOMEM;
  c->e = e;
  c->lane = fp_engine_heal_lane (e);
  fp_mutex_init (&c->lock);
  fp_cond_init (&c->cond);
  *out = c;
  return 0;
}

void
fp_check_stop (struct fp_check *c)
{
  if (c == NULL || !c->joinable)
    return;
  {
    FP_LOCK_SCOPE (&c->lock);
    tell_to_stop (c);
  }
  join (c);
}

void
fp_check_free (struct fp_check *c)
{
  if (c == NULL)
    return;
  pthread_cond_destroy (&c->cond);
  pthread_mutex_destroy (&c->lock);
  free (c);
}
