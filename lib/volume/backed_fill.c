/* SPDX-License-Identifier: BSD-3-Clause */
/* backed_fill.c - what the backup has not is read from the servers, and what
 * the servers have not goes home to them, so that both have all of it again.
 */

#include <config.h>

#include <errno.h>

#include "base/checked.h"
#include "volume/backed_int.h"
#include "volume/lane_int.h"
#include "volume/link_learn.h"
#include "volume/stripe.h"

#define LOOK (64u << 20) /* that is looked at at a time */
#define ROOM_MS 10       /* until the ring has room */
#define AGAIN_MS 1000    /* until it is looked again */

static bool
stopping (struct fp_backed *k, unsigned ms)
{
  struct timespec until;

  fp_timespec_after (&until, ms);
  FP_LOCK_SCOPE (&k->lock);
  if (!k->stop && ms > 0)
    /* Woken early it looks early. */
    (void) pthread_cond_timedwait (&k->cond, &k->lock, &until);
  return k->stop;
}

static int
remote (struct fp_backed *k, enum fp_io_kind kind, uint64_t length,
        uint64_t offset)
{
  struct fp_volume *v = k->v;

  return fp_lane_remote (v->lanes[v->p.lanes], kind, k->buf, (uint32_t) length,
                         offset);
}

/* ---- what the backup has not ---- */

/* Of what is not valid, length bytes or fewer.  Returns how many, or -errno.
 */
static int64_t
fill (struct fp_backed *k, uint64_t length, uint64_t offset)
{
  uint64_t run = length;
  struct range range;
  bool hole;
  int r;

  r = backed_hold (k, &range, length, offset);
  if (r < 0)
    return r;
  if (!fp_backup_is_valid (k->store, offset, length, &run)) {
    fp_volume_extent (k->v, offset, run, &hole, &run);
    if (hole && run >= BLOCK) {
      run = fp_round_down (run, BLOCK);
      r = fp_backup_zero (k->store, run, offset, false);
    }
    else {
      if (run < length)
        run = FP_MIN (fp_div_round_up (run, BLOCK) * BLOCK, length);
      r = remote (k, FP_IO_READ, run, offset);
      if (r == 0)
        r = fp_backup_put (k->store, k->buf, run, offset, false);
    }
  }
  backed_release (k, &range);
  return r < 0 ? r : (int64_t) run;
}

static void
fill_all (struct fp_backed *k)
{
  uint64_t size = k->v->p.size, run;

  if (fp_backup_all_valid (k->store))
    return;
  for (uint64_t at = 0; at < size && !stopping (k, 0); at += run) {
    int64_t n;

    if (fp_backup_is_valid (k->store, at, FP_MIN (size - at, (uint64_t) LOOK),
                            &run))
      continue;
    while (!fp_backup_has_room (k->store) && !fp_backup_failed (k->store) &&
           !stopping (k, ROOM_MS))
      continue;
    run = FP_MIN (run, (uint64_t) FILL_SIZE);
    n = fill (k, run, at);
    if (n >= 0)
      run = (uint64_t) n;
  }
}

/* ---- what the servers have lost ---- */

/* A server that came back with nothing may get the volume anew, as soon as the
 * file says that this is not all of it.
 */
static void
let_in (struct fp_backed *k)
{
  struct fp_volume *v = k->v;
  uint64_t empty = atomic_load (&v->empty);

  if (empty != 0 && fp_backup_alone (k->store) == 0)
    atomic_fetch_or (&v->refill, empty);
}

/* The backup alone has piece i, which is LOST.  False: it does not. */
static bool
keep_piece (struct fp_backed *k, uint64_t i)
{
  const struct fp_pieces *t = k->v->pieces;
  uint64_t unit = UINT64_C (1) << t->unit_shift;
  uint64_t length = fp_piece_length (t, i), n;

  for (uint64_t in = 0; in < length; in += n) {
    n = FP_MIN (length - in, t->width == 1 ? length : unit);
    if (fp_backup_keep (k->store, n, fp_stripe_offset (t, i, in)) < 0)
      return false;
  }
  return true;
}

/* It is one that was never written, then: what was in it is local. */
static void
renew (struct fp_backed *k, uint64_t i)
{
  struct fp_pieces *t = k->v->pieces;
  uint64_t first, begin, length;
  struct range range;
  uint32_t width;

  first = fp_stripe_group (t, i, &width);
  begin = first << t->shift;
  length = FP_MIN ((uint64_t) width << t->shift, t->size - begin);
  if (backed_hold (k, &range, length, begin) < 0)
    return;
  if (fp_piece_state (&t->p[i]) == FP_PIECE_LOST && keep_piece (k, i) &&
      fp_link_abandon (k->v, i))
    fp_piece_clear_written (t, i, 0, t->piece_size);
  backed_release (k, &range);
}

static void
renew_all (struct fp_backed *k)
{
  const struct fp_pieces *t = k->v->pieces;

  /* Of several copies mirror.h decides. */
  if (atomic_load (&k->v->lost) == 0 || t->copies > 1)
    return;
  for (uint64_t i = 0; i < t->nr && !stopping (k, 0); i++)
    if (fp_piece_state (&t->p[i]) == FP_PIECE_LOST)
      renew (k, i);
}

/* ---- what the backup alone has ---- */

/* Of what is local, length bytes or fewer.  Returns how many, or -errno. */
static int64_t
go_home (struct fp_backed *k, uint64_t length, uint64_t offset)
{
  struct fp_volume *v = k->v;
  uint64_t run = length;
  struct range range;
  int r;

  r = backed_hold (k, &range, length, offset);
  if (r < 0)
    return r;
  if (fp_backup_is_local (k->store, offset, length, &run)) {
    if (fp_backup_is_zeros (k->store, offset, run, &run)) {
      r = fp_lane_remote_zero (v->lanes[v->p.lanes], run, offset, true, 0);
    }
    else {
      run = FP_MIN (run, (uint64_t) FILL_SIZE);
      r = fp_backup_get (k->store, k->buf, run, offset);
      if (r == 0)
        r = remote (k, FP_IO_WRITE, run, offset);
    }
    if (r == 0)
      fp_backup_home (k->store, run, offset);
  }
  backed_release (k, &range);
  return r < 0 ? r : (int64_t) run;
}

static void
home_all (struct fp_backed *k)
{
  const struct fp_pieces *t = k->v->pieces;
  uint64_t size = t->size, run;

  for (uint64_t at = 0;
       at < size && fp_backup_any_local (k->store) && !stopping (k, 0);
       at += run) {
    int64_t n;

    run = FP_MIN (size - at, (uint64_t) LOOK);
    if (!fp_backup_is_local (k->store, at, run, &run))
      continue;
    n = go_home (k, run, at);
    /* The rest of what its server has is left for the next time. */
    run = n >= 0 ? (uint64_t) n : t->piece_size - (at & (t->piece_size - 1));
    run = FP_MIN (run, size - at);
  }
}

/* ---- the thread ---- */

void
backed_mend (void *arg)
{
  struct fp_backed *k = arg;
  struct fp_volume *v = k->v;

  while (!fp_backup_failed (k->store)) {
    if (!atomic_load (&v->taken)) {
      fill_all (k);
      let_in (k);
      renew_all (k);
      home_all (k);
      /* In this order: each becomes the next. */
      if (atomic_load (&v->empty) == 0 && atomic_load (&v->lost) == 0)
        fp_backup_rest (k->store);
    }
    if (stopping (k, AGAIN_MS))
      return;
  }
  atomic_store (&v->no_refill, true);
}
