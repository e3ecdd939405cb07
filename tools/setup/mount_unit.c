/* SPDX-License-Identifier: BSD-3-Clause */
/* mount_unit.c - see mount_unit.h. */

#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/device.h"
#include "tools/common/program.h"
#include "tools/common/state.h"
#include "tools/setup/mount_unit.h"
#include "tools/setup/plan.h"

#define UNDO "# Written by 'farpage mount'. To undo it: farpage umount "

/* Resolve symbolic links in an absolute path.  Its last component need not
 * exist.
 */
static int
resolve (char out[PATH_MAX], const char *directory, struct fp_error *error)
{
  char parent[PATH_MAX], resolved[PATH_MAX], *name;
  struct stat st;
  int n;

  if (realpath (directory, out) != NULL)
    return stat (out, &st) == 0 && S_ISDIR (st.st_mode)
               ? 0
               : fp_fail (error, -ENOTDIR, "%s: %s", directory,
                          strerror (ENOTDIR));
  if (errno != ENOENT || lstat (directory, &st) == 0) /* a dangling link */
    return fp_fail (error, -errno, "%s: %s", directory, strerror (errno));
  snprintf (parent, sizeof parent, "%s", directory);
  while (parent[strlen (parent) - 1] == '/')
    parent[strlen (parent) - 1] = '\0';
  name = strrchr (parent, '/');
  *name++ = '\0';
  if (realpath (parent[0] == '\0' ? "/" : parent, resolved) == NULL)
    return fp_fail (error, -errno, "%s: %s", parent, strerror (errno));
  n = snprintf (out, PATH_MAX, "%s/%s", resolved[1] == '\0' ? "" : resolved,
                name);
  return n < PATH_MAX ? 0
                      : fp_fail (error, -ENAMETOOLONG, "%s: %s", directory,
                                 strerror (ENAMETOOLONG));
}

int
mount_unit_find (struct mount_unit *u, bool once, struct fp_error *error)
{
  int r = unit_of_path (u->name, "mount", u->directory, error);

  snprintf (u->path, sizeof u->path, "%s/systemd/system/%s",
            once ? "/run" : "/etc", u->name);
  return r;
}

/* Return true if a file system is mounted on the directory, and get its
 * device.  Source: findmnt(8) of util-linux.
 */
static bool
is_mounted (char device[PATH_MAX], const char *directory)
{
  char *const argv[] = {
    (char *) "findmnt",
    (char *) "--noheadings",
    (char *) "--output=SOURCE",
    (char *) "--direction=backward", /* begin at the top */
    (char *) "--first-only",
    (char *) "--nofsroot", /* no subvolume of btrfs */
    (char *) "--mountpoint",
    (char *) (uintptr_t) directory,
    NULL
  };

  return run_program (device, PATH_MAX, argv) == 0;
}

/* Check that a unit file and a volume file can have this path. */
static int
check_characters (const char *path, struct fp_error *error)
{
  bool ok = path[strlen (path) - 1] != ' ';

  for (const char *c = path; *c != '\0'; c++)
    ok = ok && !iscntrl ((unsigned char) *c) && *c != '%' && *c != '\\';
  return ok ? 0
            : fp_fail (error, -EINVAL,
                       "%s: the path can have no '%%', '\\' or control "
                       "character, and no blank at its end",
                       path);
}

int
mount_unit_new (struct mount_unit *u, const char *directory, bool once,
                struct fp_error *error)
{
  char device[PATH_MAX];
  int r = resolve (u->directory, directory, error);

  if (r == 0)
    r = check_characters (u->directory, error);
  if (r == 0)
    r = mount_unit_find (u, once, error);
  if (r == 0 &&
      (is_mounted (device, u->directory) || access (u->path, F_OK) == 0))
    r = 1;
  else if (r == 0 && unit_possible ()) /* else this is a dry run */
    r = unit_is_known (u->name, error);
  if (r > 0)
    return fp_fail (error, -EBUSY,
                    "%s is in use: something is mounted there, or fstab(5) or "
                    "a unit file says so: use another directory",
                    u->directory);
  return r;
}

int
mount_unit_text (char *text, size_t size, const struct mount_unit *u,
                 const char *name, struct fp_error *error)
{
  char device[UNIT_NAME_MAX], path[sizeof DEVICE_LINK_DIR + STATE_LINK_MAX];
  int r;

  snprintf (path, sizeof path, DEVICE_LINK_DIR "%s", name);
  r = unit_of_path (device, "device", path, error);
  if (r < 0)
    return r;
  snprintf (text, size,
            UNDO "%s\n"
                 "[Unit]\n"
                 "Description=Volume %s of memory servers\n"
                 "Documentation=man:farpage-mount(8)\n"
                 "Requires=farpage@%s.service\n"
                 "After=farpage@%s.service\n"
                 "\n"
                 "[Mount]\n"
                 "What=%s\n"
                 "Where=%s\n"
                 "Options=_netdev\n"
                 "\n"
                 "[Install]\n"
                 "WantedBy=remote-fs.target\n"
                 "# Mount it also if the memory servers start later than this "
                 "machine.\n"
                 "WantedBy=%s\n",
            name, name, name, name, path, u->directory, device);
  return 0;
}

bool
mount_unit_volume (char volume[STATE_LINK_MAX], const struct mount_unit *u)
{
  return plan_line (volume, STATE_LINK_MAX, u->path, UNDO);
}

int
mount_unit_find_mounted (struct mount_unit *u, char volume[STATE_LINK_MAX],
                         const char *directory, struct fp_error *error)
{
  int r = resolve (u->directory, directory, error);

  for (unsigned once = 0; r == 0 && once < 2; once++) {
    r = mount_unit_find (u, once, error);
    if (r == 0 && mount_unit_volume (volume, u))
      return 0;
  }
  return r < 0 ? r
               : fp_fail (error, -ENOENT,
                          "%s: 'farpage mount' did not mount it: give the "
                          "volume's NAME",
                          u->directory);
}

int
mount_unit_unmount (const struct mount_unit *u, const char *volume,
                    struct fp_error *error)
{
  char device[PATH_MAX], line[256];
  char *const argv[] = { (char *) "umount", (char *) (uintptr_t) u->directory,
                         NULL };
  int index, r = state_find_link (volume, &index, error);

  if (r < 0 || !is_mounted (device, u->directory))
    return r;
  if (index < 0 || device_index (device) != index)
    return fp_fail (error, -EBUSY, "%s: %s is mounted there: unmount it first",
                    u->directory, device);
  return run_program (line, sizeof line, argv) == 0
             ? 0
             : fp_fail (error, -EBUSY,
                        "%s cannot be unmounted (see above): stop what uses "
                        "it: see 'fuser -vm %s'",
                        u->directory, u->directory);
}
