/* SPDX-License-Identifier: BSD-3-Clause */
/* membership.h - compare the member lists that the servers of a named volume
 * hold, and choose the one that counts.  docs/PROTOCOL.md, 'Volumes with a
 * name', has the rules and the reasons.
 *
 * A list is complete once all its current members have it.  A client does
 * nothing by a list that is not complete.  The list to attach by is the base.
 *
 * Pure functions: any thread, no allocation.
 */

#ifndef FP_MEMBERSHIP_H
#define FP_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/uuid.h"
#include "proto/messages.h"

/* 2^27 attachments: one a second for four years. */
#define FP_MEMBERSHIP_VERSION_MAX (UINT64_C (1) << 37)
/* Step between the first list versions of two clients.  Each client begins
 * with the next multiple.  So lists that an earlier client sent only to
 * servers that do not answer now are lower.  Exception: that client began with
 * the same multiple, or a later one (fp_membership_best).
 */
#define FP_MEMBERSHIP_ROUND (UINT64_C (1) << 10)
/* Labels that follow a list of this version have generations above what
 * fp_membership_generation returns (meta_log.h).  From WIDE on, after 2^19
 * attachments, the steps are smaller: 2^34 labels an attachment.  For the last
 * version the result is below 2^62, the highest generation allowed.
 */
#define FP_MEMBERSHIP_WIDE (UINT64_C (1) << 29)
static inline uint64_t
fp_membership_generation (uint64_t version)
{
  return version <= FP_MEMBERSHIP_WIDE
             ? version << 32
             : (FP_MEMBERSHIP_WIDE << 32) +
                   ((version - FP_MEMBERSHIP_WIDE) << 24);
}

/* Added to the version with force=true: the user says that members with a
 * possibly newer list are dead for good.  If one comes back, its list does not
 * count.  It would take 2^14 attachments to catch up.
 */
#define FP_MEMBERSHIP_FORCED (UINT64_C (1) << 24)

struct fp_seen {
  const struct fp_uuid *server;  /* holder of the list */
  const struct fp_members *list; /* NULL = the server sent no list */
};

/* Return true if both have the same version and the same contents. */
bool fp_membership_same (const struct fp_members *a,
                         const struct fp_members *b);

/* Return the highest version of these lists, or 0 if there is none. */
uint64_t fp_membership_newest (const struct fp_seen *seen, unsigned nr);

/* Return true if a current member of `list` has an older list, or another list
 * of the same version.  Then `list` was never complete.  A server takes only
 * newer lists, so that member never had it, and its sender did nothing by it.
 * A member with a newer list may have had this one; a member without a list
 * may have lost it.
 */
bool fp_membership_is_lacked (const struct fp_seen *seen, unsigned nr,
                              const struct fp_members *list);

/* Return the index of the base, or -1 if there is no list above version 0.
 * The base is the newest list that is not lacked, as only that may have been
 * complete.  Between two of one version, the base is the one that more of its
 * current members have.  If all are lacked, the base is the oldest, and the
 * others count beside it.
 *
 * The version alone does not tell which of two lists was sent later.  A client
 * takes the next round above the versions that it sees, and a server that it
 * does not see may be ahead.
 */
int fp_membership_best (const struct fp_seen *seen, unsigned nr);

/* Return true if `list` counts beside the base: it is another list, and not an
 * older one.
 */
bool fp_membership_counts (const struct fp_members *base,
                           const struct fp_members *list);

/* Return true if enough current members have the base to attach with these
 * alone.  Then no later list was complete, as one of them would have that
 * list.  Lists that count beside the base do not matter then.
 */
bool fp_membership_is_sure (const struct fp_seen *seen, unsigned nr,
                            unsigned base, unsigned copies);

/* Return true if `server` may be found later with `list` or with an older one:
 * it has one of these now, or did not say.  Then it may be one of the members
 * with which a client attaches by `list`.
 */
bool fp_membership_may_have (const struct fp_seen *seen, unsigned nr,
                             const struct fp_uuid *server,
                             const struct fp_members *list);

/* Return the members that have heard of each change, as a set of places in the
 * base.  They are current in the base and in each list that counts beside it.
 *
 * A client that sends a list first tells its current members all that it
 * knows.  So they know everything if that list was sent after the last
 * complete one.  This holds for one of the lists that count, but which one is
 * unknown.  If the base is sure, its current members are believed.
 */
uint64_t fp_membership_believed (const struct fp_seen *seen, unsigned nr,
                                 unsigned base, unsigned copies);

/* Return true if enough servers answer to go on.  That is so if the base is
 * sure, or if no list counts beside it.  Else each list that counts needs as
 * many answers from its current members as the base does.  One of them knows
 * of a later complete list, if there is any.  Enough of the believed members
 * have to answer, too.  The caller checks the base's own quorum
 * (fp_membership_quorum).
 */
bool fp_membership_enough (const struct fp_seen *seen, unsigned nr,
                           unsigned base, unsigned copies);

/* Return the place of `server` in the list, or -1. */
int fp_membership_find (const struct fp_members *list,
                        const struct fp_uuid *server);

unsigned fp_membership_current (const struct fp_members *list);

/* Return true if the next list may be told to `is` of the old list's `was`
 * current members.  Any majority of the old members, if asked later, then
 * includes one that was told.  With fewer, no client may go on.  With several
 * copies, as many members may die at once as leave one copy of each extent,
 * even if that is a majority.  (A client that attaches without that many
 * members then knows that these may have gone on alone.)
 */
static inline bool
fp_membership_may_shrink (unsigned was, unsigned is, unsigned copies)
{
  return is > 0 && (2 * is >= was || is + copies > was);
}

/* Return the least number of current members that is enough to attach.  Then
 * the missing members are too few to have shrunk the list.
 */
static inline unsigned
fp_membership_quorum (unsigned current, unsigned copies)
{
  unsigned least = current / 2 + 1;

  if (least < copies)
    least = copies;
  return least < current ? least : current;
}

/* Return true if any quorum to attach by a list of `a` current members shares
 * a server with any quorum for a list of `b`.  either: number of servers that
 * are in at least one of the two lists.
 */
static inline bool
fp_membership_meet (unsigned a, unsigned b, unsigned either, unsigned copies)
{
  return fp_membership_quorum (a, copies) + fp_membership_quorum (b, copies) >
         either;
}

#endif /* FP_MEMBERSHIP_H */
