/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "engine/mirror.h"
#include "extent/stripe.h"
#include "heal/migrate.h"
#include "meta/meta_log.h"
#include "peer/peer.h"

#define GRACE_PART 16 /* of `timeout`: fp_mirror_grace_ms */
#define GRACE_MIN_MS 10u
#define SOON_MS 10 /* between two looks while something changes */
#define LATER_MS 500
#define REFILL_MS 1000 /* between two tries to find memory */

static uint8_t
bit (unsigned copy)
{
  return (uint8_t) (1u << copy);
}

/* ---- what the lanes ask ---- */

void
fp_mirror_poke (struct fp_volume *v)
{
  if (atomic_exchange (&v->mirror_due, true))
    return;
  FP_LOCK_SCOPE (&v->lock);
  pthread_cond_broadcast (&v->cond);
}

void
fp_mirror_want (struct fp_volume *v, uint64_t i)
{
  for (unsigned c = 0; c < v->pieces->copies; c++) {
    fp_link_tidy (v, fp_mirror_entry (v->pieces, i, c));
    fp_manager_want (v, fp_mirror_entry (v->pieces, i, c));
  }
}

/* The copies that piece i has got for a start.  -EAGAIN: it is not decided
 * yet.
 */
static int
fresh_copies (struct fp_pieces *t, uint64_t i, uint8_t *set, int *err)
{
  bool ready = false;

  *set = 0;
  for (unsigned c = 0; c < t->copies; c++) {
    struct fp_piece *p = fp_mirror_copy (t, i, c);

    switch (fp_piece_state (p)) {
    case FP_PIECE_EMPTY:
      if (!atomic_load (&p->refused))
        return -EAGAIN;
      *err = atomic_load (&p->err);
      break;
    case FP_PIECE_BUSY:
    case FP_PIECE_FROZEN:
      return -EAGAIN;
    case FP_PIECE_READY:
    case FP_PIECE_OFFLINE:
    case FP_PIECE_LOST:
    default:
      /* Else it is what is left of something that was trimmed. */
      if (p->fresh)
        *set |= bit (c);
      ready |= p->fresh && fp_piece_state (p) == FP_PIECE_READY;
    }
  }
  return ready ? 0 : -EAGAIN;
}

bool
fp_mirror_form (struct fp_volume *v, uint64_t i, int *err)
{
  struct fp_pieces *t = v->pieces;
  uint8_t set;

  FP_LOCK_SCOPE (&v->lock);
  if (atomic_load (&t->live[i]) != 0)
    return true;
  if (fresh_copies (t, i, &set, err) < 0)
    return false;
  atomic_store (&t->live[i], set);
  if (set != fp_mirror_all (t)) {
    atomic_store (&v->mirror_due, true);
    pthread_cond_broadcast (&v->cond);
  }
  return true;
}

bool
fp_mirror_is_decided (struct fp_volume *v, uint64_t i)
{
  uint8_t set;
  int err = 0;

  FP_LOCK_SCOPE (&v->lock);
  return fresh_copies (v->pieces, i, &set, &err) == 0 || err != 0;
}

void
fp_mirror_missed (struct fp_volume *v, uint64_t i, uint64_t in,
                  uint64_t length, uint8_t reached)
{
  struct fp_pieces *t = v->pieces;
  uint64_t last = (in + length - 1) >> t->chunk_shift;

  if (reached == fp_mirror_all (t))
    return;
  for (unsigned c = 0; c < t->copies; c++) {
    _Atomic uint64_t *dirty = t->dirty + fp_mirror_entry (t, i, c) * t->words;

    if (reached & bit (c))
      continue;
    for (uint64_t n = in >> t->chunk_shift; n <= last; n++)
      atomic_fetch_or (&dirty[n / 64], UINT64_C (1) << (n % 64));
  }
}

