/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.h - what happens to donors, network and clients.
 *
 * A fault has a begin and an end.  They are drawn from the seed, or come from
 * a scenario.  The donor of a fault is a memory server.
 *
 *   GENTLE   Fewer donors than there are copies are affected at a time, and
 *            the next one only after the volume is whole again.  So no request
 *            may fail.  A donor that lost its memory counts as down until the
 *            client knows its new UUID, however soon it was back.
 *   DURABLE  Anything but the loss of memory.  Requests may fail.  In the end
 *            all data is there.
 *   HARSH    Anything.  Data may be lost, but what is read is right.
 *
 * In a scenario the mode says what must not happen, and limits no fault.
 *
 * Threads:  the first one.
 */

#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include <stdbool.h>

enum faults_mode { FAULTS_GENTLE, FAULTS_DURABLE, FAULTS_HARSH, FAULTS_MODES };
extern const char *const faults_modes[];

void faults_init (enum faults_mode mode, unsigned copies);

/* Do faults_pass, and perhaps begin a fault.  Return true if one began. */
bool faults_step (void);
/* End the faults that are over.  Keep a client running.  Fail the run if a
 * check has found copies that differ.
 */
void faults_pass (void);

/* Return the fault with this name, or -1.  *of_donor: it needs a donor. */
int faults_find (const char *name, bool *of_donor);
const char *faults_name (int kind);
/* Begin it, for ms unless it is over at once.  Return false if it cannot. */
bool faults_begin (int kind, unsigned donor, unsigned ms);
/* Return how many faults are not over. */
unsigned faults_active (void);

/* End all faults: donors are up, the network is whole.  Keep a client running.
 */
void faults_end (void);

/* Return true if some client has the volume, all its members are up and
 * current, and each extent has all its copies.  lossy: extents and members may
 * be lost, and a frozen volume is whole.
 */
bool faults_whole (bool lossy);

/* Return true if data may be lost: in harsh mode, after memory was lost. */
bool faults_lossy (void);
/* Return true if no client could attach for a long time, in harsh mode, after
 * memory was lost.  Whether that is the reason is not checked.
 */
bool faults_no_client (void);
/* Begin the time that faults_no_client measures again. */
void faults_restart_patience (void);

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
