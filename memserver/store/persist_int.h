/* SPDX-License-Identifier: BSD-3-Clause */
/* persist_int.h - the inside of what is kept, for the files that are one:
 * persist.c has the directory and the slabs, persist_volume.c the volumes.
 */

#ifndef MEMSERVER_PERSIST_INT_H
#define MEMSERVER_PERSIST_INT_H

#include "base/uuid.h"
#include "memserver/store/cell.h"
#include "memserver/store/persist.h"

struct persist_volume {
  TAILQ_ENTRY (persist_volume) entry; /* of persist.found */
  struct persist *persist;
  struct fp_uuid uuid;
  uint64_t extents;
  bool doomed;
  int fd;
  uint8_t *file; /* mapped */
  uint64_t bytes, map_bytes;
  struct cell *record;  /* in it */
  struct cell *owner;   /* likewise */
  struct cell *members; /* likewise; NULL: not yet */
  uint64_t *map;        /* likewise */
};
TAILQ_HEAD (persist_volume_list, persist_volume);

struct persist {
  struct persist_params params;
  struct store *store;
  uint8_t *state; /* mapped */
  uint64_t state_bytes;
  struct persist_header header;
  unsigned lease_s; /* of the server before, if that was longer */
  struct persist_volume_list found;
};

/* Give so many bytes of a file memory where they have none. */
int persist_make (int fd, uint64_t offset, uint64_t bytes);
/* So many bytes of a file, mapped: a multiple of a page of the store. */
int persist_map_file (int fd, uint64_t bytes, void **out);

/* Look at a file volume-UUID, and put it on the list; changes nothing. */
int persist_volume_find (struct persist *p, const char *name,
                         char why[STORE_WHY_MAX]);
/* Volume uuid, if it was found; or NULL. */
const struct persist_volume *persist_volume_of (const struct persist *p,
                                                const struct fp_uuid *uuid);
/* What the server before had begun to delete goes. */
void persist_volume_delete_doomed (struct persist *p);

extern const uint32_t persist_members_size;

#endif /* MEMSERVER_PERSIST_INT_H */