uint8_t
fp_mirror_bad (struct fp_pieces *t, uint64_t i, uint8_t live)
{
  uint8_t bad = 0;

  for (unsigned c = 0; c < t->copies; c++)
    if ((live & bit (c)) && atomic_load (&fp_mirror_copy (t, i, c)->bad))
      bad |= bit (c);
  return bad;
}

bool
fp_mirror_failed (struct fp_volume *v, uint64_t k)
{
  struct fp_pieces *t = v->pieces;
  uint64_t i = fp_piece_of (t, k);
  uint8_t live = fp_mirror_live (t, i), it = bit (fp_copy_of (t, k));

  if (!(live & it) || (live & ~it & ~fp_mirror_bad (t, i, live)) == 0)
    return false;
  atomic_store (&t->p[k].bad, true);
  fp_mirror_poke (v);
  return true;
}

void
fp_mirror_diverged (struct fp_volume *v, uint64_t i)
{
  atomic_store (&v->pieces->p[i].diverged, true);
  fp_mirror_poke (v);
}

/* ---- what the manager decides ---- */

unsigned
fp_mirror_grace_ms (const struct fp_volume *v)
{
  return FP_MAX (v->p.timeout_ms / GRACE_PART, GRACE_MIN_MS);
}

/* Nobody can use this copy, and soon nobody will. */
static bool
is_dead (struct fp_volume *v, struct fp_piece *p)
{
  switch (fp_piece_state (p)) {
  case FP_PIECE_LOST:
    return true;
  case FP_PIECE_OFFLINE:
    return fp_link_away_ms (v->links[atomic_load (&p->server)]) >=
           fp_mirror_grace_ms (v);
  case FP_PIECE_EMPTY:
  case FP_PIECE_READY:
  case FP_PIECE_BUSY:
  case FP_PIECE_FROZEN:
  default:
    return false;
  }
}

/* One that is READY and live, and recorded as such, and will be; or -1.  Else
 * the last one that is recorded could go.
 */
static int
a_ready_copy (struct fp_volume *v, uint64_t i, uint8_t live)
{
  struct fp_pieces *t = v->pieces;

  for (unsigned c = 0; c < t->copies; c++)
    if ((live & bit (c)) &&
        fp_piece_state (fp_mirror_copy (t, i, c)) == FP_PIECE_READY &&
        !fp_recorder_is_due (v, fp_mirror_entry (t, i, c)) &&
        fp_recorder_may_exist (v, fp_mirror_entry (t, i, c)))
      return (int) c;
  return -1;
}

/* Piece i goes on without those that died, as soon as that is recorded. */
static bool
drop_dead (struct fp_volume *v, uint64_t i, uint8_t live)
{
  struct fp_pieces *t = v->pieces;
  bool any = false;

  for (unsigned c = 0; c < t->copies; c++) {
    uint64_t k = fp_mirror_entry (t, i, c);

    if (!(live & bit (c)) || !is_dead (v, &t->p[k]))
      continue;
    any = true;
    if (a_ready_copy (v, i, live) >= 0)
      fp_recorder_drop (v, k);
  }
  return any;
}

/* These are left behind, and get all of it from the others. */
static void
make_anew (struct fp_volume *v, uint64_t i, uint8_t set)
{
  struct fp_pieces *t = v->pieces;

  for (unsigned c = 0; c < t->copies; c++) {
    if (!(set & bit (c)))
      continue;
    fp_mirror_missed (v, i, 0, fp_piece_length (t, i), (uint8_t) ~bit (c));
    fp_recorder_drop (v, fp_mirror_entry (t, i, c));
  }
}

/* A write that failed may be in some copies: all but one are made anew. */
static void
mend_diverged (struct fp_volume *v, uint64_t i, uint8_t live)
{
  uint8_t bad = fp_mirror_bad (v->pieces, i, live);
  int keep = a_ready_copy (v, i, live & (uint8_t) ~bad);

  if (keep < 0 && live == bad)
    keep = a_ready_copy (v, i, live);
  if (keep < 0)
    return;
  if (live == bit ((unsigned) keep))
    atomic_store (&v->pieces->p[i].diverged, false);
  else
    make_anew (v, i, live & (uint8_t) ~bit ((unsigned) keep));
}

