/* SPDX-License-Identifier: BSD-3-Clause */
/* persist_int.h - the inside of persist.h: persist.c has the state and the
 * slabs, persist_volume.c the volumes.
 */

#ifndef MEMSERVER_PERSIST_INT_H
#define MEMSERVER_PERSIST_INT_H

#include "base/error.h"
#include "base/uuid.h"
#include "memserver/store/cell.h"
#include "memserver/store/persist.h"

struct persist_volume {
  TAILQ_ENTRY (persist_volume) entry; /* in persist.found */
  struct persist *persist;
  struct fp_uuid uuid;
  uint64_t extents;
  bool doomed;
  int fd;
  uint8_t *file; /* the mapped file */
  uint64_t bytes, map_bytes;
  struct cell *record;  /* in the file */
  struct cell *owner;   /* in the file */
  struct cell *members; /* in the file; NULL: not yet */
  uint64_t *map;        /* in the file; NULL: not yet */
};
TAILQ_HEAD (persist_volume_list, persist_volume);

struct persist {
  struct persist_params params;
  struct store *store;
  uint8_t *state; /* the mapped file */
  uint64_t state_bytes;
  struct persist_header header;
  unsigned lease_s; /* longest one: see persist_lease_s */
  struct persist_volume_list found;
};

/* Allocate memory for a part of a file, where it has none. */
int persist_make (int fd, uint64_t offset, uint64_t bytes);
/* Map so many bytes of a file, a multiple of the store's page size. */
int persist_map_file (int fd, uint64_t bytes, void **out);

/* Check a file volume-UUID, and put it on the list.  Change nothing. */
int persist_volume_find (struct persist *p, const char *name,
                         struct fp_error *error);
/* Return the volume of this uuid if it was found, or NULL. */
const struct persist_volume *persist_volume_of (const struct persist *p,
                                                const struct fp_uuid *uuid);
/* Delete the volumes that the server before had begun to delete. */
void persist_volume_delete_doomed (struct persist *p);

extern const uint32_t persist_members_size;

#endif /* MEMSERVER_PERSIST_INT_H */
