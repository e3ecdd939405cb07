/* SPDX-License-Identifier: BSD-3-Clause */
/* pool_int.h - the inside of the pool, for the files that are one: pool.c has
 * the loop's side, pool_work.c the worker's.
 */

#ifndef MEMSERVER_POOL_INT_H
#define MEMSERVER_POOL_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/thread.h"
#include "memserver/pool/pool.h"
#include "memserver/pool/progress.h"
#include "memserver/pool/slab_list.h"

/* Kinds of work of the worker, the most urgent first. */
enum pool_work_kind {
  POOL_ZERO,
  POOL_MOVE,
  POOL_SCRUB,
  POOL_PIN,
  POOL_POPULATE,
  POOL_NR_WORKS /* also: none is due */
};

struct pool {
  struct pool_params params;
  struct slab *slabs;
  uint32_t made;
  /* The loop's: those in ordinary pages, and the others. */
  struct list free, free_huge;
  struct pool_counts counts;

  uint32_t doubtful[SLAB_NR_STATES]; /* of counts.in; the loop's */
  uint32_t doubtful_ordinary;        /* likewise, of counts.ordinary */

  /* See pool_press.  The loop's, for the worker to read. */
  _Atomic bool pressed;
  _Atomic bool gently; /* populating is not to bring the next pressure */
  _Atomic uint64_t floor;

  /* Populating waits for memory.  The worker's, for the loop to read. */
  _Atomic bool short_of_memory;

  pthread_mutex_t lock; /* over the five below */
  pthread_cond_t wake;
  struct pool_zero *zero_first, **zero_last;
  struct pool_move *move_first, **move_last;
  struct list scrub, populate;
  bool stop;

  struct fp_thread worker;
  bool started;
  /* The worker's. */
  uint8_t turns[POOL_NR_WORKS]; /* steps that each kind has left */
  struct progress progress;
  uint32_t to_pin;     /* slabs from this one on may be to be made present */
  uint32_t first_time; /* slabs that were never populated so far */
  bool unlocked;       /* and it has been said */
  uint64_t not_before_ns; /* populating goes on then */
  unsigned failures;      /* in a row */
};

/* The worker's thread; arg is the pool. */
void pool_work (void *arg);
/* One step of what is most urgent; wait: until there is something.  False:
 * there is nothing to do now, or the pool stops.
 */
bool pool_step (struct pool *pool, bool wait);

/* New memory for it: by the worker, or before there is one. */
int pool_new_backing (struct pool *pool, uint32_t index, bool tail,
                      struct backing *out);

/* That memory is not to be found again, either. */
void pool_drop_backing (struct pool *pool, uint32_t index, struct backing *b);

/* It has another range to zero, for the first time or again. */
void pool_enqueue_zero (struct pool *pool, struct pool_zero *job);

#endif /* MEMSERVER_POOL_INT_H */
