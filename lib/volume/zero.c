/* SPDX-License-Identifier: BSD-3-Clause */
/* zero.c - what becomes zeros, goes back to its server, or was never written.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/backed.h"
#include "volume/intent.h"
#include "volume/link.h"
#include "volume/mirror.h"
#include "volume/recorder.h"
#include "volume/sealed.h"
#include "volume/stripe.h"
#include "volume/sync.h"
#include "volume/volume_int.h"

/* Up to this much is zeroed by writing zeros; more is left to the server's
 * memset, which costs one message.
 */
#define ZERO_BY_WRITE (256 * 1024)

static const unsigned char zeros[64 * 1024];

static int
write_zeros (struct fp_lane *lane, uint64_t length, uint64_t at)
{
  while (length > 0) {
    uint32_t n = (uint32_t) FP_MIN (length, (uint64_t) sizeof zeros);
    int r = fp_lane_write_at (lane, zeros, n, at);

    if (r < 0)
      return r;
    length -= n;
    at += n;
  }
  return 0;
}

/* There is no event for every change that is waited for: look often. */
static void
pause_a_little (struct fp_volume *v)
{
  struct timespec until;

  fp_timespec_after (&until, 1);
  FP_LOCK_SCOPE (&v->lock);
  (void) pthread_cond_timedwait (&v->cond, &v->lock, &until);
}

/* What is zeros already needs nobody, if the volume is ours: 1.  0: it may be
 * by now; -EIO at the deadline.
 */
static int
zeros_already (struct fp_volume *v, uint64_t deadline)
{
  if (fp_volume_is_ours (v))
    return 1;
  if (fp_deadline_passed (deadline) || fp_volume_given_up (v))
    return -EIO;
  pause_a_little (v);
  return 0;
}

/* Wait for a piece that somebody else has shut, or whose server is away.
 * Returns its state when it is none of these any more; -EIO at the deadline,
 * or when the server is given up.
 */
static int
settled_state (struct fp_volume *v, struct fp_piece *p, uint64_t deadline)
{
  for (;;) {
    enum fp_piece_state s = fp_piece_state (p);

    if (s != FP_PIECE_BUSY && s != FP_PIECE_FROZEN && s != FP_PIECE_OFFLINE)
      return (int) s;
    if (fp_deadline_passed (deadline) ||
        (s == FP_PIECE_OFFLINE &&
         fp_link_given_up (v->links[atomic_load (&p->server)])))
      return -EIO;
    pause_a_little (v);
  }
}

/* Piece p, which is BUSY and drained, shall have no memory any more. */
static int
release (struct fp_volume *v, struct fp_piece *p, uint64_t length,
         uint64_t deadline)
{
  struct fp_link *link = v->links[atomic_load (&p->server)];
  int r = fp_recorder_gone (v, (uint64_t) (p - v->pieces->p), deadline);

  if (r == -EROFS)
    return fp_link_zero (link, p, 0, length, true, deadline);
  return r < 0 ? r : fp_link_release (link, p, deadline);
}

static bool
is_whole (const struct fp_pieces *t, uint64_t i, uint64_t in, uint64_t length)
{
  return in == 0 && length == fp_piece_length (t, i);
}

/* A server zeroes its copy when it is told to: not before all of them say that
 * they may differ there.
 */
static int
zero_said (struct fp_volume *v, struct fp_lane *lane, uint64_t i, uint64_t in,
           uint64_t length, uint64_t *deadline)
{
  if (fp_intent_say (lane, i, in, length) == 0)
    return fp_mirror_zero (v, i, in, length, false, deadline);
  fp_mirror_poke (v);
  if (!fp_deadline_passed (*deadline))
    return -EAGAIN;
  fp_mirror_diverged (v, i);
  return -EIO;
}

/* The deadline moves on by what is spent on what is done, and not by what is
 * spent on waiting.  all: it is the whole piece, which is trimmed.  *tried:
 * some copies may have got zeros, and others not yet; counted in v->unsettled.
 */
