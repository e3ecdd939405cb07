/* SPDX-License-Identifier: BSD-3-Clause */
/* record.h - what this server knows of a volume, and the slabs it has here.
 *
 * A volume is attached to at most one session.  When that ends, slabs without
 * a label go back to the pool.  The record and the labelled slabs wait for the
 * client to come back.  A volume with a name waits until it is deleted.  One
 * with a name or several copies of each extent also has a list of its servers
 * and a map of its extents (record_volume.c).
 *
 * A volume that is not kept is one without a name, or EPHEMERAL.  It is an
 * orphan when the lease is over:
 *
 *   ATTACHED --session ends--> LEFT --lease over--> ORPHAN --> forgotten
 *      ^                        |                     |
 *      +---- OPEN by any client-+   OPEN by the same -+
 *
 * Only the client that left an orphan can open it: it may have been suspended.
 * Other servers of the volume may have forgotten it, so another client could
 * not tell whether the copies here are current.  An orphan is forgotten when
 * its memory is needed (records_reclaim), or after --orphan-time.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 * Memory:   a record, and a pointer for each slab.  With a map also a list of
 *           members and, from the first OPEN on, a bit for each copy of an
 *           extent.  MAX_MAP_WORDS is the limit for all volumes.
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
struct records;
struct session;

struct record {
  TAILQ_ENTRY (record) entry;
  struct records *records;
  struct fp_uuid uuid;
  char name[FP_NAME_MAX + 1]; /* may be empty */
  bool kept;                  /* has a name, and stays until it is deleted */
  uint64_t size;
  uint64_t created; /* seconds since 1970 */
  uint32_t copies;
  struct fp_stripe stripe;
  uint32_t servers;   /* number of servers of the volume, with this one */
  uint32_t transport; /* that the present or last session uses */
  bool ephemeral;
  uint64_t epoch;
  struct session *holder; /* NULL: no session has it; see record_holder */
  char client[FP_NAME_MAX + 1]; /* present or last client, for people */
  struct fp_uuid holder_uuid;   /* UUID of that client */
  /* Identity of the last client that could write; unknown after a restart. */
  struct who holder_who;
  uint64_t since; /* start of its state, seconds since 1970 */
  /* Until then (fp_now_ns) only the last client may come back.  It may not
   * have heard yet that its session has ended, and over shm it may go on.  0:
   * it has heard.
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
  /* Number of slabs that were not abandoned when the volume was left, and how
   * many of them are in huge pages.
   */
  uint32_t nr_sound, nr_sound_huge;
  struct fp_uuid user;                  /* client that was given a key last */
  struct fp_uuid former[RECORD_FORMER]; /* clients before that, a ring */
  unsigned nr_former;                   /* clients ever put there */
  struct slab **slabs;
  uint32_t nr_slabs, max_slabs;
  struct event *lease;

  struct who owner; /* identity whose quota counts: see guard.h */

  struct fp_members *members; /* NULL: none yet */
  /* A bit for each copy of an extent; NULL: none exists, and no client has
   * opened the volume yet.
   */
  uint64_t *map;
  uint64_t existing; /* extents with a copy in the map */

  struct persist_volume *persist; /* NULL: nothing outlives this process */
};

bool record_is_orphan (const struct record *r);

/* Return how many slabs of an orphan the pool could lend once it is forgotten.
 * While the host is short of memory, ordinary pages go to the host.
 */
uint32_t record_lendable (const struct record *r);

/* Forget a volume that its client left.  why is for the log.  Return how many
 * slabs go back to the pool.
 */
uint32_t record_forget_left (struct record *r, const char *why);

/* Free only the record, and not what is kept of it.  Its slabs still point to
 * it: give them back before, unless the pool ends, too.
 */
void record_forget (struct record *r);

/* Forget r if it is an orphan: a new volume takes its UUID or name. */
void record_forget_orphan (struct record *r);

/* Make a record, and keep it (record_keep).  -ENOSPC: there are too many, or
 * no room to keep another one.
 */
int record_new (struct record **out, struct records *all,
                const struct fp_open *q);

/* Make a record, and do not change what is kept of it. */
int record_make (struct record **out, struct records *all,
                 const struct fp_open *q);

/* Start the lease of r, which its client left ago_s seconds ago.  Return
 * -ENOMEM if there is no timer.
 */
int record_leave (struct record *r, unsigned lease_s, uint64_t ago_s);

/* Count s among the slabs with which r was left. */
void record_left_with (struct record *r, const struct slab *s);

/* Undo record_new: no client has the volume yet. */
void record_unmake (struct record *r);

