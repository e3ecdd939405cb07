/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs.h - small files of /sys and /proc.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  no shared state.
 */

#ifndef FARPAGE_SYSFS_H
#define FARPAGE_SYSFS_H

#include <stddef.h>
#include <stdint.h>

/* Read the first line of a file, without its newline. */
int sysfs_read (char *buf, size_t size, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));
/* Write one value to a file. */
int sysfs_write (const char *value, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));

/* Get the value of a line "NAME: N kB" of /proc/meminfo, in bytes. */
int meminfo (const char *name, uint64_t *bytes);

#endif /* FARPAGE_SYSFS_H */