/* The others are, too, if one of them could be used just now; the last one is
 * what there is.
 */
static void
mend_bad (struct fp_volume *v, uint64_t i, uint8_t live, uint8_t bad)
{
  struct fp_pieces *t = v->pieces;

  if (a_ready_copy (v, i, live & (uint8_t) ~bad) >= 0)
    make_anew (v, i, bad);
  for (unsigned c = 0; live == bad && c < t->copies; c++)
    atomic_store (&fp_mirror_copy (t, i, c)->bad, false);
}

/* A copy of piece i that is not live shall be.  True: that is for the mover.
 */
static bool
restore (struct fp_volume *v, uint64_t i, unsigned c)
{
  uint64_t k = fp_mirror_entry (v->pieces, i, c);
  struct fp_piece *p = &v->pieces->p[k];

  if (fp_recorder_is_due (v, k))
    return false;
  switch (fp_piece_state (p)) {
  case FP_PIECE_READY:
    return true;
  case FP_PIECE_OFFLINE:
    if (fp_link_away_ms (v->links[atomic_load (&p->server)]) <
            v->p.rebuild_delay_ms ||
        !fp_manager_has_room (v, k))
      return false;
    break;
  case FP_PIECE_LOST:
  case FP_PIECE_EMPTY:
    if (fp_now_ns () < v->refill_ns || !fp_manager_has_room (v, k))
      return false;
    break;
  case FP_PIECE_BUSY:
  case FP_PIECE_FROZEN:
  default:
    return false;
  }
  if (fp_link_abandon (v, k))
    fp_manager_want (v, k);
  return false;
}

/* Entry k is of a piece that nobody has written: what is there and not for
 * that is let go; and if it is to have its memory before that, it gets it
 * again.
 */
static void
tidy (struct fp_volume *v, uint64_t k)
{
  fp_link_tidy (v, k);
  if (v->p.reserve_full && atomic_load (&v->started) &&
      fp_now_ns () >= v->refill_ns &&
      fp_piece_state (&v->pieces->p[k]) == FP_PIECE_EMPTY &&
      fp_manager_has_room (v, k))
    fp_manager_want (v, k);
}

unsigned
fp_mirror_look (struct fp_volume *v)
{
  struct fp_pieces *t = v->pieces;
  bool soon = false, rebuild = false;
  uint64_t now = fp_now_ns ();

  bool due = atomic_exchange (&v->mirror_due, false);

  if (!fp_volume_is_mirrored (v))
    return LATER_MS;
  if (!due && now < v->mirror_ns)
    return (unsigned) fp_deadline_left_ms (v->mirror_ns);
  for (unsigned i = 0; i < v->nr_links; i++)
    soon |= !fp_link_cut (v->links[i], fp_mirror_grace_ms (v));
  if (v->p.read_only) {
    v->mirror_ns = now + (soon ? SOON_MS : LATER_MS) * FP_NS_PER_MS;
    return soon ? SOON_MS : LATER_MS;
  }
  for (uint64_t i = 0; i < t->nr; i++) {
    uint8_t live = fp_mirror_live (t, i), bad = fp_mirror_bad (t, i, live);

    for (unsigned c = 0; live == 0 && c < t->copies; c++)
      tidy (v, fp_mirror_entry (t, i, c));
    if (live == 0)
      continue;
    if (atomic_load (&t->p[i].diverged)) {
      soon = true;
      mend_diverged (v, i, live);
    }
    if (bad != 0) {
      soon = true;
      mend_bad (v, i, live, bad);
    }
    if ((live & (live - 1)) != 0)
      soon |= drop_dead (v, i, live);
    for (unsigned c = 0; c < t->copies; c++)
      if (!(live & bit (c)))
        rebuild |= restore (v, i, c);
      /* It was not the time for that when it became live. */
      else if (!fp_recorder_may_exist (v, fp_mirror_entry (t, i, c)))
        fp_recorder_live (v, fp_mirror_entry (t, i, c));
  }
  if (now >= v->refill_ns)
    v->refill_ns = now + REFILL_MS * FP_NS_PER_MS;
  if (rebuild)
    fp_mover_wake (v->mover);
  now = fp_now_ns ();
  v->mirror_ns = now + (soon ? SOON_MS : LATER_MS) * FP_NS_PER_MS;
  return soon ? SOON_MS : LATER_MS;
}

