/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/memlock.h"
#include "engine/dirty_log.h"
#include "heal/migrate_int.h"
#include "meta/meta_log.h"

/* Most bytes that are left to copy while the extent is FROZEN: REST_BYTES, or
 * extent size / REST_PART if that is less.
 */
#define REST_BYTES (UINT64_C (4) << 20)
#define REST_PART 8
#define MAX_ROUNDS 16u  /* rounds before it is frozen anyway */
#define MAX_FREEZES 64u /* attempts in a row to get other users out */

/* ---- waiting ---- */

void
migrate_pause (struct fp_migrate *m, unsigned ms)
{
  struct timespec until;

  fp_timespec_after (&until, ms);
  FP_LOCK_SCOPE (&m->lock);
  if (!atomic_load (&m->stop) && !m->woken)
    (void) pthread_cond_timedwait (&m->cond, &m->lock, &until);
  m->woken = false;
}

bool
migrate_cancelled (struct fp_migrate *m)
{
  int from = atomic_load (&m->from);

  return atomic_load (&m->stop) || fp_lease_is_fenced (m->e->lease) ||
         (from >= 0 && !fp_peers_must_be_empty (m->e->peers, (unsigned) from));
}

/* Return true if nothing may be moved: other servers may know of newer labels
 * (meta_log.h), or the volume is read-only.
 */
bool
migrate_is_frozen (struct fp_migrate *m)
{
  struct fp_meta_log_status s;

  fp_meta_log_status (m->e->meta_log, &s);
  return s.frozen || m->e->p->read_only;
}

unsigned
migrate_pause_ms (const struct fp_engine *e)
{
  return FP_MIN (FP_MAX (e->p->timeout_ms / 8, 10u), 250u);
}

/* ---- freezing ---- */

void
migrate_thaw (struct fp_migrate *m, struct fp_extent *p)
{
  {
    FP_LOCK_SCOPE (&m->e->extents->lock);
    (void) fp_extent_move (m->e->extents, p, FP_EXTENT_FROZEN,
                           FP_EXTENT_READY);
  }
}

/* Freeze the extent, and wait until only the migration thread is inside.
 * -EAGAIN: the extent is not READY any more.  -EBUSY: it is BUSY, or some
 * users did not leave in time.
 */
static int
freeze (struct fp_migrate *m, struct fp_extent *p)
{
  struct fp_engine *e = m->e;
  uint64_t deadline = fp_deadline_in_ms (migrate_pause_ms (e));

  {
    FP_LOCK_SCOPE (&e->extents->lock);
    if (!fp_extent_move (e->extents, p, FP_EXTENT_READY, FP_EXTENT_FROZEN))
      return fp_extent_state (p) == FP_EXTENT_BUSY ? -EBUSY : -EAGAIN;
  }
  if (fp_lanes_drain (e, p, deadline))
    return 0;
  migrate_thaw (m, p);
  return -EBUSY;
}

static int
freeze_soon (struct fp_migrate *m, struct fp_extent *p)
{
  int r = freeze (m, p);

  for (unsigned n = 0; r == -EBUSY && n < MAX_FREEZES; n++) {
    if (migrate_cancelled (m))
      return -ECANCELED;
    migrate_pause (m, migrate_pause_ms (m->e));
    r = freeze (m, p);
  }
  return r;
}

/* Return true if p, which is frozen, still has this server and generation. */
static bool
is_same (struct fp_migrate *m, struct fp_extent *p, unsigned server,
         uint64_t generation)
{
  bool same;

  if (fp_extent_enter_frozen (m->e->extents, p) != FP_EXTENT_READY)
    return false;
  same = p->copy.server == server && p->copy.generation == generation;
  fp_extent_leave (m->e->extents, p);
  return same;
}

/* Make writers mark what they write from now on.  All that was written is
 * dirty.
 */
static int
begin (struct fp_migrate *m, uint64_t i, unsigned *server,
       uint64_t *generation)
{
  struct fp_engine *e = m->e;
  struct fp_extents *t = e->extents;
  struct fp_extent *p = &t->p[i];
  int r;

  m->dirty = e->extents->moving_dirty;
  m->to_extent = &e->extents->target;
  m->to_generation = 0;
  for (unsigned w = 0; w < t->words; w++)
    atomic_store (&e->extents->moving_dirty[w], 0);
  atomic_store (&e->extents->moving, i);
  r = freeze_soon (m, p);
  if (r < 0)
    return r;
  if (fp_extent_enter_frozen (t, p) != FP_EXTENT_READY)
    return -EAGAIN;
  *server = p->copy.server;
  *generation = p->copy.generation;
  fp_extent_leave (t, p);
  for (unsigned w = 0; w < t->words; w++)
    atomic_fetch_or (&e->extents->moving_dirty[w],
                     t->written[fp_extent_of (t, i) * t->words + w]);
  migrate_thaw (m, p);
  return 0;
}

