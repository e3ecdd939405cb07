/* SPDX-License-Identifier: BSD-3-Clause */
/* dirty_log_int.h - functions of dirty_log.c that marks.c calls.
 *
 * Threads:  the migration thread's, except dirty_log_know, which any thread
 *           may call.
 * Memory:   no allocation.
 */

#ifndef FP_DIRTY_LOG_INT_H
#define FP_DIRTY_LOG_INT_H

#include "engine/dirty_log.h"

/* If the memory of entry k has another label, forget its states.  Keep
 * CLEARING and FAILED: their zeros may still land.
 */
void dirty_log_know (struct fp_engine *e, uint64_t k, uint64_t generation);

/* Make the CLEAR regions of entry k UNKNOWN. */
void dirty_log_forget_clear (struct fp_engine *e, uint64_t k);

/* If the region may be marked and is quiet, make it CLEARING and return true.
 * Else return false.  A SET region becomes COLD, so that a later sweep clears
 * it.  server: the one that has entry k.
 */
bool dirty_log_begin_clearing (struct fp_engine *e, uint64_t k,
                               unsigned region, unsigned server);

/* Return how many bytes of entry k lie in regions that may be marked. */
uint64_t dirty_log_marked (const struct fp_engine *e, uint64_t k);

#endif /* FP_DIRTY_LOG_INT_H */
