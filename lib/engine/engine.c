/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/checked.h"
#include "engine/dirty_log.h"
#include "engine/engine.h"
#include "engine/lane_int.h"
#include "extent/range_lock.h"
#include "extent/stripe.h"

static void
submit (struct fp_block *b, unsigned lane, struct fp_io *io)
{
  fp_lane_start (fp_engine_of (b)->lanes[lane], io);
}

static struct fp_io *
collect (struct fp_block *b, unsigned lane, bool wait)
{
  return fp_lane_collect (fp_engine_of (b)->lanes[lane], wait ? FP_NEVER : 0);
}

static uint8_t
in_sync (struct fp_block *b, uint64_t offset)
{
  struct fp_extents *t = fp_engine_of (b)->extents;
  uint64_t run;

  return fp_copies_in_sync (t, fp_stripe_at (t, offset, &run) >> t->shift);
}

static void
status (struct fp_block *b, struct fp_volume_status *s)
{
  struct fp_engine *e = fp_engine_of (b);

  s->extents = e->extents->nr;
  s->extents_allocated = atomic_load (&e->extents->allocated);
  s->extents_lost = atomic_load (&e->extents->lost);
  if (fp_copies_several (e->extents)) {
    struct fp_mirror_status mirror;

    fp_mirror_status (e, &mirror);
    s->extents_allocated = mirror.allocated;
    s->extents_lost = mirror.lost;
    s->extents_degraded = mirror.degraded;
    s->bytes_to_resync = mirror.missing;
    s->bytes_marked = atomic_load (&e->dirty_log->marked);
  }
  for (unsigned i = 0; i < e->p->lanes; i++)
    lane_status (e->lanes[i], s);
}

static const struct fp_block_ops engine_ops = {
  .read = lane_read,
  .write = lane_write,
  .zero = zero_range,
  .flush = lane_flush_all,
  .submit = submit,
  .poll = collect,
  .zero_is_fast = zero_is_fast,
  .extent = find_hole,
  .status = status,
  .in_sync = in_sync,
  .read_copy = lane_read_copy,
};

void
fp_engine_init (struct fp_engine *e, struct fp_peers *peers,
                struct fp_allocator *allocator)
{
  const struct fp_volume_params *p = peers->p;
  unsigned await_ms = fp_volume_await_ms (p);

  *e = (struct fp_engine) {
    .block = {
      .ops = &engine_ops,
      .size = p->size,
      .lanes = p->lanes,
      .copies = p->copies,
      .await_ms = await_ms,
      .end_ms = p->sends_once ? UINT_MAX : await_ms,
      .send_ms = p->sends_once
                     ? UINT_MAX
                     : await_ms - FP_MIN (await_ms / 4, p->timeout_ms),
      .changes = &peers->extents->changes,
    },
    .p = p,
    .extents = peers->extents,
    .peers = peers,
    .lease = peers->lease,
    .allocator = allocator,
  };
  fp_mirror_listen (e);
}

int
fp_engine_alloc (struct fp_engine *e)
{
  const struct fp_volume_params *p = e->p;
  int r = 0;

  if (p->copies > 1) {
    e->range_lock = calloc (1, sizeof *e->range_lock);
    if (e->range_lock == NULL)
      return -ENOMEM;
    fp_range_lock_init (e->range_lock);
    r = fp_dirty_log_new (e);
  }
  if (r < 0)
    return r;
  e->lanes = calloc (p->lanes + 1, sizeof *e->lanes);
  if (e->lanes == NULL)
    return -ENOMEM;
  e->nr_lanes = p->lanes + 1;
  for (unsigned i = 0; r == 0 && i < e->nr_lanes; i++)
    r = fp_lane_new (&e->lanes[i], e, i,
                     i < p->lanes ? p->slots
                                  : FP_MIN (p->slots, FP_HEAL_LANE_SLOTS));
  e->peers->lanes = e->lanes;
  e->peers->nr_lanes = e->nr_lanes;
  return r;
}

void
fp_engine_destroy (struct fp_engine *e)
{
  for (unsigned i = 0; i < e->nr_lanes; i++)
    fp_lane_free (e->lanes[i]);
  free (e->lanes);
  fp_dirty_log_free (e);
  if (e->range_lock != NULL)
    fp_range_lock_destroy (e->range_lock);
  free (e->range_lock);
}
