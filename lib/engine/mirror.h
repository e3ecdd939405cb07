/* SPDX-License-Identifier: BSD-3-Clause */
/* mirror.h - an extent that has several copies: which of them count.
 *
 * Each copy has an entry of its own (extent.h), with memory at a server of its
 * own, a label, and the states that the only copy of an extent goes through;
 * peers, allocator and migration deal with entries.  What makes copies of them
 * is the set `in_sync` of each extent: those that hold what was last written.
 *
 *  - A write goes to all in-sync copies, and is over when all have it.  A read
 *    goes to one of them.  No in-sync copy: the extent was never written.
 *  - That a copy is in sync is recorded: its bit in the map (meta_log.h) says
 *    so, at servers that outlive this client.  A copy leaves the set only
 *    after all of them have recorded that it is not in sync, and only then
 *    does a write go on without it.  It enters the set before they record
 *    that; until they have, whoever attaches the volume next takes it for
 *    stale, which is safe.
 *  - Who attaches the volume believes the copies that the map names, and
 *    releases the others.  Where its last client did not end in order, writes
 *    that were in flight may have reached some copies and not others: then one
 *    copy of each extent is believed, which is recorded before anything is
 *    read.  (One more bit, behind those of the entries, says that a client is
 *    at work: fp_meta_log_bits.)
 *
 * What a copy that is not in sync has missed is in its dirty bits.  A write
 * marks them when it is over and before it leaves the copies that it went to,
 * and likewise those of a copy that it could not reach.  resync.c copies those
 * chunks from an in-sync copy, the last of them while that is FROZEN, so that
 * no write is under way, and then the copy is in sync.
 *
 * `in_sync` changes under fp_volume.lock.  To write is to look at it, to enter
 * all of its copies, and to look again: a copy that enters the set does so
 * while another one is shut, and one that leaves it has no server.
 *
 * Threads:  named below.
 * Memory:   nothing here allocates.
 */

#ifndef FP_MIRROR_H
#define FP_MIRROR_H

#include "volume/volume_int.h"

static inline bool
fp_volume_is_mirrored (const struct fp_volume *v)
{
  return v->extents->copies > 1;
}

static inline uint8_t
fp_mirror_all (const struct fp_extents *t)
{
  return (uint8_t) ((1u << t->copies) - 1);
}

static inline uint8_t
fp_mirror_in_sync (const struct fp_extents *t, uint64_t i)
{
  return atomic_load (&t->in_sync[i]);
}

static inline uint64_t
fp_mirror_entry (const struct fp_extents *t, uint64_t i, unsigned copy)
{
  return copy * t->nr + i;
}

static inline struct fp_extent *
fp_mirror_copy (struct fp_extents *t, uint64_t i, unsigned copy)
{
  return &t->p[fp_mirror_entry (t, i, copy)];
}

/* Entry k is a copy that counts. */
static inline bool
fp_mirror_counts (const struct fp_extents *t, uint64_t k)
{
  return t->copies == 1 ||
         (fp_mirror_in_sync (t, fp_extent_of (t, k)) >> fp_copy_of (t, k) & 1);
}

/* Any thread: extent i, which has no in-sync copy, shall have memory. */
void fp_mirror_want (struct fp_volume *v, uint64_t i);
/* Whether it has it: then its copies are in sync, all zeros.  *err: why it
 * will not, 0 or -errno.
 */
bool fp_mirror_form (struct fp_volume *v, uint64_t i, int *err);
/* Return true if fp_mirror_form could form extent i now, or would set *err.
 * With one copy: if its memory was refused, and the reason is known.
 */
bool fp_mirror_is_decided (struct fp_volume *v, uint64_t i);

/* Any thread that is inside of an in-sync copy, or has them shut: a write of
 * [in, in + length) of extent i may not have reached any but these.
 */
void fp_mirror_missed (struct fp_volume *v, uint64_t i, uint64_t in,
                       uint64_t length, uint8_t reached);
/* A write of it failed for good, perhaps not everywhere. */
void fp_mirror_diverged (struct fp_volume *v, uint64_t i);
/* A transfer to or from the in-sync copy at entry k failed, on a connection
 * that is sound, so that it would again: that copy is left behind, and made
 * anew.  False: it is no in-sync copy, or there is no other one to go on with.
 */
bool fp_mirror_failed (struct fp_volume *v, uint64_t k);
/* Of the in-sync copies of extent i those that are to be left behind for that.
 */
uint8_t fp_mirror_bad (struct fp_extents *t, uint64_t i, uint8_t in_sync);
/* Return how long a server may be away before its copies are dropped.  One
 * that is back before that has missed nothing.
 */
unsigned fp_mirror_grace_ms (const struct fp_volume *v);
/* Something is to be decided: the allocator looks at once. */
void fp_mirror_poke (struct fp_volume *v);

/* The allocator's thread, often: who has died is dropped, who is missing gets
 * memory.  Returns when to look again, in ms.
 */
unsigned fp_mirror_look (struct fp_volume *v);

/* The metadata log's: it is recorded that entry k is not in sync. */
void fp_mirror_dropped (struct fp_volume *v, uint64_t k);

/* The peer's: entry k got memory that is all zeros, not for a new extent. */
void fp_mirror_refill (struct fp_volume *v, uint64_t k);

/* mirror_zero.c: any thread.  Zeros in [in, in + length) of extent i, which
 * has in-sync copies; release: it is all of the extent, which is to have no
 * memory any more.  -EAGAIN: to be tried again; -EIO: the deadline has passed,
 * which is moved on by the time that was spent on what was done.
 */
int fp_mirror_zero (struct fp_volume *v, uint64_t i, uint64_t in,
                    uint64_t length, bool release, uint64_t *deadline);

struct fp_mirror_status {
  uint64_t allocated; /* extents that have memory */
  uint64_t lost;      /* extents that no server has any more */
  /* Extents with fewer in-sync copies than they should have, or of which that
   * is not recorded yet.
   */
  uint64_t degraded;
  uint64_t missing; /* bytes that are to be copied for that */
};
void fp_mirror_status (struct fp_volume *v, struct fp_mirror_status *s);

#endif /* FP_MIRROR_H */
