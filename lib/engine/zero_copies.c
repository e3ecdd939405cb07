/* SPDX-License-Identifier: BSD-3-Clause */
/* zero_copies.c - zero a range of an extent at its servers, or release its
 * memory.  All copies in use are shut, so that no write runs meanwhile.
 */

#include <config.h>

#include <errno.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "engine/lane_int.h"
#include "extent/stripe.h"
#include "meta/meta_log.h"
#include "peer/peer.h"
#include "peer/peer_migrate.h"

/* One extent whose copies are shut. */
struct shut {
  struct fp_engine *e;
  uint64_t i;
  uint8_t set;                     /* copies that are BUSY, and ours */
  uint64_t session[FP_MAX_COPIES]; /* peer's session, before it was shut */
};

static uint64_t
entry (const struct shut *s, unsigned c)
{
  return fp_copies_entry (s->e->extents, s->i, c);
}

static struct fp_extent *
extent (const struct shut *s, unsigned c)
{
  return fp_copies_get (s->e->extents, s->i, c);
}

static struct fp_peer *
peer_of (const struct shut *s, unsigned c)
{
  return s->e->peers->at[atomic_load (&extent (s, c)->server)];
}

static void
shut (struct shut *s, unsigned c)
{
  s->session[c] = fp_peer_session (peer_of (s, c));
  if (fp_extent_move (s->e->extents, extent (s, c), FP_EXTENT_READY,
                      FP_EXTENT_BUSY))
    s->set |= (uint8_t) (1u << c);
}

/* Open the copies that were not changed. */
static void
reopen (struct shut *s)
{
  for (unsigned c = 0; c < s->e->extents->copies; c++) {
    if (!(s->set >> c & 1))
      continue;
    if (!fp_peer_reopen_now (peer_of (s, c), extent (s, c), s->session[c]))
      (void) fp_peer_reopen (peer_of (s, c), extent (s, c), false);
  }
  s->set = 0;
}

/* Shut all copies in use, and wait until no operation is inside. */
static int
shut_all (struct shut *s, uint8_t in_use)
{
  const struct fp_extents *t = s->e->extents;

  /* If one copy is not READY, shut none.  To shut and reopen the others would
   * raise t->changes, so that the caller tries again at once.
   */
  for (unsigned c = 0; c < t->copies; c++)
    if ((in_use >> c & 1) &&
        fp_extent_state (extent (s, c)) != FP_EXTENT_READY)
      return -EAGAIN;
  /* In order of copies, and no further than the first that another thread has.
   */
  for (unsigned c = 0; c < t->copies; c++)
    if ((in_use >> c & 1) && s->set == (in_use & ((1u << c) - 1)))
      shut (s, c);
  if (s->set != in_use || fp_copies_in_use (t, s->i) != in_use) {
    reopen (s);
    return -EAGAIN;
  }
  for (unsigned c = 0; c < t->copies; c++)
    if (in_use >> c & 1)
      (void) fp_lanes_drain (s->e, extent (s, c), FP_NEVER);
  return 0;
}

static int
zero_all (struct shut *s, uint64_t in, uint64_t length, uint64_t deadline)
{
  uint8_t in_use = s->set, done = 0;
  int result = 0;

  fp_copies_missed (s->e->extents, s->i, in, length, in_use);
  for (unsigned c = 0; c < s->e->extents->copies; c++) {
    struct fp_extent *p = extent (s, c);
    bool last = result == 0 && in_use >> (c + 1) == 0;
    int r;

    if (!(in_use >> c & 1))
      continue;
    fp_extent_wrote (s->e->extents, entry (s, c), in, length);
    s->set &= (uint8_t) ~(1u << c); /* the peer owns it now */
    r = fp_peer_zero (peer_of (s, c), p, in, length, last, deadline);
    if (r == 0)
      done |= (uint8_t) (1u << c);
    else if (result == 0 || r != -ENOTCONN)
      result = r;
  }
  if (done != in_use)
    fp_copies_missed (s->e->extents, s->i, in, length, done);
  return result;
}

/* Record that no copy is in sync.  After an error, all are recorded as in
 * sync.
 */
