/* SPDX-License-Identifier: BSD-3-Clause */
/* swap_settings.c - the kernel's settings while this host swaps to other
 * machines' memory.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "tools/common/device.h"
#include "tools/common/state.h"
#include "tools/common/sysfs.h"
#include "tools/swap/swap_settings.h"

/* The pressure laboratory has shown that this helps (docs/SWAP.md): reserve
 * this fraction of the memory, but at most this many KiB.
 */
#define RESERVE_PART 16
#define RESERVE_MOST_KIB (64 * 1024)

static uint64_t
least_reserve (uint64_t memory_kib)
{
  return FP_MIN (memory_kib / RESERVE_PART, (uint64_t) RESERVE_MOST_KIB);
}

/* When memory becomes fragmented, the kernel raises its watermarks, the lowest
 * one too (boost_watermark in mm/page_alloc.c).  Then the reserve cannot be
 * used.
 */
static uint64_t
no_boost (uint64_t memory_kib)
{
  (void) memory_kib;
  return 0;
}

/* In this order: to set the reserve also ends a boost that is there.  Linux
 * before 5.0 has no boost.
 */
static const struct {
  const char *name, *file;
  uint64_t (*value) (uint64_t memory_kib);
  bool most; /* lower what is more; else raise what is less */
} wanted[] = {
  { "vm.watermark_boost_factor", "/proc/sys/vm/watermark_boost_factor",
    no_boost, true },
  { "vm.min_free_kbytes", "/proc/sys/vm/min_free_kbytes", least_reserve,
    false },
};
#define NR_WANTED (sizeof wanted / sizeof wanted[0])

static int
read_value (uint64_t *value, const char *root, const char *file,
            struct fp_error *error)
{
  char text[32], *end;
  int r = sysfs_read (text, sizeof text, "%s%s", root, file);

  if (r == 0) {
    errno = 0;
    *value = strtoull (text, &end, 10);
    if (errno != 0 || end == text || *end != '\0')
      r = -EPROTO;
  }
  return r < 0 ? fp_fail (error, r, "cannot read %s: %s", file, strerror (-r))
               : 0;
}

static int
write_value (uint64_t value, const char *root, const char *file,
             struct fp_error *error)
{
  char text[32];
  int r;

  snprintf (text, sizeof text, "%" PRIu64 "\n", value);
  r = sysfs_write (text, "%s%s", root, file);
  return r < 0 ? fp_fail (error, r, "cannot set %s to %" PRIu64 ": %s", file,
                          value, strerror (-r))
               : 0;
}

static void
record_path (char path[PATH_MAX], const char *root, const char *suffix)
{
  snprintf (path, PATH_MAX, "%s" STATE_DIR "/swap-settings%s", root, suffix);
}

/* Lock the settings until *fd is closed. */
static int
lock (int *fd, const char *root, struct fp_error *error)
{
  char path[PATH_MAX];

  snprintf (path, sizeof path, "%s" STATE_DIR, root);
  mkdir (path, 0755);
  record_path (path, root, ".lock");
  *fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (*fd == -1 || flock (*fd, LOCK_EX) == -1)
    return fp_fail (error, -errno, "cannot lock %s: %s", path,
                    strerror (errno));
  return 0;
}

/* Return the file of a setting; NULL if it is none of ours. */
static const char *
file_of (const char *name)
{
  for (size_t i = 0; i < NR_WANTED; i++)
    if (strcmp (name, wanted[i].name) == 0)
      return wanted[i].file;
  return NULL;
}

/* Load the record of changes.  Without a file, nothing was changed. */
static void
load (struct swap_changes *record, const char *root)
{
  FP_CLEANUP (fp_fclosep) FILE *fp = NULL;
  struct swap_change c;
  char path[PATH_MAX];

  record->nr = 0;
  record_path (path, root, "");
  fp = fopen (path, "re");
  while (fp && record->nr < NR_WANTED &&
         fscanf (fp, "%63s %" SCNu64 " %" SCNu64, c.name, &c.from, &c.to) == 3)
    if (file_of (c.name) != NULL)
      record->of[record->nr++] = c;
}

static int
save (const struct swap_changes *record, const char *root,
      struct fp_error *error)
{
  char path[PATH_MAX], new[PATH_MAX];
  bool ok = true;
  FILE *fp;

