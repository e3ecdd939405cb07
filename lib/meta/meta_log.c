/* SPDX-License-Identifier: BSD-3-Clause */
/* meta_log.c - the metadata log's thread, and the changes of the map that it
 * tells all members.  meta_log_list.c has the list of members.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "extent/copies.h"
#include "meta/meta_log_int.h"

/* Part of `timeout` that a member may take to answer, as long as there is
 * another member.
 */
#define PATIENCE_PART 4
#define LOOK_AHEAD 1024 /* entries of the queue that may join a batch */
#define PATIENCE_MIN_MS 20u

static uint64_t
bit (unsigned server)
{
  return UINT64_C (1) << server;
}

unsigned
meta_log_patience_ms (const struct fp_meta_log *log)
{
  return FP_MAX (log->p->timeout_ms / PATIENCE_PART, PATIENCE_MIN_MS);
}

/* ---- from other threads ---- */

static void
push (struct fp_meta_log *log, uint32_t i)
{
  struct fp_extent *p = log->extents->p;

  p[i].next_wanted = FP_NO_EXTENT;
  if (log->head == FP_NO_EXTENT)
    log->head = i;
  else
    p[log->tail].next_wanted = i;
  log->tail = i;
  pthread_cond_broadcast (&log->cond);
}

static void
push_copy (struct fp_meta_log *log, uint64_t k, uint8_t what)
{
  struct fp_extent *p = &log->extents->p[k];

  FP_LOCK_SCOPE (&log->lock);
  /* A thread that has shut the entry may be about to push it.  An entry that
   * is out of sync belongs to the allocator: it leaves the set before its
   * record is cleared.
   */
  if (atomic_load (&p->record) != RECORD_NOTHING ||
      fp_extent_state (p) == FP_EXTENT_BUSY ||
      !(fp_copies_in_sync (log->extents, fp_extent_of (log->extents, k)) >>
            fp_copy_of (log->extents, k) &
        1))
    return;
  atomic_store (&p->record, what);
  push (log, (uint32_t) k);
}

void
fp_meta_log_drop (struct fp_meta_log *log, uint64_t k)
{
  push_copy (log, k, RECORD_DROP);
}

void
fp_meta_log_in_sync (struct fp_meta_log *log, uint64_t k)
{
  push_copy (log, k, RECORD_IN_SYNC);
}

bool
fp_meta_log_is_due (struct fp_meta_log *log, uint64_t k)
{
  return atomic_load (&log->extents->p[k].record) != RECORD_NOTHING;
}

int
fp_meta_log_settled (struct fp_meta_log *log, uint64_t k, uint64_t deadline_ns)
{
  FP_LOCK_SCOPE (&log->lock);
  while (atomic_load (&log->extents->p[k].record) != RECORD_NOTHING) {
    if (fp_deadline_passed (deadline_ns))
      return -ETIMEDOUT;
    meta_log_wait_ms (log, 20);
  }
  return 0;
}

void
fp_meta_log_exists (struct fp_meta_log *log, uint64_t i)
{
  FP_LOCK_SCOPE (&log->lock);
  atomic_store (&log->extents->p[i].record, RECORD_EXISTS);
  push (log, (uint32_t) i);
}

void
meta_log_wait_ms (struct fp_meta_log *log, unsigned ms)
{
  struct timespec until;

  fp_timespec_after (&until, ms);
  /* A timeout counts as a wake-up: the caller looks again. */
  (void) pthread_cond_timedwait (&log->cond, &log->lock, &until);
}

/* Return true if a change can be recorded without the members that are down;
 * false if it has to wait for some of them.  The lock is held.
 */
static bool
may_record (const struct fp_meta_log *log)
{
  return log->current == 0 ||
         meta_log_may_shrink (
             log, (unsigned) __builtin_popcountll (log->current),
             (unsigned) __builtin_popcountll (log->current & log->up));
}

bool
fp_meta_log_may_record (struct fp_meta_log *log)
{
  if (log == NULL)
    return true;
  FP_LOCK_SCOPE (&log->lock);
  return !log->recorded->frozen && may_record (log);
}

