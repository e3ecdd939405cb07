/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c - all slabs of this server, and the thread that works on them.
 *
 * The worker takes, in this order: ranges that a client waits for to be
 * zeroed, slabs to move, slabs to scrub, slabs to populate; each in steps, so
 * that what comes first does not wait for long.  Ranges take turns.
 */

#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/size.h"
#include "base/thread.h"
#include "host.h"
#include "pool.h"
#include "progress.h"

struct list {
  struct slab *first;
  struct slab **last;
};

struct pool {
  struct pool_params params;
  struct slab *slabs;
  uint32_t made;
  struct list free; /* the loop's */
  struct pool_counts counts;

  uint32_t doubtful; /* slabs that are; the loop's */

  pthread_mutex_t lock; /* over the five below */
  pthread_cond_t wake;
  struct pool_zero *zero_first, **zero_last;
  struct pool_move *move_first, **move_last;
  struct list scrub, populate;
  bool stop;

  struct fp_thread worker;
  bool started;
  /* The worker's. */
  struct progress progress;
  uint32_t first_time; /* slabs that were never populated so far */
  bool unlocked;       /* and it has been said */
  bool short_of_memory;
};

static void
list_init (struct list *l)
{
  l->first = NULL;
  l->last = &l->first;
}

static void
list_append (struct list *l, struct slab *s)
{
  s->next = NULL;
  *l->last = s;
  l->last = &s->next;
}

static void
list_remove_first (struct list *l)
{
  l->first = l->first->next;
  if (!l->first)
    l->last = &l->first;
}

static void
set_state (struct slab *s, enum slab_state state)
{
  struct pool_counts *counts = &s->pool->counts;

  counts->in[s->state]--;
  s->state = state;
  counts->in[state]++;
}

/* ---- the loop's side ---- */

static void
enqueue (struct pool *pool, struct list *l, struct slab *s)
{
  FP_LOCK_SCOPE (&pool->lock);

  list_append (l, s);
  pthread_cond_signal (&pool->wake);
}

/* The worker is done with a slab: populated, scrubbed, or about to get new
 * memory.
 */
static void
on_worked (struct note *note)
{
  struct slab *s =
      (struct slab *) ((char *) note - offsetof (struct slab, note));
  struct pool *pool = s->pool;

  if (s->doubtful && (s->status < 0 || s->populated == s->backing.size)) {
    s->doubtful = false;
    pool->doubtful--;
  }
  if (s->status < 0) {
    set_state (s, SLAB_LOST);
    fp_log (FP_LOG_ERROR, "slab %u is lost: no memory for it: %s", s->index,
            strerror (-s->status));
  }
  else if (s->populated < s->backing.size) {
    set_state (s, SLAB_UNPOPULATED);
    enqueue (pool, &pool->populate, s);
    return;
  }
  else {
    set_state (s, SLAB_FREE);
    list_append (&pool->free, s);
  }
  pool->params.freed (pool->params.ctx);
}

struct slab *
pool_take (struct pool *pool)
{
  struct slab *s = pool->free.first;

  if (!s)
    return NULL;
  list_remove_first (&pool->free);
  set_state (s, SLAB_LENT);
  return s;
}

void
pool_return (struct pool *pool, struct slab *s)
{
  set_state (s, SLAB_SCRUBBING);
  s->status = 0;
  s->scrubbed = 0;
  s->doubtful = s->exposed && s->abandoned;
  pool->doubtful += s->doubtful;
  enqueue (pool, &pool->scrub, s);
}

void
pool_lose (struct pool *pool, struct slab *s)
{
  (void) pool;
  set_state (s, SLAB_LOST);
}

static void
enqueue_zero (struct pool *pool, struct pool_zero *job)
{
  FP_LOCK_SCOPE (&pool->lock);

  job->next = NULL;
  *pool->zero_last = job;
  pool->zero_last = &job->next;
  pthread_cond_signal (&pool->wake);
}

void
pool_zero (struct pool *pool, struct pool_zero *job)
{
  job->zeroed = 0;
  enqueue_zero (pool, job);
}

void
pool_move (struct pool *pool, struct pool_move *job)
{
  job->pool = pool;
  job->backing = (struct backing) { .fd = -1 };
  job->at = 0;
  job->next = NULL;

  FP_LOCK_SCOPE (&pool->lock);

  *pool->move_last = job;
  pool->move_last = &job->next;
  pthread_cond_signal (&pool->wake);
}

int
pool_moved (struct pool_move *job)
{
  struct slab *s = job->slab;

  if (job->status < 0) {
    backing_drop (&job->backing);
    return job->status;
  }
  backing_drop (&s->backing);
  s->backing = job->backing;
  s->exposed = s->abandoned = false;
  return 0;
}

