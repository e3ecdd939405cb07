/* SPDX-License-Identifier: BSD-3-Clause */
/* meta_log_list.c - the list of members: which members are current, and which
 * list may be written next.  meta_log.h has the rules.
 */

#include <config.h>

#include <errno.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "meta/meta_log_int.h"

#define TAKEN_IN_AT_ONCE 8
#define REJOIN_MS 1000 /* between two attempts */

static uint64_t
bit (unsigned server)
{
  return UINT64_C (1) << server;
}

static unsigned
count (uint64_t set)
{
  return (unsigned) __builtin_popcountll (set);
}

void
meta_log_note_restarted (struct fp_meta_log *r, uint64_t *answered)
{
  uint64_t gone;

  {
    FP_LOCK_SCOPE (&r->lock);
    gone = r->restarted;
    r->restarted = 0;
    for (unsigned i = 0; i < r->peers->nr; i++)
      if (gone & r->listed & bit (i))
        r->list.members[i].server = r->uuid[i];
  }
  gone &= r->listed;
  if (gone == 0)
    return;
  r->attempted = 0;
  r->members &= ~gone;
  r->durable &= ~gone;
  r->anchor &= ~gone;
  for (unsigned i = 0; i < r->nr_tried; i++)
    r->tried[i].set &= ~gone;
  /* No server is left that could have heard of the last attempts. */
  if (r->anchor == 0)
    r->anchor = r->durable;
  *answered &= ~gone;
  r->list_due = true;
}

bool
meta_log_may_shrink (const struct fp_meta_log *r, unsigned was, unsigned is)
{
  return fp_membership_may_shrink (was, is, r->p->copies);
}

/* Return true if a list that was sent could come back.  Then so many of its
 * current members are not in the next list that they can attach by it.
 */
static bool
may_come_back (const struct fp_meta_log *r, uint64_t next)
{
  for (unsigned i = 0; i < r->nr_tried; i++)
    if (count (r->tried[i].set & ~next) >=
        fp_membership_quorum (r->tried[i].nr, r->p->copies))
      return true;
  return false;
}

static bool
meets (const struct fp_meta_log *r, uint64_t set, unsigned nr, uint64_t next)
{
  return fp_membership_meet (nr, count (next), count (set | next),
                             r->p->copies);
}

/* Return true if one client could attach by a list that was sent, and another
 * by the next list, without a common server.  If neither list is complete,
 * neither client would hear of the other.
 *
 * A list that only leaves members out is not held up.  With up to four members
 * it has enough in common with each earlier list.  With more, a volume should
 * go on when two of five die at once.
 */
static bool
may_part (const struct fp_meta_log *r, uint64_t next)
{
  next &= ~r->leaving;
  if ((next & ~r->anchor) == 0)
    return false;
  if (!r->several && !meets (r, r->durable, r->nr_durable, next))
    return true;
  for (unsigned i = 0; i < r->nr_tried; i++)
    if (!meets (r, r->tried[i].set, r->tried[i].nr, next))
      return true;
  return false;
}

bool
meta_log_note_tried (struct fp_meta_log *r, uint64_t set, unsigned nr)
{
  for (unsigned i = 0; i < r->nr_tried; i++)
    if (r->tried[i].set == set && r->tried[i].nr == nr)
      return true;
  if (r->nr_tried == META_LOG_TRIED)
    return false;
  r->tried[r->nr_tried].set = set;
  r->tried[r->nr_tried++].nr = nr;
  return true;
}

/* Return true if no other client can have attached by the last complete list
 * without a member that is told of the next one.  A member that came back with
 * nothing may have been one of those, and cannot tell.  If all members that
 * still know the last list are told, that client's writes are gone with the
 * servers that forgot it.
 */
static bool
keeps_durable (const struct fp_meta_log *r, uint64_t set)
{
  return (r->durable & ~set) == 0 ||
         meta_log_may_shrink (r, r->nr_durable, count (set & r->durable));
}

bool
meta_log_may_write (const struct fp_meta_log *r, uint64_t set)
{
  if ((set & ~r->leaving) == 0)
    return false;
  if (r->durable == 0)
    return !may_come_back (r, set);
  /* Otherwise no member would be left that is current in that list and all
   * before it (the anchor).  Then no list could be written any more.
   */
  return (set & r->anchor & ~r->leaving) != 0 && !may_come_back (r, set) &&
         !may_part (r, set) && keeps_durable (r, set);
}

/* Return the largest set of `base` and some of `added` that may be written, or
 * 0 if there is none.  At most TAKEN_IN_AT_ONCE of `added` are tried; the
 * others wait.
 */
static uint64_t
largest (const struct fp_meta_log *r, uint64_t base, uint64_t added)
{
  uint64_t best = 0, some;

  while (count (added) > TAKEN_IN_AT_ONCE)
    added &= added - 1;
  some = added;
  do {
    if (count (base | some) > count (best) &&
        meta_log_may_write (r, base | some))
      best = base | some;
    some = (some - 1) & added;
  } while (some != added);
  return best;
}

uint64_t
meta_log_next (const struct fp_meta_log *r, uint64_t set)
{
  uint64_t added = set & ~r->anchor & ~r->leaving, base = set & ~added, next;

  if (meta_log_may_write (r, set))
    return set;
  next = largest (r, base, added & ~r->failed);
  return (next & added) != 0 ? next : largest (r, base, added);
}

static void
compose_list (struct fp_meta_log *r, uint64_t set)
{
  r->sent.version = r->list.version;
  r->sent.count = 0;
  for (unsigned i = 0; i < FP_MAX_SERVERS; i++) {
    r->list.members[i].current = (set & bit (i)) != 0;
    if (r->listed & ~r->leaving & bit (i))
      r->sent.members[r->sent.count++] = r->list.members[i];
  }
}

