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
meta_log_note_restarted (struct fp_meta_log *log, uint64_t *answered)
{
  uint64_t gone;

  {
    FP_LOCK_SCOPE (&log->lock);
    gone = log->restarted;
    log->restarted = 0;
    for (unsigned i = 0; i < log->peers->nr; i++)
      if (gone & log->listed & bit (i))
        log->list.members[i].server = log->uuid[i];
  }
  gone &= log->listed;
  if (gone == 0)
    return;
  log->attempted = 0;
  log->members &= ~gone;
  log->durable &= ~gone;
  log->anchor &= ~gone;
  for (unsigned i = 0; i < log->nr_tried; i++)
    log->tried[i].set &= ~gone;
  /* No server is left that could have heard of the last attempts. */
  if (log->anchor == 0)
    log->anchor = log->durable;
  *answered &= ~gone;
  log->list_due = true;
  meta_log_note_lost (log);
}

bool
meta_log_may_shrink (const struct fp_meta_log *log, unsigned was, unsigned is)
{
  return fp_membership_may_shrink (was, is, log->p->copies);
}

/* Return true if a list that was sent could come back.  Then so many of its
 * current members are not in the next list that they can attach by it.
 */
static bool
may_come_back (const struct fp_meta_log *log, uint64_t next)
{
  for (unsigned i = 0; i < log->nr_tried; i++)
    if (count (log->tried[i].set & ~next) >=
        fp_membership_quorum (log->tried[i].nr, log->p->copies))
      return true;
  return false;
}