/* First copy in rounds beside the writers, then freeze the extent for the
 * rest.  If that takes too long, thaw it, copy for a shorter time than before,
 * and try again.  The writers get less and less of the time, until there is no
 * rest.
 */
int
migrate_copy_all (struct fp_migrate *m, uint64_t i, unsigned server,
                  uint64_t generation)
{
  struct fp_engine *e = m->e;
  struct fp_extent *p = &e->extents->p[i];
  uint64_t rest = FP_MIN (REST_BYTES, e->extents->extent_size / REST_PART);
  uint64_t before = UINT64_MAX, left;
  int r;

  for (unsigned n = 0;; n++) {
    r = migrate_copy_round (m, i, 0, NULL);
    if (r < 0)
      return r;
    left = migrate_count_dirty (m);
    if (left <= rest || left >= before / 4 * 3 || n == MAX_ROUNDS)
      break;
    before = left;
  }
  for (unsigned n = 0;; n++) {
    r = freeze_soon (m, p);
    if (r < 0)
      return r;
    if (!is_same (m, p, server, generation))
      r = -EAGAIN;
    else
      r = migrate_copy_round (m, i, fp_deadline_in_ms (migrate_pause_ms (e)),
                              p);
    if (r == 0 && migrate_count_dirty (m) == 0 &&
        fp_extent_state (p) == FP_EXTENT_FROZEN)
      return 0;
    migrate_thaw (m, p);
    if (r < 0)
      return r;
    r = migrate_copy_round (
        m, i,
        fp_deadline_in_ms (1 +
                           ((migrate_pause_ms (e) * 4) >> FP_MIN (n, 16u))),
        NULL);
    if (r < 0)
      return r;
  }
}

/* ---- switching to the other server ---- */

/* Keep extent p, which is BUSY, at its server, once no other label of it
 * counts or can come to count.
 *
 * If the answer to the target's label is lost, it is unknown which label
 * counts.  To go on at the source could lose all later writes.  If the label
 * took effect, the next attach takes it, as the higher generation wins.  Both
 * have the same bytes as long as nothing is written.  So the extent stays BUSY
 * until one of these happens.
 *
 *  - The source is labelled with a still higher generation.  Then the source
 *    counts.  The other label is swept when its server is heard of again.
 *  - The target's server is heard of in another session, which has released
 *    slabs that we do not know.  Or that server has lost the volume.  Then
 *    there is no other label.
 *  - This client ends.  The next one takes the higher label, whose data is
 *    complete.
 *
 * A server that does not answer the label in time (a part of `timeout`) is
 * treated as if the answer was lost.  So the source alone is needed to go on.
 * An answer that comes later is undone by a release.
 */
static void
stay (struct fp_migrate *m, struct fp_extent *p, struct fp_peer *to,
      uint64_t session)
{
  struct fp_notifier *changes = &m->e->extents->changes;
  struct fp_peer *from = m->e->peers->at[atomic_load (&p->server)];

  for (;;) {
    uint32_t seen = fp_notifier_count (changes);
    bool undone = fp_peer_take_undone (to, m->take);

    /* Try without a call first, as the peer's thread may be busy. */
    if (undone && fp_peer_reopen_now (from, p, session))
      break;
    if (fp_peer_reopen (from, p, !undone) == 0 || atomic_load (&m->stop))
      break;
    (void) fp_notifier_await (changes, seen,
                              fp_deadline_in_ms (MIGRATE_FAILED_MS));
  }
}

