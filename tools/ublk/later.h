/* SPDX-License-Identifier: BSD-3-Clause */
/* later.h - threads for some requests of a ublk queue.  lib/volume does a
 * flush, zero or trim, and all of a sealed volume, only while a thread waits.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the queue's pushes and takes.  Its owner calls new and free.
 * Memory:   only new allocates.  The caller owns each item, from push until
 *           take returns it.
 */

#ifndef FARPAGE_UBLK_LATER_H
#define FARPAGE_UBLK_LATER_H

#include <stdbool.h>
#include <stdint.h>

#include "volume/volume.h"

enum later_kind {
  LATER_READ,
  LATER_WRITE,
  LATER_FLUSH,
  LATER_ZERO,
  LATER_TRIM
};

struct later_item {
  enum later_kind kind;
  uint64_t length, offset; /* bytes */
  void *buf;               /* READ, WRITE */
  int status;              /* set before take: 0 or -errno */
  struct later_item *next;
};

struct later;

/* name: of the threads, for ps(1). */
int later_new (struct later **out, struct fp_lane *lane, unsigned threads,
               const char *name);
/* Do all items that were pushed, and free l. */
void later_free (struct later *l);

void later_push (struct later *l, struct later_item *item);
/* Return the items that are done, linked by next; NULL if there are none. */
struct later_item *later_take (struct later *l);
/* Return a descriptor that is readable while take would return items. */
int later_fd (const struct later *l);

#endif /* FARPAGE_UBLK_LATER_H */
