/* SPDX-License-Identifier: BSD-3-Clause */
/* resync.c - a copy that is not live gets what it has missed, or all of it,
 * from one that is, and is live then (mirror.h).  It is a move whose target is
 * the piece's own: what is dirty is copied, round by round, and the rest of it
 * while the source is FROZEN.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "engine/dirty_log.h"
#include "engine/mirror.h"
#include "heal/migrate_int.h"
#include "meta/meta_log.h"

/* A copy of piece i in such a set that is READY; or -1. */
static int
ready_of (struct fp_pieces *t, uint64_t i, uint8_t set)
{
  for (unsigned c = 0; c < t->copies; c++)
    if ((set >> c & 1) &&
        fp_piece_state (fp_mirror_copy (t, i, c)) == FP_PIECE_READY)
      return (int) c;
  return -1;
}

/* Of those that can be made anew now the piece with the fewest live copies. */
static bool
most_endangered (struct fp_mover *m, uint64_t *piece, unsigned *from,
                 unsigned *to)
{
  struct fp_pieces *t = m->v->pieces;
  int least = FP_MAX_COPIES + 1;

  for (uint64_t n = 0; n < t->nr && least > 1; n++) {
    uint64_t i = (m->rebuild_at + n) % t->nr;
    uint8_t live = fp_mirror_live (t, i);
    int has = __builtin_popcount (live), source, target;

    if (live == 0 || has >= least || live == fp_mirror_all (t))
      continue;
    source = ready_of (t, i, live);
    target = ready_of (t, i, fp_mirror_all (t) & (uint8_t) ~live);
    if (source < 0 || target < 0)
      continue;
    least = has;
    *piece = i;
    *from = (unsigned) source;
    *to = (unsigned) target;
  }
  return least <= FP_MAX_COPIES;
}

static int
look_at (struct fp_mover *m, struct fp_piece *p, unsigned *server,
         uint64_t *generation)
{
  if (fp_piece_enter (m->v->pieces, p) != FP_PIECE_READY)
    return -EAGAIN;
  *server = p->copy.server;
  *generation = p->copy.generation;
  fp_piece_leave (m->v->pieces, p);
  return 0;
}

/* The source is FROZEN, and the target, if it is still of that generation, has
 * all that it has.
 */
static int
make_live (struct fp_mover *m, uint64_t i, unsigned from, unsigned to,
           uint64_t generation)
{
  struct fp_volume *v = m->v;
  struct fp_pieces *t = v->pieces;

  FP_LOCK_SCOPE (&v->lock);
  if (fp_piece_state (fp_mirror_copy (t, i, from)) != FP_PIECE_FROZEN ||
      !(fp_mirror_live (t, i) >> from & 1) ||
      fp_piece_state (fp_mirror_copy (t, i, to)) != FP_PIECE_READY ||
      fp_mirror_copy (t, i, to)->copy.generation != generation ||
      mover_count_dirty (m) != 0 || atomic_load (&v->taken))
    return -EAGAIN;
  atomic_fetch_or (&t->live[i], (uint8_t) (1u << to));
  return 0;
}

/* So often before a copy gets other memory. */
#define MOST_FAILURES 3

/* Entry k was to be filled: what does that say of its memory?  If it cannot be
 * written to, on a connection that is sound, it goes back.
 */
static void
judge_memory (struct fp_mover *m, uint64_t k, int r)
{
  struct fp_volume *v = m->v;
  struct fp_piece *p = &v->pieces->p[k];
  struct fp_link *l = v->links[atomic_load (&p->server)];

  if (r == 0)
    p->failures = 0;
  if (r != -ENOTCONN || fp_link_away_ms (l) > 0 ||
      fp_piece_state (p) != FP_PIECE_READY || ++p->failures < MOST_FAILURES)
    return;
  p->failures = 0;
  fp_link_distrust (l);
  fp_link_discard (v, k);
  fp_mirror_poke (v);
}

static int
fill (struct fp_mover *m, uint64_t i, unsigned from, unsigned to)
{
  struct fp_pieces *t = m->v->pieces;
  uint64_t source = fp_mirror_entry (t, i, from);
  struct fp_piece *p = &t->p[source];
  uint64_t generation, to_generation;
  unsigned server, to_server;
  int r;

  m->to_piece = fp_mirror_copy (t, i, to);
  m->dirty = t->dirty + fp_mirror_entry (t, i, to) * t->words;
  memset (m->taken, 0, t->words * sizeof *m->taken);
  r = look_at (m, p, &server, &generation);
  if (r == 0)
    r = look_at (m, m->to_piece, &to_server, &to_generation);
  /* What is under way to yet another one may get to it from here. */
  if (r == 0 && (fp_mirror_live (t, i) & ~(1u << from)) != 0)
    r = fp_intent_say_all (m->v, fp_mirror_entry (t, i, to), m->to_piece);
  if (r == 0)
    r = mover_copy_all (m, source, server, generation);
  if (r == 0) {
    r = mover_read_back (m, source, fp_deadline_in_ms (mover_pause_ms (m->v)),
                         p);
    if (r == 0)
      r = make_live (m, i, from, to, to_generation);
    mover_thaw (m, p);
  }
  if (r == 0) {
    fp_recorder_live (m->v, fp_mirror_entry (t, i, to));
    fp_mirror_poke (m->v);
    return 0;
  }
  /* The source may not have been live any more when it was read. */
  for (uint32_t w = 0; w < t->words; w++)
    atomic_fetch_or (&m->dirty[w], m->taken[w]);
  return r;
}

bool
mover_rebuild_next (struct fp_mover *m)
{
  unsigned from = 0, to = 0;
  uint64_t i = 0;
  int r;

  if (!fp_volume_is_mirrored (m->v) || !most_endangered (m, &i, &from, &to))
    return false;
  m->rebuild_at = i + 1;
  r = fill (m, i, from, to);
  judge_memory (m, fp_mirror_entry (m->v->pieces, i, to), r);
  if (r < 0)
    mover_pause (m, MOVER_FAILED_MS);
  return true;
}
