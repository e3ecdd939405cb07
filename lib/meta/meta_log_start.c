/* SPDX-License-Identifier: BSD-3-Clause */
/* meta_log_start.c - find out what the servers have recorded of a volume, when
 * it is attached.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "extent/copies.h"
#include "meta/meta_log_int.h"
#include "peer/peer_learn.h"

static int
changed (struct fp_meta_log *log, struct fp_error *error)
{
  return fp_fail (error, -EAGAIN,
                  "volume %s: another client changed it meanwhile: try again",
                  log->title);
}

/* Make the first list: no client has written to the volume. */
static int
begin_new (struct fp_meta_log *log, struct fp_error *error)
{
  const struct fp_volume_params *p = log->p;

  if (p->resume || p->read_only)
    return changed (log, error);
  log->list.count = log->peers->nr;
  for (unsigned i = 0; i < log->peers->nr; i++) {
    if (fp_peer_said (log->peers->at[i])->volume.slabs > 0)
      return fp_fail (
          error, -EIO,
          "volume %s: a server holds extents of it, but no list of "
          "the volume's servers",
          log->title);
    log->list.members[i].server = log->uuid[i];
    fp_addr_format (&p->servers[i], log->list.members[i].addr);
    memcpy (log->list.members[i].domain, p->domains[i], FP_NAME_MAX + 1);
  }
  log->members = fp_peers_all (log->peers);
  return 0;
}

/* Lists that were found (membership.h). */
struct found {
  struct fp_seen seen[FP_MAX_SERVERS];
  unsigned nr;
  const struct fp_members *base;
  uint64_t believed; /* set of places in the base */
  bool sure, enough;
  uint64_t newest;
};

/* Take the base over as our list, in the order of the peers and with the
 * addresses and domains that we use.  Ours must be newer than the list of any
 * server, or that server would refuse it.
 */
static int
take_list (struct fp_meta_log *log, const struct found *f,
           struct fp_error *error)
{
  const struct fp_volume_params *p = log->p;
  const struct fp_members *list = f->base;
  unsigned current = 0, away = 0;
  bool frozen;

  /* The probe has appended the servers that join. */
  if (!p->resume ||
      (list != &p->members &&
       list->count !=
           p->members.count - (uint32_t) __builtin_popcountll (p->joins)))
    return changed (log, error);
  if (f->newest >= FP_MEMBERSHIP_VERSION_MAX)
    return fp_fail (error, -EPROTO,
                    "volume %s: invalid list of servers: version %" PRIu64,
                    log->title, f->newest);
  log->list.version = f->newest;
  log->list.count = log->peers->nr;
  for (unsigned i = 0; i < log->peers->nr; i++) {
    int at = fp_membership_find (list, &log->uuid[i]);

    if (p->joins >> i & 1 && at < 0) {
      log->list.members[i].server = log->uuid[i];
      continue;
    }
    if (at < 0 || ((p->joins >> i & 1) && list != &p->members))
      return changed (log, error);
    log->list.members[i] = list->members[at];
    if (!list->members[at].current)
      continue;
    current++;
    away += p->away >> i & 1;
    if (!(f->believed >> at & 1))
      continue;
    log->durable |= UINT64_C (1) << i;
    if (!(p->away >> i & 1))
      log->members |= UINT64_C (1) << i;
  }
  if (log->members == 0)
    return changed (log, error);
  frozen =
      (away > 0 && meta_log_may_shrink (log, current, away)) || !f->enough;
  if (frozen && p->force && (p->away & ~p->leaves) == 0) {
    frozen = false;
    log->forced = true;
    log->durable &= ~p->away;
    log->list.version += FP_MEMBERSHIP_FORCED;
    if (log->list.version >= FP_MEMBERSHIP_VERSION_MAX)
      return fp_fail (error, -EOVERFLOW,
                      "volume %s: force=true was used too often", log->title);
  }
  atomic_store (&log->recorded->frozen, frozen);
  log->anchor = log->durable;
  log->nr_durable = (unsigned) __builtin_popcountll (log->durable);
  for (unsigned i = 0; i < log->peers->nr; i++) {
    fp_addr_format (&p->servers[i], log->list.members[i].addr);
    memcpy (log->list.members[i].domain, p->domains[i], FP_NAME_MAX + 1);
  }
  return 0;
}