/* Take entry i out of the queue.  Return false if it is in the batch, so that
 * some members may have heard of it.  The lock is held.
 */
static bool
withdraw (struct fp_meta_log *log, uint32_t i)
{
  struct fp_extent *p = log->extents->p;
  uint32_t *next = &log->head, last = FP_NO_EXTENT;

  while (*next != i && *next != FP_NO_EXTENT) {
    last = *next;
    next = &p[last].next_wanted;
  }
  if (*next == FP_NO_EXTENT)
    return false;
  *next = p[i].next_wanted;
  if (log->tail == i)
    log->tail = last;
  atomic_store (&p[i].record, RECORD_NOTHING);
  return true;
}

/* Return the server of entry i as a set, if it is an only copy; else none. */
static uint64_t
holder_of (struct fp_meta_log *log, uint64_t i)
{
  return fp_copies_several (log->extents)
             ? 0
             : bit (atomic_load (&log->extents->p[i].server));
}

int
fp_meta_log_gone (struct fp_meta_log *log, uint64_t i, uint64_t deadline_ns)
{
  struct fp_extent *p;

  if (log == NULL)
    return 0;
  if (log->recorded->frozen)
    return -EROFS;
  p = &log->extents->p[i];
  FP_LOCK_SCOPE (&log->lock);
  atomic_store (&p->record, RECORD_GONE);
  push (log, (uint32_t) i);
  while (atomic_load (&p->record) == RECORD_GONE) {
    /* Otherwise the extent stays unusable until these members are back. */
    if ((!may_record (log) ||
         (holder_of (log, i) & ~(log->current & log->up)) != 0) &&
        withdraw (log, (uint32_t) i))
      return -EROFS;
    if (fp_deadline_passed (deadline_ns)) {
      /* Some members may have heard of it by now. */
      atomic_store (&p->record, RECORD_REVERSE);
      return -EIO;
    }
    meta_log_wait_ms (log, 20);
  }
  if (atomic_load (&p->record) == RECORD_UNDONE) {
    atomic_store (&p->record, RECORD_REVERSE);
    pthread_cond_broadcast (&log->cond);
    return -EAGAIN;
  }
  /* If its server is away now, do not make it READY again later. */
  p->releasing = true;
  return 0;
}

int
fp_meta_log_sync (struct fp_meta_log *log, uint64_t deadline_ns)
{
  if (log == NULL)
    return 0;
  FP_LOCK_SCOPE (&log->lock);
  while (log->head != FP_NO_EXTENT || log->nr_batch > 0) {
    if (fp_deadline_passed (deadline_ns))
      return -ETIMEDOUT;
    meta_log_wait_ms (log, 20);
  }
  return 0;
}

void
fp_meta_log_wake (struct fp_meta_log *log)
{
  FP_LOCK_SCOPE (&log->lock);
  log->answers++;
  pthread_cond_broadcast (&log->cond);
}

bool
fp_meta_log_has_in_sync (struct fp_meta_log *log, uint64_t k)
{
  struct fp_extent *p = &log->extents->p[k];

  switch (atomic_load (&p->record)) {
  case RECORD_IN_SYNC:
  case RECORD_DROP:
    return false;
  case RECORD_NOTHING:
    /* A shut entry is being trimmed, and may be about to leave the set. */
    return fp_extent_state (p) == FP_EXTENT_BUSY ||
           fp_recorded_may_exist (log->recorded, k);
  default:
    return true;
  }
}

/* ---- asking ---- */

uint64_t
meta_log_ask (struct fp_meta_log *log, uint64_t servers, enum fp_record_op op,
              const void *what, uint64_t deadline_ns, uint64_t *refused)
{
  struct fp_peer **peers = log->peers->at;
  uint64_t asked = 0, open, done = 0;

  for (unsigned i = 0; i < log->peers->nr; i++)
    if ((servers & bit (i)) && fp_peer_record (peers[i], op, what))
      asked |= bit (i);
  open = asked;
  while (open != 0) {
    uint64_t answers;

    {
      FP_LOCK_SCOPE (&log->lock);
      answers = log->answers;
    }
    for (unsigned i = 0; i < log->peers->nr; i++) {
      int result;

      if (!(open & bit (i)) || !fp_peer_record_result (peers[i], &result))
        continue;
      open &= ~bit (i);
      if (result == 0)
        done |= bit (i);
      else if (refused != NULL && (result == -EINVAL || result == -EEXIST))
        *refused |= bit (i);
    }
    if (open == 0 || fp_deadline_passed (deadline_ns))
      break;
    FP_LOCK_SCOPE (&log->lock);
    if (log->stop)
      break;
    if (answers == log->answers)
      meta_log_wait_ms (log, 20);
  }
  for (unsigned i = 0; i < log->peers->nr; i++)
    if (open & bit (i))
      fp_peer_record_leave (peers[i]);
  return done;
}

