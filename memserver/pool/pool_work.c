/* SPDX-License-Identifier: BSD-3-Clause */
/* pool_work.c - the worker, the thread that works on the slabs of the pool.
 *
 * In this order it zeroes ranges that a client waits for, moves slabs, scrubs
 * slabs, makes slabs present that another server left, and populates slabs.
 * All is done in steps, so that urgent work does not wait for long.  Ranges
 * take turns, and so do the kinds of work (weighted round robin).  So a client
 * that zeroes without end holds up no other work.
 *
 * While this host is short of memory (pool_press) nothing is populated.  A
 * half populated slab shrinks again.  A slab to scrub loses its memory, which
 * scrubs it, too, and this comes first.
 */

#include <config.h>

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "base/tsan.h"
#include "memserver/pool/host.h"
#include "memserver/pool/pool_int.h"

#define PAUSE_DOUBLINGS 4u /* the pause starts at 1 s */

/* 125 MB/s: leave time to notice other programs that allocate meanwhile. */
#define GENTLY_NS_PER_BYTE 8u

/* Return true if there is memory for one more step.  Huge pages were set aside
 * before.
 */
static bool
memory_left (const struct pool *pool, const struct backing *b, uint64_t step,
             uint64_t reserve, uint64_t *available)
{
  return backing_is_huge (b) ||
         host_spares (step, reserve, pool->params.slab.numa, available);
}

/* Return true if there is memory to populate one more step of s.  Log when
 * populating begins or ends to wait for memory.
 */
static bool
may_populate (struct pool *pool, const struct slab *s, uint64_t step)
{
  uint64_t available = 0, floor = pool->floor;
  bool enough = memory_left (pool, &s->backing, step, floor, &available);

  if (enough == pool->short_of_memory) {
    pool->short_of_memory = !enough;
    if (enough)
      fp_log (FP_LOG_INFO, "populating continues");
    else
      fp_log (FP_LOG_WARN,
              "populating waits: this host has %llu MiB left, and %llu MiB "
              "are reserved for it",
              (unsigned long long) available >> 20,
              (unsigned long long) floor >> 20);
  }
  return enough;
}

static void
say_unlocked (struct pool *pool, bool locked)
{
  if (locked || pool->unlocked)
    return;
  pool->unlocked = true;
  fp_log (FP_LOG_WARN, "memory that is lent is not locked: raise "
                       "RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK=)");
}

static void
populate_step (struct pool *pool, struct slab *s, uint64_t step)
{
  bool locked = true;

  s->status = backing_populate (&s->backing, s->populated, step, &locked);
  if (s->status < 0)
    return;
  s->populated += step;
  say_unlocked (pool, locked);
  if (pool->first_time > 0 && !s->counted)
    progress_add (&pool->progress, step);
}

static void
done_with_first (struct pool *pool, struct list *l)
{
  struct slab *s = l->first;

  {
    FP_LOCK_SCOPE (&pool->lock);

    list_remove_first (l);
  }
  mailbox_post (pool->params.mailbox, &s->note);
}

static uint64_t
step_of (const struct backing *b, uint64_t done)
{
  return FP_MIN (FP_MAX ((uint64_t) BACKING_STEP, b->page_size),
                 b->size - done);
}

static void
first_time_done (struct pool *pool, struct slab *s)
{
  char size[FP_SIZE_STR_MAX];

  if (s->counted)
    return;
  s->counted = true;
  if (--pool->first_time > 0)
    return;
  progress_end (&pool->progress);
  fp_format_size (pool->params.slab.size, size);
  fp_log (FP_LOG_INFO, "ready: %u slabs of %s", pool->made, size);
}

/* Pause populating, for longer with each failure in a row. */
static void
pause_populating (struct pool *pool)
{
  pool->not_before_ns =
      fp_deadline_in_ms (1000u << FP_MIN (pool->failures, PAUSE_DOUBLINGS));
}

/* Return true if there is work on the first slab to populate.  Call with the
 * lock held.
 */
static bool
populate_is_due (const struct pool *pool)
{
  const struct slab *s = pool->populate.first;

  if (s && pool->pressed)
    return s->populated > 0 && !backing_is_huge (&s->backing);
  return s && fp_deadline_passed (pool->not_before_ns);
}

/* Give the step that was populated last back to this host. */
static void
shrink_some (struct pool *pool, struct slab *s)
{
  uint64_t step = FP_MAX ((uint64_t) BACKING_STEP, s->backing.page_size);

  if (s->populated == 0 || backing_is_huge (&s->backing))
    return;
  step = s->populated % step ? s->populated % step : step;
  if (backing_take_back (&s->backing, s->populated - step, step) < 0) {
    pool_drop_backing (pool, s->index, &s->backing);
    step = s->populated;
  }
  s->populated -= step;
  if (pool->first_time > 0 && !s->counted)
    pool->progress.done -= step;
}

