/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c - all slabs of this server, and the thread that works on them.
 *
 * The worker takes, in this order: ranges that a client waits for to be
 * zeroed, slabs to scrub, slabs to populate; each in steps, so that what comes
 * first does not wait for long.  Ranges take turns.
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

  pthread_mutex_t lock; /* over the four below */
  pthread_cond_t wake;
  struct pool_zero *zero_first, **zero_last;
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

  return in[SLAB_FREE] + in[SLAB_SCRUBBING] + in[SLAB_UNPOPULATED];
}

uint64_t
pool_slab_size (const struct pool *pool)
{
  return pool->params.slab.size;
}

/* ---- the worker's side ---- */

/* Is there memory for one more step?  Huge pages were set aside before. */
static bool
memory_left (struct pool *pool, const struct slab *s, uint64_t step)
{
  struct host_memory memory;
  bool enough;

  if (s->backing.page_size > 65536 ||
      host_memory (&memory, pool->params.slab.numa) < 0)
    return true;
  enough = memory.available >= pool->params.reserve &&
           memory.available - pool->params.reserve >= step;
  if (enough == pool->short_of_memory) {
    pool->short_of_memory = !enough;
    if (enough)
      fp_log (FP_LOG_INFO, "populating goes on");
    else
      fp_log (FP_LOG_WARN,
              "populating waits: this host has %llu MiB left, and %llu MiB "
              "are reserved for it",
              (unsigned long long) memory.available >> 20,
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
step_of (const struct slab *s, uint64_t done)
{
  return FP_MIN (FP_MAX ((uint64_t) BACKING_STEP, s->backing.page_size),
                 s->backing.size - done);
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

/* One step of the first slab to populate; false: not now. */
static bool
populate_some (struct pool *pool, struct slab *s)
{
  uint64_t step = step_of (s, s->populated);

  if (!memory_left (pool, s, step))
    return false;
  populate_step (pool, s, step);
  if (s->status == 0 && s->populated < s->backing.size)
    return true;

  first_time_done (pool);
  done_with_first (pool, &pool->populate);
  return true;
}

/* A client had the memfd: new memory. */
static void
replace (struct pool *pool, struct slab *s)
{
  backing_drop (&s->backing);
  s->exposed = s->abandoned = false;
  s->populated = 0;
  s->status = backing_new (&s->backing, &pool->params.slab);
}

/* One step of the first slab to scrub. */
static void
scrub_some (struct pool *pool, struct slab *s)
{
  uint64_t step = step_of (s, s->scrubbed);

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

  if (s->exposed)
    replace (pool, s);
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
    struct slab *to_scrub = NULL, *to_populate = NULL;

    {
      FP_LOCK_SCOPE (&pool->lock);

      if (!pool->stop && !pool->zero_first && !pool->scrub.first &&
          (!pool->populate.first || pause))
        wait_for_work (pool, pause);
      if (pool->stop)
        return;
      z = pool->zero_first;
      if (z) {
        pool->zero_first = z->next;
        if (!z->next)
          pool->zero_last = &pool->zero_first;
      }
      else if ((to_scrub = pool->scrub.first) == NULL)
        to_populate = pool->populate.first;
    }
    pause = false;
    if (z)
      zero_some (pool, z);
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
