/* SPDX-License-Identifier: BSD-3-Clause */
/* roster.h - the list of a named volume's servers, as several servers have it:
 * which of them counts.  docs/PROTOCOL.md, 'Volumes with a name', says why.
 *
 * Pure functions: any thread, no allocation.
 */

#ifndef FP_ROSTER_H
#define FP_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/uuid.h"
#include "proto/messages.h"

/* 2^27 attachments: one a second for four years. */
#define FP_ROSTER_VERSION_MAX (UINT64_C (1) << 37)
/* Each client begins with the next multiple of this.  What an earlier one sent
 * to a server that was not there to be asked is then lower, though it was
 * never heard of.
 */
#define FP_ROSTER_ROUND (UINT64_C (1) << 10)
/* The labels that follow a list of this version have generations above that:
 * see recorder.h.  A volume that has been attached 2^19 times, which once
 * was the end, goes on in smaller steps, of 2^34 labels an attachment.  Of the
 * last version it is less than 2^62, the most that a generation may be.
 */
#define FP_ROSTER_WIDE (UINT64_C (1) << 29)
static inline uint64_t
fp_roster_generation (uint64_t version)
{
  return version <= FP_ROSTER_WIDE
             ? version << 32
             : (FP_ROSTER_WIDE << 32) + ((version - FP_ROSTER_WIDE) << 24);
}

/* Somebody has said that those who may have a newer list are dead for good
 * (force=true).  If they are not, theirs shall not count: it would take them
 * so many rounds.
 */
#define FP_ROSTER_FORCED (UINT64_C (1) << 24)

struct fp_seen {
  const struct fp_uuid *server;  /* who has it */
  const struct fp_members *list; /* NULL: it did not say */
};

/* The list of the highest version; of several, one that all of its current
 * members have, or else more of them.  -1: there is none, or all are of
 * version 0.
 */
int fp_roster_best (const struct fp_seen *seen, unsigned nr);

/* Its place in the list, or -1. */
int fp_roster_find (const struct fp_members *list,
                    const struct fp_uuid *server);

unsigned fp_roster_current (const struct fp_members *list);

/* So many of the old list's current members are told of the next list, that
 * more than half of the old ones, if they are asked later, include one of
 * those: with fewer nobody may go on.  Where a volume has several copies of
 * each piece as many may die at once as leave one of them: also if that is
 * more than half.  (Who attaches it without some of its members then knows
 * that these may have gone on by themselves if they are so many.)
 */
static inline bool
fp_roster_may_shrink (unsigned was, unsigned is, unsigned copies)
{
  return is > 0 && (2 * is >= was || is + copies > was);
}

#endif /* FP_ROSTER_H */
