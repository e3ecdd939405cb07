/* SPDX-License-Identifier: BSD-3-Clause */
/* dirty_log_int.h - what marks.c calls in dirty_log.c.
 *
 * Threads:  the migration thread's.
 * Memory:   no allocation.
 */

#ifndef FP_DIRTY_LOG_INT_H
#define FP_DIRTY_LOG_INT_H

#include "engine/dirty_log.h"

/* If the memory of entry k has another label, forget its states.  Keep
 * CLEARING and FAILED: their zeros may still land.  Any thread.
 */
void dirty_log_know (struct fp_engine *e, uint64_t k, uint64_t generation);

/* Make the CLEAR regions of entry k UNKNOWN. */
void dirty_log_forget_clear (struct fp_engine *e, uint64_t k);

/* Make the region CLEARING and return true, unless it is used or was written
 * recently.
 */
bool dirty_log_begin_clearing (struct fp_engine *e, uint64_t k,
                               unsigned region, unsigned server);

/* Return how many bytes of entry k lie in regions that may be marked. */
uint64_t dirty_log_marked (const struct fp_engine *e, uint64_t k);

#endif /* FP_DIRTY_LOG_INT_H */
