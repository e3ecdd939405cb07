/* SPDX-License-Identifier: BSD-3-Clause */
/* volumes.h - what memory servers know of volumes, put together.
 *
 * Units:    bytes, slabs; seconds since 1970.
 * Errors:   0 or a negative errno value, and why.
 */

#ifndef FARPAGE_VOLUMES_H
#define FARPAGE_VOLUMES_H

#include <stdbool.h>

#include "base/addr.h"
#include "proto/messages.h"
#include "tools/common/why.h"

/* A volume on one server. */
struct volume_place {
  struct fp_uuid server;
  char addr[FP_ADDR_MAX + 1];
  char domain[FP_NAME_MAX + 1];
  bool named;    /* it answers at one of the addresses that were given */
  bool member;   /* the list that counts names it */
  bool current;  /* which says so */
  bool answers;  /* else the rest is not known, and why says why */
  bool has_it;   /* else it has forgotten the volume */
  bool left;     /* it has it, and the list that counts does not name it */
  bool attached; /* to entry.client */
  uint64_t slabs;
  uint64_t extents; /* that exist, as it knows */
  struct why why;
};

struct volume_view {
  struct fp_volume_entry entry; /* of the server that was asked first */
  uint64_t slabs;               /* of all that answered */
  /* Of a volume with a name (is_counted): so many exist, and of these no
   * server that answered has that many: they are lost, if all answered.
   */
  uint64_t extents, missing;
  bool is_counted, all_answered;
  uint64_t epoch, version;
  unsigned nr_places;
  struct volume_place places[FP_MAX_MEMBERS + 1];
};

/* All volumes of these servers, each once.  A server that does not answer is
 * no error of the others: failed is called for it.
 */
struct volume_list {
  unsigned nr;
  struct volume_view *views;
};
int volumes_list (struct volume_list *out, const struct fp_addr *addrs,
                  unsigned n,
                  void (*failed) (const char *addr, const struct why *w));
void volumes_free (struct volume_list *l);

/* One volume, by its name or UUID, at these servers and at those that they
 * name.
 * -ENOENT   none of them knows it
 * -ENOTUNIQ the name is that of two volumes: its UUID is needed
 * or why one of addrs did not answer, if nobody knew it.  If silent is not
 * NULL it is called for each of several addrs that did not.
 */
int volumes_find (struct volume_view *out, const char *name,
                  const struct fp_addr *addrs, unsigned n,
                  void (*silent) (const char *addr, const struct why *w),
                  struct why *w);

/* Delete it at that place. */
int volumes_delete (const struct volume_view *v, const struct volume_place *p,
                    struct why *w);

#endif /* FARPAGE_VOLUMES_H */