struct slab *
pool_slab (struct pool *pool, uint64_t index)
{
  return index < pool->made ? &pool->slabs[index] : NULL;
}

struct pool_counts
pool_count (const struct pool *pool)
{
  return pool->counts;
}

uint32_t
pool_lendable (const struct pool *pool)
{
  const uint32_t *in = pool->counts.in;

  return in[SLAB_FREE] + in[SLAB_SCRUBBING] + in[SLAB_UNPOPULATED] -
         pool->doubtful;
}

uint64_t
pool_slab_size (const struct pool *pool)
{
  return pool->params.slab.size;
}

/* ---- the worker's side ---- */

/* Is there memory for one more step?  Huge pages were set aside before. */
static bool
memory_left (const struct pool *pool, const struct backing *b, uint64_t step,
             uint64_t *available)
{
  return b->page_size > 65536 ||
         host_spares (step, pool->params.reserve, pool->params.slab.numa,
                      available);
}

/* Likewise, to populate: that waits, and says so. */
static bool
may_populate (struct pool *pool, const struct slab *s, uint64_t step)
{
  uint64_t available = 0;
  bool enough = memory_left (pool, &s->backing, step, &available);

  if (enough == pool->short_of_memory) {
    pool->short_of_memory = !enough;
    if (enough)
      fp_log (FP_LOG_INFO, "populating goes on");
    else
      fp_log (FP_LOG_WARN,
              "populating waits: this host has %llu MiB left, and %llu MiB "
              "are reserved for it",
              (unsigned long long) available >> 20,
              (unsigned long long) pool->params.reserve >> 20);
  }
  return enough;
}

