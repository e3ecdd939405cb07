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

struct fp_tls_session;
struct session;

/* Start a data connection.  Take over fd and tls, also on failure.  After the
 * thread of the connection has ended, the loop calls sessions_poke and then
 * ended (s).
 */
int data_start (struct session *s, uint32_t lane, int fd,
                struct fp_tls_session *tls, void (*ended) (struct session *s));

/* Shut down the session's connections of this lane.  Return true if none is
 * left; if false, call again after a poke.  A client makes a second connection
 * for a lane when it has given up the first, and repeats what was not
 * answered.  Nothing still under way on the first may land after that.
 */
bool data_replace (struct session *s, uint32_t lane);

/* Shut down all data connections of the session.  Their threads end soon, and
 * then the loop calls ended (data_start) for each.
 */
void data_stop_all (struct session *s);

#endif /* MEMSERVER_DATA_H */
