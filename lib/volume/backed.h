/* SPDX-License-Identifier: BSD-3-Clause */
/* backed.h - a volume that has a backup (backup.h): what the servers answer
 * counts, and what they do not is answered from there.
 *
 *  - A write goes to the servers, then into the backup's ring, and is over
 *    then.  If they fail it because one is away (-EIO after the timeout, at
 *    once from then on; -ENOSPC while one is away), it goes there alone: its
 *    blocks are local.
 *  - A read of what is local is made there.  All else is asked of the servers;
 *    if they fail it, or are known to be away, it is made there, where it is
 *    valid.
 *  - A block is local until a write of it reaches the servers again, so what
 *    was older there is never read.  When they are back, a thread writes what
 *    is local to them.
 *  - A server that comes back with nothing is used again: what it had is local
 *    then.  Only of volumes with one copy: of several, mirror.h makes another
 *    one anew as long as one is left.
 *  - A flush is made by the servers and by the backup.  It fails if neither
 *    could.
 *  - If the backup has failed the volume is one without, but for what is
 * local: that is -EIO.
 *  - A volume that another client has is -EIO, whatever is here.
 *
 * Two that write, zero or copy the same block are kept apart, so that the
 * servers and the backup take them in one order; so a part of a block can be
 * written as all of it, after a read.
 *
 * A volume that is taken up again (resume) has contents: a thread copies them
 * to the backup.  Only a volume without a name has one: who attaches a volume
 * elsewhere, by its name, would find older data than was acknowledged.
 *
 * Units:    bytes of the volume.
 * Errors:   those of volume.h.
 * Threads:  any, but check, start and stop.
 * Memory:   only fp_backed_start allocates.
 */

#ifndef FP_BACKED_H
#define FP_BACKED_H

#include "volume/volume.h"

struct fp_backed;

/* The disk is given so long. */
#define FP_BACKED_STUCK_MS 10000u

/* p.backup is a path: as fp_backup_check. */
int fp_backed_check (const struct fp_volume_params *p, char why[FP_WHY_MAX]);
int fp_backed_start (struct fp_volume *v, char why[FP_WHY_MAX]);
void fp_backed_stop (struct fp_volume *v, bool discard);

/* As those of volume.h. */
int fp_backed_read (struct fp_lane *lane, void *buf, uint32_t length,
                    uint64_t offset);
int fp_backed_write (struct fp_lane *lane, const void *buf, uint32_t length,
                     uint64_t offset);
int fp_backed_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
                    bool trim);
int fp_backed_flush (struct fp_lane *lane);

/* Is anything local?  Then nobody but the backup knows what is a hole. */
bool fp_backed_any_local (const struct fp_volume *v);
void fp_backed_status (struct fp_volume *v, struct fp_backup_status *s);

#endif /* FP_BACKED_H */