static int
zero_copies (struct fp_volume *v, struct fp_lane *lane, uint64_t i,
             uint64_t in, uint64_t length, bool all, uint64_t *deadline,
             bool *tried)
{
  struct fp_pieces *t = v->pieces;

  for (;;) {
    uint64_t run;
    int r;

    if (fp_mirror_live (t, i) == 0 ||
        (!all && !fp_piece_run (t, i, in, length, &run) && run == length)) {
      r = zeros_already (v, *deadline);
      if (r != 0)
        return r < 0 ? r : 0;
      continue;
    }
    if (!all && length <= ZERO_BY_WRITE)
      return write_zeros (lane, length, (i << t->shift) + in);
    if (!*tried)
      atomic_fetch_add (&v->unsettled, 1);
    *tried = true;
    if (all && !v->p.reserve_full)
      r = fp_mirror_zero (v, i, in, length, true, deadline);
    else
      r = zero_said (v, lane, i, in, length, deadline);
    if (r != -EAGAIN)
      return r;
    pause_a_little (v);
  }
}

/* The same deadline. */
static int
zero_in_piece (struct fp_volume *v, struct fp_lane *lane, uint64_t i,
               uint64_t in, uint64_t length, bool trim, uint64_t *deadline)
{
  struct fp_pieces *t = v->pieces;
  struct fp_piece *p = &t->p[i];
  bool whole = is_whole (t, i, in, length), tried = false;

  if (fp_volume_is_mirrored (v)) {
    int r =
        zero_copies (v, lane, i, in, length, whole && trim, deadline, &tried);

    if (tried)
      atomic_fetch_sub (&v->unsettled, 1);
    return r;
  }
  for (;;) {
    struct fp_link *link;
    uint64_t run, start;
    int s = settled_state (v, p, *deadline), r;

    if (s < 0)
      return s;
    if (s == FP_PIECE_LOST)
      return -EIO;
    if (s == FP_PIECE_EMPTY ||
        (!(whole && trim) && !fp_piece_run (t, i, in, length, &run) &&
         run == length)) {
      r = zeros_already (v, *deadline);
      if (r != 0)
        return r < 0 ? r : 0;
      continue;
    }
    if (!(whole && trim)) {
      if (length <= ZERO_BY_WRITE)
        return write_zeros (lane, length, (i << t->shift) + in);
    }
    if (!fp_piece_move (p, FP_PIECE_READY, FP_PIECE_BUSY))
      continue; /* somebody was quicker */
    start = fp_now_ns ();
    fp_volume_drain_piece (v, p);
    fp_volume_wrote (v, i, in, length);
    link = v->links[atomic_load (&p->server)];
    if (whole && trim && !v->p.reserve_full)
      r = release (v, p, length, *deadline);
    else
      r = fp_link_zero (link, p, in, length, true, *deadline);
    fp_volume_wake_lanes (v);
    if (r == 0)
      *deadline += fp_now_ns () - start;
    if (r != -ENOTCONN)
      return r < 0 ? -EIO : 0;
    if (fp_deadline_passed (*deadline))
      return -EIO;
  }
}

/* Call each with what every piece has of the range, until one says no. */
static int
for_each_part (struct fp_volume *v, uint64_t length, uint64_t offset,
               int (*each) (struct fp_volume *v, uint64_t i, uint64_t in,
                            uint64_t n, void *arg),
               void *arg)
{
  struct fp_pieces *t = v->pieces;
  uint64_t in, n, first, last;
  uint32_t width;
  int r = 0;

  if (length == 0)
    return 0;
  first = fp_stripe_group (t, offset >> t->shift, &width);
  last = fp_stripe_group (t, (offset + length - 1) >> t->shift, &width);
  last += width - 1;
  for (uint64_t i = first; r == 0 && i <= last; i++)
    if (fp_stripe_part (t, i, offset, length, &in, &n))
      r = each (v, i, in, n, arg);
  return r;
}

