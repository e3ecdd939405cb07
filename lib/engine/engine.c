/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include "engine/dirty_log.h"
#include "engine/engine.h"
#include "engine/lane_int.h"
#include "engine/mirror.h"
#include "extent/stripe.h"

static void
submit (struct fp_block *b, unsigned lane, struct fp_io *io)
{
  fp_lane_start (fp_engine_volume (b)->lanes[lane], io);
}

static struct fp_io *
collect (struct fp_block *b, unsigned lane, bool wait)
{
  return fp_lane_collect (fp_engine_volume (b)->lanes[lane],
                          wait ? FP_NEVER : 0);
}

static uint8_t
in_sync (struct fp_block *b, uint64_t offset)
{
  struct fp_extents *t = fp_engine_volume (b)->extents;
  uint64_t run;

  return fp_copies_in_sync (t, fp_stripe_at (t, offset, &run) >> t->shift);
}

static void
status (struct fp_block *b, struct fp_volume_status *s)
{
  struct fp_volume *v = fp_engine_volume (b);

  s->extents = v->extents->nr;
  s->extents_allocated = atomic_load (&v->extents->allocated);
  s->extents_lost = atomic_load (&v->extents->lost);
  if (fp_copies_several (v->extents)) {
    struct fp_mirror_status mirror;

    fp_mirror_status (v, &mirror);
    s->extents_allocated = mirror.allocated;
    s->extents_lost = mirror.lost;
    s->extents_degraded = mirror.degraded;
    s->bytes_to_resync = mirror.missing;
    s->unclean = atomic_load (&v->unclean);
    s->resync_bytes = atomic_load (&v->resync_bytes);
    s->resync_of = atomic_load (&v->resync_of);
    s->bytes_marked = atomic_load (&v->dirty_log->marked);
  }
  for (unsigned i = 0; i < v->p.lanes; i++)
    lane_status (v->lanes[i], s);
}

static const struct fp_block_ops engine_ops = {
  .read = lane_read,
  .write = lane_write,
  .zero = zero_range,
  .flush = flush_lanes,
  .submit = submit,
  .poll = collect,
  .zero_is_fast = zero_is_fast,
  .extent = zero_extent,
  .status = status,
  .in_sync = in_sync,
  .read_copy = lane_read_copy,
};

/* Return the ms that a request waits for servers that are away. */
static unsigned
patience_ms (const struct fp_volume_params *p)
{
  unsigned ms = 2 * p->timeout_ms;

  if (p->await_ms != 0)
    return p->await_ms;
  return p->copies > 1 && ms < 8000 ? 8000 : ms;
}

void
fp_engine_init (struct fp_volume *v)
{
  unsigned await_ms = patience_ms (&v->p), margin = await_ms / 4;

  v->engine = (struct fp_block) {
    .ops = &engine_ops,
    .size = v->p.size,
    .lanes = v->p.lanes,
    .copies = v->p.copies,
    .await_ms = await_ms,
    .send_ms =
        await_ms - (margin < v->p.timeout_ms ? margin : v->p.timeout_ms),
  };
}
