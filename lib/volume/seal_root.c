/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/seal_root.h"

#define MAGIC 16u
#define FLAGS_AT (MAGIC - 1)
#define MAC_AT (MAGIC + 16u + 3 * 8u + FP_HASH)
#define BYTES (MAC_AT + FP_HASH)
#define LOOK_MS 100u
#define SUFFIX ".new"

static const char magic[MAGIC] = "farpage root 1";

struct fp_root_file {
  int dir, fd; /* fd has the lock */
  char name[FP_ROOT_PATH_MAX], other[FP_ROOT_PATH_MAX + sizeof SUFFIX];
};

static int
failed (const char *path, int err, char why[FP_WHY_MAX])
{
  snprintf (why, FP_WHY_MAX, "root=%s: %s", path, strerror (err));
  return -err;
}

/* ---- the bytes ---- */

static void
put64 (uint8_t **p, uint64_t v)
{
  v = htole64 (v);
  memcpy (*p, &v, sizeof v);
  *p += sizeof v;
}

static uint64_t
get64 (const uint8_t **p)
{
  uint64_t v;

  memcpy (&v, *p, sizeof v);
  *p += sizeof v;
  return le64toh (v);
}

static int
encode (struct fp_mac *mac, const struct fp_root *root, uint8_t out[BYTES])
{
  uint8_t *p = out + MAGIC;

  memcpy (out, magic, MAGIC);
  out[FLAGS_AT] = root->believes;
  memcpy (p, root->uuid.bytes, sizeof root->uuid.bytes);
  p += sizeof root->uuid.bytes;
  put64 (&p, root->size);
  put64 (&p, root->durable);
  put64 (&p, root->limit);
  memcpy (p, root->hash, FP_HASH);
  return fp_mac (mac, out, MAC_AT, out + MAC_AT);
}

static int
decode (struct fp_mac *mac, const uint8_t in[BYTES], struct fp_root *root)
{
  const uint8_t *p = in + MAGIC;
  uint8_t code[FP_HASH];
  int r = fp_mac (mac, in, MAC_AT, code);

  if (r < 0)
    return r;
  if (memcmp (in, magic, FLAGS_AT) != 0 || in[FLAGS_AT] > 1 ||
      !fp_same_secret (code, in + MAC_AT, FP_HASH))
    return -EBADMSG;
  memcpy (root->uuid.bytes, p, sizeof root->uuid.bytes);
  p += sizeof root->uuid.bytes;
  root->size = get64 (&p);
  root->durable = get64 (&p);
  root->limit = get64 (&p);
  memcpy (root->hash, p, FP_HASH);
  root->believes = in[FLAGS_AT];
  return root->durable < root->limit ? 0 : -EBADMSG;
}

/* Its length is not in doubt: one more byte is asked for. */
static int
read_fd (int fd, const char *path, struct fp_mac *mac, struct fp_root *root,
         char why[FP_WHY_MAX])
{
  uint8_t in[BYTES + 1];
  ssize_t n = pread (fd, in, sizeof in, 0);
  int r;

  if (n == -1)
    return failed (path, errno, why);
  r = n == BYTES ? decode (mac, in, root) : -EBADMSG;
  if (r == -EBADMSG)
    snprintf (why, FP_WHY_MAX,
              "root=%s: is damaged, or no root file of this volume: nobody "
              "who has its key wrote it so",
              path);
  else if (r < 0)
    failed (path, -r, why);
  return r;
}

int
fp_root_read (const char *path, struct fp_mac *mac, struct fp_root *out,
              char why[FP_WHY_MAX])
{
  FP_CLEANUP (fp_closep) int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

  return fd == -1 ? failed (path, errno, why)
                  : read_fd (fd, path, mac, out, why);
}

/* ---- where it is ---- */

static void
split (const char *path, char dir[FP_ROOT_PATH_MAX], const char **name)
{
  const char *slash = strrchr (path, '/');

  *name = slash == NULL ? path : slash + 1;
  snprintf (dir, FP_ROOT_PATH_MAX, "%.*s",
            slash == NULL ? 1 : (int) (slash == path ? 1 : slash - path),
            slash == NULL ? "." : path);
}

/* What the name leads to, if it is there: that is replaced, and not a link to
 * it.
 */
