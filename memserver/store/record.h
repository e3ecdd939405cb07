/* SPDX-License-Identifier: BSD-3-Clause */
/* record.h - what this server knows of a volume, and the slabs it has here.
 *
 * A volume is attached to one session at most.  When that ends, slabs without
 * a label go back to the pool; the record and what is labelled wait for the
 * client to come back.  One with a name waits until it is deleted.  For that,
 * and for one with several copies of each extent, there is also what
 * record_volume.c is about, the list of its servers and the map of its
 * extents.
 *
 * A volume that is not kept (one without a name, or EPHEMERAL) is an orphan
 * when the lease is over:
 *
 *   ATTACHED --session ends--> LEFT --lease over--> ORPHAN --> forgotten
 *      ^                        |                     |
 *      +---- OPEN by any client-+   OPEN by the same -+
 *
 * Only the client that left an orphan can open it: it may have been suspended.
 * Other servers of the volume may have forgotten it, so another client could
 * not tell whether the copies here are current.  An orphan is forgotten when
 * its memory is needed (record_reclaim), or after --orphan-time.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 * Memory:   a record, and a pointer for each slab; where there is a map also a
 *           list of members, and from when it is opened on a bit for each
 *           copy of an extent, MAX_MAP_WORDS for all volumes.
 */

#ifndef MEMSERVER_RECORD_H
#define MEMSERVER_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/uuid.h"
#include "memserver/auth/access.h"
#include "memserver/pool/pool.h"
#include "proto/messages.h"

#define RECORD_FORMER FP_FORMER_MIN

struct event;
struct persist_volume;
struct server;
struct session;

struct record {
  TAILQ_ENTRY (record) entry;
  struct server *server;
  struct fp_uuid uuid;
  char name[FP_NAME_MAX + 1]; /* may be empty */
  bool kept;                  /* it has a name, and is there until deleted */
  uint64_t size;
  uint64_t created; /* seconds since 1970 */
  uint32_t copies;
  struct fp_stripe stripe;
  uint32_t servers;   /* that the volume is on, this one too */
  uint32_t transport; /* of the session that has it, or had it last */
  bool ephemeral;
  uint64_t epoch;
  struct session *holder;       /* NULL: its lease is running, or it is kept */
  char client[FP_NAME_MAX + 1]; /* who has it, or had it last */
  struct fp_uuid holder_uuid;   /* likewise */
  struct who holder_who;        /* of the last one that could write; nobody
                                 * knows after a restart */
  uint64_t since;               /* seconds since 1970 */
  /* Until then (fp_now_ns) only the last client may come back: it may not have
   * heard yet that its session has ended, and over shm go on.  0: it has.
   */
  uint64_t fenced_ns;
  /* Until then (fp_now_ns) other clients need a takeover: the last one hung up
   * without BYE, and may reconnect.
   */
  uint64_t awaited_ns;
  /* Time (fp_now_ns) from which a volume that is not kept and has no session
   * is an orphan.
   */
  uint64_t orphan_ns;
  /* Slabs that it had when it was left and that were not abandoned; and those
   * of them that are in huge pages.
   */
  uint32_t nr_sound, nr_sound_huge;
  struct fp_uuid user;                  /* who was given a key last */
  struct fp_uuid former[RECORD_FORMER]; /* who before, the last of them */
  unsigned nr_former;                   /* ever */
  struct slab **slabs;
  uint32_t nr_slabs, max_slabs;
  struct event *lease;

  struct who owner; /* whose quota it counts for; see guard.h */

  struct fp_members *members; /* NULL: none yet */
  uint64_t *map;              /* a bit for each extent; NULL: none exists, and
                                 nobody has opened it since it is there */
  uint64_t existing;          /* extents with a copy in the map */

  struct persist_volume *persist; /* NULL: nothing outlives this process */
};

struct record *record_find (struct server *srv, const struct fp_uuid *uuid);
struct record *record_find_name (struct server *srv, const char *name);

/* Return r, or NULL if r is the orphan of another client. */
struct record *record_for (const struct session *s, struct record *r);
struct record *record_find_for (const struct session *s,
                                const struct fp_uuid *uuid);

bool record_is_orphan (const struct record *r);

/* Forget r if it is an orphan: a new volume takes its UUID or name. */
void record_forget_orphan (struct record *r);

/* Return how many slabs the pool could lend if all orphans were forgotten, of
 * this owner, or with NULL of any.
 */
uint32_t record_reclaimable (const struct server *srv,
                             const struct who *owner);

/* Resource that forgetting an orphan must free: */
enum reclaim {
  RECLAIM_ANY,      /* its place in the list */
  RECLAIM_MAP,      /* memory for maps */
  RECLAIM_SLABS,    /* its part of a quota; slabs, some time */
  RECLAIM_LENDABLE, /* slabs that can be lent once they are scrubbed */
  RECLAIM_ORDINARY  /* ordinary pages that go back to this host */
};

/* Forget the orphan that was left first: of this owner, or with NULL of any.
 * Return how many of its slabs go back to the pool.  -ENOENT: there is none.
 */
int record_reclaim (struct server *srv, const struct who *owner,
                    enum reclaim what);

/* -ENOSPC: there are too many, or no room to keep another one (record_keep).
 */
