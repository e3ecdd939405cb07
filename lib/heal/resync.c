/* SPDX-License-Identifier: BSD-3-Clause */
/* resync.c - bring a stale copy up to date.  It gets what it has missed, or
 * everything, from an in-sync copy, and is in sync then (mirror.h).  This is a
 * move whose target is the extent's own copy.  Dirty chunks are copied round
 * by round, and the rest while the source is FROZEN.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "engine/dirty_log.h"
#include "heal/migrate_int.h"
#include "meta/meta_log.h"

/* Return a copy of extent i in this set that is READY, or -1. */
static int
ready_of (struct fp_extents *t, uint64_t i, uint8_t set)
{
  for (unsigned c = 0; c < t->copies; c++)
    if ((set >> c & 1) &&
        fp_extent_state (fp_copies_get (t, i, c)) == FP_EXTENT_READY)
      return (int) c;
  return -1;
}

/* Find the extent with the fewest in-sync copies, of those that can be
 * resynced now.
 */
static bool
most_endangered (struct fp_migrate *m, uint64_t *extent, unsigned *from,
                 unsigned *to)
{
  struct fp_extents *t = m->e->extents;
  int least = FP_MAX_COPIES + 1;

  for (uint64_t n = 0; n < t->nr && least > 1; n++) {
    uint64_t i = (m->resync_at + n) % t->nr;
    uint8_t in_sync = fp_copies_in_sync (t, i);
    int has = __builtin_popcount (in_sync), source, target;

    if (in_sync == 0 || has >= least || in_sync == fp_copies_all (t))
      continue;
    source = ready_of (t, i, in_sync);
    target = ready_of (t, i, fp_copies_all (t) & (uint8_t) ~in_sync);
    if (source < 0 || target < 0)
      continue;
    least = has;
    *extent = i;
    *from = (unsigned) source;
    *to = (unsigned) target;
  }
  return least <= FP_MAX_COPIES;
}

static int
look_at (struct fp_migrate *m, struct fp_extent *p, unsigned *server,
         uint64_t *generation)
{
  if (fp_extent_enter (m->e->extents, p) != FP_EXTENT_READY)
    return -EAGAIN;
  *server = p->copy.server;
  *generation = p->copy.generation;
  fp_extent_leave (m->e->extents, p);
  return 0;
}

/* Return true if the target has got other memory since fill looked at it. */
static bool
has_other_memory (struct fp_migrate *m)
{
  unsigned server;
  uint64_t generation;

  return look_at (m, m->to_extent, &server, &generation) == 0 &&
         generation != m->to_generation;
}

/* Make the target in sync, if it still has that generation.  The source is
 * FROZEN, and the target has all its data.  -EAGAIN: something has changed.
 */
static int
make_in_sync (struct fp_migrate *m, uint64_t i, unsigned from, unsigned to,
              uint64_t generation)
{
  struct fp_engine *e = m->e;
  struct fp_extents *t = e->extents;

  FP_LOCK_SCOPE (&e->extents->lock);
  if (fp_extent_state (fp_copies_get (t, i, from)) != FP_EXTENT_FROZEN ||
      !(fp_copies_in_sync (t, i) >> from & 1) ||
      fp_extent_state (fp_copies_get (t, i, to)) != FP_EXTENT_READY ||
      fp_copies_get (t, i, to)->copy.generation != generation ||
      migrate_count_dirty (m) != 0 || fp_lease_is_fenced (e->lease))
    return -EAGAIN;
  atomic_fetch_or (&t->in_sync[i], (uint8_t) (1u << to));
  return 0;
}

/* Failures in a row before a copy gets other memory. */
#define MOST_FAILURES 3

/* Judge the memory of entry k by the result of filling it.  If it cannot be
 * written, though the connection is sound, it goes back.
 */
static void
judge_memory (struct fp_migrate *m, uint64_t k, int r)
{
  struct fp_engine *e = m->e;
  struct fp_extent *p = &e->extents->p[k];
  struct fp_peer *peer = e->peers->at[atomic_load (&p->server)];

  if (r == 0)
    p->failures = 0;
  if (r != -ENOTCONN || fp_peer_away_ms (peer) > 0 ||
      fp_extent_state (p) != FP_EXTENT_READY || ++p->failures < MOST_FAILURES)
    return;
  p->failures = 0;
  fp_peer_distrust (peer);
  fp_peer_discard (e->peers, k);
  fp_mirror_poke (e);
}

static int
fill (struct fp_migrate *m, uint64_t i, unsigned from, unsigned to)
{
  struct fp_extents *t = m->e->extents;
  uint64_t source = fp_copies_entry (t, i, from);
  struct fp_extent *p = &t->p[source];
  uint64_t generation;
  unsigned server, to_server;
  int r;

  m->to_extent = fp_copies_get (t, i, to);
  m->dirty = t->dirty + fp_copies_entry (t, i, to) * t->words;
  memset (m->taken, 0, t->words * sizeof *m->taken);
  r = look_at (m, p, &server, &generation);
  if (r == 0)
    r = look_at (m, m->to_extent, &to_server, &m->to_generation);
  /* A write under way to a third copy may get into this one through the
   * source.
   */
  if (r == 0 && (fp_copies_in_sync (t, i) & ~(1u << from)) != 0)
    r = fp_dirty_log_say_all (m->e, fp_copies_entry (t, i, to), m->to_extent);
  if (r == 0)
    r = migrate_copy_all (m, source, server, generation);
  if (r == 0) {
    r = migrate_read_back (m, source,
                           fp_deadline_in_ms (migrate_pause_ms (m->e)), p);
    if (r == 0)
      r = make_in_sync (m, i, from, to, m->to_generation);
    migrate_thaw (m, p);
  }
  if (r == 0) {
    fp_meta_log_in_sync (m->e->meta_log, fp_copies_entry (t, i, to));
    fp_mirror_poke (m->e);
    return 0;
  }
  /* The source may have been out of sync when it was read: copy that again. */
  for (uint32_t w = 0; w < t->words; w++)
    atomic_fetch_or (&m->dirty[w], m->taken[w]);
  return r;
}

bool
migrate_resync_next (struct fp_migrate *m)
{
  unsigned from = 0, to = 0;
  uint64_t i = 0;
  int r;

  if (!fp_copies_several (m->e->extents) ||
      !most_endangered (m, &i, &from, &to))
    return false;
  m->resync_at = i + 1;
  r = fill (m, i, from, to);
  if (r < 0 && has_other_memory (m))
    r = -EAGAIN;
  judge_memory (m, fp_copies_entry (m->e->extents, i, to), r);
  if (r < 0)
    migrate_pause (m, MIGRATE_FAILED_MS);
  return true;
}
