/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c - all slabs of this server, the event loop's side: which can be lent,
 * and what to do with the others.
 */

#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "memserver/pool/pool_int.h"

/* Return true if s is in ordinary pages.  In other states it has no memory,
 * and the worker will choose the pages.
 */
static bool
is_ordinary (const struct slab *s, enum slab_state state)
{
  return (state == SLAB_FREE || state == SLAB_LENT ||
          state == SLAB_SCRUBBING) &&
         !backing_is_huge (&s->backing);
}

bool
pool_is_ordinary (const struct slab *s)
{
  return is_ordinary (s, s->state);
}

static void
count (struct slab *s, uint32_t by)
{
  struct pool *pool = s->pool;
  bool ordinary = is_ordinary (s, s->state);

  pool->counts.in[s->state] += by;
  pool->counts.ordinary[s->state] += ordinary ? by : 0;
  if (s->doubtful) {
    pool->doubtful[s->state] += by;
    pool->doubtful_ordinary += ordinary ? by : 0;
  }
}

static void
set_state (struct slab *s, enum slab_state state)
{
  count (s, UINT32_MAX); /* one less */
  s->state = state;
  count (s, 1);
}

static void
set_doubtful (struct slab *s, bool doubtful)
{
  count (s, UINT32_MAX);
  s->doubtful = doubtful;
  count (s, 1);
}

/* ---- the loop's side ---- */

static void
enqueue (struct pool *pool, struct list *l, struct slab *s)
{
  FP_LOCK_SCOPE (&pool->lock);

  list_append (l, s);
  pthread_cond_signal (&pool->wake);
}

/* Queue a slab for another try: descriptors, huge pages or memory have run
 * out.  (A client may still hold some of the huge pages.)  Until then the slab
 * is promised to no client.  Nothing is lost with it.
 */
static void
no_memory_yet (struct pool *pool, struct slab *s)
{
  static struct fp_log_limit limit;

  fp_log_limited (&limit, FP_LOG_WARN,
                  "populating waits: slab %u: no memory for it: %s", s->index,
                  strerror (-s->status));
  enqueue (pool, &pool->populate, s);
  if (s->doubtful)
    return;
  set_doubtful (s, true);
  pool->params.freed (pool->params.ctx); /* waiting requests can fail now */
}

/* Take over a slab that the worker is done with: populated, scrubbed, or
 * without memory until it gets new one.
 */
static void
on_worked (struct note *note)
{
  struct slab *s =
      (struct slab *) ((char *) note - offsetof (struct slab, note));
  struct pool *pool = s->pool;

  if (s->status < 0 && s->state == SLAB_UNPOPULATED &&
      s->status != -EHWPOISON) {
    no_memory_yet (pool, s);
    return;
  }
  if (s->status < 0 || s->populated == s->backing.size)
    set_doubtful (s, false);
  pool->counts.given += s->given;
  pool->counts.scrubbed +=
      s->state == SLAB_SCRUBBING && s->status == 0 && !s->given;
  s->given = false;
  if (s->status < 0) {
    set_state (s, SLAB_LOST);
    fp_log (FP_LOG_ERROR, "slab %u is lost: its memory cannot be used: %s",
            s->index, strerror (-s->status));
  }
  else if (s->populated < s->backing.size) {
    set_state (s, SLAB_UNPOPULATED);
    enqueue (pool, &pool->populate, s);
    return;
  }
  else {
    set_state (s, SLAB_FREE);
    list_append (
        backing_is_huge (&s->backing) ? &pool->free_huge : &pool->free, s);
  }
  pool->params.freed (pool->params.ctx);
}

struct slab *
pool_take (struct pool *pool)
{
  struct list *l = pool->free_huge.first ? &pool->free_huge : &pool->free;
  struct slab *s = l->first;

  if (!s || (l == &pool->free && pool->pressed))
    return NULL;
  list_remove_first (l);
  set_state (s, SLAB_LENT);
  return s;
}

static void
begin_scrub (struct slab *s)
{
  set_state (s, SLAB_SCRUBBING);
  s->status = 0;
  s->scrubbed = 0;
}

void
pool_return (struct pool *pool, struct slab *s)
{
  begin_scrub (s);
  set_doubtful (s, s->exposed && s->abandoned);
  enqueue (pool, &pool->scrub, s);
}

void
pool_shed (struct pool *pool, uint32_t slabs)
{
  struct slab *s;

  for (; slabs > 0 && (s = pool->free.first) != NULL; slabs--) {
    list_remove_first (&pool->free);
    begin_scrub (s);
    s->populated = 0; /* treat as empty: see scrub_some */
    enqueue (pool, &pool->scrub, s);
  }
}

void
pool_press (struct pool *pool, bool pressed, uint64_t floor)
{
  FP_LOCK_SCOPE (&pool->lock);

  pool->floor = floor;
  pool->pressed = pressed;
  pool->gently = true;
  pthread_cond_signal (&pool->wake);
}

bool
pool_is_pressed (const struct pool *pool)
{
  return pool->pressed;
}

