/* SPDX-License-Identifier: BSD-3-Clause */
/* migrate.h - move extents from one server to another while they are in use.
 *
 * One thread of a client moves one extent at a time, over the heal lane.  The
 * lane's slots and its buffers are all the memory that it uses.
 *
 *   target  A slab is granted at the other server, without a label.
 *   begin   The extent is FROZEN for a moment.  From then on writers see that
 *           it is moving, and mark what they wrote as dirty.
 *   open    Of a named volume, the source's label is marked as open.  It does
 *           not count where the target cannot be asked (peer_learn.h).
 *   rounds  Dirty chunks are copied, at first all that were written.  Where
 *           both ends are mapped, loads and stores copy them.
 *   freeze  When few chunks are dirty, or copying does not gain on the
 *           writers, the extent is FROZEN.  The rest is copied.  If that takes
 *           too long, the extent is thawed, and frozen sooner the next time.
 *   take    The extent is BUSY.  The target is labelled with the next
 *           generation.  Then the extent is there, and READY.
 *   drop    The old slab goes back to its server.  The open mark of the new
 *           label is cleared.
 *
 * No write is lost: migrate_copy.c says why.  Until the label is sent the
 * target counts for nothing.  If this process or a server dies, or the move is
 * cancelled, the extent stays.  The target's slab is then free when the
 * session ends.  Once the label was acknowledged, the target counts.  The old
 * slab has a lower generation, and is swept if its release is not heard
 * (peer_learn.h).  Without an answer to the label the extent stays BUSY (stay,
 * in migrate.c).  If a trim or a loss changes the extent, the move ends with
 * -EAGAIN.
 *
 * Pauses: FROZEN keeps requests out for at most three times `timeout`/8 (10 to
 * 250 ms), whichever queue pair stalls.  That is to get others out, to copy,
 * and to read back.  BUSY lasts up to `timeout`/4 and the source's answer to a
 * label.  Normally all this is a millisecond or two.
 *
 * Errors:   0 or -errno.  -EAGAIN: the extent has changed.  -ECANCELED.  -EIO:
 *           the source went away.  -ENOTCONN: the target went away.  -ENOSPC.
 *           -EROFS: the volume is frozen or read-only.
 * Threads:  any.
 * Memory:   all of it when the volume is made.
 */

#ifndef FP_MIGRATE_H
#define FP_MIGRATE_H

#include "base/error.h"
#include "extent/volume_status.h"

struct fp_engine;
struct fp_migrate;

int fp_migrate_new (struct fp_migrate **out, struct fp_engine *e);
int fp_migrate_start (struct fp_migrate *m);
void fp_migrate_wake (struct fp_migrate *m);
void fp_migrate_stop (struct fp_migrate *m); /* and wait for its end */
void fp_migrate_free (struct fp_migrate *m);

/* Move entry k to that server, and wait until that ends.  The thread must run.
 * -EINVAL: no such entry or server.
 */
int fp_migrate_move (struct fp_migrate *m, uint64_t k, unsigned to);

/* As fp_volume_drain and fp_volume_drain_cancel (volume.h). */
int fp_migrate_drain (struct fp_migrate *m, unsigned i, uint64_t rate,
                      struct fp_error *error);
int fp_migrate_drain_cancel (struct fp_migrate *m, unsigned i,
                             struct fp_error *error);

void fp_migrate_status (struct fp_migrate *m, unsigned server,
                        struct fp_drain_status *s);
void fp_migrate_reclaim_status (struct fp_migrate *m, unsigned server,
                                struct fp_reclaim_status *s);
/* Clear what is counted for this place, which another server gets. */
void fp_migrate_forget (struct fp_migrate *m, unsigned server);

#endif /* FP_MIGRATE_H */
