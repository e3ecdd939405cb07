/* SPDX-License-Identifier: BSD-3-Clause */
/* backup_file.c - opens the file or the block device of a backup, and sees to
 * it that nothing is overwritten that somebody may need.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <linux/fs.h>

#include "base/size.h"
#include "volume/backup_int.h"

/* Where file systems, partition tables and arrays have what they are known
 * by: before DATA_AT, and so much at the end.
 */
#define TAIL (128u << 10)

/* In the byte order of this host, which is the only one that reads it. */
static const char magic[16] = "farpage backup\n";

struct header {
  char magic[sizeof magic];
  uint64_t version, state, size;
  struct fp_uuid uuid;
};
#define HEADER_VERSION 1

static int __attribute__ ((__format__ (__printf__, 4, 5)))
refuse (const struct fp_backup_params *p, int err, char why[FP_WHY_MAX],
        const char *fmt, ...)
{
  int n = snprintf (why, FP_WHY_MAX, "backup=%s: ", p->path);
  va_list args;

  if (n < 0 || n >= FP_WHY_MAX)
    return err;
  va_start (args, fmt);
  vsnprintf (why + n, (size_t) (FP_WHY_MAX - n), fmt, args);
  va_end (args);
  return err;
}

static int
refuse_errno (const struct fp_backup_params *p, char why[FP_WHY_MAX])
{
  int err = -errno;

  return refuse (p, err, why, "%s", strerror (-err));
}

static uint64_t
size_needed (const struct fp_backup_params *p)
{
  return DATA_AT + fp_div_round_up (p->size, BLOCK) * BLOCK;
}

/* Is [at, at + length) zeros?  -errno. */
static int
is_zeros (int fd, uint64_t at, uint64_t length)
{
  alignas (BLOCK) unsigned char buf[BLOCK];

  for (uint64_t n = 0; n < length; n += sizeof buf) {
    ssize_t r = pread (fd, buf, sizeof buf, (off_t) (at + n));

    if (r < 0)
      return -errno;
    if (r != sizeof buf)
      return -EIO;
    if (buf[0] != 0 || memcmp (buf, buf + 1, sizeof buf - 1) != 0)
      return 0;
  }
  return 1;
}

/* What is at its start: 1: ours; 0: something else. */
static int
read_header (int fd, struct header *h)
{
  alignas (BLOCK) unsigned char buf[BLOCK];
  ssize_t r = pread (fd, buf, sizeof buf, 0);

  if (r < 0)
    return -errno;
  if (r != sizeof buf)
    return 0;
  memcpy (h, buf, sizeof *h);
  return memcmp (h->magic, magic, sizeof magic) == 0;
}

/* May it be overwritten? */
static int
judge (const struct fp_backup_params *p, int fd, uint64_t size, bool device,
       char why[FP_WHY_MAX])
{
  char uuid[FP_UUID_STR_MAX];
  struct header h;
  int r;

  if (size == 0)
    return 0;
  r = read_header (fd, &h);
  if (r == 0 && device) {
    r = is_zeros (fd, 0, DATA_AT);
    if (r > 0)
      r = is_zeros (fd, (size - TAIL) / BLOCK * BLOCK, TAIL);
    if (r > 0)
      return 0;
  }
  if (r < 0) {
    errno = -r;
    return refuse_errno (p, why);
  }
  if (r == 0)
    return refuse (p, -EEXIST, why, "%s",
                   device ? "has contents that are not farpage's: if nobody "
                            "needs them, wipe it first (blkdiscard -z)"
                          : "exists, and is no backup of farpage");
  if (p->resumed && h.state == FILE_ALONE && fp_uuid_eq (&h.uuid, &p->uuid)) {
    fp_uuid_format (&h.uuid, uuid);
    return refuse (p, -EUCLEAN, why,
                   "when nbdkit ended, what was last written to volume %s was "
                   "here alone: its servers have older data, so it cannot be "
                   "taken up again",
                   uuid);
  }
  return 0;
}

static int
check_room (const struct fp_backup_params *p, int fd, const struct stat *st,
            char why[FP_WHY_MAX])
{
  struct statvfs vfs;
  uint64_t has;

  if (!p->reserve)
    return 0;
  if (fstatvfs (fd, &vfs) == -1)
    return refuse_errno (p, why);
  has =
      (uint64_t) vfs.f_bavail * vfs.f_frsize + (uint64_t) st->st_blocks * 512;
  if (has < size_needed (p)) {
    char need[FP_SIZE_STR_MAX], free[FP_SIZE_STR_MAX];

    fp_format_size (size_needed (p), need);
    fp_format_size (has, free);
    return refuse (p, -ENOSPC, why,
                   "needs %s, and the file system has %s free", need, free);
  }
  return 0;
}

