/* SPDX-License-Identifier: BSD-3-Clause */
/* restore.h - look at the copies of all extents, and decide what becomes of
 * those that cannot be used, or are missing (mirror.h).
 *
 * Dead copies are dropped from the in-sync set, and what could not be recorded
 * is recorded.  Copies that are missing get memory, and the migration thread
 * resyncs them.
 *
 * Threads:  the allocator's.
 * Memory:   nothing here allocates.
 */

#ifndef FP_RESTORE_H
#define FP_RESTORE_H

#include <stdint.h>

struct fp_engine;
struct fp_migrate;

struct fp_restore {
  struct fp_engine *e;
  struct fp_migrate *migrate;
  /* Times of the next look, of the next try to find memory, and of the last
   * look.
   */
  uint64_t next_ns, refill_ns, looked_ns;
};

/* Look if that is due.  Call it often.  Return ms until the next look.  arg is
 * a struct fp_restore (fp_allocator.look).
 */
unsigned fp_restore_look (void *arg);

#endif /* FP_RESTORE_H */