void
pool_lose (struct pool *pool, struct slab *s)
{
  (void) pool;
  set_state (s, SLAB_LOST);
}

void
pool_enqueue_zero (struct pool *pool, struct pool_zero *job)
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
  pool_enqueue_zero (pool, job);
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
  struct pool *pool = s->pool;

  struct backing old = s->backing;

  if (job->status < 0) {
    pool_drop_backing (pool, s->index, &job->backing);
    return job->status;
  }
  pool->counts.ordinary[s->state] -= is_ordinary (s, s->state);
  s->backing = job->backing;
  pool->counts.ordinary[s->state] += is_ordinary (s, s->state);
  s->exposed = s->abandoned = s->shared = false;
  if (pool->params.moved)
    pool->params.moved (pool->params.ctx, s);
  pool_drop_backing (pool, s->index, &old);
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
  const struct pool_counts *c = &pool->counts;
  const uint32_t *doubtful = pool->doubtful;
  uint32_t n =
      c->in[SLAB_FREE] + c->in[SLAB_SCRUBBING] - doubtful[SLAB_SCRUBBING];

  if (pool->pressed)
    n -= c->ordinary[SLAB_FREE] + c->ordinary[SLAB_SCRUBBING] -
         pool->doubtful_ordinary;
  else if (!pool->short_of_memory)
    n += c->in[SLAB_UNPOPULATED] - doubtful[SLAB_UNPOPULATED];
  return n;
}

bool
pool_may_populate (const struct pool *pool)
{
  return !pool->pressed && !pool->short_of_memory;
}

uint64_t
pool_slab_size (const struct pool *pool)
{
  return pool->params.slab.size;
}

/* ---- start and end ---- */

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
pool_new_backing (struct pool *pool, uint32_t index, bool tail,
                  struct backing *out)
{
  struct backing_params p = pool->params.slab;

  p.index = index;
  p.tail = p.tail && tail;
  if (p.store && store_is_sealed (p.store))
    p.serial = ++pool->slabs[index].serial;
  return backing_new (out, &p);
}

void
pool_drop_backing (struct pool *pool, uint32_t index, struct backing *b)
{
  struct backing_params p = pool->params.slab;

  p.index = index;
  p.serial = b->serial;
  /* The next server removes a file that cannot be removed now. */
  if (p.store && b->fd >= 0)
    (void) backing_remove (&p);
  backing_drop (b);
}

/* Take up what another server left of a slab.  Work that takes time is left to
 * the worker.
 */
static int
find_file (struct pool *pool, struct slab *s)
{
  struct backing_params p = pool->params.slab;
  int r;

  p.index = s->index;
  s->backing = (struct backing) { .fd = -1,
                                  .size = p.size,
                                  .page_size = store_page (p.store) };
  switch (pool->params.left (pool->params.ctx, s->index, &p.serial)) {
  case POOL_LEFT_LENT:
    s->counted = true;
    s->serial = p.serial;
    r = backing_again (&s->backing, &p);
    s->populated = s->unpinned = s->backing.size;
    return r;
  case POOL_LEFT_LOST:
    s->status = -EIO;
    return backing_remove (&p);
  default:
    return store_is_sealed (p.store)
               ? pool_new_backing (pool, s->index, true, &s->backing)
               : 0;
  }
}

/* Set the first state of a slab of a new pool, and queue its first work. */
static void
begin (struct pool *pool, struct slab *s)
{
  if (s->backing.fd >= 0 && s->populated > 0)
    set_state (s, SLAB_LENT);
  else if (s->status < 0)
    set_state (s, SLAB_LOST);
  else {
    pool->first_time++;
    if (s->backing.fd >= 0)
      list_append (&pool->populate, s);
    else {
      set_state (s, SLAB_SCRUBBING);
      list_append (&pool->scrub, s);
    }
  }
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
  pool->floor = p->reserve;
  list_init (&pool->free);
  list_init (&pool->free_huge);
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
    r = p->slab.store ? find_file (pool, s)
                      : backing_new (&s->backing, &p->slab);
    if (r < 0)
      break;
    pool->made++;
    pool->counts.total++;
    pool->counts.in[SLAB_UNPOPULATED]++;
    r = -pthread_mutex_init (&s->lock, NULL);
    begin (pool, s);
  }
  *made = pool->made;
  if (r < 0) {
    pool_free (pool);
    return r;
  }
  progress_start (&pool->progress, pool->first_time * p->slab.size);
  *out = pool;
  return 0;
}

int
pool_start (struct pool *pool)
{
  int r;

  if (pool->first_time == 0)
    fp_log (FP_LOG_INFO, "ready: all %u slabs are lent", pool->made);
  r = fp_thread_create (&pool->worker, "fp-worker", pool_work, pool);
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
    /* A device may still write to the memory of a lost slab. */
    if (pool->slabs[i].state != SLAB_LOST)
      backing_drop (&pool->slabs[i].backing);
    pthread_mutex_destroy (&pool->slabs[i].lock);
  }
  pthread_cond_destroy (&pool->wake);
  pthread_mutex_destroy (&pool->lock);
  free (pool->slabs);
  free (pool);
}