static int
resolve (const char *path, char out[FP_ROOT_PATH_MAX])
{
  FP_CLEANUP (fp_free) char *real = realpath (path, NULL);
  const char *is = real == NULL ? path : real;

  if (strlen (is) >= FP_ROOT_PATH_MAX)
    return -ENAMETOOLONG;
  strcpy (out, is);
  return 0;
}

int
fp_root_may_write (const char *path, char why[FP_WHY_MAX])
{
  char dir[FP_ROOT_PATH_MAX], real[FP_ROOT_PATH_MAX];
  const char *name;
  int err = resolve (path, real);

  if (err < 0)
    return failed (path, -err, why);
  split (real, dir, &name);
  if (access (dir, W_OK | X_OK) == 0)
    return 0;
  err = errno;
  snprintf (why, FP_WHY_MAX,
            "root=%s: its directory is to be written to, as the file is "
            "replaced at each flush: %s",
            path, strerror (err));
  return -err;
}

static int
open_dir (struct fp_root_file **out, const char *path, char why[FP_WHY_MAX])
{
  struct fp_root_file *f = calloc (1, sizeof *f);
  char dir[FP_ROOT_PATH_MAX], real[FP_ROOT_PATH_MAX];
  const char *name;
  int r;

  if (f == NULL)
    return failed (path, ENOMEM, why);
  r = resolve (path, real);
  if (r < 0) {
    free (f);
    return failed (path, -r, why);
  }
  split (real, dir, &name);
  snprintf (f->name, sizeof f->name, "%s", name);
  snprintf (f->other, sizeof f->other, "%s" SUFFIX, name);
  f->fd = -1;
  f->dir = open (dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (f->dir == -1) {
    int err = errno;

    fp_root_close (f);
    return failed (path, err, why);
  }
  *out = f;
  return 0;
}

/* Is it the file that has the name? */
static bool
is_there (const struct fp_root_file *f, int fd, const char *name)
{
  struct stat a, b;

  return fstat (fd, &a) == 0 && fstatat (f->dir, name, &b, 0) == 0 &&
         a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* -EAGAIN: another process has it.  To be written: over NFS that is a lock of
 * bytes, which needs it (flock(2)).
 */
static int
lock_it (struct fp_root_file *f)
{
  int fd = openat (f->dir, f->name, O_RDWR | O_CLOEXEC | O_NOCTTY), r = 0;

  if (fd == -1)
    return -errno;
  if (flock (fd, LOCK_EX | LOCK_NB) == -1)
    r = errno == EWOULDBLOCK ? -EAGAIN : -errno;
  else if (!is_there (f, fd, f->name))
    r = -EAGAIN;
  if (r < 0)
    close (fd);
  else
    f->fd = fd;
  return r;
}

/* Who has that lock; 0: it is not known, as over NFS.  Lines of /proc/locks
 * are "1: FLOCK  ADVISORY  WRITE 4711 08:02:123 0 EOF" (proc(5)); those of who
 * waits have "->" there.
 */
static long
who_has (const struct fp_root_file *f)
{
  FILE *fp = fopen ("/proc/locks", "re");
  struct stat st;
  char line[256];
  long has = 0;

  if (fp == NULL)
    return 0;
  if (fstatat (f->dir, f->name, &st, 0) == -1)
    st.st_ino = 0;
  while (has == 0 && fgets (line, sizeof line, fp) != NULL) {
    unsigned long inode;
    long pid;

    if (sscanf (line, "%*s FLOCK %*s %*s %ld %*x:%*x:%lu", &pid, &inode) ==
            2 &&
        inode == st.st_ino)
      has = pid;
  }
  fclose (fp);
  return has;
}

static int
busy (const struct fp_root_file *f, const char *path, char why[FP_WHY_MAX])
{
  long pid = who_has (f);

  if (pid > 0)
    snprintf (why, FP_WHY_MAX,
              "root=%s: process %ld on this host has it, and the volume that "
              "it is of: end it (kill -KILL %ld, if it is stopped or stuck)",
              path, pid, pid);
  else
    snprintf (why, FP_WHY_MAX,
              "root=%s: another process on this host has it, and the volume "
              "that it is of",
              path);
  return -EBUSY;
}

int
fp_root_open (struct fp_root_file **out, const char *path, struct fp_mac *mac,
              struct fp_root *root, uint64_t deadline_ns, char why[FP_WHY_MAX])
{
  struct fp_root_file *f = NULL;
  int r = open_dir (&f, path, why);

  if (r < 0)
    return r;
  while ((r = lock_it (f)) == -EAGAIN && !fp_deadline_passed (deadline_ns))
    usleep (LOOK_MS * 1000);
  if (r == -EAGAIN) {
    r = busy (f, path, why);
  }
  else if (r < 0) {
    failed (path, -r, why);
  }
  else {
    r = read_fd (f->fd, path, mac, root, why);
  }
  if (r < 0) {
    fp_root_close (f);
    return r;
  }
  *out = f;
  return 0;
}

/* ---- writing ---- */

static int
write_all (int fd, const uint8_t *buf, size_t n)
{
  ssize_t done = pwrite (fd, buf, n, 0);

  if (done == -1)
    return -errno;
  if ((size_t) done != n)
    return -ENOSPC;
  return fsync (fd) == -1 ? -errno : 0;
}

/* Whose lock is that on the new one?  Ours, before anything of it is changed.
 */
static int
make_other (struct fp_root_file *f, int *out)
{
  int fd = openat (f->dir, f->other, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                   0600);
  int r = 0;

  if (fd == -1)
    return -errno;
  if (flock (fd, LOCK_EX | LOCK_NB) == -1)
    r = errno == EWOULDBLOCK ? -EBUSY : -errno;
  else if (!is_there (f, fd, f->other))
    r = -EBUSY;
  else if (ftruncate (fd, 0) == -1)
    r = -errno;
  if (r < 0)
    close (fd);
  else
    *out = fd;
  return r;
}

/* Another one has the name: so somebody else has the volume, or the user has
 * put it there, and either is not to be undone.
 */
static bool
is_replaced (const struct fp_root_file *f)
{
  return f->fd != -1 && faccessat (f->dir, f->name, F_OK, 0) == 0 &&
         !is_there (f, f->fd, f->name);
}

int
fp_root_write (struct fp_root_file *f, struct fp_mac *mac,
               const struct fp_root *root)
{
  uint8_t bytes[BYTES];
  bool has = false; /* the name */
  int fd = -1, r = encode (mac, root, bytes);

  if (r == 0 && is_replaced (f))
    r = -ESTALE;
  if (r < 0)
    return r;
  r = make_other (f, &fd);
  if (r < 0)
    return r;
  r = write_all (fd, bytes, sizeof bytes);
  if (r == 0 && renameat (f->dir, f->other, f->dir, f->name) == -1) {
    r = -errno;
    has = is_there (f, fd, f->name); /* all the same */
  }
  if (r < 0 && !has) {
    unlinkat (f->dir, f->other, 0);
    close (fd);
    return r;
  }
  if (f->fd != -1)
    close (f->fd);
  f->fd = fd;
  if (r < 0)
    return r;
  return fsync (f->dir) == -1 ? -errno : 0;
}

int
fp_root_create (struct fp_root_file **out, const char *path,
                struct fp_mac *mac, const struct fp_root *root, bool replace,
                char why[FP_WHY_MAX])
{
  struct fp_root_file *f = NULL;
  int r = open_dir (&f, path, why);

  if (r < 0)
    return r;
  if (!replace && faccessat (f->dir, f->name, F_OK, 0) == 0)
    r = -EEXIST;
  if (replace) { /* nobody has it */
    r = lock_it (f);
    r = r == -EAGAIN ? -EBUSY : r == -ENOENT ? 0 : r;
  }
  if (r == 0)
    r = fp_root_write (f, mac, root);
  if (r < 0) {
    fp_root_close (f);
    return failed (path, -r, why);
  }
  *out = f;
  return 0;
}

void
fp_root_close (struct fp_root_file *f)
{
  if (f == NULL)
    return;
  if (f->fd != -1)
    close (f->fd);
  if (f->dir != -1)
    close (f->dir);
  free (f);
}

void
fp_root_remove (struct fp_root_file *f)
{
  if (f != NULL)
    unlinkat (f->dir, f->name, 0);
  fp_root_close (f);
}
