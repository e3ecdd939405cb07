/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs.c - small files of /sys and /proc, and what they say about a
 * /dev/nbdX.
 */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "tools/common/sysfs.h"

static void
closefilep (FILE **fp)
{
  if (*fp)
    fclose (*fp);
}

int
sysfs_read (char *buf, size_t size, const char *fmt, ...)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  char path[PATH_MAX];
  va_list ap;
  ssize_t n;

  va_start (ap, fmt);
  vsnprintf (path, sizeof path, fmt, ap);
  va_end (ap);

  fd = open (path, O_RDONLY | O_CLOEXEC);
  if (fd == -1)
    return -errno;
  n = read (fd, buf, size - 1);
  if (n == -1)
    return -errno;
  buf[n] = '\0';
  buf[strcspn (buf, "\n")] = '\0';
  return 0;
}

int
sysfs_write (const char *value, const char *fmt, ...)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  char path[PATH_MAX];
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (path, sizeof path, fmt, ap);
  va_end (ap);

  fd = open (path, O_WRONLY | O_CLOEXEC);
  if (fd == -1)
    return -errno;
  if (write (fd, value, strlen (value)) == -1)
    return -errno;
  return 0;
}

int
nbd_index (const char *device)
{
  char to[PATH_MAX];
  unsigned long n;
  char *end;

  if (!strncmp (device, NBD_LINK_DIR, strlen (NBD_LINK_DIR))) {
    if (!realpath (device, to))
      return -EINVAL;
    device = to;
  }
  if (!strncmp (device, "/dev/", 5))
    device += 5;
  if (strncmp (device, "nbd", 3) || device[3] < '0' || device[3] > '9')
    return -EINVAL;
  n = strtoul (device + 3, &end, 10);
  return *end || n > 4095 ? -EINVAL : (int) n;
}

bool
nbd_exists (int index)
{
  char path[64];

  snprintf (path, sizeof path, "/sys/block/nbd%d", index);
  return access (path, F_OK) == 0;
}

uint64_t
nbd_size (int index)
{
  char line[64];

  if (sysfs_read (line, sizeof line, "/sys/block/nbd%d/size", index) < 0)
    return 0;
  return strtoull (line, NULL, 10) * 512;
}

bool
nbd_connected (int index)
{
  char path[64];

  snprintf (path, sizeof path, "/sys/block/nbd%d/pid", index);
  return access (path, F_OK) == 0 || nbd_size (index) != 0;
}

unsigned
nbd_read_ahead_kb (uint64_t group)
{
  uint64_t kb = group / 1024 + (group % 1024 != 0);

  return (unsigned) FP_MIN (FP_MAX (kb, UINT64_C (256)), UINT64_C (4096));
}

void
nbd_tune (int index, unsigned read_ahead_kb)
{
  char kb[16];
  const struct {
    const char *name, *value;
  } settings[] = {
    /* The far side has no head to move.  With 'none' the kernel bug with
     * partial sends does not show.
     */
    { "scheduler", "none" },      { "rotational", "0" },
    { "add_random", "0" },        { "rq_affinity", "2" },
    { "max_sectors_kb", "1024" }, { "read_ahead_kb", kb },
  };
  size_t i;

  snprintf (kb, sizeof kb, "%u", read_ahead_kb);
  for (i = 0; i < sizeof settings / sizeof settings[0]; i++)
    (void) sysfs_write (settings[i].value, "/sys/block/nbd%d/queue/%s", index,
                        settings[i].name);
}

/* Find where a device is mounted; return 1 if it is.  A line of
 * /proc/self/mountinfo: id parent MAJOR:MINOR root MOUNTPOINT ...
 */
static int
find_mount (const char *majmin, char *where, size_t size)
{
  FP_CLEANUP (closefilep) FILE *fp = fopen ("/proc/self/mountinfo", "re");
  FP_CLEANUP (fp_free) char *line = NULL;
  char dev[32], point[PATH_MAX];
  size_t n = 0;

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

int
nbd_in_use (int index, struct fp_error *error)
{
  char majmin[32], where[PATH_MAX], path[64];
  struct swap_area area;
  struct dirent *d;
  DIR *holders;

  if (nbd_swap (index, &area, NULL) == 0 && area.active) {
    fp_fail (error, 0,
             "/dev/nbd%d is swapped to: run 'farpage swapoff /dev/nbd%d'",
             index, index);
    return 1;
  }
  if (sysfs_read (majmin, sizeof majmin, "/sys/block/nbd%d/dev", index) == 0 &&
      find_mount (majmin, where, sizeof where) > 0) {
    fp_fail (error, 0, "/dev/nbd%d is mounted on %s: run 'umount %s'", index,
             where, where);
    return 1;
  }
  snprintf (path, sizeof path, "/sys/block/nbd%d/holders", index);
  holders = opendir (path);
  if (!holders)
    return 0;
  while ((d = readdir (holders)))
    if (d->d_name[0] != '.') {
      fp_fail (error, 0, "/dev/nbd%d is part of /dev/%s", index, d->d_name);
      closedir (holders);
      return 1;
    }
  closedir (holders);
  return 0;
}

int
nbd_swap (int index, struct swap_area *a, uint64_t *others_free)
{
  FP_CLEANUP (closefilep) FILE *fp = fopen ("/proc/swaps", "re");
  FP_CLEANUP (fp_free) char *line = NULL;
  char name[PATH_MAX], wanted[32];
  uint64_t size, used;
  long priority;
  size_t n = 0;

  memset (a, 0, sizeof *a);
  if (others_free)
    *others_free = 0;
  if (!fp)
    return errno == ENOENT ? 0 : -errno;
  snprintf (wanted, sizeof wanted, "/dev/nbd%d", index);
  while (getline (&line, &n, fp) != -1) {
    if (sscanf (line, "%4095s %*s %" SCNu64 " %" SCNu64 " %ld", name, &size,
                &used, &priority) != 4)
      continue;
    if (!strcmp (name, wanted)) {
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

int
meminfo (const char *name, uint64_t *bytes)
{
  FP_CLEANUP (closefilep) FILE *fp = fopen ("/proc/meminfo", "re");
  FP_CLEANUP (fp_free) char *line = NULL;
  size_t n = 0, len = strlen (name);

  if (!fp)
    return -errno;
  while (getline (&line, &n, fp) != -1)
    if (!strncmp (line, name, len) && line[len] == ':') {
      *bytes = strtoull (line + len + 1, NULL, 10) * 1024;
      return 0;
    }
  return -ENOENT;
}
