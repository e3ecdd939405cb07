/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.h - all slabs of this server, and the worker.  The worker is the one
 * thread that populates, scrubs and zeroes them, so that the event loop never
 * touches their memory.
 *
 * The worker takes steps of milliseconds (BACKING_STEP, or one huge page).
 * After each the most urgent work goes next.  So a client that waits for a
 * range to be zeroed never waits for a whole slab, however large that is.
 *
 * A slab comes out of the pool present, locked and all zeros.  A slab that was
 * lent is scrubbed.  If a client had its memfd it gets a new one, as the
 * client may keep the old one for any time.
 *
 * In files (backing_params.store), a slab that is LENT from the start was lent
 * before.  The others may hold anything: their files are removed, which takes
 * the place of scrubbing.  (If the store is sealed, persist.c has removed
 * them.)
 *
 * Units:    bytes.
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 * Memory:   only pool_new allocates.
 */

#ifndef MEMSERVER_POOL_H
#define MEMSERVER_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "memserver/pool/backing.h"
#include "memserver/pool/mailbox.h"
#include "memserver/pool/slab.h"

struct pool;

enum pool_left {
  POOL_LEFT_FREE, /* may hold anything: its file is removed */
  POOL_LEFT_LENT, /* LENT, as it was */
  POOL_LEFT_LOST  /* LOST, as it was: its file is removed */
};

struct pool_params {
  struct backing_params slab;
  uint32_t slabs;
  uint64_t reserve; /* left to the host: populating waits below this */
  struct mailbox *mailbox;
  void (*freed) (void *ctx); /* a slab can be taken, or waiting is useless */
  void *ctx;
  /* With slab.store, for each slab in turn: say what becomes of the memory
   * that another server left, and what its serial is.
   */
  enum pool_left (*left) (void *ctx, uint32_t index, uint32_t *serial);
  /* Save that s has other memory now, before the old one is given up. */
  void (*moved) (void *ctx, struct slab *s);
};

/* Make the pool: reserve address space, and huge pages if any; touch no
 * memory.  *made is the number of slabs made, also on failure.
 */
int pool_new (struct pool **out, const struct pool_params *p, uint32_t *made);

/* Start populating. */
int pool_start (struct pool *pool);

/* Stop the thread; jobs that are not done never will be.  Give all memory back
 * to the system, except that of lost slabs.
 */
void pool_free (struct pool *pool);

/* Take a free slab, which is LENT then; NULL: there is none at the moment. */
struct slab *pool_take (struct pool *pool);

/* Give a slab back, to scrub and free it.  No session has a key or a hold. */
void pool_return (struct pool *pool, struct slab *s);

/* Give up a slab that cannot be taken back: never touch or lend it again. */
void pool_lose (struct pool *pool, struct slab *s);

/* Job: zero a part of a slab.  done then runs on the loop, with status set. */
struct pool_zero {
  struct note done;
  struct slab *slab;
  uint64_t offset, length;
  int status;
  uint64_t zeroed;        /* for the pool only */
  struct pool_zero *next; /* for the pool only */
};
void pool_zero (struct pool *pool, struct pool_zero *job);

/* Job: give a lent slab without open key new memory with the same contents.
 * done then runs on the loop, with status set.  -ENOMEM: this host has no
 * memory left for it, and the slab is as before.
 */
struct pool_move {
  struct note done;
  struct slab *slab;
  int status;
  struct pool *pool;      /* for the pool only, until done */
  struct backing backing; /* for the pool only, until done */
  struct pool_move *next;
  uint64_t at;
};
void pool_move (struct pool *pool, struct pool_move *job);

/* Give the slab its new memory.  Call only in done.  Return job->status. */
int pool_moved (struct pool_move *job);

struct slab *pool_slab (struct pool *pool, uint64_t index); /* or NULL */

/* Return true if s is in ordinary pages, which the host can use. */
bool pool_is_ordinary (const struct slab *s);

struct pool_counts {
  uint32_t total;
  uint32_t in[SLAB_NR_STATES];
  /* Those of in[] in ordinary pages; only FREE, LENT and SCRUBBING. */
  uint32_t ordinary[SLAB_NR_STATES];
  uint64_t given;    /* to a host short of memory, ever */
  uint64_t scrubbed; /* and not given to the host, ever */
};
struct pool_counts pool_count (const struct pool *pool);

/* Return how many slabs could be lent, now or when the worker is done with
 * them.  It leaves out these:
 *
 * - Slabs that a client which was away for too long may still have mapped.
 *   Such slabs take twice their size from this host, and count once they have
 *   their new memory.
 * - Slabs that no memory could be had for at the last try.
 * - Slabs that this host can spare no memory for now.
 */
uint32_t pool_lendable (const struct pool *pool);

/* Return true if the worker may populate slabs now. */
bool pool_may_populate (const struct pool *pool);

/* Begin or end memory pressure.  While this host is short of memory, slabs in
 * ordinary pages are neither lent nor populated.  Slabs that come back go to
 * the host instead of being scrubbed.  Huge pages were set aside before, and
 * are still lent.  Afterwards populating goes on slowly, and only while floor
 * bytes are available.
 */
void pool_press (struct pool *pool, bool pressed, uint64_t floor);
bool pool_is_pressed (const struct pool *pool);

/* Give the memory of so many free slabs to the host, as far as there are any
 * in ordinary pages.
 */
void pool_shed (struct pool *pool, uint32_t slabs);

uint64_t pool_slab_size (const struct pool *pool);

#endif /* MEMSERVER_POOL_H */
