/* SPDX-License-Identifier: BSD-3-Clause */
/* records.h - the volumes that this server has: a record of each (record.h).
 *
 * The server embeds one, zeroed, and sets the first fields before it makes a
 * record.  It owns the objects that they point to.
 *
 * Units:    words of 64 bits; slabs; seconds.
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 * Memory:   bounded by the limits below, however many clients connect.
 */

#ifndef MEMSERVER_RECORDS_H
#define MEMSERVER_RECORDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "memserver/auth/access.h"
#include "memserver/pool/pool.h"
#include "proto/messages.h"

#define MAX_RECORDS 4096
#define MAX_RECORDS_OWNER (MAX_RECORDS / 4) /* per owner, with --access */
#define MAX_MAP_WORDS (UINT32_C (8) << 20)  /* all volumes: 64 MiB */
/* Per owner, with --access. */
#define MAX_MAP_WORDS_OWNER (MAX_MAP_WORDS / 4)

struct event_base;
struct persist;
struct record;
TAILQ_HEAD (record_list, record);

struct records {
  struct event_base *base;
  struct pool *pool;
  struct persist *persist; /* NULL: nothing outlives this process */
  unsigned lease_s;        /* how long a client may be silent */
  unsigned orphan_s;       /* seconds after the lease: see record_is_orphan */

  struct record_list list; /* oldest first */
  unsigned nr;
  uint64_t map_words; /* size of all maps together */
};

/* Make an empty list; the fields before it stay. */
void records_init (struct records *all);

/* Forget all records when the server ends.  Nothing is scrubbed, and what is
 * kept of them stays.
 */
void records_free (struct records *all);

/* Return the record of this volume, or NULL. */
struct record *records_find (const struct records *all,
                             const struct fp_uuid *uuid);
struct record *records_find_name (const struct records *all, const char *name);

/* Return how many slabs the pool could lend if all orphans of this owner, or
 * with NULL of any, were forgotten.
 */
uint32_t records_reclaimable (const struct records *all,
                              const struct who *owner);

/* Resource that forgetting an orphan must free: */
enum reclaim {
  RECLAIM_ANY,      /* place in the list of records */
  RECLAIM_MAP,      /* memory for maps */
  RECLAIM_SLABS,    /* part of a quota; slabs, some time */
  RECLAIM_LENDABLE, /* slabs that can be lent once they are scrubbed */
  RECLAIM_ORDINARY  /* ordinary pages that go back to this host */
};

/* Forget the orphan that was left first, of this owner or with NULL of any.
 * It must free the resource what.  Return how many of its slabs go back to the
 * pool.  -ENOENT: there is none.
 */
int records_reclaim (struct records *all, const struct who *owner,
                     enum reclaim what);

/* Return true if so many more words fit once all orphans are forgotten. */
bool records_map_would_fit (const struct records *all, uint64_t words);

/* ---- the next server: record_persist.c, records_take_up.c ---- */

/* Return what the last server left of a slab (pool_params.left).
 * all->persist is set, as for records_take_up.
 */
enum pool_left records_left (const struct records *all, uint32_t slab,
                             uint32_t *serial);
/* Take up the volumes of the last server, after pool_new. */
int records_take_up (struct records *all);

#endif /* MEMSERVER_RECORDS_H */
