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

struct session;

/* Takes fd, also when it fails. */
int data_start (struct session *s, int fd);

/* Shut all of the session's down; their threads end soon, the server is poked
 * and the session told (session_drained) for each.
 */
void data_stop_all (struct session *s);

#endif /* MEMSERVER_DATA_H */
