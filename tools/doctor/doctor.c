/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor.c - functions that the checks share. */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tools/common/device.h"
#include "tools/common/sysfs.h"
#include "tools/doctor/doctor.h"

const char *
doctor_verdict_name (enum verdict v)
{
  switch (v) {
  case DOCTOR_OK:
    return "ok";
  case DOCTOR_UNKNOWN:
    return "unknown";
  case DOCTOR_WARNING:
    return "warning";
  case DOCTOR_PROBLEM:
    return "problem";
  }
  return "?";
}

enum verdict
doctor_worst (const struct doctor *d)
{
  enum verdict worst = DOCTOR_OK;
  unsigned i;

  for (i = 0; i < d->nr; i++)
    if (d->findings[i].verdict > worst)
      worst = d->findings[i].verdict;
  return worst;
}

void
doctor_say (struct doctor *d, enum verdict v, const char *remedy,
            const char *fmt, ...)
{
  struct finding *f = &d->findings[d->nr];
  va_list ap;

  if (d->nr == DOCTOR_FINDINGS)
    return;
  d->nr++;
  f->id = d->now->id;
  f->title = d->now->title;
  f->verdict = v;
  va_start (ap, fmt);
  vsnprintf (f->what, sizeof f->what, fmt, ap);
  va_end (ap);
  snprintf (f->remedy, sizeof f->remedy, "%s", remedy);
}

int
doctor_read (const struct doctor *d, char *buf, size_t size, const char *fmt,
             ...)
{
  char path[PATH_MAX];
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (path, sizeof path, fmt, ap);
  va_end (ap);
  buf[0] = '\0';
  return sysfs_read (buf, size, "%s%s", d->root, path);
}

int
doctor_read_number (const struct doctor *d, uint64_t *out, const char *fmt,
                    ...)
{
  char path[PATH_MAX], line[64], *end;
  va_list ap;
  int r;

  va_start (ap, fmt);
  vsnprintf (path, sizeof path, fmt, ap);
  va_end (ap);
  *out = 0;
  r = doctor_read (d, line, sizeof line, "%s", path);
  if (r < 0)
    return r;
  *out = strtoull (line, &end, 10);
  return end == line ? -EINVAL : 0;
}

bool
doctor_exists (const struct doctor *d, const char *fmt, ...)
{
  char name[PATH_MAX], path[PATH_MAX + 64];
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (name, sizeof name, fmt, ap);
  va_end (ap);
  snprintf (path, sizeof path, "%s%s", d->root, name);
  return access (path, F_OK) == 0;
}

static FILE *
open_file (const struct doctor *d, const char *name)
{
  char path[PATH_MAX];

  snprintf (path, sizeof path, "%s%s", d->root, name);
  return fopen (path, "re");
}

int
doctor_read_key (const struct doctor *d, char *buf, size_t size,
                 const char *path, const char *key)
{
  FILE *fp = open_file (d, path);
  FP_CLEANUP (fp_free) char *line = NULL;
  size_t n = 0, length = strlen (key);
  int r = -ENOENT;

  buf[0] = '\0';
  if (!fp)
    return -errno;
  while (r < 0 && getline (&line, &n, fp) != -1) {
    char *p = line + length;

    if (strncmp (line, key, length) != 0 || !strchr (": \t", *p))
      continue;
    p += strspn (p, ": \t");
    p[strcspn (p, "\n")] = '\0';
    snprintf (buf, size, "%s", p);
    r = 0;
  }
  fclose (fp);
  return r;
}

static int
by_name (const void *a, const void *b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

int
doctor_names (const struct doctor *d, char ***out, const char *name)
{
  char path[PATH_MAX], **names = NULL, **more;
  struct dirent *e;
  int n = 0;
  DIR *dir;

  *out = NULL;
  snprintf (path, sizeof path, "%s%s", d->root, name);
  dir = opendir (path);
  if (!dir)
    return -errno;
  while ((e = readdir (dir))) {
    if (e->d_name[0] == '.')
      continue;
    more = realloc (names, ((size_t) n + 1) * sizeof *names);
    if (more)
      names = more;
    if (!more || !(names[n] = strdup (e->d_name))) {
      closedir (dir);
      doctor_free_names (names, n);
      return -ENOMEM;
    }
    n++;
  }
  closedir (dir);
  if (n > 0)
    qsort (names, (size_t) n, sizeof *names, by_name);
  *out = names;
  return n;
}

void
doctor_free_names (char **names, int n)
{
  int i;

  for (i = 0; i < n; i++)
    free (names[i]);
  free (names);
}

unsigned
doctor_processes (const struct doctor *d, const char *comm)
{
  char **names, line[32];
  int i, n = doctor_names (d, &names, "/proc");
  unsigned found = 0;

  for (i = 0; i < n; i++)
    if (names[i][0] >= '0' && names[i][0] <= '9' &&
        doctor_read (d, line, sizeof line, "/proc/%s/comm", names[i]) == 0 &&
        strcmp (line, comm) == 0)
      found++;
  doctor_free_names (names, n);
  return found;
}

int
doctor_swap_area (const struct doctor *d, int index, uint64_t *size,
                  uint64_t *used, uint64_t *others)
{
  FILE *fp = open_file (d, "/proc/swaps");
  FP_CLEANUP (fp_free) char *line = NULL;
  char name[256];
  struct device_name wanted;
  uint64_t all, full;
  int r = -ENOENT;
  size_t n = 0;

  *size = *used = *others = 0;
  if (!fp)
    return -errno;
  wanted = device_path (index);
  while (getline (&line, &n, fp) != -1) {
    if (sscanf (line, "%255s %*s %" SCNu64 " %" SCNu64, name, &all, &full) !=
            3 ||
        full > all)
      continue;
    if (strcmp (name, wanted.s) == 0) {
      *size = all * 1024;
      *used = full * 1024;
      r = 0;
    }
    else
      *others += (all - full) * 1024;
  }
  fclose (fp);
  return r;
}
