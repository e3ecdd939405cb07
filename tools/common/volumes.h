/* SPDX-License-Identifier: BSD-3-Clause */
/* volumes.h - combine what memory servers know of volumes.
 *
 * Units:    bytes, slabs; seconds since 1970.
 * Errors:   0, or a negative errno value and the sentence in error.
 */

#ifndef FARPAGE_VOLUMES_H
#define FARPAGE_VOLUMES_H

#include <stdbool.h>

#include "base/addr.h"
#include "base/error.h"
#include "proto/messages.h"

/* A volume on one server. */
struct volume_place {
  struct fp_uuid server;
  char addr[FP_ADDR_MAX + 1];
  char domain[FP_NAME_MAX + 1];
  bool named;    /* answers at one of the given addresses */
  bool member;   /* named in the newest list of members */
  bool current;  /* current, by that list */
  bool answers;  /* else the fields below are unknown, and error says why */
  bool has_it;   /* else it has forgotten the volume */
  bool left;     /* has the volume, but the newest list does not name it */
  bool attached; /* to entry.client */
  uint64_t slabs;
  uint64_t extents; /* existing extents, as far as it knows */
  struct fp_error error;
};

struct volume_view {
  struct fp_volume_entry entry; /* from the first server that knew it */
  uint64_t slabs;               /* on all servers that answered */
  /* For a named volume (is_counted): extents that exist, and those of them
   * that no answering server has.  These are lost if all_answered.
   */
  uint64_t extents, missing;
  bool is_counted, all_answered;
  uint64_t epoch, version;
  unsigned nr_places;
  struct volume_place places[FP_MAX_MEMBERS + 1];
};

/* List all volumes of these servers, each once.  If a server does not answer,
 * call failed for it and go on.
 */
struct volume_list {
  unsigned nr;
  struct volume_view *views;
};
int volumes_list (struct volume_list *out, const struct fp_addr *addrs,
                  unsigned n,
                  void (*failed) (const char *addr,
                                  const struct fp_error *error));
void volumes_free (struct volume_list *l);

/* Find one volume, by its name or UUID, at these servers and at those that
 * they name.  If several addrs were given, call silent, unless NULL, for each
 * that does not answer.
 * - -ENOENT: none of them knows the volume.
 * - -ENOTUNIQ: two volumes have this name, so the UUID is needed.
 * - another error: the volume was not found, and one of addrs did not answer.
 */
int volumes_find (struct volume_view *out, const char *name,
                  const struct fp_addr *addrs, unsigned n,
                  void (*silent) (const char *addr,
                                  const struct fp_error *error),
                  struct fp_error *error);

/* Delete the volume at that place. */
int volumes_delete (const struct volume_view *v, const struct volume_place *p,
                    struct fp_error *error);

#endif /* FARPAGE_VOLUMES_H */
