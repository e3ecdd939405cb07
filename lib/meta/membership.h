/* SPDX-License-Identifier: BSD-3-Clause */
/* membership.h - the list of a named volume's servers, as several servers have
 * it: which of them counts.  docs/PROTOCOL.md, 'Volumes with a name', says
 * why.
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
/* Each client begins with the next multiple of this.  What an earlier one sent
 * to a server that was not there to be asked is then lower, though it was
 * never heard of; unless that one began with the same multiple, or with a
 * later one (fp_membership_best).
 */
#define FP_MEMBERSHIP_ROUND (UINT64_C (1) << 10)
/* The labels that follow a list of this version have generations above that:
 * see meta_log.h.  A volume that has been attached 2^19 times, which once
 * was the end, goes on in smaller steps, of 2^34 labels an attachment.  Of the
 * last version it is less than 2^62, the most that a generation may be.
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

/* Somebody has said that those who may have a newer list are dead for good
 * (force=true).  If they are not, theirs shall not count: it would take them
 * so many rounds.
 */
#define FP_MEMBERSHIP_FORCED (UINT64_C (1) << 24)

struct fp_seen {
  const struct fp_uuid *server;  /* who has it */
  const struct fp_members *list; /* NULL: it did not say */
};

/* Return true if both have the same version and the same contents. */
bool fp_membership_same (const struct fp_members *a,
                         const struct fp_members *b);

/* Return the highest version of these lists; 0: there is none. */
uint64_t fp_membership_newest (const struct fp_seen *seen, unsigned nr);

/* Return true if a current member of the list has an older list, or another
 * list of the same version.  Then this list was never complete: a server takes
 * only newer lists, so that member never had this one, and the client that
 * sent it did nothing by it.  A member with a newer list may have had this
 * one, and a member without any may have lost it.
 */
bool fp_membership_is_lacked (const struct fp_seen *seen, unsigned nr,
                              const struct fp_members *list);

/* Return the index of the list that is the base: the newest one that may have
 * been complete, so that is not lacked.  Of two of one version prefer the one
 * that more of its current members have.  If all are lacked, it is the oldest
 * one, and the others count beside it.  -1: there is none, or all are of
 * version 0.
 *
 * The version alone does not tell which of two lists was sent later: a client
 * takes the next round of the versions that it sees, and a server that it does
 * not see may be ahead.
 */
int fp_membership_best (const struct fp_seen *seen, unsigned nr);

/* Return true if this list counts beside the base: it is another list, and not
 * an older one.
 */
bool fp_membership_counts (const struct fp_members *base,
                           const struct fp_members *list);

/* Return true if so many current members have the base that a volume can be
 * attached with these alone.  Then no later list was complete, as some of them
 * would have that one; and the lists that count beside it do not matter.
 */
bool fp_membership_is_sure (const struct fp_seen *seen, unsigned nr,
                            unsigned base, unsigned copies);

/* Return true if this server may be found later with the list, or with an
 * older one, so that it is one of those that are enough to attach by the list:
 * it has one of these now, or did not say what it has.
 */
bool fp_membership_may_have (const struct fp_seen *seen, unsigned nr,
                             const struct fp_uuid *server,
                             const struct fp_members *list);

/* Return the members that have heard of each change, as a set of places in the
 * list `base`: those that are current in it and in each list that counts
 * beside it.  A client that sends a list first gives its current members all
 * that it knows.  So they know all if that list was sent after the last
 * complete one.  One of the lists that count was; which one is not known,
 * unless the base is sure: then its current members are believed.
 */
uint64_t fp_membership_believed (const struct fp_seen *seen, unsigned nr,
                                 unsigned base, unsigned copies);

/* Return true unless the base is not sure, lists count beside it, and too few
 * servers answer to go on.  Of each of these lists so many current members
 * have to answer as of the base (fp_membership_quorum, which is left to the
 * caller for the base): one of them knows of a later complete list, if there
 * is any.  And enough of the members that are believed have to answer.
 */
bool fp_membership_enough (const struct fp_seen *seen, unsigned nr,
                           unsigned base, unsigned copies);

/* Its place in the list, or -1. */
int fp_membership_find (const struct fp_members *list,
                        const struct fp_uuid *server);

unsigned fp_membership_current (const struct fp_members *list);

/* So many of the old list's current members are told of the next list, that
 * more than half of the old ones, if they are asked later, include one of
 * those: with fewer nobody may go on.  Where a volume has several copies of
 * each extent as many may die at once as leave one of them: also if that is
 * more than half.  (Who attaches it without some of its members then knows
 * that these may have gone on by themselves if they are so many.)
 */
static inline bool
fp_membership_may_shrink (unsigned was, unsigned is, unsigned copies)
{
  return is > 0 && (2 * is >= was || is + copies > was);
}

/* Return the least number of current members that is enough to attach: so many
 * that those that are missing may not have shrunk the list.
 */
static inline unsigned
fp_membership_quorum (unsigned current, unsigned copies)
{
  unsigned least = current / 2 + 1;

  if (least < copies)
    least = copies;
  return least < current ? least : current;
}

/* Return true if any members that are enough to attach by a list of `a`
 * current members include one of any that are enough by a list of `b`: both
 * lists together name `either`.
 */
static inline bool
fp_membership_meet (unsigned a, unsigned b, unsigned either, unsigned copies)
{
  return fp_membership_quorum (a, copies) + fp_membership_quorum (b, copies) >
         either;
}

#endif /* FP_MEMBERSHIP_H */
