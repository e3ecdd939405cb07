/* SPDX-License-Identifier: BSD-3-Clause */
/* persist.h - files of a store (store.h), in which a server that is started
 * with --backing finds its slabs and volumes again:
 *
 *   state         its UUID, and the label of each slab, in cells (cell.h).
 *   slab-N        The memory of slab N (backing.h).
 *   volume-UUID   A record, an owner, a list of members (each in a cell), and
 *                 the map (its words change by one store each).  Older
 *                 servers have zeros for the owner, which is none.
 *
 * The files are mapped.  A change is made by stores, and is there after a kill
 * at any instruction, but not after a power cut.  On a hugetlbfs each file
 * takes a whole page, the small ones too.
 *
 * A change is here before the reply to its request is sent.  If a reply is
 * lost, the client finds the change done or not done.  A slab with a label is
 * kept.  A slab without one may hold anything: its file is removed before the
 * slab is lent again.
 *
 * A volume is deleted in three steps.  Its record is marked, which is what
 * counts; then its labels go, and then its file.  So a label without a volume
 * is not left over from that.  Some other program has taken the file away, and
 * the next server does not start.
 *
 * The files of a directory cannot be sealed.  With shm, client and server
 * would have to trust each other not to truncate them, so there is no shm with
 * those.  In a sealed store a client may have mapped memory that a new server
 * finds, and go on storing there.  So the label names the client before it has
 * the memory.  For any other client it is as if that one had vanished
 * (slab.h).
 *
 * Errors:   0 or a negative errno value.  error, if there is one, then has the
 *           sentence, or is unchanged if memory has run out.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_PERSIST_H
#define MEMSERVER_PERSIST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "memserver/auth/access.h"
#include "memserver/pool/store.h"
#include "proto/messages.h"

#define PERSIST_FORMER 64u
#define MAX_EXTENTS (UINT32_C (1) << 20) /* per volume */

#define PERSIST_KEPT 1u      /* see record.kept */
#define PERSIST_EPHEMERAL 2u /* see record.ephemeral */
#define PERSIST_ATTACHED 4u  /* a session has it */
#define PERSIST_DELETING 8u  /* volume and labels count no more */

/* The next three structures are in the files as they stand here.  If you
 * change one, change FORMAT in persist.c.
 */
struct persist_record {
  struct fp_uuid uuid, holder, user;
  char name[72], client[72]; /* with their NULs */
  uint64_t size, created, epoch, since, fenced_ns;
  uint32_t flags, copies, servers, transport, nr_former;
  uint16_t stripe_width, stripe_shift; /* shift: log2 of the stripe size */
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
  uint32_t serial; /* number of its memory: see backing_name */
  uint32_t zero;
  struct fp_uuid mapper; /* client that mapped it last; nil: none */
};

enum persist_state {
  PERSIST_FREE,     /* no label: may hold anything */
  PERSIST_LABELLED, /* holds an extent */
  PERSIST_LOST      /* what it held is lost: see record_lose */
};

struct persist_header {
  uint8_t magic[8];
  uint32_t format, lease_s;
  uint64_t slab_size;
  struct fp_uuid server;
  uint32_t record_size, members_size; /* bytes of the other structures */
};

struct persist;
struct persist_volume;

struct persist_params {
  const char *dir; /* or STORE_FDS */
  uint64_t slab_size;
  uint32_t slabs;
  unsigned lease_s;
};

/* Open the store: make DIR if it is not there, else take up its volumes.
 * All of it is checked before anything is changed.  -EBUSY: another server has
 * it.
 */
int persist_open (struct persist **out, const struct persist_params *p,
                  struct fp_error *error);
/* Close it; the files stay. */
void persist_close (struct persist *p);

struct store *persist_store (const struct persist *p);
/* Return the server's UUID, which it got at its first start in DIR. */
struct fp_uuid persist_server (const struct persist *p);
/* Return the longest lease, s, that a client may have from this server or from
 * the one before.
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
/* Set *map to the volume's map of so many words, the same number each time.
 * Stores to it are kept.
 */
int persist_volume_map (struct persist_volume *v, uint64_t words,
                        uint64_t **map);
/* Mark the volume as deleted: no later server finds it or its labels. */
void persist_volume_doom (struct persist_volume *v);
/* Delete the file of a doomed volume whose labels are gone.  Frees v. */
void persist_volume_delete (struct persist_volume *v);
/* Close the volume; its file stays.  Frees v. */
void persist_volume_close (struct persist_volume *v);

/* Get the next volume that persist_open found; v is the caller's from here on.
 * Return false if there is none left.  *map is NULL if no extent exists;
 * members has version 0 if there is no list.
 */
struct persist_found {
  struct persist_volume *v;
  struct persist_record record;
  struct fp_members members;
  struct who owner; /* WHO_NOBODY: unknown */
  uint64_t *map;
};
bool persist_next_found (struct persist *p, struct persist_found *out);

#endif /* MEMSERVER_PERSIST_H */