static int
record_gone (struct shut *s, uint8_t in_sync, uint64_t deadline)
{
  struct fp_engine *e = s->e;
  uint8_t gone = 0;
  int r = 0;

  for (unsigned c = 0; r == 0 && c < e->extents->copies; c++)
    if (s->set >> c & 1)
      r = fp_meta_log_settled (e->meta_log, entry (s, c), deadline);
  if (r < 0)
    return r;
  for (unsigned c = 0; r == 0 && c < e->extents->copies; c++) {
    if (!(in_sync >> c & 1))
      continue;
    r = fp_meta_log_gone (e->meta_log, entry (s, c), deadline);
    if (r == -EIO || r == -EAGAIN)
      s->set &= (uint8_t) ~(1u << c); /* the metadata log owns it now */
    else if (r == 0)
      gone |= (uint8_t) (1u << c);
  }
  for (unsigned c = 0; r < 0 && c < e->extents->copies; c++) {
    if (!(gone >> c & 1))
      continue;
    extent (s, c)->releasing = false;
    s->set &= (uint8_t) ~(1u << c);
    fp_meta_log_exists (e->meta_log, entry (s, c));
  }
  return r;
}

/* Release the only copy, or zero it in place. */
static int
release_only (struct shut *s, uint64_t deadline)
{
  int r = fp_meta_log_gone (s->e->meta_log, s->i, deadline);

  /* The release cannot be recorded now. */
  if (r == -EROFS)
    return zero_all (s, 0, fp_extent_length (s->e->extents, s->i), deadline);
  return r < 0 ? r : fp_peer_release (peer_of (s, 0), extent (s, 0), deadline);
}

static int
release_all (struct shut *s, uint64_t deadline)
{
  struct fp_engine *e = s->e;
  struct fp_extents *t = e->extents;
  uint8_t in_sync = s->set;
  int r;

  /* Shut the stale copies that are being filled, too: no request uses them. */
  for (unsigned c = 0; c < t->copies; c++)
    if (!(in_sync >> c & 1))
      shut (s, c);
  for (unsigned c = 0; c < t->copies; c++)
    if ((s->set & ~in_sync) >> c & 1)
      (void) fp_lanes_drain (e, extent (s, c), FP_NEVER);
  r = record_gone (s, in_sync, deadline);
  if (r < 0) {
    reopen (s);
    return r;
  }
  {
    FP_LOCK_SCOPE (&e->extents->lock);
    /* The peer of a copy that waits for memory, to be filled, may look at
     * `fresh` now.  That one is false already.
     */
    for (unsigned c = 0; c < t->copies; c++)
      if (extent (s, c)->fresh)
        extent (s, c)->fresh = false;
    fp_extent_clear_written (t, s->i, 0, t->extent_size);
    atomic_store (&t->in_sync[s->i], 0);
  }
  fp_notifier_raise (&t->changes);
  /* Mark all as missed: a server that is away is not believed when it returns.
   */
  fp_copies_missed (e->extents, s->i, 0, fp_extent_length (t, s->i), 0);
  for (unsigned c = 0; c < t->copies; c++) {
    if (!(s->set >> c & 1))
      continue;
    /* The extent does not exist any more.  If a server does not hear of the
     * release, or refuses it, fp_peer_tidy makes up for that.
     */
    extent (s, c)->releasing = true;
    (void) fp_peer_release (peer_of (s, c), extent (s, c), deadline);
  }
  return 0;
}

int
zero_at_copies (struct fp_engine *e, uint64_t i, uint64_t in, uint64_t length,
                bool release, uint64_t *deadline)
{
  struct shut s = { .e = e, .i = i };
  uint8_t in_use = fp_copies_in_use (e->extents, i);
  uint64_t start = fp_now_ns ();
  int r = in_use == 0 ? -EAGAIN : shut_all (&s, in_use);

  if (r == 0 && !release)
    r = zero_all (&s, in, length, *deadline);
  else if (r == 0)
    r = fp_copies_several (e->extents) ? release_all (&s, *deadline)
                                       : release_only (&s, *deadline);
  if (r == 0) {
    *deadline += fp_now_ns () - start;
    return 0;
  }
  fp_mirror_poke (e);
  if (r == -EBUSY && !fp_deadline_passed (*deadline))
    return r;
  /* -EROFS: it could not be recorded.  If that is still so, the caller's next
   * try zeroes the extent in place.
   */
  if ((r == -EAGAIN || r == -ENOTCONN || r == -EROFS) &&
      !fp_deadline_passed (*deadline))
    return -EAGAIN;
  if (!release)
    fp_mirror_diverged (e, i);
  return -EIO;
}