static bool
meets (const struct fp_meta_log *log, uint64_t set, unsigned nr, uint64_t next)
{
  return fp_membership_meet (nr, count (next), count (set | next),
                             log->p->copies);
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
may_part (const struct fp_meta_log *log, uint64_t next)
{
  next &= ~log->leaving;
  if ((next & ~log->anchor) == 0)
    return false;
  if (!log->several && !meets (log, log->durable, log->nr_durable, next))
    return true;
  for (unsigned i = 0; i < log->nr_tried; i++)
    if (!meets (log, log->tried[i].set, log->tried[i].nr, next))
      return true;
  return false;
}

bool
meta_log_note_tried (struct fp_meta_log *log, uint64_t set, unsigned nr)
{
  for (unsigned i = 0; i < log->nr_tried; i++)
    if (log->tried[i].set == set && log->tried[i].nr == nr)
      return true;
  if (log->nr_tried == META_LOG_TRIED)
    return false;
  log->tried[log->nr_tried].set = set;
  log->tried[log->nr_tried++].nr = nr;
  return true;
}

/* Return true if no other client can have attached by the last complete list
 * without a member that is told of the next one.  A member that came back with
 * nothing may have been one of those, and cannot tell.  If all members that
 * still know the last list are told, that client's writes are gone with the
 * servers that forgot it.
 */
static bool
keeps_durable (const struct fp_meta_log *log, uint64_t set)
{
  return (log->durable & ~set) == 0 ||
         meta_log_may_shrink (log, log->nr_durable,
                              count (set & log->durable));
}

bool
meta_log_may_write (const struct fp_meta_log *log, uint64_t set)
{
  if ((set & ~log->leaving) == 0)
    return false;
  if (log->durable == 0)
    return !may_come_back (log, set);
  /* Otherwise no member would be left that is current in that list and all
   * before it (the anchor).  Then no list could be written any more.
   */
  return (set & log->anchor & ~log->leaving) != 0 &&
         !may_come_back (log, set) && !may_part (log, set) &&
         keeps_durable (log, set);
}

/* Return the largest set of `base` and some of `added` that may be written, or
 * 0 if there is none.  At most TAKEN_IN_AT_ONCE of `added` are tried; the
 * others wait.
 */
static uint64_t
largest (const struct fp_meta_log *log, uint64_t base, uint64_t added)
{
  uint64_t best = 0, some;

  while (count (added) > TAKEN_IN_AT_ONCE)
    added &= added - 1;
  some = added;
  do {
    if (count (base | some) > count (best) &&
        meta_log_may_write (log, base | some))
      best = base | some;
    some = (some - 1) & added;
  } while (some != added);
  return best;
}

uint64_t
meta_log_next (const struct fp_meta_log *log, uint64_t set)
{
  uint64_t added = set & ~log->anchor & ~log->leaving, base = set & ~added,
           next;

  if (meta_log_may_write (log, set))
    return set;
  next = largest (log, base, added & ~log->failed);
  return (next & added) != 0 ? next : largest (log, base, added);
}

static void
compose_list (struct fp_meta_log *log, uint64_t set)
{
  log->sent.version = log->list.version;
  log->sent.count = 0;
  for (unsigned i = 0; i < FP_MAX_SERVERS; i++) {
    log->list.members[i].current = (set & bit (i)) != 0;
    if (log->listed & ~log->leaving & bit (i))
      log->sent.members[log->sent.count++] = log->list.members[i];
  }
}

/* Set the version of the next attempt.  A retry of the same list keeps its
 * version.  So one server that alone hears all attempts gets no further ahead
 * than the next client does.
 */
static void
next_version (struct fp_meta_log *log, uint64_t set)
{
  if (!log->begun)
    log->list.version |= FP_MEMBERSHIP_ROUND - 1;
  if (!log->begun || log->attempted != set)
    log->list.version++;
  log->begun = true;
  log->attempted = set;
}

static uint64_t
waiting (struct fp_meta_log *log)
{
  FP_LOCK_SCOPE (&log->lock);
  return log->confirm;
}

int
meta_log_write_list (struct fp_meta_log *log, uint64_t deadline_ns)
{
  log->list_due = true;
  for (;;) {
    uint64_t set = log->members, done, refused = 0, next, asked;
    uint64_t end = fp_deadline_in_ms (meta_log_patience_ms (log));

    if (!meta_log_may_write (log, set) ||
        !meta_log_note_tried (log, set & ~log->leaving,
                              count (set & ~log->leaving)))
      return -EAGAIN;
    next_version (log, set);
    compose_list (log, set);
    asked = waiting (log);
    /* A member that leaves is asked, but is not one of the list's members. */
    log->anchor &= set & ~log->leaving;
    if (log->durable == 0)
      log->anchor = set & ~log->leaving;
    done = meta_log_ask (log, set, RECORD_OP_MEMBERS, &log->sent,
                         FP_MIN (end, deadline_ns), &refused);
    if (refused != 0)
      return -EPERM;
    if (done == set) {
      log->durable = log->anchor = set;
      log->nr_durable = count (set & ~log->leaving);
      log->nr_tried = 0;
      log->several = false;
      log->list_due = false;
      log->attempted = 0;
      FP_LOCK_SCOPE (&log->lock);
      atomic_store (&log->recorded->version, log->list.version);
      log->confirm &= ~asked;
      meta_log_changed (log);
      log->current = log->durable;
      atomic_store (&log->peers->current, log->durable);
      for (unsigned i = 0; i < FP_MAX_SERVERS; i++)
        if (log->durable & bit (i))
          (void) fp_peers_move (log->peers, i, FP_PLACE_NEW, FP_PLACE_MEMBER);
      return 0;
    }
    next = meta_log_next (log, done);
    if (fp_deadline_passed (deadline_ns) || next == 0)
      return -EAGAIN;
    log->members = next;
  }
}

void
meta_log_mend_list (struct fp_meta_log *log)
{
  uint64_t up, next;
  int e;

  {
    FP_LOCK_SCOPE (&log->lock);
    up = log->up;
  }
  next = meta_log_next (log, log->members & up);
  if (next != 0)
    log->members = next;
  if ((log->members & ~up) != 0)
    return; /* members that are away may have the last list */
  if (!meta_log_tell_lost (log))
    return;
  e = meta_log_write_list (log,
                           fp_deadline_in_ms (4 * meta_log_patience_ms (log)));
  if (e == -EPERM)
    fp_lease_fence (log->lease, NULL);
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
outdo (struct fp_meta_log *log, uint64_t newest)
{
  if (newest >= FP_MEMBERSHIP_VERSION_MAX)
    return false;
  log->list_due = true;
  meta_log_mend_list (log);
  if (log->list_due)
    return false;
  if (log->list.version < newest)
    log->list.version = newest;
  FP_LOCK_SCOPE (&log->lock);
  log->outdone = newest;
  return true;
}

void
meta_log_rejoin (struct fp_meta_log *log)
{
  uint64_t out, up, newest, confirm, now, done = 0;

  {
    FP_LOCK_SCOPE (&log->lock);
    up = log->up;
    newest = log->newest;
    confirm = log->confirm;
    if (!fp_deadline_passed (log->rejoin_ns))
      return;
  }
  out = up & ~log->members & log->listed & ~log->leaving;
  /* The map has the batch already, and its holder must hear last. */
  if (log->nr_batch > 0 && log->change.exist)
    out &= ~log->holder;
  if ((newest > log->list.version || confirm != 0) && !outdo (log, newest)) {
    FP_LOCK_SCOPE (&log->lock);
    log->rejoin_ns = fp_deadline_in_ms (REJOIN_MS);
    return;
  }
  if (out == 0)
    return;
  now = meta_log_next (log, log->members | out) & out;
  if (now != 0)
    done = meta_log_ask (log, now, RECORD_OP_MAP_WRITE, NULL,
                         fp_deadline_in_ms (2 * meta_log_patience_ms (log)),
                         NULL);
  log->failed = now & ~done;
  if (done != 0) {
    log->members |= done;
    log->list_due = true;
    meta_log_mend_list (log);
  }
  /* Members that had to wait for others are next. */
  if (now == 0 || (now & ~log->members) != 0 || log->list_due) {
    FP_LOCK_SCOPE (&log->lock);
    log->rejoin_ns = fp_deadline_in_ms (REJOIN_MS);
  }
}

void
meta_log_leave_out_dead (struct fp_meta_log *log)
{
  uint64_t up;

  {
    FP_LOCK_SCOPE (&log->lock);
    up = log->up;
  }
  if ((log->members & ~up) != 0 && meta_log_next (log, log->members & up) != 0)
    log->list_due = true;
}
