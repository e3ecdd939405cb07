/* SPDX-License-Identifier: BSD-3-Clause */
/* data.h - tcp data connections: one thread for each, which may touch the
 * slabs of one session.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 * Memory:   one allocation and a small stack each, MAX_DATA a session.
 */

#ifndef MEMSERVER_DATA_H
#define MEMSERVER_DATA_H

#include <stdbool.h>
#include <stdint.h>

struct session;

/* Takes fd, also when it fails. */
struct fp_tls_session;

int data_start (struct session *s, uint32_t lane, int fd,
                struct fp_tls_session *tls);

/* Shut down what the session has of this lane.  A client makes a second
 * connection for a lane when it has given up the first, and does over what it
 * did not hear of: what is still under way on the first must not come after.
 * True: there is none any more; false: call again after a poke.
 */
bool data_replace (struct session *s, uint32_t lane);

/* Shut all of the session's down; their threads end soon, the server is poked
 * and the session told (session_drained) for each.
 */
void data_stop_all (struct session *s);

#endif /* MEMSERVER_DATA_H */
