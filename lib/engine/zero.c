/* SPDX-License-Identifier: BSD-3-Clause */
/* zero.c - zero or trim a range, or tell which ranges are zeros already. */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "engine/dirty_log.h"
#include "engine/lane_int.h"
#include "extent/stripe.h"
#include "meta/meta_log.h"
#include "peer/peer.h"

/* Bytes; up to this size, zeros are written.  A longer range is left to the
 * server's memset, which costs one message.
 */
#define ZERO_BY_WRITE (256 * 1024)

/* Pause after a refusal or a failed mark: no change tells that it has ended.
 */
#define AGAIN_MS 10

static const unsigned char zeros[64 * 1024];

/* One request of a front end. */
struct zeroing {
  struct fp_lane *lane;
  bool trim;
  /* Time spent on work moves the deadline, time spent on waiting does not. */
  uint64_t deadline_ns, start_ns;
  uint64_t made_ns; /* as in fp_io */
  bool waited;      /* as in fp_io */
};

static bool
is_over (const struct fp_engine *e, const struct zeroing *z)
{
  return fp_deadline_passed (z->deadline_ns) ||
         fp_lease_is_fenced (e->lease) ||
         fp_block_is_stale (&e->block, z->made_ns);
}

static int
write_zeros (const struct zeroing *z, uint64_t length, uint64_t at)
{
  while (length > 0) {
    uint32_t n = (uint32_t) FP_MIN (length, (uint64_t) sizeof zeros);
    int r = fp_lane_write_at (z->lane, zeros, n, at, z->made_ns);

    if (r < 0)
      return r;
    length -= n;
    at += n;
  }
  return 0;
}

static void
note_wait (struct zeroing *z)
{
  z->waited |= fp_now_ns () - z->start_ns >= FP_WAITED_MS * FP_NS_PER_MS;
}

/* Wait for a change since `seen`, or until is_over may be true. */
static void
await_change (struct fp_engine *e, struct zeroing *z, uint32_t seen)
{
  uint64_t mono = fp_mono_ns ();
  uint64_t end = z->made_ns + e->block.send_ms * FP_NS_PER_MS;

  /* The clock of fp_block_is_stale is coarse. */
  end = fp_now_ns () + (end > mono ? end - mono : 0) + FP_NS_PER_MS;
  (void) fp_notifier_await (&e->extents->changes, seen,
                            FP_MIN (end, z->deadline_ns));
  note_wait (z);
}

/* Wait for AGAIN_MS, or until is_over. */
static void
pause_before_retry (struct fp_engine *e, struct zeroing *z)
{
  uint64_t end = fp_deadline_in_ms (AGAIN_MS);
  uint32_t seen;

  do
    seen = fp_notifier_count (&e->extents->changes);
  while (!is_over (e, z) &&
         fp_notifier_await (&e->extents->changes, seen, end));
  note_wait (z);
}

/* The range reads as zeros already.  Return 1 if the lease holds: then no
 * server is needed.  Else wait for a change since `seen`, and return 0.
 * Return -EIO at the deadline.
 */
static int
zeros_already (struct fp_engine *e, struct zeroing *z, uint32_t seen)
{
  if (fp_peers_are_leased (e->peers))
    return 1;
  if (is_over (e, z))
    return -EIO;
  await_change (e, z, seen);
  return 0;
}

static bool
is_connected (struct fp_engine *e, unsigned server)
{
  for (unsigned i = 0; i < e->nr_lanes; i++)
    if (fp_lane_broken (e->lanes[i], server))
      return false;
  return true;
}

/* Wait until the server of p, an only copy, may be able to zero it.  It could
 * not, because a lane has no connection to it, or because it is copying the
 * slab.
 */
static void
await_ready (struct fp_engine *e, const struct fp_extent *p, struct zeroing *z)
{
  unsigned server = atomic_load (&p->server);

  /* The server does not tell when the copy is done. */
  if (is_connected (e, server))
    pause_before_retry (e, z);
  for (;;) {
    uint32_t seen = fp_notifier_count (&e->extents->changes);

    if (is_connected (e, server) || fp_extent_state (p) != FP_EXTENT_READY ||
        is_over (e, z))
      return;
    await_change (e, z, seen);
  }
}

static bool
is_whole (const struct fp_extents *t, uint64_t i, uint64_t in, uint64_t length)
{
  return in == 0 && length == fp_extent_length (t, i);
}

/* Zero a range at the servers.  First all copies, if there are several, must
 * mark it in their dirty logs: they differ until the last server has zeroed
 * it.  -EAGAIN: try again after a change.  -EBUSY: try again soon.
 */
static int
zero_said (struct fp_engine *e, struct zeroing *z, uint64_t i, uint64_t in,
           uint64_t length)
{
  int r = 0;

  if (fp_copies_several (e->extents))
    r = fp_dirty_log_say (z->lane, i, in, length);
  if (r == 0)
    return zero_at_copies (e, i, in, length, false, &z->deadline_ns);
  fp_mirror_poke (e);
  if (!is_over (e, z))
    return r == -EIO ? -EBUSY : -EAGAIN;
  fp_mirror_diverged (e, i);
  return -EIO;
}

/* Zero a range of an extent.  all: trim the whole extent.  *tried: some copies
 * may have zeros and others not, counted in e->unsettled.
 */
