/* SPDX-License-Identifier: BSD-3-Clause */
/* psk_write.c - see psk_write.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/memlock.h"
#include "base/random.h"
#include "transport/tls/hex.h"
#include "transport/tls/psk_file.h"
#include "transport/tls/psk_write.h"

/* Return true if the last line has no newline: some editors leave it out. */
static bool
needs_newline (int fd)
{
  off_t end = lseek (fd, 0, SEEK_END);
  char last = '\n';

  return end > 0 && pread (fd, &last, 1, end - 1) == 1 && last != '\n';
}

int
fp_psk_append (int fd, const char *user, const uint8_t *key, size_t n)
{
  const size_t size = 1 + FP_NAME_MAX + 1 + 2 * FP_PSK_KEY_MAX + 2;
  char *line;
  const off_t end = lseek (fd, 0, SEEK_END);
  void *p;
  int at, r = end < 0              ? -errno
              : n > FP_PSK_KEY_MAX ? -EINVAL
                                   : fp_secret_new (&p, size);

  if (r < 0)
    return r;
  line = p;
  at = snprintf (line, size, "%s%s:", needs_newline (fd) ? "\n" : "", user);
  r = fp_hex (line + at, key, n);
  at += (int) (2 * n);
  line[at++] = '\n';
  errno = 0;
  if (r == 0 && (write (fd, line, (size_t) at) != at || fsync (fd) < 0))
    r = errno != 0 ? -errno : -ENOSPC;
  fp_secret_free (line, size);
  /* A part of the line would spoil the file, or be a shorter key. */
  if (r < 0 && ftruncate (fd, end) < 0)
    r = -errno;
  return r;
}

int
fp_psk_append_new (int fd, const char *user)
{
  void *key;
  int r = fp_secret_new (&key, FP_PSK_NEW);

  if (r < 0)
    return r;
  r = fp_random (key, FP_PSK_NEW);
  if (r == 0)
    r = fp_psk_append (fd, user, key, FP_PSK_NEW);
  fp_secret_free (key, FP_PSK_NEW);
  return r;
}

int
fp_psk_create (const char *path, const char *user, const uint8_t *key,
               size_t n)
{
  FP_CLEANUP (fp_closep)
  int fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  int r;

  if (fd < 0)
    return -errno;
  /* The umask may have removed permissions. */
  r = fchmod (fd, 0600) < 0 ? -errno : fp_psk_append (fd, user, key, n);
  if (r < 0)
    unlink (path);
  return r;
}

/* Return 0 if the key file has no line of user, -EEXIST if it has one, or
 * another negative errno value.
 */
static int
check_new (const char *path, const char *user, struct fp_error *error)
{
  struct fp_psk_file *f;
  void *key;
  int r = fp_psk_file_read_tls (&f, path, error);

  if (r < 0)
    return r;
  r = fp_secret_new (&key, FP_PSK_KEY_MAX);
  if (r == 0) {
    r = fp_psk_file_key (f, user, key);
    fp_secret_free (key, FP_PSK_KEY_MAX);
  }
  fp_psk_file_free (f);
  if (r >= 0)
    return fp_fail (error, -EEXIST, "%s: user %s already has a key", path,
                    user);
  return r == -ENOENT ? 0 : fp_fail (error, r, "%s: %s", path, strerror (-r));
}

int
fp_psk_new (const char *path, const char *user, bool add,
            struct fp_error *error)
{
  FP_CLEANUP (fp_closep)
  int fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool made = fd >= 0;
  int r = 0;

  if (!made && errno == EEXIST && !add)
    return fp_fail (error, -EEXIST, "%s: exists, and is not overwritten",
                    path);
  if (!made && errno == EEXIST)
    fd = open (path, O_RDWR | O_APPEND | O_CLOEXEC);
  /* In a new file, restore permissions that the umask removed.  The lock is
   * for another command that adds a user.
   */
  if (fd < 0 || (made && fchmod (fd, 0600) < 0) || flock (fd, LOCK_EX) < 0)
    r = -errno;
  if (r == 0 && !made) {
    r = check_new (path, user, error);
    if (r < 0)
      return r;
  }
  if (r == 0)
    r = fp_psk_append_new (fd, user);
  if (r < 0 && made)
    unlink (path);
  return r < 0 ? fp_fail (error, r, "%s: %s", path, strerror (-r)) : 0;
}