/* ---- changes of the map ---- */

/* Take the first extent of the queue, and others soon after it that are
 * recorded in the same way and have the same holder.  Return their number.
 */
static unsigned
take_batch (struct fp_meta_log *log)
{
  struct fp_extent *p = log->extents->p;
  uint32_t *next = &log->head, last = FP_NO_EXTENT;

  FP_LOCK_SCOPE (&log->lock);
  log->change.count = 0;
  for (unsigned n = 0; n < LOOK_AHEAD && *next != FP_NO_EXTENT &&
                       log->change.count < FP_MAX_GRANTS;
       n++) {
    uint32_t i = *next;
    bool exist = atomic_load (&p[i].record) != RECORD_GONE &&
                 atomic_load (&p[i].record) != RECORD_DROP;
    uint64_t holder = holder_of (log, i);

    if (log->change.count > 0 &&
        (exist != log->change.exist || holder != log->holder)) {
      last = i;
      next = &p[i].next_wanted;
      continue;
    }
    log->change.exist = exist;
    log->holder = holder;
    *next = p[i].next_wanted;
    if (log->tail == i)
      log->tail = last;
    log->batch[log->change.count] = i;
    log->change.extents[log->change.count++] = i;
  }
  log->nr_batch = log->change.count;
  return log->nr_batch;
}

static void
change_map (struct fp_meta_log *log)
{
  for (uint32_t n = 0; n < log->change.count; n++)
    fp_recorded_set (log->recorded, log->change.extents[n], log->change.exist);
}

/* Finish the batch, which every current member has. */
static void
finish_batch (struct fp_meta_log *log)
{
  struct fp_extent *p = log->extents->p;
  uint32_t settle[FP_MAX_GRANTS], dropped[FP_MAX_GRANTS];
  unsigned n = 0, nr_dropped = 0;

  {
    FP_LOCK_SCOPE (&log->lock);
    for (unsigned k = 0; k < log->nr_batch; k++) {
      uint32_t i = log->batch[k];

      if (log->change.exist) {
        if (atomic_load (&p[i].record) != RECORD_IN_SYNC)
          settle[n++] = i;
        atomic_store (&p[i].record, RECORD_NOTHING);
      }
      else if (atomic_load (&p[i].record) == RECORD_DROP) {
        dropped[nr_dropped++] = i;
      }
      else if (atomic_load (&p[i].record) == RECORD_REVERSE) {
        push (log, i);
      }
      else {
        atomic_store (&p[i].record, RECORD_NOTHING);
      }
    }
    log->nr_batch = 0;
    pthread_cond_broadcast (&log->cond);
  }
  for (unsigned k = 0; k < n; k++)
    fp_peer_settle (log->peers->at[atomic_load (&p[settle[k]].server)],
                    settle[k]);
  /* Clear the record last, so that no drop is requested again before the copy
   * has left the in-sync set.
   */
  for (unsigned k = 0; k < nr_dropped; k++) {
    log->ops->dropped (log->peers->v, dropped[k]);
    FP_LOCK_SCOPE (&log->lock);
    atomic_store (&p[dropped[k]].record, RECORD_NOTHING);
    pthread_cond_broadcast (&log->cond);
  }
  fp_notifier_raise (&log->extents->changes);
}

/* The holder of the batch does not answer, and others must not hear before it:
 * let the extents exist.  The others can go on without the holder at once, as
 * by their maps these extents still exist.
 */