/* Note each list that counts as one that may be somewhere, like those that we
 * send, if the base is not sure and several count.  Servers that are dead for
 * good have none.
 */
static void
note_lists (struct fp_meta_log *log, const struct found *f)
{
  for (unsigned i = 0; i < f->nr && !f->sure; i++)
    for (unsigned k = 0; k < i; k++)
      log->several = log->several ||
                     (f->seen[i].list->version >= f->base->version &&
                      f->seen[k].list->version >= f->base->version &&
                      !fp_membership_same (f->seen[i].list, f->seen[k].list));
  for (unsigned i = 0; i < f->nr && log->several; i++) {
    const struct fp_members *list = f->seen[i].list;
    uint64_t set = 0;

    if (list->version < f->base->version)
      continue;
    for (unsigned k = 0; k < log->peers->nr; k++) {
      int at = fp_membership_find (list, &log->uuid[k]);

      if (at >= 0 && list->members[at].current &&
          fp_membership_may_have (f->seen, f->nr, &log->uuid[k], list))
        set |= UINT64_C (1) << k;
    }
    if (log->forced)
      set &= ~log->p->away;
    /* META_LOG_TRIED has room for one list of each server. */
    (void) meta_log_note_tried (log, set, fp_membership_current (list));
  }
}

/* Choose the list as the probe did, if the servers still have the same lists.
 * The probe has also seen lists of servers outside this volume.  Otherwise
 * another client has changed them meanwhile, and the present lists count.
 * Return 1; 0 if there is no list; or an error.
 */
static int
choose_list (struct fp_meta_log *log, struct found *f, struct fp_error *error)
{
  const struct fp_volume_params *p = log->p;
  bool as_was = p->resume;
  int best;

  for (unsigned i = 0; i < log->peers->nr; i++) {
    const struct fp_members *list = &fp_peer_said (log->peers->at[i])->members;

    if (p->away >> i & 1)
      continue;
    f->seen[f->nr++] = (struct fp_seen) { &log->uuid[i], list };
    as_was = as_was && list->version == p->had[i];
  }
  f->newest = FP_MAX (p->newest, fp_membership_newest (f->seen, f->nr));
  f->base = &p->members;
  f->believed = p->believed;
  f->sure = p->sure;
  f->enough = p->enough;
  if (as_was)
    return 1;
  best = fp_membership_best (f->seen, f->nr);
  if (best < 0)
    return 0;
  f->base = f->seen[best].list;
  f->believed =
      fp_membership_believed (f->seen, f->nr, (unsigned) best, p->copies);
  f->sure = fp_membership_is_sure (f->seen, f->nr, (unsigned) best, p->copies);
  return fp_membership_enough (f->seen, f->nr, (unsigned) best, p->copies)
             ? 1
             : changed (log, error);
}

static int
find_list (struct fp_meta_log *log, struct fp_error *error)
{
  struct found f = { .nr = 0 };
  int e;

  log->listed = fp_peers_all (log->peers);
  log->leaving = log->leave = log->p->leaves;

  {
    FP_LOCK_SCOPE (&log->lock);
    if (log->restarted != 0 && log->p->resume)
      return changed (log, error);
    log->restarted = 0;
  }
  e = choose_list (log, &f, error);
  if (e <= 0)
    return e < 0 ? e : begin_new (log, error);
  e = take_list (log, &f, error);
  if (e == 0)
    note_lists (log, &f);
  return e;
}

/* Name one of the missing servers in error.  Return -EIO. */
static int
silent (struct fp_meta_log *log, uint64_t missing, const char *what,
        struct fp_error *error)
{
  char where[FP_ADDR_MAX + 1];
  unsigned i = (unsigned) __builtin_ctzll (missing);

  fp_addr_format (&log->p->servers[i], where);
  return fp_fail (error, -EIO, "%s: did not %s in time", where, what);
}

