/* SPDX-License-Identifier: BSD-3-Clause */
/* restore.h - look at the copies of all extents, and decide what becomes of
 * those that cannot be used, or are missing (mirror.h).
 *
 * Dead copies are dropped from the in-sync set.  In-sync copies that could not
 * be recorded as such are recorded.  Copies that are missing get memory, and
 * the migration thread resyncs them.
 *
 * Threads:  the allocator's.
 * Memory:   nothing here allocates.
 */

#ifndef FP_RESTORE_H
#define FP_RESTORE_H

#include <stdint.h>

struct fp_engine;
struct fp_migrate;

/* Start it as zeros; the owner sets e and migrate. */
struct fp_restore {
  struct fp_engine *e;
  struct fp_migrate *migrate;
  /* Times of the next look, of the next try to find memory, and of the last
   * look, by fp_now_ns.
   */
  uint64_t next_ns, refill_ns, looked_ns;
};

/* Look if that is due.  Call it often.  Return ms until the next look.  arg is
 * a struct fp_restore (fp_allocator.look).  With one copy, do nothing.  If the
 * volume is read-only, only cut off silent donors.
 */
unsigned fp_restore_look (void *arg);

#endif /* FP_RESTORE_H */
