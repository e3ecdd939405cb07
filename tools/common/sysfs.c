/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs.c - see sysfs.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tools/common/sysfs.h"

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
meminfo (const char *name, uint64_t *bytes)
{
  FP_CLEANUP (fp_fclosep) FILE *fp = fopen ("/proc/meminfo", "re");
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
