/* SPDX-License-Identifier: BSD-3-Clause */
/* migrate_mapped.c - copy from one server's memory to another's where both are
 * mapped (shm): one copy, without a buffer between.
 */

#include <config.h>

#include <sys/mman.h>

#include "base/clock.h"
#include "heal/migrate_int.h"
#include "transport/local/mapped.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

/* Pages are aligned to this at least. */
#define PAGE 4096u

/* Map pages by read faults, which map them by the dozen, and for writing too.
 * In a new mapping the first store to each page faults, which takes several
 * times as long as copying.  The pages exist, as the server has populated
 * them; a store makes any that it has not.
 */
static void
map_ahead (void *p, size_t length)
{
  size_t before = (uintptr_t) p % PAGE;

  /* If this is unknown or fails, the copy has the faults. */
  (void) madvise ((unsigned char *) p - before, before + length,
                  MADV_POPULATE_READ);
}

/* Copy from one copy to the other, which were both entered.  Return false if
 * one is not mapped.  Also if a server may have ended the session meanwhile:
 * then the data does not count.
 */
static bool
copy_mapped (struct fp_migrate *m, const struct fp_copy *from,
             const struct fp_copy *to, uint64_t in, uint32_t length)
{
  struct fp_lease *lease = m->e->lease;
  unsigned char *far;
  uint64_t now;

  if (from->remote.map == NULL || to->remote.map == NULL)
    return false;
  far = (unsigned char *) to->remote.map + in;
  map_ahead (far, length);
  if (fp_mapped_copy_while_written (
          far, (const unsigned char *) from->remote.map + in, length) < 0)
    return false; /* the lanes will fail, too, and say which copy */
  now = fp_mono_ns ();
  return fp_lease_covers_mapped (lease, from->server, now) &&
         fp_lease_covers_mapped (lease, to->server, now);
}

bool
migrate_copy_mapped (struct fp_migrate *m, uint64_t i, uint64_t in,
                     uint32_t length)
{
  struct fp_extents *t = m->e->extents;
  struct fp_extent *from = &t->p[i], *to = m->to_extent;
  bool did = false;

  if (fp_extent_enter_frozen (t, from) != FP_EXTENT_READY)
    return false;
  if (fp_extent_enter_frozen (t, to) == FP_EXTENT_READY) {
    did = (m->to_generation == 0 || m->to_generation == to->copy.generation) &&
          copy_mapped (m, &from->copy, &to->copy, in, length);
    fp_extent_leave (t, to);
  }
  fp_extent_leave (t, from);
  return did;
}
