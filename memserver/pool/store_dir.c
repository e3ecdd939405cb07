/* SPDX-License-Identifier: BSD-3-Clause */
/* store_dir.c - files in a directory on a tmpfs or hugetlbfs.  A file that is
 * not kept yet has .new after its name.
 */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "memserver/pool/host.h"
#include "memserver/pool/store_int.h"

static uint64_t
page_of (const struct statfs *fs)
{
  return fs->f_type == HUGETLBFS_MAGIC ? (uint64_t) fs->f_bsize
                                       : (uint64_t) sysconf (_SC_PAGESIZE);
}

uint64_t
store_dir_page_at (const char *dir)
{
  char copy[PATH_MAX];
  struct statfs fs;

  if (statfs (dir, &fs) == 0)
    return page_of (&fs);
  if (errno != ENOENT ||
      snprintf (copy, sizeof copy, "%s", dir) >= (int) sizeof copy ||
      statfs (dirname (copy), &fs) < 0)
    return 0;
  return page_of (&fs);
}

int
store_dir_open (struct store *s, struct fp_error *error)
{
  const char *dir = s->where;
  struct statfs fs;
  struct stat st;

  if (mkdir (dir, 0700) < 0 && errno != EEXIST)
    return fp_fail (error, -errno, "backing: %s: %s", dir, strerror (errno));
  s->dir = open (dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (s->dir < 0 || fstatfs (s->dir, &fs) < 0 || fstat (s->dir, &st) < 0)
    return fp_fail (error, -errno, "backing: %s: %s", dir, strerror (errno));
  if (fs.f_type != TMPFS_MAGIC && fs.f_type != HUGETLBFS_MAGIC)
    return fp_fail (error, -EINVAL,
                    "backing: %s is not on a tmpfs or hugetlbfs: use a "
                    "directory in /dev/shm, or mount one",
                    dir);
  s->page = page_of (&fs);
  if (st.st_uid != geteuid () || (st.st_mode & 022) != 0)
    return fp_fail (error, -EPERM,
                    "backing: %s: other users can change its contents: use "
                    "a directory that this user owns and that only this user "
                    "can write to",
                    dir);
  s->lock =
      openat (s->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (s->lock >= 0 && flock (s->lock, LOCK_EX | LOCK_NB) == 0)
    return 0;
  if (s->lock >= 0 && errno == EWOULDBLOCK)
    return fp_fail (error, -EBUSY,
                    "backing: %s: another server has this directory", dir);
  return fp_fail (error, -errno, "backing: %s/lock: %s", dir,
                  strerror (errno));
}

int
store_dir_get (struct store *s, const char *name)
{
  int fd = openat (s->dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

  return fd < 0 ? -errno : fd;
}

static const char *
new_name (const char *name, char out[STORE_NAME_MAX + 4])
{
  snprintf (out, STORE_NAME_MAX + 4, "%.*s.new", STORE_NAME_MAX - 1, name);
  return out;
}

int
store_dir_make (struct store *s, const char *name)
{
  char new[STORE_NAME_MAX + 4];
  int fd;

  if (unlinkat (s->dir, new_name (name, new), 0) < 0 && errno != ENOENT)
    return -errno;
  fd = openat (s->dir, new, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
               0600);
  return fd < 0 ? -errno : fd;
}

void
store_dir_unmake (struct store *s, const char *name)
{
  char new[STORE_NAME_MAX + 4];

  (void) unlinkat (s->dir, new_name (name, new), 0); /* or at next start */
}

int
store_dir_keep (struct store *s, const char *name)
{
  char new[STORE_NAME_MAX + 4];

  return renameat (s->dir, new_name (name, new), s->dir, name) < 0 ? -errno
                                                                   : 0;
}

int
store_dir_remove (struct store *s, const char *name)
{
  return unlinkat (s->dir, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int
store_dir_each (struct store *s, store_each_fn *each, void *ctx,
                struct fp_error *error)
{
  int fd = openat (s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
  DIR *d = fd < 0 ? NULL : fdopendir (fd);
  const struct dirent *e;

  if (!d) {
    r = fp_fail (error, -errno, "backing: %s: %s", s->where, strerror (errno));
    if (fd >= 0)
      close (fd);
    return r;
  }
  while (r == 0 && (e = readdir (d)) != NULL)
    if (strlen (e->d_name) < STORE_NAME_MAX)
      r = each (ctx, e->d_name, error);
  closedir (d);
  return r;
}

int
store_dir_room (const struct store *s, uint64_t *room)
{
  struct statvfs vfs;

  if (s->page > STORE_SMALL_PAGE)
    *room = host_huge_free (s->page);
  if (fstatvfs (s->dir, &vfs) < 0)
    return -errno;
  if (vfs.f_blocks > 0) /* 0: no limit */
    *room = FP_MIN (*room, (uint64_t) vfs.f_bavail * vfs.f_frsize);
  return 0;
}

uint64_t
store_dir_holds (const char *dir, const char *prefix)
{
  DIR *d = opendir (dir);
  uint64_t bytes = 0;
  struct dirent *e;
  struct stat st;

  if (!d)
    return 0;
  while ((e = readdir (d)) != NULL)
    if (strncmp (e->d_name, prefix, strlen (prefix)) == 0 &&
        fstatat (dirfd (d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
      bytes += (uint64_t) st.st_blocks * 512;
  closedir (d);
  return bytes;
}
