/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.h - all slabs of this server, and the one thread that populates,
 * scrubs and zeroes them, so that the event loop never touches their memory.
 *
 * The thread works in steps of milliseconds (BACKING_STEP, or one huge page).
 * After each the most urgent work goes next, so that a range that a client
 * waits for to be zeroed never waits for a whole slab, however large that is.
 *
 * A slab comes out of the pool present, locked and all zeros.  What was lent
 * goes back scrubbed; a slab whose memfd a client had gets a new memfd, as
 * nobody knows when the client will let go of the old one.
 *
 * In files (backing_params.store), a slab that is LENT from the start was so
 * before, and what others hold may be anything: their files are removed, which
 * takes the place of scrubbing.  (persist.c has removed them, where the store
 * is sealed.)
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
  POOL_LEFT_FREE, /* it may hold anything, and goes */
  POOL_LEFT_LENT, /* it is LENT, as it was */
  POOL_LEFT_LOST  /* it is LOST, as it was, and goes */
};

struct pool_params {
  struct backing_params slab;
  uint32_t slabs;
  uint64_t reserve; /* left to the host: populating waits below this */
  struct mailbox *mailbox;
  void (*freed) (void *ctx); /* there may be a slab to take */
  void *ctx;
  /* With slab.store: what becomes of what another server left there, and its
   * serial; for slab after slab.
   */
  enum pool_left (*left) (void *ctx, uint32_t index, uint32_t *serial);
  /* It has other memory now: to be remembered before the old is given up. */
  void (*moved) (void *ctx, struct slab *s);
};

/* Reserves address space, and huge pages if any; touches no memory.  *made
 * says how many slabs there were when it failed.
 */
int pool_new (struct pool **out, const struct pool_params *p, uint32_t *made);

/* Populating begins. */
int pool_start (struct pool *pool);

/* Stops the thread; jobs that were not done are never done.  All memory is
 * given back to the system.
 */
void pool_free (struct pool *pool);

/* A free slab, now LENT; NULL: there is none at the moment. */
struct slab *pool_take (struct pool *pool);

/* It is scrubbed, then free.  Nobody has a key or a hold. */
void pool_return (struct pool *pool, struct slab *s);

/* It cannot be taken back: never touch or lend it again. */
void pool_lose (struct pool *pool, struct slab *s);

/* Zero a part of a slab; done then runs on the loop, with status set. */
struct pool_zero {
  struct note done;
  struct slab *slab;
  uint64_t offset, length;
  int status;
  uint64_t zeroed;        /* the pool's */
  struct pool_zero *next; /* likewise */
};
void pool_zero (struct pool *pool, struct pool_zero *job);

/* Give a lent slab that nobody has a key to new memory with the same contents;
 * done then runs on the loop, with status set.  -ENOMEM: this host has none
 * left for it, and the slab is as before.
 */
struct pool_move {
  struct note done;
  struct slab *slab;
  int status;
  struct pool *pool;      /* the pool's, until done */
  struct backing backing; /* likewise */
  struct pool_move *next;
  uint64_t at;
};
void pool_move (struct pool *pool, struct pool_move *job);

/* In done, and only there: the slab has the new memory from here on.  Returns
 * job->status.
 */
int pool_moved (struct pool_move *job);

struct slab *pool_slab (struct pool *pool, uint64_t index); /* or NULL */

/* Return true if s is in ordinary pages, which the host can use. */
bool pool_is_ordinary (const struct slab *s);

struct pool_counts {
  uint32_t total;
  uint32_t in[SLAB_NR_STATES];
  uint32_t ordinary[SLAB_NR_STATES]; /* of FREE, LENT and SCRUBBING ones, those
                                      * in ordinary pages */
  uint64_t given;                    /* ever, to a host that was short */
  uint64_t scrubbed;                 /* ever, and not given */
};
struct pool_counts pool_count (const struct pool *pool);

/* Could be lent: now, or when the worker is done with them.  Not one whose
 * memory may still be mapped by a client that was away for too long: that slab
 * takes twice its size from this host, and is counted when it has it; not one
 * that no memory was to be had for when it was tried last; and none that this
 * host can spare no memory for now.
 */
uint32_t pool_lendable (const struct pool *pool);

/* Return true if the worker may populate slabs now. */
bool pool_may_populate (const struct pool *pool);

/* This host is short of memory, or is no more.  While it is, what is in
 * ordinary pages is neither lent nor populated, and what comes back goes to
 * the host instead of being scrubbed.  Huge pages were set aside before, and
 * are lent as ever.  Afterwards populating goes on slowly, and only as long as
 * floor bytes are available.
 */
void pool_press (struct pool *pool, bool pressed, uint64_t floor);
bool pool_is_pressed (const struct pool *pool);

/* Give the memory of so many free slabs to the host, if there are so many in
 * ordinary pages.
 */
void pool_shed (struct pool *pool, uint32_t slabs);

uint64_t pool_slab_size (const struct pool *pool);

#endif /* MEMSERVER_POOL_H */
