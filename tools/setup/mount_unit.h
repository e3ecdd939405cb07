/* SPDX-License-Identifier: BSD-3-Clause */
/* mount_unit.h - the systemd unit that mounts a volume on a directory.  A
 * unit, not a line of fstab(5): systemd.mount(5) recommends that for programs.
 *
 * Threads:  one thread.
 * Errors:   0, or a negative errno value and the sentence in error.
 */

#ifndef FARPAGE_MOUNT_UNIT_H
#define FARPAGE_MOUNT_UNIT_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"
#include "tools/common/state.h"
#include "tools/setup/unit.h"

struct mount_unit {
  char directory[PATH_MAX]; /* absolute, without symbolic links */
  char name[UNIT_NAME_MAX];
  char path[PATH_MAX]; /* path of the unit file */
};

/* Set u to a new unit for the directory, an absolute path whose parent exists.
 * once: until the next boot.  -EBUSY: something else is mounted there, now or
 * at boot.
 */
int mount_unit_new (struct mount_unit *u, const char *directory, bool once,
                    struct fp_error *error);

/* Set name and path of the unit for u->directory. */
int mount_unit_find (struct mount_unit *u, bool once, struct fp_error *error);

/* Find the unit that mounts a volume on the directory, and get the name of
 * that volume.  -ENOENT: there is none.
 */
int mount_unit_find_mounted (struct mount_unit *u, char volume[STATE_LINK_MAX],
                             const char *directory, struct fp_error *error);

/* Get the name of the volume that the unit file mounts.  Return false if there
 * is no unit file, or another program wrote it.
 */
bool mount_unit_volume (char volume[STATE_LINK_MAX],
                        const struct mount_unit *u);

/* Compose the unit file for the volume of this name. */
int mount_unit_text (char *text, size_t size, const struct mount_unit *u,
                     const char *name, struct fp_error *error);

/* Unmount the volume.  -EBUSY: it is in use, or another file system is mounted
 * there.  umount(8) does it, because systemd would first stop the services
 * that need the mount.
 */
int mount_unit_unmount (const struct mount_unit *u, const char *volume,
                        struct fp_error *error);

#endif /* FARPAGE_MOUNT_UNIT_H */