static int
switch_over (struct fp_migrate *m, uint64_t i, unsigned to)
{
  struct fp_engine *e = m->e;
  struct fp_extent *p = &e->extents->p[i];
  struct fp_peer *peer = e->peers->at[to];
  unsigned from = atomic_load (&p->server);
  uint64_t session = fp_peer_session (e->peers->at[from]), old;
  bool stayed = false;
  int r;

  r = migrate_read_back (m, i, fp_deadline_in_ms (migrate_pause_ms (e)), p);
  if (r < 0) {
    migrate_thaw (m, p);
    return r;
  }
  if (!fp_extent_move (e->extents, p, FP_EXTENT_FROZEN, FP_EXTENT_BUSY))
    return -EIO;
  (void) fp_lanes_drain (e, p, FP_NEVER); /* threads that only looked at it */
  fp_peer_take (peer, m->take, p);
  if (!fp_peer_take_ended (peer, m->take,
                           FP_MAX (e->p->timeout_ms / 4, 20u)) &&
      fp_peer_take_withdraw (peer, m->take)) {
    stay (m, p, peer, session);
    stayed = true;
  }
  while (!fp_peer_take_ended (peer, m->take, 1000))
    ; /* by the deadline of the message */
  r = fp_take_result (m->take, &old);
  if (r == 0)
    fp_peer_drop (e->peers->at[from], old);
  else if (!stayed)
    stay (m, p, peer, session);
  return r;
}

static int
move_from (struct fp_migrate *m, uint64_t i, unsigned server,
           uint64_t generation, unsigned to)
{
  struct fp_peer **peers = m->e->peers->at;
  struct fp_extent *p = &m->e->extents->p[i];
  int r = fp_peer_mark (peers[server], p, true);

  if (r == 0 && m->e->dirty_log != NULL)
    r = fp_dirty_log_say_all (m->e, i, &m->e->extents->target);
  if (r == 0)
    r = migrate_copy_all (m, i, server, generation);
  if (r == 0)
    r = switch_over (m, i, to);
  /* If the server does not hear of it, the label stays open, which is right,
   * too.
   */
  (void) fp_peer_mark (peers[atomic_load (&p->server)], p, false);
  return r;
}

/* Wait until the peer has dropped the target.  If its session ends, that is a
 * little later.
 */
static void
await_no_target (struct fp_migrate *m)
{
  struct fp_notifier *changes = &m->e->extents->changes;

  for (;;) {
    uint32_t seen = fp_notifier_count (changes);

    if (fp_extent_state (&m->e->extents->target) == FP_EXTENT_EMPTY ||
        atomic_load (&m->stop))
      return;
    (void) fp_notifier_await (changes, seen, FP_NEVER);
  }
}

int
migrate_extent (struct fp_migrate *m, uint64_t i, unsigned to)
{
  struct fp_engine *e = m->e;
  struct fp_extent *p = &e->extents->p[i];
  unsigned server;
  uint64_t generation;
  int r;

  if (migrate_is_frozen (m))
    return -EROFS;
  if (fp_extent_state (p) != FP_EXTENT_READY || atomic_load (&p->server) == to)
    return -EAGAIN;
  r = fp_peer_target (e->peers->at[to]);
  if (r < 0)
    return r;
  r = begin (m, i, &server, &generation);
  if (r == 0 && server == to)
    r = -EAGAIN;
  else if (r == 0)
    r = move_from (m, i, server, generation, to);
  atomic_store (&e->extents->moving, FP_NOT_MOVING);
  if (r < 0)
    fp_peer_drop_target (e->peers->at[to]);
  await_no_target (m);
  return r == -ESTALE ? -ENOTCONN : r;
}

/* ---- the thread ---- */

static bool
next_asked (struct fp_migrate *m, uint64_t *extent, unsigned *to)
{
  FP_LOCK_SCOPE (&m->lock);
  *extent = m->extent;
  *to = m->to;
  return m->asked;
}

/* Wait until a move is asked for, or until it is time to look for work. */
static void
await_asked (struct fp_migrate *m)
{
  struct timespec until;

  fp_timespec_after (&until, FP_MIN (m->e->p->quiet_ms, 1000u));
  FP_LOCK_SCOPE (&m->lock);
  if (!m->asked && !m->woken && !atomic_load (&m->stop))
    (void) pthread_cond_timedwait (&m->cond, &m->lock, &until);
  m->woken = false;
}

static void
answer (struct fp_migrate *m, int result)
{
  FP_LOCK_SCOPE (&m->lock);
  m->result = result;
  m->asked = false;
  m->answers++;
  pthread_cond_broadcast (&m->cond);
}

