/* SPDX-License-Identifier: BSD-3-Clause */
/* copies.h - the copies of an extent, and which of them are in sync.
 *
 * Each copy has an entry of its own in the table (extent.h).  The entry has
 * memory at its own server, a label, and the states that an only copy goes
 * through.  Peers, allocator and migration thread work on entries.  The set
 * `in_sync` of an extent names the copies that have all that was last written;
 * mirror.h has its rules.
 *
 * Units:    extents, copies and entries are numbered from 0.  The entries of
 *           copy 0 come first.
 * Threads:  any.
 * Memory:   nothing here allocates.
 */

#ifndef FP_COPIES_H
#define FP_COPIES_H

#include "extent/extent.h"

static inline bool
fp_copies_several (const struct fp_extents *t)
{
  return t->copies > 1;
}

/* Return the set of all copies of an extent. */
static inline uint8_t
fp_copies_all (const struct fp_extents *t)
{
  return (uint8_t) ((1u << t->copies) - 1);
}

/* Return the set of the in-sync copies of extent i; 0 with one copy. */
static inline uint8_t
fp_copies_in_sync (const struct fp_extents *t, uint64_t i)
{
  return atomic_load (&t->in_sync[i]);
}

/* Return the set of the copies of extent i that requests use.  These are the
 * in-sync ones, or an only copy that is not EMPTY.
 */
static inline uint8_t
fp_copies_in_use (const struct fp_extents *t, uint64_t i)
{
  return t->copies > 1 ? fp_copies_in_sync (t, i)
                       : fp_extent_state (&t->p[i]) != FP_EXTENT_EMPTY;
}

static inline uint64_t
fp_copies_entry (const struct fp_extents *t, uint64_t i, unsigned copy)
{
  return copy * t->nr + i;
}

static inline struct fp_extent *
fp_copies_get (struct fp_extents *t, uint64_t i, unsigned copy)
{
  return &t->p[fp_copies_entry (t, i, copy)];
}

/* Return true if entry k counts: it is in sync, or the only copy. */
static inline bool
fp_copy_counts (const struct fp_extents *t, uint64_t k)
{
  return t->copies == 1 ||
         (fp_copies_in_sync (t, fp_extent_of (t, k)) >> fp_copy_of (t, k) & 1);
}

/* Return true if all copies of extent i in this set are LOST. */
bool fp_copies_are_lost (struct fp_extents *t, uint64_t i, uint8_t set);

/* Return the copies of extent i in the set in_sync that cannot be used. */
uint8_t fp_copies_bad (struct fp_extents *t, uint64_t i, uint8_t in_sync);

/* Mark [in, in + length) of extent i as missed by all copies but the set
 * `reached`; length > 0.  A write calls this before it leaves the copies that
 * it entered.  Does nothing if there is one copy.
 */
void fp_copies_missed (struct fp_extents *t, uint64_t i, uint64_t in,
                       uint64_t length, uint8_t reached);

/* Mark what entry k has to get: its peer gave it memory that is all zeros, for
 * an extent that is not new.
 */
void fp_copy_refill (struct fp_extents *t, uint64_t k);

#endif /* FP_COPIES_H */
