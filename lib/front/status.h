/* SPDX-License-Identifier: BSD-3-Clause */
/* status.h - tell people what the volume is doing.  A Unix socket answers
 * requests (control.h), mostly with the status document.  The log gets a line
 * for each change.  One thread does both; no I/O waits for it.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  one thread owns the struct.
 * Memory:   the thread allocates for each document.
 */

#ifndef FP_STATUS_H
#define FP_STATUS_H

#include <stdbool.h>

#include "base/error.h"
#include "volume/volume.h"

struct fp_status_thread;

/* Check that a socket can be made at path; call before the fork.  Leaves no
 * socket, and removes a socket file on which no process answers.  -EADDRINUSE:
 * a process answers there.  -EEXIST: path is another kind of file.
 */
int fp_status_check (const char *path, struct fp_error *error);

/* Make the socket, with mode 0600.  path "": make none. */
int fp_status_new (struct fp_status_thread **out, const char *path,
                   struct fp_error *error);

/* Log the present state of the volume's servers, and start to watch and
 * answer.  The volume must live until fp_status_free.
 */
int fp_status_start (struct fp_status_thread *s, struct fp_volume *volume,
                     bool io_flusher);

/* Stop the thread, if it was started; remove the socket. */
void fp_status_free (struct fp_status_thread *s);

#endif /* FP_STATUS_H */
