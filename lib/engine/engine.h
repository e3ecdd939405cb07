/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - the lowest layer of a volume (block.h): lanes, copies, dirty log.
 *
 * lane_wait.c takes requests, lane_issue.c cuts and sends them.  zero.c zeros
 * and finds holes, flush.c flushes.
 */

#ifndef FP_ENGINE_H
#define FP_ENGINE_H

struct fp_volume;

/* Initialise v->engine from v->p, which the probe has completed. */
void fp_engine_init (struct fp_volume *v);

#endif /* FP_ENGINE_H */
