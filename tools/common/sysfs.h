/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs.h - small files of /sys and /proc, and what they say about a
 * /dev/nbdX: whether it is in use, and for what.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  no shared state.
 */

#ifndef FARPAGE_SYSFS_H
#define FARPAGE_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Read the first line of a file, without its newline. */
int sysfs_read (char *buf, size_t size, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));
/* Write one value to a file. */
int sysfs_write (const char *value, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));

/* Directory of links that udev makes: see farpage.rules. */
#define NBD_LINK_DIR "/dev/farpage/"

/* Return 7 for /dev/nbd7 or nbd7, and for a /dev/farpage/NAME that points
 * there. -EINVAL: another kind of name, or the link points to nothing.
 */
int nbd_index (const char *device);

/* nbd_exists returns true if there is a /dev/nbdX, nbd_connected if the kernel
 * has a server for it. A device that is being taken down has one until its
 * size is 0.
 */
bool nbd_exists (int index);
bool nbd_connected (int index);
uint64_t nbd_size (int index);

/* Set scheduler, read-ahead and request size to suit swap and memory behind a
 * network. Values that this kernel refuses are left as they are.
 */
void nbd_tune (int index, unsigned read_ahead_kb);
/* Return the read-ahead for a stripe that has `group` bytes on all its servers
 * together: 256 KiB at least, 4 MiB at most. Then a process that reads from
 * end to end, a page at a time, keeps all servers busy.
 */
unsigned nbd_read_ahead_kb (uint64_t group);

/* Return 1 and set error if the device is mounted, swapped to, or held by
 * another block device. Return 0 if not.
 */
int nbd_in_use (int index, struct fp_error *error);

struct swap_area {
  bool active;
  uint64_t size, used; /* bytes */
  long priority;
};
/* Get what /proc/swaps says about /dev/nbdX. others_free: bytes free in all
 * other areas together; may be NULL.
 */
int nbd_swap (int index, struct swap_area *a, uint64_t *others_free);

/* Get the value of a line "NAME: N kB" of /proc/meminfo, in bytes. */
int meminfo (const char *name, uint64_t *bytes);

#endif /* FARPAGE_SYSFS_H */