/* Do one step of the first slab to populate. */
static void
populate_some (struct pool *pool, struct slab *s)
{
  uint64_t step = 0;

  if (pool->pressed) {
    shrink_some (pool, s);
    return;
  }
  /* The memory was dropped: make a new one. */
  s->status = s->backing.fd < 0
                  ? pool_new_backing (pool, s->index, true, &s->backing)
                  : 0;
  if (s->status == 0) {
    step = step_of (&s->backing, s->populated);
    if (!may_populate (pool, s, step)) {
      pause_populating (pool);
      return;
    }
    populate_step (pool, s, step);
  }
  if (s->status == 0) {
    pool->failures = 0;
    if (pool->gently && !backing_is_huge (&s->backing))
      pool->not_before_ns = fp_now_ns () + step * GENTLY_NS_PER_BYTE;
    if (s->populated < s->backing.size)
      return;
    first_time_done (pool, s);
  }
  else {
    pause_populating (pool);
    pool->failures++;
  }
  done_with_first (pool, &pool->populate);
}

/* Remove the file of a slab that another server had, whatever is in it. */
static void
remove_file (struct pool *pool, struct slab *s)
{
  struct backing_params p = pool->params.slab;

  p.index = s->index;
  s->status = backing_remove (&p);
  done_with_first (pool, &pool->scrub);
}

/* Do one step of the first slab to scrub. */
static void
scrub_some (struct pool *pool, struct slab *s)
{
  uint64_t step;
  bool pressed = pool->pressed && !backing_is_huge (&s->backing);

  s->unpinned = 0;
  if (s->backing.fd < 0) {
    remove_file (pool, s);
    return;
  }
  /* A slab that loses some of its memory loses all. */
  if (pressed && !s->exposed && s->populated > 0)
    s->populated = s->scrubbed = 0;
  s->given =
      (s->exposed ? pressed && !s->abandoned : s->populated == 0) || s->given;
  step = step_of (&s->backing, s->scrubbed);

  if (!s->exposed && s->populated > 0)
    s->status = backing_zero (&s->backing, s->scrubbed, step);
  else if (!s->abandoned) {
    if (backing_take_back (&s->backing, s->scrubbed, step) < 0) {
      pool_drop_backing (pool, s->index,
                         &s->backing); /* the last to close it frees it */
      step = s->backing.size - s->scrubbed;
    }
  }
  else
    /* A client that was away for too long may read before it hears that it has
     * lost this memory: better old bytes than zeros.
     */
    step = s->backing.size - s->scrubbed;
  s->scrubbed += step;
  if (s->status == 0 && s->scrubbed < s->backing.size)
    return;

  if (s->exposed) { /* populating gives it another memfd */
    pool_drop_backing (pool, s->index, &s->backing);
    s->exposed = s->abandoned = s->shared = false;
    s->populated = 0;
  }
  done_with_first (pool, &pool->scrub);
}

/* Make memory that another server had lent present, and lock it.  Clients use
 * it meanwhile; until then it is only slower.
 */
static void
pin_some (struct pool *pool)
{
  struct slab *s = &pool->slabs[pool->to_pin];
  uint64_t step;

  if (s->unpinned == 0) {
    pool->to_pin++;
    return;
  }
  step = step_of (&s->backing, s->backing.size - s->unpinned);
  /* A page that cannot be had now fails, with a message, when it is used. */
  say_unlocked (
      pool, backing_pin (&s->backing, s->backing.size - s->unpinned, step));
  s->unpinned -= step;
}

/* Do one step of a range, which was taken off the list. */
static void
zero_some (struct pool *pool, struct pool_zero *job)
{
  uint64_t step = FP_MIN ((uint64_t) BACKING_STEP, job->length - job->zeroed);

  fp_tsan_client_orders_begin ();
  job->status =
      backing_zero (&job->slab->backing, job->offset + job->zeroed, step);
  fp_tsan_client_orders_end ();
  job->zeroed += step;
  if (job->status == 0 && job->zeroed < job->length)
    pool_enqueue_zero (pool, job);
  else
    mailbox_post (pool->params.mailbox, &job->done);
}

static int
move_some (struct pool *pool, struct pool_move *job)
{
  struct backing *b = &job->backing;
  uint64_t step, available;
  bool locked = true;
  int r = 0;

  if (b->fd < 0)
    /* (Only sealed memory gets here: no client has other files mapped.) */
    /* If the old memory had no tail, a new one would say that nothing was
     * written.
     */
    r = pool_new_backing (pool, job->slab->index,
                          job->slab->backing.size > pool->params.slab.size, b);
  if (r < 0)
    return r;
  step = step_of (b, job->at);
  if (!memory_left (pool, b, step, pool->params.reserve, &available))
    return -ENOMEM;
  r = backing_populate (b, job->at, step, &locked);
  if (r == 0)
    r = backing_copy (b, &job->slab->backing, job->at, step);
  job->at += step;
  return r;
}

