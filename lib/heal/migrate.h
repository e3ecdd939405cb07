/* SPDX-License-Identifier: BSD-3-Clause */
/* migrate.h - extents go from one server to another while they are used.
 *
 * One thread of a volume moves one extent at a time, over a lane of its own,
 * whose slots and buffers are all the memory that it uses:
 *
 *   target    a slab is granted at the other server, without a label
 *   begin     the extent is FROZEN for a moment.  Whoever enters it from then
 *             on sees that it is moving, and marks what it wrote as dirty.
 *   open      of a volume with a name: the source's label is marked as open,
 *             so that it does not count where the target cannot be asked
 *             (peer_learn.h), whenever the source is heard of again
 *   rounds    the dirty chunks are copied, at first all that were written;
 *             where both ends are mapped by loads and stores
 *   freeze    few are dirty, or copying does not get ahead of the writers:
 *             the extent is FROZEN, nobody but the migration thread is inside,
 *             and the rest is copied.  If that takes too long it is thawed
 *             again, and the next time is earlier.  (The writers get a smaller
 *             and smaller part of the time, until there is no rest.)
 *   take      the extent is BUSY.  The target is labelled with the next
 *             generation; then the extent is there, and READY.
 *   drop      the old slab goes back to its server; the extent's label, which
 *             was open, too, is labelled as what it is
 *
 * No write is lost.  A writer sets the dirty bit when its write is over, and
 * before it leaves the extent; the migration thread clears the bit before it
 * reads the chunk.  To mark before the write is sent would not do: the
 * migration thread could clear the bit and read before the bytes land.  Where
 * a WRITE that was acknowledged to one queue pair need not be seen by a READ
 * of another (rdma), the migration thread makes each queue pair that has
 * written read one byte, between clearing and reading; and reads one byte back
 * from the target, before the label.
 *
 * Until the label is sent the target counts for nothing: if this process dies,
 * if either server does, if it is cancelled, the extent stays where it is, and
 * a slab without a label is the server's again when the session ends.  When
 * the label was acknowledged the target counts; the old slab has a lower
 * generation, and is swept where its release is not heard (peer_learn.h).
 *
 * When the answer to the label is lost, nobody knows which counts, and a write
 * to either could be undone: to go on at the source would be to lose all
 * later writes at the next attach if the label did take effect, because the
 * higher generation wins.  Both have the same bytes, though, as long as nobody
 * writes.  So the extent stays BUSY until one of these:
 *
 *   - the source is labelled with a generation that is higher still: then
 *     the source counts, whatever became of the other label, and that is
 *     swept when its server is heard of again;
 *   - the target's server is heard of in another session, in which what it
 *     listed and we do not know was released, or it has lost the volume: then
 *     there is no such label;
 *   - this client ends.  The next one takes the higher, which is complete.
 *
 * A server that does not answer the label in time (a part of `timeout`) is
 * treated as if the answer was lost, so that the source alone is needed to go
 * on; its answer, if it comes, is undone by a release.
 *
 * Who trims or loses an extent changes its generation or its state: the move
 * ends with -EAGAIN and the target is dropped.
 *
 * Pauses: what is FROZEN lets nobody in for `timeout`/8 (10 to 250 ms) at
 * most, and for as long again to have those out who are inside, and again to
 * read that one byte back; whatever stalls then, a queue pair of the source,
 * of the target, or of a writer that has to be flushed.  What is BUSY lets
 * nobody in for `timeout`/4 and the source's answer to a label; as a rule all
 * this is a millisecond or two.
 *
 * Errors:   0 or -errno.  -EAGAIN: the extent has changed.  -ECANCELED.  -EIO:
 *           the source, -ENOTCONN: the target went away.  -ENOSPC.  -EROFS:
 *           the volume was attached without some of its servers.
 * Threads:  any.
 * Memory:   all of it when the volume is made.
 */

#ifndef FP_MIGRATE_H
#define FP_MIGRATE_H

#include "volume/volume.h"

struct fp_migrate;

#define FP_MIGRATE_SLOTS 8u /* transfers under way, at most */

int fp_migrate_new (struct fp_migrate **out, struct fp_volume *v);
int fp_migrate_start (struct fp_migrate *m);
void fp_migrate_wake (struct fp_migrate *m);
void fp_migrate_stop (struct fp_migrate *m); /* and wait for its end */
void fp_migrate_free (struct fp_migrate *m);

/* Move one extent to that server, and wait for the end of it. */
int fp_volume_migrate (struct fp_volume *v, uint64_t extent, unsigned to);

void fp_migrate_status (struct fp_migrate *m, unsigned server,
                        struct fp_drain_status *s);
void fp_migrate_reclaim_status (struct fp_migrate *m, unsigned server,
                                struct fp_reclaim_status *s);
/* Another server gets its place: nothing was given for it. */
void fp_migrate_forget (struct fp_migrate *m, unsigned server);

#endif /* FP_MIGRATE_H */
