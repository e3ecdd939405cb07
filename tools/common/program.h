/* SPDX-License-Identifier: BSD-3-Clause */
/* program.h - programs of the system that a command runs, and what they say.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  no shared state.
 */

#ifndef FARPAGE_PROGRAM_H
#define FARPAGE_PROGRAM_H

#include <stddef.h>

/* First line that a program prints; its exit status, or -errno.  127: it
 * could not be run, which standard error says.
 */
int run_program (char *line, size_t size, char *const argv[]);

/* All that a program prints, to standard error too, as far as there is room;
 * its exit status, -ENOENT if there is no such program, -ETIMEDOUT if it had
 * to be killed after ms, or another -errno.
 */
int run_program_within (char *out, size_t size, char *const argv[], int ms);

/* What is on a block device, as blkid(8) names it: "" for nothing that it
 * knows.
 */
int probe_signature (char *type, size_t size, char *device);

#endif /* FARPAGE_PROGRAM_H */
