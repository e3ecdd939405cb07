/* SPDX-License-Identifier: BSD-3-Clause */
/* backup_none.c - for a build without liburing: nothing has a backup, so all
 * but what refuses one is never called.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "volume/backup.h"

int
fp_backup_check (const struct fp_backup_params *p, char why[FP_WHY_MAX])
{
  snprintf (why, FP_WHY_MAX,
            "backup=%s: this was built without liburing (Debian: "
            "liburing-dev)",
            p->path);
  return -EOPNOTSUPP;
}

int
fp_backup_new (struct fp_backup **out, const struct fp_backup_params *p,
               char why[FP_WHY_MAX])
{
  *out = NULL;
  return fp_backup_check (p, why);
}

void
fp_backup_free (struct fp_backup *b, bool discard)
{
  (void) b;
  (void) discard;
}

int
fp_backup_put (struct fp_backup *b, const void *buf, uint64_t length,
               uint64_t offset, bool local)
{
  (void) b;
  (void) buf;
  (void) length;
  (void) offset;
  (void) local;
  return -EOPNOTSUPP;
}

int
fp_backup_get (struct fp_backup *b, void *buf, uint64_t length,
               uint64_t offset)
{
  (void) b;
  (void) buf;
  (void) length;
  (void) offset;
  return -EOPNOTSUPP;
}

int
fp_backup_zero (struct fp_backup *b, uint64_t length, uint64_t offset,
                bool local)
{
  (void) b;
  (void) length;
  (void) offset;
  (void) local;
  return -EOPNOTSUPP;
}

void
fp_backup_forget (struct fp_backup *b, uint64_t length, uint64_t offset)
{
  (void) b;
  (void) length;
  (void) offset;
}

int
fp_backup_flush (struct fp_backup *b)
{
  (void) b;
  return -EOPNOTSUPP;
}

int
fp_backup_alone (struct fp_backup *b)
{
  (void) b;
  return -EOPNOTSUPP;
}

int
fp_backup_keep (struct fp_backup *b, uint64_t length, uint64_t offset)
{
  (void) b;
  (void) length;
  (void) offset;
  return -EOPNOTSUPP;
}

void
fp_backup_home (struct fp_backup *b, uint64_t length, uint64_t offset)
{
  (void) b;
  (void) length;
  (void) offset;
}

void
fp_backup_rest (struct fp_backup *b)
{
  (void) b;
}

bool
fp_backup_is_local (struct fp_backup *b, uint64_t offset, uint64_t limit,
                    uint64_t *run)
{
  (void) b;
  (void) offset;
  *run = limit;
  return false;
}

bool
fp_backup_is_valid (struct fp_backup *b, uint64_t offset, uint64_t limit,
                    uint64_t *run)
{
  (void) b;
  (void) offset;
  *run = limit;
  return false;
}

bool
fp_backup_is_zeros (struct fp_backup *b, uint64_t offset, uint64_t limit,
                    uint64_t *run)
{
  (void) b;
  (void) offset;
  *run = limit;
  return false;
}

bool
fp_backup_all_valid (struct fp_backup *b)
{
  (void) b;
  return false;
}

bool
fp_backup_any_local (const struct fp_backup *b)
{
  (void) b;
  return false;
}

bool
fp_backup_failed (const struct fp_backup *b)
{
  (void) b;
  return true;
}

bool
fp_backup_has_room (const struct fp_backup *b)
{
  (void) b;
  return false;
}

void
fp_backup_counts (struct fp_backup *b, struct fp_backup_counts *c)
{
  (void) b;
  memset (c, 0, sizeof *c);
}