/* ---- what the others report ---- */

void
fp_mirror_dropped (struct fp_volume *v, uint64_t k)
{
  struct fp_pieces *t = v->pieces;

  {
    FP_LOCK_SCOPE (&v->lock);
    atomic_fetch_and (&t->live[fp_piece_of (t, k)],
                      (uint8_t) ~bit (fp_copy_of (t, k)));
    atomic_store (&t->p[k].bad, false);
  }
  fp_mirror_poke (v);
}

void
fp_mirror_refill (struct fp_volume *v, uint64_t k)
{
  struct fp_pieces *t = v->pieces;
  _Atomic uint64_t *dirty = t->dirty + k * t->words;
  _Atomic uint64_t *written = t->written + fp_piece_of (t, k) * t->words;

  /* First clear, then look: who writes meanwhile has set `written` before, or
   * marks what is dirty after.
   */
  for (uint32_t w = 0; w < t->words; w++)
    atomic_store (&dirty[w], 0);
  for (uint32_t w = 0; w < t->words; w++)
    atomic_fetch_or (&dirty[w], atomic_load (&written[w]));
}

static bool
is_lost (struct fp_pieces *t, uint64_t i, uint8_t live)
{
  for (unsigned c = 0; c < t->copies; c++)
    if ((live & bit (c)) &&
        fp_piece_state (fp_mirror_copy (t, i, c)) != FP_PIECE_LOST)
      return false;
  return true;
}

/* All that it is to have, written or not: reserve=full. */
static bool
is_reserved (struct fp_pieces *t, uint64_t i)
{
  for (unsigned c = 0; c < t->copies; c++)
    if (fp_piece_state (&t->p[fp_mirror_entry (t, i, c)]) == FP_PIECE_EMPTY)
      return false;
  return true;
}

/* It has all of its copies, and whoever comes next believes them. */
static bool
is_whole (struct fp_volume *v, uint64_t i, uint8_t live)
{
  if (live != fp_mirror_all (v->pieces))
    return false;
  for (unsigned c = 0; c < v->pieces->copies; c++)
    if (!fp_recorder_has_live (v, fp_mirror_entry (v->pieces, i, c)))
      return false;
  return true;
}

void
fp_mirror_status (struct fp_volume *v, struct fp_mirror_status *s)
{
  struct fp_pieces *t = v->pieces;

  *s = (struct fp_mirror_status) { .degraded = 0 };
  for (uint64_t i = 0; i < t->nr; i++) {
    uint8_t live = fp_mirror_live (t, i);

    s->allocated += live != 0 || is_reserved (t, i);
    s->lost += live != 0 && is_lost (t, i, live);
    if (live == 0 || is_whole (v, i, live))
      continue;
    s->degraded++;
    for (unsigned c = 0; c < t->copies; c++) {
      uint64_t k = fp_mirror_entry (t, i, c);
      enum fp_piece_state state = fp_piece_state (&t->p[k]);

      if (live & bit (c))
        continue;
      for (uint32_t w = 0; w < t->words; w++)
        s->missing +=
            (uint64_t) __builtin_popcountll (atomic_load (
                state == FP_PIECE_READY ? &t->dirty[k * t->words + w]
                                        : &t->written[i * t->words + w]))
            << t->chunk_shift;
    }
  }
}
