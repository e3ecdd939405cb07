/* SPDX-License-Identifier: BSD-3-Clause */
/* device.h - a block device that farpage can attach: its names, and what the
 * kernel says about it.  One number stands for /dev/nbdX (X) or /dev/ublkbX
 * (DEVICE_KIND_MAX + X).
 *
 * Errors:   0 or a negative errno value.
 * Threads:  no shared state.
 */

#ifndef FARPAGE_DEVICE_H
#define FARPAGE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define DEVICE_KIND_MAX 4096 /* devices of a kind */

static inline int
device_ublk (int unit)
{
  return DEVICE_KIND_MAX + unit;
}

static inline bool
device_is_ublk (int index)
{
  return index >= DEVICE_KIND_MAX;
}

/* Return X of the device's name. */
static inline int
device_unit (int index)
{
  return index % DEVICE_KIND_MAX;
}

struct device_name {
  char s[24];
};

/* Return "nbd7" (device_name) or "/dev/nbd7" (device_path) for index 7.  The
 * result is a temporary: give .s to a call, and do not keep a pointer to it
 * (C11 6.2.4).
 */
struct device_name device_name (int index);
struct device_name device_path (int index);

/* Directory of links that udev makes: see farpage.rules. */
#define DEVICE_LINK_DIR "/dev/farpage/"

/* Return the number of /dev/nbdX, nbdX, /dev/ublkbX or ublkbX, or of a
 * /dev/farpage/NAME that points there. -EINVAL: another kind of name, or the
 * link points to nothing.
 */
int device_index (const char *device);
/* Return true if arg names a device, which need not exist, and not a volume
 * file or a memory server.
 */
bool device_is_meant (const char *arg);

bool device_exists (int index);
/* Return true if the device has a size, or if the kernel has an NBD server for
 * it: a disconnect ends when both are gone.
 */
bool device_connected (int index);
/* Return bytes; 0: it has none, or they cannot be read. */
uint64_t device_size (int index);

/* Requests of the device that were answered since it was made, and that wait
 * for an answer.  Source: Documentation/block/stat.rst of Linux.
 */
struct device_requests {
  uint64_t answered, waiting;
};
int device_requests (int index, struct device_requests *n);

/* Set scheduler, read-ahead and request size to suit swap and memory behind a
 * network. Values that this kernel refuses are left as they are.
 */
void device_tune (int index, unsigned read_ahead_kb);
/* Return the read-ahead in KiB, 256 to 4096, for a stripe that has `group`
 * bytes on all its servers together (0: not known).  With it a process that
 * reads from end to end, a page at a time, keeps all servers busy.
 */
unsigned device_read_ahead_kb (uint64_t group);

/* Return 1 and set error if the device is mounted, swapped to, or held by
 * another block device.  Return 0 if not, or if that cannot be found out: to
 * be sure, open the device with O_EXCL.  For mounts of other namespaces it
 * looks into all processes, some milliseconds if there are thousands.
 */
int device_in_use (int index, struct fp_error *error);

struct swap_area {
  bool active;
  uint64_t size, used; /* bytes */
  long priority;
};
/* Get what /proc/swaps says about the device. others_free: bytes free in all
 * other areas together; may be NULL.
 */
int device_swap (int index, struct swap_area *a, uint64_t *others_free);

#endif /* FARPAGE_DEVICE_H */