static void
populate_step (struct pool *pool, struct slab *s, uint64_t step)
{
  bool locked = true;

  s->status = backing_populate (&s->backing, s->populated, step, &locked);
  if (s->status < 0)
    return;
  s->populated += step;
  if (!locked && !pool->unlocked) {
    pool->unlocked = true;
    fp_log (FP_LOG_WARN, "memory that is lent is not locked: raise "
                         "RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK=)");
  }
  if (pool->first_time > 0)
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
first_time_done (struct pool *pool)
{
  char size[FP_SIZE_STR_MAX];

  if (pool->first_time == 0 || --pool->first_time > 0)
    return;
  progress_end (&pool->progress);
  fp_format_size (pool->params.slab.size, size);
  fp_log (FP_LOG_INFO, "ready: %u slabs of %s", pool->made, size);
}

/* All huge pages are in use, and some may be a client's that has not let go of
 * them yet.  The other slabs get their turn: they may have pages.
 */
static void
populate_later (struct pool *pool, struct slab *s)
{
  if (!pool->short_of_memory)
    fp_log (FP_LOG_WARN, "populating waits: there is no huge page left");
  pool->short_of_memory = true;

  FP_LOCK_SCOPE (&pool->lock);

  list_remove_first (&pool->populate);
  list_append (&pool->populate, s);
}

/* One step of the first slab to populate; false: not now. */
static bool
populate_some (struct pool *pool, struct slab *s)
{
  uint64_t step;

  /* It was dropped. */
  s->status =
      s->backing.fd < 0 ? backing_new (&s->backing, &pool->params.slab) : 0;
  if (s->status == -ENOMEM) {
    populate_later (pool, s);
    return false;
  }
  step = step_of (&s->backing, s->populated);
  if (s->status == 0 && !may_populate (pool, s, step))
    return false;
  if (s->status == 0)
    populate_step (pool, s, step);
  if (s->status == 0 && s->populated < s->backing.size)
    return true;

  first_time_done (pool);
  done_with_first (pool, &pool->populate);
  return true;
}

/* One step of the first slab to scrub. */
static void
scrub_some (struct pool *pool, struct slab *s)
{
  uint64_t step = step_of (&s->backing, s->scrubbed);

  if (!s->exposed)
    s->status = backing_zero (&s->backing, s->scrubbed, step);
  else if (!s->abandoned)
    backing_take_back (&s->backing, s->scrubbed, step);
  else
    /* A client that was away for too long may read before it hears that
     * this is no more its memory: better old bytes than zeros.
     */
    step = s->backing.size - s->scrubbed;
  s->scrubbed += step;
  if (s->status == 0 && s->scrubbed < s->backing.size)
    return;

  if (s->exposed) { /* it gets another memfd when it is populated */
    backing_drop (&s->backing);
    s->exposed = s->abandoned = false;
    s->populated = 0;
  }
  done_with_first (pool, &pool->scrub);
}

/* One step of a range, which was taken out of the list. */
static void
zero_some (struct pool *pool, struct pool_zero *job)
{
  uint64_t step = FP_MIN ((uint64_t) BACKING_STEP, job->length - job->zeroed);

  job->status =
      backing_zero (&job->slab->backing, job->offset + job->zeroed, step);
  job->zeroed += step;
  if (job->status == 0 && job->zeroed < job->length)
    enqueue_zero (pool, job);
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
    r = backing_new (b, &pool->params.slab);
  if (r < 0)
    return r;
  step = step_of (b, job->at);
  if (!memory_left (pool, b, step, &available))
    return -ENOMEM;
  r = backing_populate (b, job->at, step, &locked);
  if (r == 0)
    r = backing_copy (b, &job->slab->backing, job->at, step);
  job->at += step;
  return r;
}

/* One step of the first slab to move. */
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

/* Wait for something to do, or for a second if pause. */
static void
wait_for_work (struct pool *pool, bool pause)
{
  struct timespec until;

  if (!pause) {
    pthread_cond_wait (&pool->wake, &pool->lock);
    return;
  }
  clock_gettime (CLOCK_MONOTONIC, &until);
  until.tv_sec++;
  pthread_cond_timedwait (&pool->wake, &pool->lock, &until);
}

static void
work (void *arg)
{
  struct pool *pool = arg;
  bool pause = false;

  for (;;) {
    struct pool_zero *z = NULL;
    struct pool_move *m = NULL;
    struct slab *to_scrub = NULL, *to_populate = NULL;

    {
      FP_LOCK_SCOPE (&pool->lock);

      if (!pool->stop && !pool->zero_first && !pool->move_first &&
          !pool->scrub.first && (!pool->populate.first || pause))
        wait_for_work (pool, pause);
      if (pool->stop)
        return;
      z = pool->zero_first;
      if (z) {
        pool->zero_first = z->next;
        if (!z->next)
          pool->zero_last = &pool->zero_first;
      }
      else if ((m = pool->move_first) == NULL &&
               (to_scrub = pool->scrub.first) == NULL)
        to_populate = pool->populate.first;
    }
    pause = false;
    if (z)
      zero_some (pool, z);
    else if (m)
      move_first (pool, m);
    else if (to_scrub)
      scrub_some (pool, to_scrub);
    else if (to_populate)
      pause = !populate_some (pool, to_populate);
  }
}

/* ---- life ---- */

static int
init_wake (pthread_cond_t *cond)
{
  pthread_condattr_t attr;
  int r = pthread_condattr_init (&attr);

  if (r != 0)
    return -r;
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  r = pthread_cond_init (cond, &attr);
  pthread_condattr_destroy (&attr);
  return -r;
}

int
pool_new (struct pool **out, const struct pool_params *p, uint32_t *made)
{
  struct pool *pool = calloc (1, sizeof *pool);
  int r;

  *made = 0;
  if (!pool)
    return -ENOMEM;
  pool->params = *p;
  list_init (&pool->free);
  list_init (&pool->scrub);
  list_init (&pool->populate);
  pool->zero_last = &pool->zero_first;
  pool->move_last = &pool->move_first;
  r = -pthread_mutex_init (&pool->lock, NULL);
  if (r == 0)
    r = init_wake (&pool->wake);
  pool->slabs = calloc (p->slabs, sizeof *pool->slabs);
  if (!pool->slabs)
    r = -ENOMEM;

  for (uint32_t i = 0; i < p->slabs && r == 0; i++) {
    struct slab *s = &pool->slabs[i];

    s->index = i;
    s->pool = pool;
    s->note.run = on_worked;
    r = backing_new (&s->backing, &p->slab);
    if (r < 0)
      break;
    pool->made++;
    r = -pthread_mutex_init (&s->lock, NULL);
    list_append (&pool->populate, s);
  }
  *made = pool->made;
  pool->counts.total = pool->made;
  pool->counts.in[SLAB_UNPOPULATED] = pool->made;
  pool->first_time = pool->made;
  if (r < 0) {
    pool_free (pool);
    return r;
  }
  *out = pool;
  return 0;
}

int
pool_start (struct pool *pool)
{
  int r;

  progress_start (&pool->progress, pool->made * pool->params.slab.size);
  r = fp_thread_create (&pool->worker, "fp-worker", work, pool);
  pool->started = r == 0;
  return r;
}

void
pool_free (struct pool *pool)
{
  if (!pool)
    return;
  if (pool->started) {
    {
      FP_LOCK_SCOPE (&pool->lock);

      pool->stop = true;
      pthread_cond_signal (&pool->wake);
    }
    fp_thread_join (&pool->worker);
  }
  for (uint32_t i = 0; i < pool->made; i++) {
    /* A device may still write to what is lost. */
    if (pool->slabs[i].state != SLAB_LOST)
      backing_drop (&pool->slabs[i].backing);
    pthread_mutex_destroy (&pool->slabs[i].lock);
  }
  pthread_cond_destroy (&pool->wake);
  pthread_mutex_destroy (&pool->lock);
  free (pool->slabs);
  free (pool);
}
