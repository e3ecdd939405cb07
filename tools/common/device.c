/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c - see device.h. */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "tools/common/device.h"
#include "tools/common/sysfs.h"

static const char nbd[] = "nbd", ublk[] = "ublkb";

struct device_name
device_name (int index)
{
  struct device_name name;

  snprintf (name.s, sizeof name.s, "%s%d", device_is_ublk (index) ? ublk : nbd,
            device_unit (index));
  return name;
}

struct device_name
device_path (int index)
{
  struct device_name path;

  snprintf (path.s, sizeof path.s, "/dev/%s%d",
            device_is_ublk (index) ? ublk : nbd, device_unit (index));
  return path;
}

/* Return X of a name that is kind and X, or -EINVAL. */
static int
unit_of (const char *name, const char *kind)
{
  size_t n = strlen (kind);
  unsigned long unit;
  char *end;

  if (strncmp (name, kind, n) != 0 || name[n] < '0' || name[n] > '9')
    return -EINVAL;
  unit = strtoul (name + n, &end, 10);
  return *end != '\0' || unit >= DEVICE_KIND_MAX ? -EINVAL : (int) unit;
}

int
device_index (const char *device)
{
  char to[PATH_MAX];
  int unit;

  if (!strncmp (device, DEVICE_LINK_DIR, strlen (DEVICE_LINK_DIR))) {
    if (!realpath (device, to))
      return -EINVAL;
    device = to;
  }
  if (!strncmp (device, "/dev/", 5))
    device += 5;
  unit = unit_of (device, ublk);
  return unit >= 0 ? device_ublk (unit) : unit_of (device, nbd);
}

bool
device_is_meant (const char *arg)
{
  return device_index (arg) >= 0 || strncmp (arg, "/dev/", 5) == 0;
}

/* The character device of ublk tells: the disk exists only between start and
 * stop.
 */
bool
device_exists (int index)
{
  char path[64];

  if (device_is_ublk (index))
    snprintf (path, sizeof path, "/sys/class/ublk-char/ublkc%d",
              device_unit (index));
  else
    snprintf (path, sizeof path, "/sys/block/%s", device_name (index).s);
  return access (path, F_OK) == 0;
}

uint64_t
device_size (int index)
{
  char line[64];

  if (sysfs_read (line, sizeof line, "/sys/block/%s/size",
                  device_name (index).s) < 0)
    return 0;
  return strtoull (line, NULL, 10) * 512;
}

bool
device_connected (int index)
{
  char path[64], size[64];
  int r;

  snprintf (path, sizeof path, "/sys/block/%s/pid", device_name (index).s);
  if (access (path, F_OK) == 0)
    return true;
  r = sysfs_read (size, sizeof size, "/sys/block/%s/size",
                  device_name (index).s);
  /* If this process cannot look, say so only of a device that is gone. */
  return r == 0 ? strtoull (size, NULL, 10) != 0
                : r != -ENOENT && r != -ENODEV && r != -ENXIO;
}

int
device_requests (int index, struct device_requests *n)
{
  /* Reads, writes and discards have four fields each: requests, merges,
   * sectors and time.  Before the discards come the requests in flight and two
   * times, after them flushes and their time.
   */
  uint64_t reads, writes, discards = 0, flushes = 0;
  char line[256];
  int r = sysfs_read (line, sizeof line, "/sys/block/%s/stat",
                      device_name (index).s);

  if (r < 0)
    return r;
  if (sscanf (line,
              "%" SCNu64 "%*u %*u %*u %" SCNu64 "%*u %*u %*u %" SCNu64
              "%*u %*u %" SCNu64 "%*u %*u %*u %" SCNu64,
              &reads, &writes, &n->waiting, &discards, &flushes) < 3)
    return -EPROTO;
  n->answered = reads + writes + discards + flushes;
  return 0;
}

unsigned
device_read_ahead_kb (uint64_t group)
{
  uint64_t kb = group / 1024 + (group % 1024 != 0);

  return (unsigned) FP_MIN (FP_MAX (kb, UINT64_C (256)), UINT64_C (4096));
}

void
device_tune (int index, unsigned read_ahead_kb)
{
  char kb[16];
  const struct {
    const char *name, *value;
  } settings[] = {
    /* ublk_drv notices that a process died with all requests of a queue only
     * when one of them times out.  While it lives, that does nothing.
     */
    { device_is_ublk (index) ? "io_timeout" : NULL, "1000" },
    /* The far side has no head to move.  With 'none' the kernel bug with
     * partial sends does not show.
     */
    { "scheduler", "none" },
    { "rotational", "0" },
    { "add_random", "0" },
    { "rq_affinity", "2" },
    { "max_sectors_kb", "1024" },
    { "read_ahead_kb", kb },
  };
  size_t i;

  snprintf (kb, sizeof kb, "%u", read_ahead_kb);
  for (i = 0; i < sizeof settings / sizeof settings[0]; i++)
    if (settings[i].name != NULL)
      (void) sysfs_write (settings[i].value, "/sys/block/%s/queue/%s",
                          device_name (index).s, settings[i].name);
}