struct zeroing {
  struct fp_lane *lane;
  bool trim;
  uint64_t deadline;
};

static int
zero_part (struct fp_volume *v, uint64_t i, uint64_t in, uint64_t n, void *arg)
{
  struct zeroing *z = arg;

  return zero_in_piece (v, z->lane, i, in, n, z->trim, &z->deadline);
}

int
fp_lane_remote_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
                     bool trim)
{
  struct fp_volume *v = fp_lane_volume (lane);
  struct zeroing z = { .lane = lane,
                       .trim = trim,
                       .deadline =
                           fp_deadline_in_ms (fp_volume_patience_ms (v)) };

  return for_each_part (v, length, offset, zero_part, &z);
}

int
fp_lane_raw_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
                  bool trim)
{
  if (fp_lane_volume (lane)->backed != NULL)
    return fp_backed_zero (lane, length, offset, trim);
  return fp_lane_remote_zero (lane, length, offset, trim);
}

int
fp_lane_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
              bool trim)
{
  struct fp_volume *v = fp_lane_volume (lane);

  if (!fp_range_ok (offset, length, v->pieces->size))
    return -EINVAL;
  if (v->p.read_only)
    return -EROFS;
  atomic_fetch_add (trim ? &v->trims : &v->zeros, 1);
  if (v->sealed != NULL)
    return fp_sealed_zero (lane, length, offset, trim);
  return fp_lane_raw_zero (lane, length, offset, trim);
}

/* ---- extents ---- */

/* What piece i is from `in` on, for *run bytes, at most what that was. */
static bool
is_hole (struct fp_pieces *t, uint64_t i, uint64_t in, uint64_t *run)
{
  if (t->copies > 1)
    return fp_mirror_live (t, i) == 0 || !fp_piece_run (t, i, in, *run, run);
  switch (fp_piece_state (&t->p[i])) {
  case FP_PIECE_EMPTY:
    return true;
  case FP_PIECE_READY:
  case FP_PIECE_BUSY:
  case FP_PIECE_FROZEN:
  case FP_PIECE_OFFLINE:
    return !fp_piece_run (t, i, in, *run, run);
  case FP_PIECE_LOST:
  default:
    return false;
  }
}

static int
is_slow (struct fp_volume *v, uint64_t i, uint64_t in, uint64_t n, void *trim)
{
  uint64_t run = n;

  if (*(bool *) trim && is_whole (v->pieces, i, in, n))
    return 0;
  return !is_hole (v->pieces, i, in, &run) || run < n ||
         !fp_volume_is_ours (v);
}

bool
fp_volume_zero_is_fast (struct fp_volume *v, uint64_t length, uint64_t offset,
                        bool trim)
{
  return !fp_backed_any_local (v) &&
         !fp_sealed_zero_is_slow (v, length, offset) &&
         for_each_part (v, length, offset, is_slow, &trim) == 0;
}

void
fp_volume_extent (struct fp_volume *v, uint64_t offset, uint64_t limit,
                  bool *hole, uint64_t *length)
{
  struct fp_pieces *t = v->pieces;
  uint64_t end = t->size - offset > limit ? offset + limit : t->size;
  uint64_t at = offset;

  *hole = false;
  /* Nobody else is believed what is zeros. */
  if (fp_sealed_is_rooted (v)) {
    fp_sealed_extent (v, offset, limit, hole, length);
    *hole = *hole && fp_volume_is_ours (v);
    return;
  }
  while (at < end) {
    uint64_t run, linear = fp_stripe_at (t, at, &run);
    bool h;

    run = FP_MIN (run, end - at);
    h = is_hole (t, linear >> t->shift, linear & (t->piece_size - 1), &run);
    if (at > offset && h != *hole)
      break;
    *hole = h;
    at += run;
  }
  *length = at - offset;
  /* Then it has to be read. */
  if (*hole && (!fp_volume_is_ours (v) || fp_backed_any_local (v)))
    *hole = false;
}