int record_new (struct record **out, struct server *srv,
                const struct fp_open *q);

/* Likewise, and what is kept of it stays as it is. */
int record_make (struct record **out, struct server *srv,
                 const struct fp_open *q);

/* Start the lease of r, which its client left ago_s seconds ago.  Return
 * -ENOMEM if there is no timer.
 */
int record_leave (struct record *r, unsigned lease_s, uint64_t ago_s);

/* Count s among the slabs with which r was left. */
void record_left_with (struct record *r, const struct slab *s);

/* Return true if the map of r fits once all orphans are forgotten. */
bool record_map_would_fit (const struct record *r);

/* It was made just now, and nobody has it: it is not after all. */
void record_unmake (struct record *r);

void record_attach (struct record *r, struct session *s,
                    const struct fp_open *q);

/* It is this one's from now on. */
void record_own (struct record *r, const struct who *owner);

/* Is it this client that has it, or had it last?  What a client says of itself
 * is believed of who TLS or the kernel says that it is, if there is an access
 * file.
 */
bool record_was_had_by (const struct record *r, const struct session *s);

/* Its client says on how many servers it is now. */
void record_recount (struct record *r, uint32_t servers);

/* The session that has it was given a key. */
void record_used (struct record *r);

/* Another client takes the volume: whoever has it, or had it last, is as one
 * that had a key before, from here on.  False: it was so already.
 */
bool record_shut_out (struct record *r);

/* This client had a key before another one had: what it knows of the volume,
 * which extents are where and what was never written, may not be so any more.
 * It would read zeros for what the other one wrote, and release what it does
 * not know.
 */
bool record_is_former (const struct record *r, const struct fp_uuid *client);

/* Nobody has a key to its slabs any more.  discard: scrub and forget it now,
 * do not wait for the lease, or for ever if it is kept.
 */
void record_detach (struct record *r, bool discard);

/* Scrub and forget it; nobody has it.  by is for the log. */
void record_delete (struct record *r, const char *by);

/* A slab just taken from the pool is its; -ENOMEM: it is not. */
int record_add (struct record *r, struct slab *s);

/* One of its slabs holds an extent. */
void record_label (struct record *r, struct slab *s, const struct fp_label *l);

/* Back to the pool, which scrubs it; of a lost one, only the mark goes. Nobody
 * has a key.
 */
void record_release (struct record *r, struct slab *s);

/* Its key could not be revoked: see pool_lose.  The label stays, as a mark
 * that what the extent held is lost, until the client releases it or the
 * record is gone: a client that learns what is here must not take the extent
 * for one that was never written.
 */
void record_lose (struct record *r, struct slab *s);

/* Its name, or its UUID if it has none. */
void record_title (const struct record *r, char out[FP_NAME_MAX + 1]);

uint64_t record_extents (const struct record *r);
/* Bits of its map. */
uint64_t record_bits (const struct record *r);

/* There is a list of its servers and a map of its extents. */
bool record_has_map (const struct record *r);

/* All of what follows is about such volumes.
 *
 * -EINVAL: the list is not newer than the one there is, nor the same.
 */
int record_set_members (struct record *r, const struct fp_members *m);

/* Return the size of its map, made or not, in words. */
uint64_t record_map_words (const struct record *r);

/* Make map its map: count its extents, and charge it to the server. */
void record_take_map (struct record *r, uint64_t *map);

/* Whoever opens it has a map for certain: an extent that cannot be recorded
 * later would be an I/O error.  -ENOSPC: the maps of all volumes take as much
 * as they may.
 */
int record_need_map (struct record *r);

/* -EINVAL: not all of them are extents of the volume.  Then nothing was
 * changed.
 */
int record_map (struct record *r, const struct fp_map_change *q);
int record_map_write (struct record *r, const struct fp_map_words *q);
void record_map_read (const struct record *r, const struct fp_map_read *q,
                      struct fp_map_words *p);

/* Return for how many ms OPEN by another client is BUSY; 0: it is not, or
 * somebody has it.  A takeover ends the wait of awaited_ns, not fenced_ns.
 */
uint32_t record_fenced_ms (const struct record *r);

void record_describe (const struct record *r, struct fp_volume_entry *e);

/* The list and the map are freed. */
void record_forget_volume (struct record *r);

/* All records are forgotten, slabs and all; nothing is scrubbed.  At the end.
 * What is kept of them stays.
 */
void record_free_all (struct server *srv);

/* record_persist.c: what the next server finds of it, if any does.  The first
 * time may fail.
 */
int record_keep (struct record *r);
/* Neither it nor its slabs are found again, whatever of them is left; when
 * these are unkept, it goes, too.
 */
void record_doom (struct record *r);
void record_unkeep (struct record *r);
void record_keep_slab (const struct record *r, const struct slab *s);
void record_unkeep_slab (const struct record *r, const struct slab *s);

/* What the last one left: of a slab, for pool_new; and then all. */
enum pool_left record_left (void *ctx, uint32_t slab, uint32_t *serial);
/* The slab has other memory. */
void record_moved (void *ctx, struct slab *s);
int record_take_up_all (struct server *srv);

#endif /* MEMSERVER_RECORD_H */
