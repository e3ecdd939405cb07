/* SPDX-License-Identifier: BSD-3-Clause */
/* backup.h - one more copy of a volume, in a file or on a block device of this
 * host, written behind.
 *
 * The ring holds what was written until it is on the disk: `lag` bytes at
 * most, in blocks of 4 KiB.  So what is here is at any time what was put here
 * last, and of that only what is on the disk is read from there:
 *
 *     put ----> ring: queued ----> in flight ----> on the disk
 *
 * A block that is put again while it is queued is changed in place; while it
 * is in flight, a second one is queued, which waits until the first one has
 * landed.  One thread writes them in order, neighbours together, a few at a
 * time, through io_uring; it makes the reads, too, into buffers of its own, so
 * that who waits for a disk that does not answer can leave.
 *
 * Of each block it is known whether
 *   valid   what is here is what was last written (or it is zeros);
 *   stored  it is on the disk; one that is valid and neither stored nor in the
 *           ring is zeros, whatever the disk has there;
 *   local   it is here alone: what the servers have of it is older.
 *
 * An error of the disk, no room on it, or no answer for stuck_ms ends it: it
 * has failed, why says so, nothing is read from it any more, and a block that
 * is local is -EIO until the servers have it again.
 *
 * The file belongs to a volume that is in use, and outlives no client: how far
 * the ring had come dies with it.  What is at its start says whose it is, and
 * in which state:
 *   FREE    nobody needs what is here;
 *   USED    a client had it, and the servers have all that is here;
 *   ALONE   here was what no server has; on the disk before the first block is
 *           local.  Nobody goes on with such a volume: -EUCLEAN.
 *
 * Units:    bytes; of put, zero and forget the offset is a multiple of
 *           FP_BACKUP_BLOCK, and so is the end, or it is that of the volume.
 * Errors:   0 or -errno; -EIO: it has failed, or the block is not valid.
 * Threads:  any, but check, new and free.  Two that put, zero or forget the
 *           same block at the same time: the caller prevents that (backed.h).
 * Memory:   all of it is made, and touched, by fp_backup_new.  No call after
 *           that allocates, logs, opens a file, or waits for longer than
 *           stuck_ms without any progress of the disk.
 */

#ifndef FP_BACKUP_H
#define FP_BACKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/uuid.h"
#include "volume/volume.h"

#define FP_BACKUP_BLOCK 4096u

struct fp_backup;

struct fp_backup_params {
  const char *path;
  uint64_t size; /* of the volume */
  struct fp_uuid uuid;
  uint64_t lag;
  unsigned stuck_ms;
  bool resumed; /* the volume has contents: nothing is valid yet */
  bool reserve; /* take all of the space of a file at once */
};

/* About what fp_backup_new takes. */
static inline uint64_t
fp_backup_memory (uint64_t size, uint64_t lag)
{
  return size / FP_BACKUP_BLOCK * 3 / 8 + lag + lag / 16 + (4u << 20);
}

/* Could it be made?  Leaves nothing open, and no file that was not there.
 * -EOPNOTSUPP: built without io_uring; -EBUSY: somebody uses it; -EEXIST:
 * it has contents that are not ours; -EUCLEAN: see ALONE.
 */
int fp_backup_check (const struct fp_backup_params *p, char why[FP_WHY_MAX]);
int fp_backup_new (struct fp_backup **out, const struct fp_backup_params *p,
                   char why[FP_WHY_MAX]);
/* discard: nobody needs it any more, it is FREE.  Else what is local is on the
 * disk when this returns, or the disk has failed.
 */
void fp_backup_free (struct fp_backup *b, bool discard);

/* local: the servers do not have it; before the first time fp_backup_alone. */
int fp_backup_put (struct fp_backup *b, const void *buf, uint64_t length,
                   uint64_t offset, bool local);
/* Any offset and length. */
int fp_backup_get (struct fp_backup *b, void *buf, uint64_t length,
                   uint64_t offset);
/* It is zeros from now on.  -EIO: local, and it has failed. */
int fp_backup_zero (struct fp_backup *b, uint64_t length, uint64_t offset,
                    bool local);
/* It is not valid any more. */
void fp_backup_forget (struct fp_backup *b, uint64_t length, uint64_t offset);
/* All that was put before is on stable storage. */
int fp_backup_flush (struct fp_backup *b);
/* The file says ALONE. */
int fp_backup_alone (struct fp_backup *b);
/* The servers have lost it: what is not zeros here is local now.  -EIO: not
 * all of it is valid, or it has failed; nothing has changed.
 */
int fp_backup_keep (struct fp_backup *b, uint64_t length, uint64_t offset);
/* The servers have it now. */
void fp_backup_home (struct fp_backup *b, uint64_t length, uint64_t offset);
/* If nothing is local the file says USED, after a while. */
void fp_backup_rest (struct fp_backup *b);

/* Is the block of offset local, and for how many bytes, limit at most, is that
 * the same?
 */
bool fp_backup_is_local (struct fp_backup *b, uint64_t offset, uint64_t limit,
                         uint64_t *run);
/* The same of valid. */
bool fp_backup_is_valid (struct fp_backup *b, uint64_t offset, uint64_t limit,
                         uint64_t *run);
/* The same of what is zeros, if it is valid. */
bool fp_backup_is_zeros (struct fp_backup *b, uint64_t offset, uint64_t limit,
                         uint64_t *run);
/* Is any local? Costs one load. */
bool fp_backup_any_local (const struct fp_backup *b);
bool fp_backup_all_valid (struct fp_backup *b);
bool fp_backup_failed (const struct fp_backup *b);
/* Less than half of the ring is in use. */
bool fp_backup_has_room (const struct fp_backup *b);

struct fp_backup_counts {
  bool failed;
  char why[FP_WHY_MAX];   /* or "" */
  uint64_t behind;        /* bytes that are not on the disk yet */
  uint64_t missing;       /* bytes that are not valid */
  uint64_t local;         /* bytes that are here alone */
  uint64_t bytes_written; /* to the disk */
  uint64_t bytes_read;    /* from it */
};
void fp_backup_counts (struct fp_backup *b, struct fp_backup_counts *c);

#endif /* FP_BACKUP_H */