/* Session that attaches a volume, and its client.  record_attach copies what
 * it points to.  The client's identity (`who`) is proved by guard_hello.  Its
 * UUID and name are only what it said.
 */
struct record_holder {
  struct session *session; /* only its pointer is used here */
  const struct fp_uuid *client;
  const char *name;
  const struct who *who;
  bool read_only;
};
/* Make h->session the holder.  No session may have the volume. */
void record_attach (struct record *r, const struct record_holder *h,
                    const struct fp_open *q);

/* Set the owner, whose quota the volume counts for. */
void record_own (struct record *r, const struct who *owner);

/* Set the number of servers that the volume is on now, as its client says. */
void record_recount (struct record *r, uint32_t servers);

/* Note that the client that has the volume was given a key. */
void record_used (struct record *r);

/* Shut out the client that has the volume or had it last, as another one takes
 * it.  From here on it counts as a former client.  Return false if it did
 * before.
 */
bool record_shut_out (struct record *r);

/* Return true if another client had a key after this one.  Then this client
 * may be wrong about where extents are, and what was never written.  It would
 * read zeros for what the other one wrote, and release what it does not know.
 */
bool record_is_former (const struct record *r, const struct fp_uuid *client);

/* Detach the session; no client has a key to the slabs any more.  With
 * discard, scrub and forget the volume now, even if it has a lease or is kept.
 */
void record_detach (struct record *r, bool discard);

/* Scrub and forget a volume that no session has; by is for the log. */
void record_delete (struct record *r, const char *by);

/* Add a slab just taken from the pool.  -ENOMEM: it was not added. */
int record_add (struct record *r, struct slab *s);

/* Note that a slab of the volume holds an extent. */
void record_label (struct record *r, struct slab *s, const struct fp_label *l);

/* Give a slab back to the pool, which scrubs it; of a lost one only the mark
 * goes.  No session has a key to it.
 */
void record_release (struct record *r, struct slab *s);

/* Give up a slab whose key could not be revoked (pool_lose).  The label stays
 * as a mark that what the extent held is lost.  The mark goes when the client
 * releases it, or with the record.  A client that learns what is here must not
 * take the extent for one that was never written.
 */
void record_lose (struct record *r, struct slab *s);

/* Write the volume's name to out, or its UUID if it has no name. */
void record_title (const struct record *r, char out[FP_NAME_MAX + 1]);

uint64_t record_extents (const struct record *r);
/* Return the number of bits of the volume's map. */
uint64_t record_bits (const struct record *r);

/* Return true if the map has a lost bit that is set. */
bool record_has_lost (const struct record *r);

/* Return true if the volume has a list of its servers and a map of its
 * extents.
 */
bool record_has_map (const struct record *r);

/* The next functions are for these volumes only.
 *
 * Set the list of members.  -EINVAL: it is not newer than the one that is
 * there, nor the same.
 */
int record_set_members (struct record *r, const struct fp_members *m);

/* Return the size of its map, made or not, in words. */
uint64_t record_map_words (const struct record *r);

/* Make map the map of r: count its extents, and charge it to
 * records.map_words.
 */
void record_take_map (struct record *r, uint64_t *map);

/* Make sure that there is a map when the volume is opened.  An extent that
 * cannot be recorded later would be an I/O error.  -ENOSPC: the maps of all
 * volumes take as much as they may.
 */
int record_need_map (struct record *r);

/* Change or read the map.  -EINVAL: some of it is outside the volume, and
 * nothing was changed.
 */
int record_map (struct record *r, const struct fp_map_change *q);
int record_map_write (struct record *r, const struct fp_map_words *q);
void record_map_read (const struct record *r, const struct fp_map_read *q,
                      struct fp_map_words *p);

/* Return for how many ms OPEN by another client is BUSY; 0: it is not, or a
 * session has the volume.  A takeover ends the wait of awaited_ns, not
 * fenced_ns.
 */
uint32_t record_fenced_ms (const struct record *r);

void record_describe (const struct record *r, struct fp_volume_entry *e);

/* Free the list and the map. */
void record_forget_volume (struct record *r);

/* Save the record for the next server, if there is a store.  Only the first
 * time may fail.  (This and what follows is in record_persist.c.)
 */
int record_keep (struct record *r);
/* Mark the record: no later server finds it or its slabs.  When all slabs are
 * unkept, record_unkeep removes its file.
 */
void record_doom (struct record *r);
void record_unkeep (struct record *r);
void record_keep_slab (const struct record *r, const struct slab *s);
void record_unkeep_slab (const struct record *r, const struct slab *s);

/* Save that the slab has other memory (pool_params.moved). */
void record_moved (void *ctx, struct slab *s);

#endif /* MEMSERVER_RECORD_H */
