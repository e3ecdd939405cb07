/* SPDX-License-Identifier: BSD-3-Clause */
/* pool_int.h - the inside of the pool: pool.c has the event loop's side,
 * pool_work.c the worker's.
 */

#ifndef MEMSERVER_POOL_INT_H
#define MEMSERVER_POOL_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/thread.h"
#include "memserver/pool/pool.h"
#include "memserver/pool/progress.h"
#include "memserver/pool/slab_list.h"

/* Kinds of work, the most urgent first. */
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
  /* For the loop only: free slabs in ordinary pages, and in huge pages. */
  struct list free, free_huge;
  struct pool_counts counts;

  uint32_t doubtful[SLAB_NR_STATES]; /* part of counts.in; for the loop */
  uint32_t doubtful_ordinary;        /* part of counts.ordinary; likewise */

  /* See pool_press.  The loop writes these, the worker reads them. */
  _Atomic bool pressed;
  _Atomic bool gently; /* populate slowly, not to cause pressure again */
  _Atomic uint64_t floor;

  /* Populating waits for memory.  The worker writes it, the loop reads it. */
  _Atomic bool short_of_memory;

  pthread_mutex_t lock; /* guards the fields up to stop */
  pthread_cond_t wake;
  struct pool_zero *zero_first, **zero_last;
  struct pool_move *move_first, **move_last;
  struct list scrub, populate;
  bool stop;

  struct fp_thread worker;
  bool started;
  /* For the worker only: */
  uint8_t turns[POOL_NR_WORKS]; /* steps left for each kind */
  struct progress progress;
  uint32_t to_pin;        /* next slab that may have to be made present */
  uint32_t first_time;    /* slabs that were never fully populated */
  bool unlocked;          /* memory is not locked, and that was logged */
  uint64_t not_before_ns; /* end of a pause in populating */
  unsigned failures;      /* failures in a row to populate */
};

/* Run the worker; arg is the pool. */
void pool_work (void *arg);
/* Do one step of the most urgent work; with wait, wait until there is some.
 * Return false if there is nothing to do now, or if the pool stops.
 */
bool pool_step (struct pool *pool, bool wait);

/* Make new memory for a slab: called by the worker, or before it runs. */
int pool_new_backing (struct pool *pool, uint32_t index, bool tail,
                      struct backing *out);

/* Drop memory of a slab.  No later server finds it, either. */
void pool_drop_backing (struct pool *pool, uint32_t index, struct backing *b);

/* Queue a job that has a range to zero, for the first time or again. */
void pool_enqueue_zero (struct pool *pool, struct pool_zero *job);

#endif /* MEMSERVER_POOL_INT_H */