static void
reverse_batch (struct fp_meta_log *log)
{
  uint64_t next = meta_log_next (log, log->members & ~log->holder);
  struct fp_extent *p = log->extents->p;
  unsigned undone;

  if ((log->members & log->holder) != 0 && next != 0) {
    log->members = next;
    log->list_due = true;
  }
  log->change.exist = true;
  change_map (log);
  FP_LOCK_SCOPE (&log->lock);
  for (unsigned k = 0; k < log->nr_batch; k++)
    if (atomic_load (&p[log->batch[k]].record) == RECORD_GONE)
      atomic_store (&p[log->batch[k]].record, RECORD_UNDONE);
  /* Wait for the threads: the next record of the extent could be another's. */
  do {
    undone = 0;
    pthread_cond_broadcast (&log->cond);
    for (unsigned k = 0; k < log->nr_batch; k++)
      undone += atomic_load (&p[log->batch[k]].record) == RECORD_UNDONE;
    if (undone > 0)
      meta_log_wait_ms (log, 20);
  } while (undone > 0);
}

static bool
is_stopping (struct fp_meta_log *log)
{
  FP_LOCK_SCOPE (&log->lock);
  return log->stop;
}

/* Return those of `left` to tell next.  The holder hears first
 * that an extent is gone, and last that one exists (meta_log.h).
 */
static uint64_t
next_to_tell (const struct fp_meta_log *log, uint64_t left)
{
  uint64_t first = log->change.exist ? ~log->holder : log->holder;

  return log->holder != 0 && (left & first) != 0 ? left & first : left;
}

/* Send the batch until all current members have it, or the thread stops. */
static void
record_batch (struct fp_meta_log *log)
{
  uint64_t since = fp_now_ns (), answered = 0, told = 0;
  uint64_t patience = meta_log_patience_ms (log) * FP_NS_PER_MS;

  change_map (log);
  while (!is_stopping (log)) {
    uint64_t left, silent;

    /* The waiting request can go on with another copy: wait for no dead
     * member.
     */
    if (fp_copies_several (log->extents))
      meta_log_leave_out_dead (log);
    meta_log_note_restarted (log, &answered);
    meta_log_note_changes (log);
    if (log->list_due)
      meta_log_mend_list (log);
    left = log->members & ~answered;
    if (left == 0 && log->members != 0 && !log->list_due) {
      finish_batch (log);
      return;
    }
    if (!log->change.exist && (log->holder & ~log->members) != 0) {
      reverse_batch (log);
      answered = told = 0;
      continue;
    }
    silent = next_to_tell (log, left);
    /* A client that reaches only servers with an incomplete list may believe
     * them.  So they must not hear of a change that is later than that list.
     */
    if (left != 0 && !log->list_due) {
      if (log->holder != 0 && (silent & ~told) != 0)
        since = fp_now_ns ();
      told = silent;
      answered |=
          meta_log_ask (log, silent, RECORD_OP_MAP, &log->change,
                        fp_deadline_in_ms (meta_log_patience_ms (log)), NULL);
    }
    silent &= ~answered;
    if (silent == 0 && log->members != 0 && !log->list_due)
      continue;
    if (fp_now_ns () - since >= patience) {
      uint64_t next;

      if (!log->change.exist && !log->list_due && silent != 0 &&
          silent == log->holder) {
        reverse_batch (log);
        answered = told = 0;
        continue;
      }
      /* Others are silent.  Go on with the holder, if it answers. */
      if (log->change.exist && !log->list_due &&
          (left & log->holder & ~told) != 0) {
        log->holder = 0;
        continue;
      }
      next = meta_log_next (log, log->members & answered);
      if (silent != 0 && next != 0) {
        log->members = next;
        log->list_due = true;
        continue;
      }
      meta_log_rejoin (log);
    }
    FP_LOCK_SCOPE (&log->lock);
    if (!log->stop)
      meta_log_wait_ms (log, 10);
  }
}

/* ---- the thread ---- */

