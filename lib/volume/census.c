/* SPDX-License-Identifier: BSD-3-Clause */
/* census.c - counts that are taken only on request. */

#include <config.h>

#include <string.h>

#include "engine/lane_int.h"
#include "volume/io.h"
#include "volume/volume_int.h"

static void
count_transfers (struct fp_lane *lane, struct fp_census *out)
{
  LANE_LOCK_SCOPE (lane);

  for (const struct frag *f = lane->active_head; f != NULL; f = f->next)
    out->inflight[f->server]++;
}

void
fp_volume_census (struct fp_volume *v, struct fp_census *out)
{
  memset (out, 0, sizeof *out);
  for (uint64_t i = 0; i < v->extents->all; i++)
    out->extents[fp_extent_state (&v->extents->p[i])]++;
  out->moving = atomic_load (&v->extents->moving) < v->extents->all;
  fp_io_latencies (v, &out->read_ns, &out->write_ns);
  for (unsigned i = 0; i < v->engine.nr_lanes; i++)
    count_transfers (v->engine.lanes[i], out);
}