/* Set the version of the next attempt.  A retry of the same list keeps its
 * version.  So one server that alone hears all attempts gets no further ahead
 * than the next client does.
 */
static void
next_version (struct fp_meta_log *r, uint64_t set)
{
  if (!r->begun)
    r->list.version |= FP_MEMBERSHIP_ROUND - 1;
  if (!r->begun || r->attempted != set)
    r->list.version++;
  r->begun = true;
  r->attempted = set;
}

static uint64_t
waiting (struct fp_meta_log *r)
{
  FP_LOCK_SCOPE (&r->lock);
  return r->confirm;
}

int
meta_log_write_list (struct fp_meta_log *r, uint64_t deadline_ns)
{
  r->list_due = true;
  for (;;) {
    uint64_t set = r->members, done, refused = 0, next, asked;
    uint64_t end = fp_deadline_in_ms (meta_log_patience_ms (r));

    if (!meta_log_may_write (r, set) ||
        !meta_log_note_tried (r, set & ~r->leaving, count (set & ~r->leaving)))
      return -EAGAIN;
    next_version (r, set);
    compose_list (r, set);
    asked = waiting (r);
    /* A member that leaves is asked, but is not one of the list's members. */
    r->anchor &= set & ~r->leaving;
    if (r->durable == 0)
      r->anchor = set & ~r->leaving;
    done = meta_log_ask (r, set, RECORD_OP_MEMBERS, &r->sent,
                         FP_MIN (end, deadline_ns), &refused);
    if (refused != 0)
      return -EPERM;
    if (done == set) {
      r->durable = r->anchor = set;
      r->nr_durable = count (set & ~r->leaving);
      r->nr_tried = 0;
      r->several = false;
      r->list_due = false;
      r->attempted = 0;
      FP_LOCK_SCOPE (&r->lock);
      atomic_store (&r->recorded->version, r->list.version);
      r->confirm &= ~asked;
      meta_log_changed (r);
      r->current = r->durable;
      atomic_store (&r->peers->current, r->durable);
      for (unsigned i = 0; i < FP_MAX_SERVERS; i++)
        if (r->durable & bit (i))
          (void) fp_peers_move (r->peers, i, FP_PLACE_NEW, FP_PLACE_MEMBER);
      return 0;
    }
    next = meta_log_next (r, done);
    if (fp_deadline_passed (deadline_ns) || next == 0)
      return -EAGAIN;
    r->members = next;
  }
}

void
meta_log_mend_list (struct fp_meta_log *r)
{
  uint64_t up, next;
  int e;

  {
    FP_LOCK_SCOPE (&r->lock);
    up = r->up;
  }
  next = meta_log_next (r, r->members & up);
  if (next != 0)
    r->members = next;
  if ((r->members & ~up) != 0)
    return; /* members that are away may have the last list */
  e = meta_log_write_list (r,
                           fp_deadline_in_ms (4 * meta_log_patience_ms (r)));
  if (e == -EPERM)
    fp_lease_fence (r->lease, NULL);
}

/* Make our list newer than that of a server that was away at start-up, and
 * prove that ours counts.  The server's list may be newer than ours for two
 * reasons:
 *
 *  - A client before us sent it, and died before others had it.  Then ours
 *    have to be newer.
 *  - A client after us has the volume.  Then it has opened it at more than
 *    half of our current members, and these refuse us.
 *
 * So if the current members take one more list of ours, no other client has
 * the volume.  Before that nothing is changed at the server
 * (fp_meta_log_confirm).
 */
static bool
outdo (struct fp_meta_log *r, uint64_t newest)
{
  if (newest >= FP_MEMBERSHIP_VERSION_MAX)
    return false;
  r->list_due = true;
  meta_log_mend_list (r);
  if (r->list_due)
    return false;
  if (r->list.version < newest)
    r->list.version = newest;
  FP_LOCK_SCOPE (&r->lock);
  r->outdone = newest;
  return true;
}

void
meta_log_rejoin (struct fp_meta_log *r)
{
  uint64_t out, up, newest, confirm, now, done = 0;

  {
    FP_LOCK_SCOPE (&r->lock);
    up = r->up;
    newest = r->newest;
    confirm = r->confirm;
    if (!fp_deadline_passed (r->rejoin_ns))
      return;
  }
  out = up & ~r->members & r->listed & ~r->leaving;
  if ((newest > r->list.version || confirm != 0) && !outdo (r, newest)) {
    FP_LOCK_SCOPE (&r->lock);
    r->rejoin_ns = fp_deadline_in_ms (REJOIN_MS);
    return;
  }
  if (out == 0)
    return;
  now = meta_log_next (r, r->members | out) & out;
  if (now != 0)
    done =
        meta_log_ask (r, now, RECORD_OP_MAP_WRITE, NULL,
                      fp_deadline_in_ms (2 * meta_log_patience_ms (r)), NULL);
  r->failed = now & ~done;
  if (done != 0) {
    r->members |= done;
    r->list_due = true;
    meta_log_mend_list (r);
  }
  /* Members that had to wait for others are next. */
  if (now == 0 || (now & ~r->members) != 0 || r->list_due) {
    FP_LOCK_SCOPE (&r->lock);
    r->rejoin_ns = fp_deadline_in_ms (REJOIN_MS);
  }
}

void
meta_log_leave_out_dead (struct fp_meta_log *r)
{
  uint64_t up;

  {
    FP_LOCK_SCOPE (&r->lock);
    up = r->up;
  }
  if ((r->members & ~up) != 0 && meta_log_next (r, r->members & up) != 0)
    r->list_due = true;
}