  record_path (path, root, "");
  record_path (new, root, ".new");
  fp = fopen (new, "we");
  if (!fp)
    return fp_fail (error, -errno, "cannot make %s: %s", new,
                    strerror (errno));
  for (size_t i = 0; i < record->nr; i++)
    ok = fprintf (fp, "%s %" PRIu64 " %" PRIu64 "\n", record->of[i].name,
                  record->of[i].from, record->of[i].to) > 0 &&
         ok;
  if (fclose (fp) != 0 || !ok || rename (new, path) == -1)
    return fp_fail (error, -EIO, "cannot write %s", path);
  return 0;
}

static int
read_memory (uint64_t *kib, const char *root, struct fp_error *error)
{
  char line[64];
  int r = sysfs_read (line, sizeof line, "%s/proc/meminfo", root);

  if (r == 0 && sscanf (line, "MemTotal: %" SCNu64 " kB", kib) != 1)
    r = -EPROTO;
  return r < 0 ? fp_fail (error, r, "cannot read /proc/meminfo: %s",
                          strerror (-r))
               : 0;
}

static struct swap_change *
find (struct swap_changes *record, const char *name)
{
  for (size_t i = 0; i < record->nr; i++)
    if (strcmp (record->of[i].name, name) == 0)
      return &record->of[i];
  return NULL;
}

static int
set_one (struct swap_changes *done, struct swap_changes *record, size_t i,
         uint64_t value, const char *root, struct fp_error *error)
{
  struct swap_change c = { .to = value }, *before;
  int r;

  snprintf (c.name, sizeof c.name, "%s", wanted[i].name);
  r = read_value (&c.from, root, wanted[i].file, error);
  if (r == -ENOENT)
    return 0;
  if (r < 0)
    return r;
  if (wanted[i].most ? c.from <= c.to : c.from >= c.to)
    return 0;
  /* Save before the value is set.  If this process dies in between, the record
   * has a line too many, which swap_settings_restore detects by the value.
   */
  before = find (record, c.name);
  if (before == NULL)
    record->of[record->nr++] = c;
  else {
    /* Put back what the administrator has set meanwhile. */
    if (c.from != before->to)
      before->from = c.from;
    before->to = c.to;
  }
  r = save (record, root, error);
  if (r == 0)
    r = write_value (c.to, root, wanted[i].file, error);
  if (r == 0)
    done->of[done->nr++] = c;
  return r;
}

int
swap_settings_set (struct swap_changes *done, const char *root,
                   struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  struct swap_changes record;
  uint64_t memory_kib;
  int r;

  done->nr = 0;
  r = read_memory (&memory_kib, root, error);
  if (r == 0)
    r = lock (&fd, root, error);
  if (r < 0)
    return r;
  load (&record, root);
  for (size_t i = 0; i < NR_WANTED && r == 0; i++)
    r = set_one (done, &record, i, wanted[i].value (memory_kib), root, error);
  return r;
}

bool
swap_settings_needed (void)
{
  struct swap_area area;

  for (int i = state_next (-1); i >= 0; i = state_next (i))
    if (device_swap (i, &area, NULL) == 0 && area.active)
      return true;
  return false;
}

static int
restore_one (struct swap_changes *done, const struct swap_change *c,
             const char *root, struct fp_error *error)
{
  uint64_t now;
  int r = read_value (&now, root, file_of (c->name), error);

  if (r < 0)
    return r;
  if (now != c->to || now == c->from)
    return 0;
  r = write_value (c->from, root, file_of (c->name), error);
  if (r == 0) {
    done->of[done->nr] = *c;
    done->of[done->nr].from = c->to;
    done->of[done->nr++].to = c->from;
  }
  return r;
}

int
swap_settings_restore (struct swap_changes *done, const char *root,
                       struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  struct swap_changes record;
  char path[PATH_MAX];
  int r, first = 0;
  struct fp_error other;

  done->nr = 0;
  r = lock (&fd, root, error);
  if (r < 0)
    return r;
  load (&record, root);
  /* If one fails, put back the rest all the same. */
  for (size_t i = 0; i < record.nr; i++) {
    r = restore_one (done, &record.of[i], root, first == 0 ? error : &other);
    if (first == 0)
      first = r;
  }
  record_path (path, root, "");
  if (unlink (path) == -1 && errno != ENOENT && first == 0)
    first = fp_fail (error, -errno, "cannot remove %s: %s", path,
                     strerror (errno));
  return first;
}