/* Find where a process sees the device mounted; return 1 if it does.  A line
 * of mountinfo: id parent MAJOR:MINOR root MOUNTPOINT ...
 */
static int
find_mount (const char *process, const char *majmin, char *where, size_t size)
{
  FP_CLEANUP (fp_fclosep) FILE *fp = NULL;
  FP_CLEANUP (fp_free) char *line = NULL;
  char path[64];
  char dev[32], point[PATH_MAX];
  size_t n = 0;

  snprintf (path, sizeof path, "/proc/%.32s/mountinfo", process);
  fp = fopen (path, "re");
  if (!fp)
    return -errno;
  while (getline (&line, &n, fp) != -1)
    if (sscanf (line, "%*d %*d %31s %*s %4095s", dev, point) == 2 &&
        !strcmp (dev, majmin)) {
      snprintf (where, size, "%s", point);
      return 1;
    }
  return 0;
}

#define NAMESPACES 16

/* Return the number of the mount namespace of a process, or 0. */
static ino_t
mount_namespace (const char *process)
{
  char path[64];
  struct stat st;

  snprintf (path, sizeof path, "/proc/%.32s/ns/mnt", process);
  return stat (path, &st) == 0 ? st.st_ino : 0;
}

/* Find a process with another mount namespace, such as that of a container, in
 * which the device is mounted.  Return its pid, or 0.  Processes that this one
 * may not look into are left out.
 */
static long
find_other_mount (const char *majmin, char *where, size_t size)
{
  /* This process's namespace, and the last ones that were looked into. */
  ino_t seen[NAMESPACES] = { mount_namespace ("self") }, ns;
  unsigned nr = 1;
  struct dirent *d;
  long found = 0;
  DIR *proc = opendir ("/proc");

  if (!proc)
    return 0;
  while (found == 0 && (d = readdir (proc))) {
    bool known = false;

    if (d->d_name[0] < '1' || d->d_name[0] > '9')
      continue;
    ns = mount_namespace (d->d_name);
    for (unsigned i = 0; i < NAMESPACES; i++)
      known |= seen[i] == ns;
    if (known || ns == 0)
      continue;
    seen[nr] = ns;
    nr = nr % (NAMESPACES - 1) + 1; /* the first one stays */
    if (find_mount (d->d_name, majmin, where, size) > 0)
      found = strtol (d->d_name, NULL, 10);
  }
  closedir (proc);
  return found;
}

/* Return true if the device is mounted, in whichever mount namespace. */
static bool
is_mounted (int index, struct fp_error *error)
{
  char majmin[32], where[PATH_MAX];
  long pid;

  if (sysfs_read (majmin, sizeof majmin, "/sys/block/%s/dev",
                  device_name (index).s) < 0)
    return false;
  if (find_mount ("self", majmin, where, sizeof where) > 0) {
    fp_fail (error, 0, "%s is mounted on %s: run 'umount %s'",
             device_path (index).s, where, where);
    return true;
  }
  pid = find_other_mount (majmin, where, sizeof where);
  if (pid != 0)
    fp_fail (error, 0,
             "%s is mounted on %s in the mount namespace of process %ld:"
             " run 'nsenter -t %ld -m umount %s'",
             device_path (index).s, where, pid, pid, where);
  return pid != 0;
}

int
device_in_use (int index, struct fp_error *error)
{
  char path[64];
  struct swap_area area;
  struct dirent *d;
  DIR *holders;

  if (device_swap (index, &area, NULL) == 0 && area.active) {
    fp_fail (error, 0, "%s is swapped to: run 'farpage swapoff %s'",
             device_path (index).s, device_path (index).s);
    return 1;
  }
  if (is_mounted (index, error))
    return 1;
  snprintf (path, sizeof path, "/sys/block/%s/holders", device_name (index).s);
  holders = opendir (path);
  if (!holders)
    return 0;
  while ((d = readdir (holders)))
    if (d->d_name[0] != '.') {
      fp_fail (error, 0, "%s is part of /dev/%s", device_path (index).s,
               d->d_name);
      closedir (holders);
      return 1;
    }
  closedir (holders);
  return 0;
}

int
device_swap (int index, struct swap_area *a, uint64_t *others_free)
{
  FP_CLEANUP (fp_fclosep) FILE *fp = fopen ("/proc/swaps", "re");
  FP_CLEANUP (fp_free) char *line = NULL;
  char name[PATH_MAX];
  struct device_name wanted;
  uint64_t size, used;
  long priority;
  size_t n = 0;

  memset (a, 0, sizeof *a);
  if (others_free)
    *others_free = 0;
  if (!fp)
    return errno == ENOENT ? 0 : -errno;
  wanted = device_path (index);
  while (getline (&line, &n, fp) != -1) {
    if (sscanf (line, "%4095s %*s %" SCNu64 " %" SCNu64 " %ld", name, &size,
                &used, &priority) != 4)
      continue;
    if (!strcmp (name, wanted.s)) {
      a->active = true;
      a->size = size * 1024;
      a->used = used * 1024;
      a->priority = priority;
    }
    else if (others_free)
      *others_free += (size - used) * 1024;
  }
  return 0;
}