static void
meta_log_main (void *arg)
{
  struct fp_meta_log *log = arg;

  while (!is_stopping (log)) {
    uint64_t nobody = 0;

    meta_log_note_restarted (log, &nobody);
    meta_log_note_changes (log);
    meta_log_note_lost (log);
    if (log->list_due)
      meta_log_mend_list (log);
    meta_log_rejoin (log);
    if (take_batch (log) > 0) {
      record_batch (log);
      continue;
    }
    FP_LOCK_SCOPE (&log->lock);
    if (!log->stop && log->head == FP_NO_EXTENT && !meta_log_asked (log))
      meta_log_wait_ms (log, log->list_due ? 50 : 500);
  }
}

int
meta_log_run (struct fp_meta_log *log)
{
  int e = fp_thread_create (&log->thread, "fp-meta-log", meta_log_main, log);

  log->runs = e == 0;
  return e;
}

/* Return true if the memory of an entry in the queue belongs to the metadata
 * log.
 */
static bool
has_memory (struct fp_extent *p)
{
  uint8_t what = atomic_load (&p->record);

  return what != RECORD_DROP && what != RECORD_IN_SYNC;
}

/* Hand the extents that wait to be recorded back to their peers, which then
 * forget what they mapped.  Nothing more is recorded.
 */
static void
give_back (struct fp_meta_log *log)
{
  struct fp_extent *p = log->extents->p;

  for (unsigned k = 0; k < log->nr_batch; k++)
    if (has_memory (&p[log->batch[k]]))
      fp_peer_settle (log->peers->at[atomic_load (&p[log->batch[k]].server)],
                      log->batch[k]);
  log->nr_batch = 0;
  while (log->head != FP_NO_EXTENT) {
    uint32_t i = log->head;

    log->head = p[i].next_wanted;
    if (has_memory (&p[i]))
      fp_peer_settle (log->peers->at[atomic_load (&p[i].server)], i);
  }
}

bool
fp_meta_log_untouched (struct fp_meta_log *log)
{
  return log == NULL || log->list.version == 0;
}

void
fp_meta_log_stop (struct fp_meta_log *log)
{
  if (log == NULL)
    return;
  {
    FP_LOCK_SCOPE (&log->lock);
    log->stop = true;
    pthread_cond_broadcast (&log->cond);
  }
  if (log->runs && fp_thread_join (&log->thread) < 0)
    abort (); /* joined twice: a bug */
  log->runs = false;
  log->unsettled = log->head != FP_NO_EXTENT || log->nr_batch > 0;
  give_back (log);
}

static void
meta_log_freep (struct fp_meta_log **rp)
{
  fp_meta_log_free (*rp);
}

int
fp_meta_log_new (struct fp_meta_log **out, struct fp_peers *peers,
                 const struct fp_meta_log_ops *ops)
{
  FP_CLEANUP (meta_log_freep) struct fp_meta_log *log = NULL;
  int e;

  *out = NULL;
  if (!fp_volume_is_recorded (peers->p))
    return 0;
  log = calloc (1, sizeof *log);
  if (log == NULL)
    return -ENOMEM;
  log->peers = peers;
  log->p = peers->p;
  log->extents = peers->extents;
  log->lease = peers->lease;
  log->recorded = peers->recorded;
  log->ops = ops;
  log->head = FP_NO_EXTENT;
  fp_volume_title (log->p, log->title);
  fp_mutex_init (&log->lock);
  fp_cond_init (&log->cond);
  for (uint32_t i = 0; i < log->p->members.count; i++)
    log->uuid[i] = log->p->members.members[i].server;
  atomic_store (&log->recorded->unheard, log->p->away);
  e = fp_recorded_new (log->recorded, log->extents->nr, log->extents->copies);
  if (e < 0)
    return e;
  *out = FP_STEAL (log);
  return 0;
}

void
fp_meta_log_free (struct fp_meta_log *log)
{
  if (log == NULL)
    return;
  assert (!log->runs);
  /* These are from a peer that ran a moment longer. */
  while (log->head != FP_NO_EXTENT) {
    if (has_memory (&log->extents->p[log->head]))
      fp_copy_forget (&log->extents->p[log->head].copy);
    log->head = log->extents->p[log->head].next_wanted;
  }
  pthread_cond_destroy (&log->cond);
  pthread_mutex_destroy (&log->lock);
  fp_recorded_free (log->recorded);
  free (log);
}
