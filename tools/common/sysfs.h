/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs.h - small files of /sys and /proc, and what they say about a
 * /dev/nbdX: whether it is in use, and by what.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  no shared state.
 */

#ifndef FARPAGE_SYSFS_H
#define FARPAGE_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/common/why.h"

/* First line of a file, without its newline. */
int sysfs_read (char *buf, size_t size, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));
/* Write one value. */
int sysfs_write (const char *value, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));

/* Links by name, made by udev: see farpage.rules. */
#define NBD_LINK_DIR "/dev/farpage/"

/* /dev/nbd7 or nbd7 -> 7, /dev/farpage/NAME likewise by what it points to.
 * -EINVAL: not such a name, or it points to nothing.
 */
int nbd_index (const char *device);

/* Whether /dev/nbdX exists, and whether the kernel has a server for it.
 * A device that is being taken down has one until its size is 0.
 */
bool nbd_exists (int index);
bool nbd_connected (int index);
uint64_t nbd_size (int index);

/* Scheduler, read-ahead, request size: what suits memory behind a network,
 * and swap. Values that this kernel refuses are left as they are.
 */
void nbd_tune (int index, unsigned read_ahead_kb);
/* As much as is on all servers of a stripe in turn, of so many bytes: who
 * reads from end to end, a page at a time, has all of them at work. 256 KiB at
 * least, 4 MiB at most.
 */
unsigned nbd_read_ahead_kb (uint64_t group);

/* 1 if it is mounted, swapped to, or held by another block device: by what
 * is in w. 0 if not.
 */
int nbd_in_use (int index, struct why *w);

struct swap_area {
  bool active;
  uint64_t size, used; /* bytes */
  long priority;
};
/* What /proc/swaps says about /dev/nbdX. others_free: bytes free in all
 * other areas together; may be NULL.
 */
int nbd_swap (int index, struct swap_area *a, uint64_t *others_free);

/* A line "NAME: N kB" of /proc/meminfo, in bytes. */
int meminfo (const char *name, uint64_t *bytes);

#endif /* FARPAGE_SYSFS_H */