static int
zero_copies (struct fp_engine *e, struct zeroing *z, uint64_t i, uint64_t in,
             uint64_t length, bool all, bool *tried)
{
  struct fp_extents *t = e->extents;
  bool zeroed = false; /* some copies may have got zeros in place */

  for (;;) {
    uint32_t seen = fp_notifier_count (&t->changes);
    uint8_t in_use = fp_copies_in_use (t, i);
    uint64_t run;
    int r;

    /* The set may have changed before the look at its copies. */
    if (in_use != 0 && fp_copies_are_lost (t, i, in_use) &&
        fp_copies_in_use (t, i) == in_use)
      return -EIO;
    if (in_use == 0 ||
        (!all && !fp_extent_run (t, i, in, length, &run) && run == length)) {
      r = zeros_already (e, z, seen);
      if (r != 0)
        return r < 0 ? r : 0;
      continue;
    }
    if (is_over (e, z)) {
      if (zeroed)
        fp_mirror_diverged (e, i);
      return -EIO;
    }
    /* An only copy may be on its way to EMPTY: a write would give it memory
     * again.
     */
    if (!fp_copies_several (t) &&
        fp_extent_state (&t->p[i]) != FP_EXTENT_READY) {
      await_change (e, z, seen);
      continue;
    }
    if (!all && length <= ZERO_BY_WRITE)
      return write_zeros (z, length, (i << t->shift) + in);
    if (!*tried)
      atomic_fetch_add (&e->unsettled, 1);
    *tried = true;
    /* If a release cannot be recorded now, the extent would be unusable until
     * it can.
     */
    if (all && !zeroed && !e->p->reserve_full &&
        fp_meta_log_may_record (e->meta_log)) {
      r = zero_at_copies (e, i, in, length, true, &z->deadline_ns);
    }
    else {
      zeroed = fp_copies_several (t);
      r = zero_said (e, z, i, in, length);
    }
    if (r != -EAGAIN && r != -EBUSY)
      return r;
    if (r == -EAGAIN)
      await_change (e, z, seen);
    else if (fp_copies_several (t))
      pause_before_retry (e, z);
    else
      await_ready (e, &t->p[i], z);
  }
}

static int
zero_in_extent (struct fp_engine *e, uint64_t i, uint64_t in, uint64_t length,
                void *arg)
{
  struct zeroing *z = arg;
  bool all = z->trim && is_whole (e->extents, i, in, length), tried = false;
  int r = zero_copies (e, z, i, in, length, all, &tried);

  if (tried)
    atomic_fetch_sub (&e->unsettled, 1);
  return r;
}

/* Call each for the part of every extent, until a call does not return 0. */
static int
for_each_part (struct fp_engine *e, uint64_t length, uint64_t offset,
               int (*each) (struct fp_engine *e, uint64_t i, uint64_t in,
                            uint64_t n, void *arg),
               void *arg)
{
  struct fp_extents *t = e->extents;
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
      r = each (e, i, in, n, arg);
  return r;
}

int
zero_range (struct fp_block *b, struct fp_block_request *r)
{
  struct fp_engine *e = fp_engine_of (b);
  struct zeroing z = {
    .lane = e->lanes[r->lane],
    .trim = r->trim,
    .start_ns = fp_now_ns (),
    .deadline_ns = fp_deadline_in_ms (e->block.await_ms),
    .made_ns = r->made_ns != 0 ? r->made_ns : fp_mono_ns (),
  };
  int err = for_each_part (e, r->length, r->offset, zero_in_extent, &z);

  if (z.waited)
    atomic_fetch_add (&e->waits, 1);
  return err;
}

/* ---- extents ---- */

/* Return true if extent i is a hole at `in`.  Lower *run to the bytes from
 * there for which the answer is the same.
 */
static bool
is_hole (struct fp_extents *t, uint64_t i, uint64_t in, uint64_t *run)
{
  uint8_t in_use = fp_copies_in_use (t, i);

  if (in_use == 0)
    return true;
  /* Reads of a lost extent fail, whatever was written. */
  if (fp_copies_are_lost (t, i, in_use))
    return false;
  return !fp_extent_run (t, i, in, *run, run);
}

static int
is_slow (struct fp_engine *e, uint64_t i, uint64_t in, uint64_t n, void *trim)
{
  uint64_t run = n;

  if (*(bool *) trim && is_whole (e->extents, i, in, n))
    return 0;
  return !is_hole (e->extents, i, in, &run) || run < n ||
         !fp_peers_are_leased (e->peers);
}

bool
zero_is_fast (struct fp_block *b, uint64_t length, uint64_t offset, bool trim)
{
  return for_each_part (fp_engine_of (b), length, offset, is_slow, &trim) == 0;
}

void
find_hole (struct fp_block *b, uint64_t offset, uint64_t limit, bool *hole,
           uint64_t *length)
{
  struct fp_engine *e = fp_engine_of (b);
  struct fp_extents *t = e->extents;
  uint64_t end = t->size - offset > limit ? offset + limit : t->size;
  uint64_t at = offset;

  *hole = false;
  while (at < end) {
    uint64_t run, linear = fp_stripe_at (t, at, &run);
    bool h;

    run = FP_MIN (run, end - at);
    h = is_hole (t, linear >> t->shift, linear & (t->extent_size - 1), &run);
    if (at > offset && h != *hole)
      break;
    *hole = h;
    at += run;
  }
  *length = at - offset;
  /* If the lease does not hold, the range must be read instead. */
  if (*hole && !fp_peers_are_leased (e->peers))
    *hole = false;
}
