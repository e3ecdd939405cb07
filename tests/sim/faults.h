/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.h - what happens to donors, network and clients.
 *
 * A fault has a begin and an end, both drawn from the seed.
 *
 *   GENTLE   Fewer donors than there are copies are affected at a time, and
 *            the next one only after the volume is whole again.  So no request
 *            may fail.
 *   DURABLE  Anything but the loss of memory.  Requests may fail.  In the end
 *            all data is there.
 *   HARSH    Anything.  Data may be lost, but what is read is right.
 *
 * Threads:  the first one.
 */

#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include <stdbool.h>

enum faults_mode { FAULTS_GENTLE, FAULTS_DURABLE, FAULTS_HARSH, FAULTS_MODES };
extern const char *const faults_modes[];

void faults_init (enum faults_mode mode, unsigned copies);

/* End those faults whose time is over, and perhaps begin one.  Return true if
 * one began.
 */
bool faults_step (void);
/* End all faults: donors are up, the network is whole. */
void faults_end (void);

/* Return true if some client has the volume, all donors are up, and each
 * extent has all its copies.
 */
bool faults_whole (void);

/* Return true if no client could attach for a long time, in harsh mode, after
 * memory was lost.  Whether that is the reason is not checked.
 */
bool faults_no_client (void);
/* Begin that time again. */
void faults_await_client (void);

/* Add the extents of a volume to the trace.  Each copy has its state, server,
 * slab and generation.  Marks say that it is in sync (s), recorded as in sync
 * (r), in doubt (d) or bad (b).
 */
struct fp_volume;
void faults_trace_extents (struct fp_volume *v);

/* Add the state of clients and servers to the trace. */
void faults_trace_state (void);

/* Print how often each fault began. */
void faults_print (void);

#endif /* SIM_FAULTS_H */
