/* SPDX-License-Identifier: BSD-3-Clause */
/* start.h - the life of a front end, from its parameters to its end.  All
 * front ends that use it have the same parameters and status.
 *
 *   fp_front_init, fp_params_set for each parameter, fp_front_complete
 *   fp_front_prepare    the last call whose errors reach the user
 *   (fork)
 *   fp_front_start
 *   fp_front_stop
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  one thread makes all calls.
 */

#ifndef FP_FRONT_START_H
#define FP_FRONT_START_H

#include <stdbool.h>
#include <stddef.h>

#include "front/params.h"
#include "front/status.h"

struct fp_front {
  struct fp_params params;
  struct fp_volume *volume;        /* NULL: not started, or stopped */
  struct fp_status_thread *status; /* NULL: not started */
  char description[256]; /* for people: name and size of the volume */
};

void fp_front_init (struct fp_front *f);

/* Read the members file, and check the parameters together.  Call after the
 * last fp_params_set.
 */
int fp_front_complete (struct fp_front *f, struct fp_error *error);

/* Check all that can be checked before the fork: memory, sockets, keys,
 * servers.  May wait for a lease.  Keep only keys and the answers of
 * fp_volume_probe: threads, devices and memory locks do not survive a fork.
 */
int fp_front_prepare (struct fp_front *f, struct fp_error *error);

/* Lock memory, and start volume and status.  Call after the fork, in
 * a process with one thread.  Log that a named volume was attached.
 *
 * On failure call fp_front_stop, without discard if the volume was resumed or
 * is kept: the next attempt may need its data.
 */
int fp_front_start (struct fp_front *f, struct fp_error *error);

/* Stop what was started, and free the key.  No I/O may be running.  discard:
 * as for fp_volume_stop.
 */
void fp_front_stop (struct fp_front *f, bool discard);

#endif /* FP_FRONT_START_H */