#define RETRY_MS 20

uint64_t
meta_log_ask_all (struct fp_meta_log *log, uint64_t servers,
                  enum fp_record_op op, uint64_t deadline_ns)
{
  uint64_t done = 0;

  while (done != servers && !fp_deadline_passed (deadline_ns)) {
    done |= meta_log_ask (log, servers & ~done, op, NULL, deadline_ns, NULL);
    if (done != servers)
      poll (NULL, 0, RETRY_MS);
  }
  return done;
}

static int
learn_map (struct fp_meta_log *log, uint64_t deadline_ns,
           struct fp_error *error)
{
  uint64_t done =
      meta_log_ask_all (log, log->members, RECORD_OP_MAP_READ, deadline_ns);

  if (done != log->members)
    return silent (log, log->members & ~done, "list the existing extents",
                   error);
  fp_recorded_advance (log->recorded, FP_RECORDED_KNOWN);
  return 0;
}

/* ---- labels ---- */

/* Decide which labels count.  If an extent exists and no server has it, it is
 * LOST.  If a server has it and it does not exist, its slab is released later.
 * Return true if some servers were not heard.
 */
static bool
judge (struct fp_meta_log *log)
{
  uint64_t stale = fp_peers_all (log->peers) & ~log->durable;
  bool missing;

  {
    FP_LOCK_SCOPE (&log->extents->lock);
    log->recorded->stale = stale;
    fp_recorded_advance (log->recorded, FP_RECORDED_JUDGED);
    missing = atomic_load (&log->recorded->unheard) != 0;
  }
  for (uint64_t i = 0; i < log->extents->all; i++) {
    bool exists = fp_recorded_has (log->recorded, i);

    if (fp_recorded_is_lost (log->recorded, i))
      peer_judge (log->peers, i, false, UINT64_MAX, missing);
    peer_judge (log->peers, i, log->recorded->frozen || log->forced || exists,
                exists ? stale : UINT64_MAX,
                missing || (log->recorded->frozen && !exists));
  }
  if (log->p->leaves != 0) {
    peer_give_up_doubts (log->peers);
    atomic_fetch_and (&log->recorded->unheard, ~log->p->leaves);
  }
  return missing;
}

/* Release what does not exist, before its extent can get memory again.  Our
 * list is complete.
 */
static int
release (struct fp_meta_log *log, bool missing, uint64_t deadline_ns,
         struct fp_error *error)
{
  uint64_t stray = peer_with_strays (log->peers) & ~log->p->away, done;

  fp_recorded_advance (log->recorded, FP_RECORDED_COMPLETE);
  if (log->p->leaves != 0)
    meta_log_lose_rest (log);
  done = meta_log_ask_all (log, stray, RECORD_OP_SWEEP, deadline_ns);
  if (done != stray)
    return silent (log, stray & ~done, "release unused slabs", error);
  /* Clear the open mark of labels whose extents were moved and are in place.
   * If a server does not hear of that, they are in doubt again at the next
   * start.
   */
  if (!missing)
    (void) meta_log_ask (
        log, fp_peers_all (log->peers), RECORD_OP_DOUBTS, NULL,
        FP_MIN (deadline_ns, fp_deadline_in_ms (meta_log_patience_ms (log))),
        NULL);
  return 0;
}

/* Take servers that are not believed into the first list, if a list that was
 * found might come back without them.  They are given the map first.
 */
static int
take_in (struct fp_meta_log *log, struct fp_error *error)
{
  const struct fp_volume_params *p = log->p;
  uint64_t next;

  if (!log->several || log->recorded->frozen || p->read_only ||
      meta_log_may_write (log, log->members))
    return 0;
  next = meta_log_next (log, log->members | (log->listed & ~p->away &
                                             ~p->joins & ~log->leaving));
  if (next == 0)
    return fp_fail (error, -EROFS, FP_TOO_FEW_LISTS_WHY, log->title);
  log->members = next;
  return 0;
}

