/* SPDX-License-Identifier: BSD-3-Clause */
/* persist.h - what a server started with --backing finds again: its slabs and
 * what it knew of its volumes, as files of a store (store.h).
 *
 *   state         its UUID, and for each slab the label, in cells (cell.h)
 *   slab-N        the memory of slab N (backing.h)
 *   volume-UUID   a record in a cell, the owner in a cell (where older servers
 *                 have zeros, which is none), the list of members in a cell,
 *                 and the map, whose words change each by one store
 *
 * They are mapped, so that a change is made by stores, and is there after a
 * kill at any instruction.  After a power cut there is no tmpfs either.  On a
 * hugetlbfs each file takes a whole page, the small ones too.
 *
 * A change is here before the reply to what asked for it is sent; so a client
 * whose request was not answered finds it done or not done, as with any reply
 * that was lost.  What is labelled is kept.  A slab whose label is not here
 * may hold anything: it is never lent again, its file is removed first.  A
 * volume is deleted in three steps: its record says so, which is what counts;
 * the labels go; and its file.  So a label whose volume is not there is none
 * that was left behind: somebody else took the file away, and the next server
 * does not start.
 *
 * Files of a directory cannot be sealed: a client that maps them would have to
 * trust the server, and the server the client, not to cut them off.  So there
 * is no shm with those.  Where the store is sealed a client may have mapped
 * what a server finds when it starts, and go on storing there: whose it was is
 * in the label before the client has it, and for anybody else it is as if that
 * one had vanished (slab.h).
 *
 * Errors:   0 or a negative errno value; why says more, for people.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_PERSIST_H
#define MEMSERVER_PERSIST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "memserver/auth/access.h"
#include "memserver/store/store.h"
#include "proto/messages.h"

#define PERSIST_FORMER 64u

#define PERSIST_KEPT 1u      /* see record.kept */
#define PERSIST_EPHEMERAL 2u /* see record.ephemeral */
#define PERSIST_ATTACHED 4u  /* a session has it */
#define PERSIST_DELETING 8u  /* neither it nor its labels count any more */

/* These three are in the files as they stand here: change FORMAT in persist.c
 * with them.
 */
struct persist_record {
  struct fp_uuid uuid, holder, user;
  char name[72], client[72]; /* with their NULs */
  uint64_t size, created, epoch, since, fenced_ns;
  uint32_t flags, copies, servers, transport, nr_former;
  uint16_t stripe_width, stripe_shift; /* log2 of the size */
  struct fp_uuid former[PERSIST_FORMER];
};

static inline struct fp_stripe
persist_stripe (const struct persist_record *r)
{
  return (struct fp_stripe) { .width = r->stripe_width,
                              .size = UINT64_C (1) << (r->stripe_shift & 63) };
}

struct persist_label {
  struct fp_uuid volume;
  uint64_t extent, generation;
  uint32_t copy;
  uint32_t state;  /* enum persist_state */
  uint32_t serial; /* of its memory: see backing_name */
  uint32_t zero;
  struct fp_uuid mapper; /* who has, or had, it mapped last; nil: nobody */
};

enum persist_state {
  PERSIST_FREE,     /* not labelled: it may hold anything */
  PERSIST_LABELLED, /* it holds an extent */
  PERSIST_LOST      /* what it held is lost: see record_lose */
};

struct persist_header {
  uint8_t magic[8];
  uint32_t format, lease_s;
  uint64_t slab_size;
  struct fp_uuid server;
  uint32_t record_size, members_size; /* of the other structures here */
};

struct persist;
struct persist_volume;

struct persist_params {
  const char *dir; /* or STORE_FDS */
  uint64_t slab_size;
  uint32_t slabs;
  unsigned lease_s;
};

/* Make DIR, if it is not there; or find again what is there.  All of it is
 * looked at before anything is changed.  -EBUSY: another server has it.
 */
int persist_open (struct persist **out, const struct persist_params *p,
                  char why[STORE_WHY_MAX]);
/* The files stay. */
void persist_close (struct persist *p);

struct store *persist_store (const struct persist *p);
/* What it was called when it first started in DIR. */
struct fp_uuid persist_server (const struct persist *p);
/* The longest lease that a client may have of this server, or the one that was
 * here before.
 */
unsigned persist_lease_s (const struct persist *p);

void persist_label (struct persist *p, uint32_t slab,
                    const struct persist_label *l);
void persist_unlabel (struct persist *p, uint32_t slab);
struct persist_label persist_labelled (const struct persist *p, uint32_t slab);

/* ---- volumes: persist_volume.c ---- */

int persist_volume_new (struct persist_volume **out, struct persist *p,
                        const struct persist_record *r);
void persist_volume_save (struct persist_volume *v,
                          const struct persist_record *r);
int persist_volume_set_members (struct persist_volume *v,
                                const struct fp_members *m);
void persist_volume_set_owner (struct persist_volume *v,
                               const struct who *owner);
/* Its map, of so many words, the same each time; stores to it are kept. */
int persist_volume_map (struct persist_volume *v, uint64_t words,
                        uint64_t **map);
/* It is not found again, nor is any label of it. */
void persist_volume_doom (struct persist_volume *v);
/* It was doomed, and its labels are gone: so goes its file.  Frees v. */
void persist_volume_delete (struct persist_volume *v);
/* It is.  Frees v. */
void persist_volume_close (struct persist_volume *v);

/* Those that persist_open found: the next one, whose v is the caller's from
 * here on; false: that was all.  *map is NULL if no extent exists, and members
 * has version 0 if there is no list.
 */
struct persist_found {
  struct persist_volume *v;
  struct persist_record record;
  struct fp_members members;
  struct who owner; /* WHO_NOBODY: that is not known */
  uint64_t *map;
};
bool persist_next_found (struct persist *p, struct persist_found *out);

#endif /* MEMSERVER_PERSIST_H */