static void
migrate_main (void *arg)
{
  struct fp_migrate *m = arg;
  uint64_t extent;
  unsigned to;

  while (!atomic_load (&m->stop)) {
    atomic_store (&m->e->extents->tick,
                  (uint32_t) (fp_now_ns () / FP_NS_PER_S));
    if (next_asked (m, &extent, &to))
      answer (m, migrate_extent (m, extent, to));
    else {
      bool any = migrate_resync_next (m);

      any |= migrate_drain_next (m);
      any |= migrate_reclaim_next (m);
      fp_dirty_log_sweep (m->e, &m->stop);
      if (!any)
        await_asked (m);
    }
  }
  if (next_asked (m, &extent, &to))
    answer (m, -ECANCELED);
  FP_LOCK_SCOPE (&m->lock);
  m->ended = true;
  pthread_cond_broadcast (&m->cond);
}

int
fp_migrate_move (struct fp_migrate *m, uint64_t k, unsigned to)
{
  uint64_t ask;

  if (k >= m->e->extents->all || to >= m->e->peers->nr)
    return -EINVAL;
  FP_LOCK_SCOPE (&m->lock);
  while (m->asked)
    pthread_cond_wait (&m->cond, &m->lock);
  if (atomic_load (&m->stop))
    return -ECANCELED;
  m->asked = true;
  m->extent = k;
  m->to = to;
  ask = ++m->asks;
  pthread_cond_broadcast (&m->cond);
  while (m->answers < ask)
    pthread_cond_wait (&m->cond, &m->lock);
  return m->result;
}

/* ---- making and ending the thread ---- */

static void
migrate_freep (struct fp_migrate **mp)
{
  fp_migrate_free (*mp);
}

int
fp_migrate_new (struct fp_migrate **out, struct fp_engine *e)
{
  FP_CLEANUP (migrate_freep) struct fp_migrate *m = calloc (1, sizeof *m);
  void *memory;
  int r;

  if (m == NULL)
    return -ENOMEM;
  m->e = e;
  m->lane = fp_engine_heal_lane (e);
  atomic_store (&m->from, -1);
  atomic_store (&m->rate, e->p->move_rate);
  fp_mutex_init (&m->lock);
  fp_cond_init (&m->cond);
  m->todo = calloc (e->extents->words, sizeof *m->todo);
  m->taken = calloc (e->extents->words, sizeof *m->taken);
  r = fp_take_new (&m->take);
  if (m->todo == NULL || m->taken == NULL || r < 0)
    return -ENOMEM;
  r = fp_map_filled (&memory, MIGRATE_BUFS * MIGRATE_BUF_SIZE);
  if (r < 0)
    return r;
  m->memory = memory;
  for (unsigned k = 0; k < MIGRATE_BUFS; k++)
    m->bufs[k].mem = m->memory + (size_t) k * MIGRATE_BUF_SIZE;
  *out = FP_STEAL (m);
  return 0;
}

int
fp_migrate_start (struct fp_migrate *m)
{
  int r = fp_thread_create (&m->thread, "fp-migrate", migrate_main, m);

  m->started = r == 0;
  return r;
}

static bool
await_end (struct fp_migrate *m)
{
  struct timespec until;

  fp_timespec_after (&until, 100);
  FP_LOCK_SCOPE (&m->lock);
  if (!m->ended)
    (void) pthread_cond_timedwait (&m->cond, &m->lock, &until);
  return m->ended;
}

void
fp_migrate_wake (struct fp_migrate *m)
{
  FP_LOCK_SCOPE (&m->lock);
  m->woken = true;
  pthread_cond_broadcast (&m->cond);
}

void
fp_migrate_stop (struct fp_migrate *m)
{
  if (m == NULL || !m->started)
    return;
  {
    FP_LOCK_SCOPE (&m->lock);
    atomic_store (&m->stop, true);
    pthread_cond_broadcast (&m->cond);
  }
  fp_notifier_raise (&m->e->extents->changes);
  /* The thread may wait for a peer, and the peer for a silent server. */
  while (!await_end (m))
    for (unsigned i = 0; i < m->e->peers->nr; i++)
      fp_peer_hurry (m->e->peers->at[i]);
  if (fp_thread_join (&m->thread) < 0)
    abort (); /* joined twice: a bug */
  m->started = false;
}

void
fp_migrate_free (struct fp_migrate *m)
{
  if (m == NULL)
    return;
  if (m->memory != NULL)
    munmap (m->memory, MIGRATE_BUFS * MIGRATE_BUF_SIZE);
  fp_take_free (m->take);
  free (m->taken);
  free (m->todo);
  pthread_cond_destroy (&m->cond);
  pthread_mutex_destroy (&m->lock);
  free (m);
}