/* Write the map to all believed members.  Its last change may be at one member
 * alone; it counts here, so it has to outlive that member.
 *
 * With force=true the dead members may have known of extents that no other
 * server knows of.  These are lost, now and for the next client.  That is
 * recorded before the list without the dead: a client with that list and an
 * old map would read zeros.
 */
static int
share_map (struct fp_meta_log *log, uint64_t deadline_ns,
           struct fp_error *error)
{
  uint64_t done;

  for (uint64_t i = 0; log->forced && i < log->extents->all; i++)
    fp_recorded_set (log->recorded, i, true);
  done =
      meta_log_ask_all (log, log->members, RECORD_OP_MAP_WRITE, deadline_ns);
  return done == log->members ? 0
                              : silent (log, log->members & ~done,
                                        "record the existing extents", error);
}

/* Append to error that there is no way back, even if the list cannot be
 * written.
 */
static int
begun_by_force (int e, struct fp_error *error)
{
  return fp_fail (
      error, e,
      "%s; force=true has taken effect: reads of unwritten parts may fail "
      "permanently now, even if the removed servers come back",
      error->text);
}

/* Return true if a server that leaves holds extents.  The probe found none. */
static bool
leaves_hold_extents (struct fp_meta_log *log)
{
  for (unsigned i = 0; i < log->peers->nr; i++) {
    struct fp_peer_room room;

    (void) fp_peer_room (log->peers->at[i], &room);
    if ((log->p->leaves >> i & 1) && room.held > 0)
      return true;
  }
  return false;
}

static int
begin_list (struct fp_meta_log *log, uint64_t deadline_ns,
            struct fp_error *error)
{
  for (;;) {
    bool is_new = !log->p->resume;
    uint64_t next = meta_log_next (log, fp_peers_all (log->peers));
    int e;

    if (is_new && next != 0)
      log->members = next; /* a new volume waits for all servers */
    e = meta_log_write_list (log, deadline_ns);
    if (e == -EPERM)
      return changed (log, error);
    if (e == 0 && (!is_new || log->durable == fp_peers_all (log->peers)))
      break;
    if (fp_deadline_passed (deadline_ns))
      return silent (log,
                     e < 0 ? log->members
                           : fp_peers_all (log->peers) & ~log->durable,
                     "record the volume's list of servers", error);
    poll (NULL, 0, RETRY_MS);
  }
  fp_extents_raise_generation (log->extents,
                               fp_membership_generation (log->list.version));
  return 0;
}

int
fp_meta_log_start (struct fp_meta_log *log, uint64_t deadline_ns,
                   struct fp_error *error)
{
  bool marked, missing = false;
  int e;

  if (log == NULL)
    return 0;
  e = find_list (log, error);
  if (e == 0)
    e = learn_map (log, deadline_ns, error);
  if (e == 0)
    missing = judge (log);
  if (e == 0)
    e = take_in (log, error);
  /* The probe would have refused these; something has changed since. */
  if (e == 0 && ((log->recorded->frozen &&
                  (log->p->leaves != 0 || fp_copies_several (log->extents))) ||
                 leaves_hold_extents (log)))
    return changed (log, error);
  if (e == 0 && log->p->read_only)
    e = meta_log_read_copies (log, error);
  if (log->recorded->frozen || log->p->read_only) {
    FP_LOCK_SCOPE (&log->lock);
    atomic_store (&log->recorded->version, log->list.version);
    log->current = log->durable;
    if (!log->recorded->frozen)
      atomic_store (&log->peers->current, log->durable);
    return e;
  }
  if (e == 0)
    e = meta_log_take_copies (log, deadline_ns, error);
  marked = e == 0 && log->forced;
  if (e == 0 && log->p->resume && !fp_copies_several (log->extents))
    e = share_map (log, deadline_ns, error); /* else take_copies did */
  if (e == 0)
    e = begin_list (log, deadline_ns, error);
  if (e == 0)
    e = release (log, missing, deadline_ns, error);
  if (e < 0 && marked)
    return begun_by_force (e, error);
  if (e == 0) {
    e = meta_log_run (log);
    if (e < 0)
      fp_fail (error, e, "cannot create a thread: %s", strerror (-e));
  }
  return e;
}
