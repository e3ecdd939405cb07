/* SPDX-License-Identifier: BSD-3-Clause */
/* program.h - run programs of the system, and read their output.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  no shared state.
 */

#ifndef FARPAGE_PROGRAM_H
#define FARPAGE_PROGRAM_H

#include <stddef.h>

/* Run a program and get the first line that it prints.  Return its exit
 * status, or -errno.  127: it could not be run, and standard error says why.
 */
int run_program (char *line, size_t size, char *const argv[]);

/* Run a program for at most ms.  out gets its output and its errors, cut to
 * size.  Return its exit status; -ENOENT if there is no such program;
 * -ETIMEDOUT if it was killed after ms; or another -errno.
 */
int run_program_within (char *out, size_t size, char *const argv[], int ms);

/* Get what is on a block device, as blkid(8) names it; "" if blkid knows of
 * nothing there.  -EIO: the device cannot be read.
 */
int probe_signature (char *type, size_t size, char *device);

#endif /* FARPAGE_PROGRAM_H */