/* Do one step of the first slab to move. */
static void
move_first (struct pool *pool, struct pool_move *job)
{
  job->status = move_some (pool, job);
  if (job->status == 0 && job->at < job->backing.size)
    return;
  {
    FP_LOCK_SCOPE (&pool->lock);

    pool->move_first = job->next;
    if (!job->next)
      pool->move_last = &pool->move_first;
  }
  mailbox_post (pool->params.mailbox, &job->done);
}

/* Wait for work.  If populating pauses, wait at most until the pause ends. */
static void
wait_for_work (struct pool *pool)
{
  struct timespec until = { .tv_sec = 0 };

  if (!pool->populate.first || pool->pressed) {
    pthread_cond_wait (&pool->wake, &pool->lock);
    return;
  }
  until.tv_sec = (time_t) (pool->not_before_ns / FP_NS_PER_S);
  until.tv_nsec = (long) (pool->not_before_ns % FP_NS_PER_S);
  pthread_cond_timedwait (&pool->wake, &pool->lock, &until);
}

/* Return true if there is work of this kind.  Call with the lock held. */
static bool
is_due (const struct pool *pool, enum pool_work_kind kind)
{
  switch (kind) {
  case POOL_ZERO:
    return pool->zero_first != NULL;
  case POOL_MOVE:
    return pool->move_first != NULL;
  case POOL_SCRUB:
    return pool->scrub.first != NULL;
  case POOL_PIN:
    return pool->to_pin < pool->made;
  case POOL_POPULATE:
    return populate_is_due (pool);
  case POOL_NR_WORKS:
    break;
  }
  return false;
}

/* Return true if a step of this kind takes long, as with a huge page of 1G.
 * Call with the lock held.
 */
static bool
is_long (const struct pool *pool, enum pool_work_kind kind)
{
  const struct slab *s = kind == POOL_PIN        ? &pool->slabs[pool->to_pin]
                         : kind == POOL_POPULATE ? pool->populate.first
                                                 : NULL;

  return s && s->backing.page_size > BACKING_STEP;
}

/* Return the first kind that is due and has a turn left; if none has, refill
 * the turns of all.  Call with the lock held.
 */
static enum pool_work_kind
next_work (struct pool *pool)
{
  static const uint8_t turns[POOL_NR_WORKS] = { 16, 4, 4, 1, 1 };
  enum pool_work_kind due = POOL_NR_WORKS;

  /* Under memory pressure scrubbing goes first: it gives memory back. */
  if (pool->pressed && is_due (pool, POOL_SCRUB) &&
      pool->turns[POOL_SCRUB] > 0) {
    pool->turns[POOL_SCRUB]--;
    return POOL_SCRUB;
  }
  for (unsigned i = 0; i < POOL_NR_WORKS; i++) {
    if (!is_due (pool, i) ||
        (is_long (pool, i) && (pool->zero_first || pool->move_first)))
      continue;
    if (pool->turns[i] > 0) {
      pool->turns[i]--;
      return i;
    }
    if (due == POOL_NR_WORKS)
      due = i;
  }
  if (due == POOL_NR_WORKS)
    return due;
  memcpy (pool->turns, turns, sizeof turns);
  pool->turns[due]--;
  return due;
}

/* Take the first range off the list.  Call with the lock held. */
static struct pool_zero *
take_zero (struct pool *pool)
{
  struct pool_zero *job = pool->zero_first;

  pool->zero_first = job->next;
  if (!job->next)
    pool->zero_last = &pool->zero_first;
  return job;
}

bool
pool_step (struct pool *pool, bool wait)
{
  enum pool_work_kind kind;
  struct pool_zero *zero = NULL;

  {
    FP_LOCK_SCOPE (&pool->lock);

    kind = pool->stop ? POOL_NR_WORKS : next_work (pool);
    if (kind == POOL_NR_WORKS && !pool->stop && wait)
      wait_for_work (pool);
    if (pool->stop)
      return false;
    if (kind == POOL_ZERO)
      zero = take_zero (pool);
  }
  switch (kind) {
  case POOL_ZERO:
    zero_some (pool, zero);
    break;
  case POOL_MOVE:
    move_first (pool, pool->move_first);
    break;
  case POOL_SCRUB:
    scrub_some (pool, pool->scrub.first);
    break;
  case POOL_PIN:
    pin_some (pool);
    break;
  case POOL_POPULATE:
    populate_some (pool, pool->populate.first);
    break;
  case POOL_NR_WORKS:
    return wait;
  }
  return true;
}

void
pool_work (void *arg)
{
  while (pool_step (arg, true))
    ;
}
