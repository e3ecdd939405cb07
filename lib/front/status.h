/* SPDX-License-Identifier: BSD-3-Clause */
/* status.h - what the volume is doing, for people: a Unix socket that answers
 * a request (control.h) of whoever connects, mostly with the status document,
 * and a log line for each thing that changed.  One thread does both; it is not
 * on the path of any I/O.
 *
 * Errors:   0 or a negative errno value; why then has one sentence.
 * Threads:  one thread owns the struct.
 * Memory:   the thread allocates for each document.
 */

#ifndef FP_STATUS_H
#define FP_STATUS_H

#include <stdbool.h>

#include "volume/volume.h"

struct fp_status_thread;

/* Could a socket be made at path?  For before the fork; leaves nothing.  A
 * socket file on which nobody answers is removed.  -EADDRINUSE: somebody
 * does.  -EEXIST: it is another kind of file.
 */
int fp_status_check (const char *path, char why[FP_WHY_MAX]);

/* Make the socket (path "": none), with mode 0600. */
int fp_status_new (struct fp_status_thread **out, const char *path,
                   char why[FP_WHY_MAX]);

/* Log what the volume's servers are now, and start to watch and answer.
 * The volume must live until fp_status_free.
 */
int fp_status_start (struct fp_status_thread *s, struct fp_volume *volume,
                     bool io_flusher);

/* Stop the thread, if it was started; remove the socket. */
void fp_status_free (struct fp_status_thread *s);

#endif /* FP_STATUS_H */