/* Returns a descriptor, and whether it is a device, and was made. */
static int
open_it (const struct fp_backup_params *p, bool *device, bool *made,
         char why[FP_WHY_MAX])
{
  FP_CLEANUP (fp_closep) int fd = -1;
  struct stat st;
  uint64_t size;
  int flags, r, ret;

  *made = stat (p->path, &st) == -1 && errno == ENOENT;
  if (!*made && !S_ISREG (st.st_mode) && !S_ISBLK (st.st_mode))
    return refuse (p, -EINVAL, why, "neither a file nor a block device");
  *device = !*made && S_ISBLK (st.st_mode);
  flags = O_RDWR | O_CLOEXEC | O_NOCTTY;
  if (*made)
    flags |= O_CREAT | O_EXCL;
  else if (*device)
    flags |= O_EXCL; /* not one that is mounted, swap, or part of an array */
  fd = open (p->path, flags, 0600);
  if (fd == -1 && errno == EBUSY)
    return refuse (p, -EBUSY, why,
                   "is in use: mounted, swap, or part of "
                   "another device");
  if (fd == -1)
    return refuse_errno (p, why);
  if (flock (fd, LOCK_EX | LOCK_NB) == -1) {
    if (errno == EWOULDBLOCK)
      return refuse (p, -EBUSY, why, "another process uses it");
    return refuse_errno (p, why);
  }
  if (fstat (fd, &st) == -1)
    return refuse_errno (p, why);
  size = (uint64_t) st.st_size;
  if (*device && ioctl (fd, BLKGETSIZE64, &size) == -1)
    return refuse_errno (p, why);
  if (*device && size < size_needed (p)) {
    char need[FP_SIZE_STR_MAX];

    fp_format_size (size_needed (p), need);
    return refuse (p, -ENOSPC, why, "is too small: %s is needed", need);
  }
  r = judge (p, fd, size, *device, why);
  if (r == 0 && !*device)
    r = check_room (p, fd, &st, why);
  if (r < 0) {
    if (*made)
      unlink (p->path);
    return r;
  }
  ret = fd;
  fd = -1;
  return ret;
}

int
fp_backup_check (const struct fp_backup_params *p, char why[FP_WHY_MAX])
{
  struct io_uring ring;
  bool device, made;
  int fd, r = io_uring_queue_init (1, &ring, 0);

  /* Many a container forbids it. */
  if (r < 0)
    return refuse (p, r, why, "io_uring: %s", strerror (-r));
  io_uring_queue_exit (&ring);
  fd = open_it (p, &device, &made, why);
  if (fd < 0)
    return fd;
  if (made)
    unlink (p->path);
  close (fd);
  return 0;
}

void
backup_header (const struct fp_backup *b, enum file_state state)
{
  struct header h = {
    .version = HEADER_VERSION,
    .state = state,
    .size = b->p.size,
    .uuid = b->p.uuid,
  };

  memcpy (h.magic, magic, sizeof magic);
  memset (b->header, 0, BLOCK);
  memcpy (b->header, &h, sizeof h);
}

int
backup_open (struct fp_backup *b, char why[FP_WHY_MAX])
{
  bool device, made;
  int flags;

  b->fd = open_it (&b->p, &device, &made, why);
  if (b->fd < 0)
    return b->fd;
  if (!device && (ftruncate (b->fd, 0) == -1 ||
                  ftruncate (b->fd, (off_t) size_needed (&b->p)) == -1))
    return refuse_errno (&b->p, why);
  if (!device && b->p.reserve &&
      fallocate (b->fd, 0, 0, (off_t) size_needed (&b->p)) == -1 &&
      errno != EOPNOTSUPP)
    return refuse_errno (&b->p, why);
  /* What is kept twice is no help; some file systems cannot do without. */
  flags = fcntl (b->fd, F_GETFL);
  if (flags == -1 ||
      (fcntl (b->fd, F_SETFL, flags | O_DIRECT) == -1 && errno != EINVAL))
    return refuse_errno (&b->p, why);
  return 0;
}
