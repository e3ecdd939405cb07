/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_ops.c - what the layers of a volume do when one of its peers tells them
 * something (peers.h).
 */

#include <config.h>

#include "engine/lane.h"
#include "engine/mirror.h"
#include "meta/meta_log.h"
#include "volume/volume_int.h"

static void
up (struct fp_volume *v)
{
  fp_volume_counted (v);
  fp_mirror_poke (v);
}

static void
placed (struct fp_volume *v, const uint32_t *fresh, unsigned nr)
{
  for (unsigned n = 0; n < nr; n++)
    fp_meta_log_exists (v, fresh[n]);
  if (fp_copies_several (v->extents))
    fp_mirror_poke (v);
}

const struct fp_peer_ops fp_volume_peer_ops = {
  .opened = fp_meta_log_up,
  .up = up,
  .draining = fp_meta_log_down,
  .down = fp_mirror_poke,
  .counted = fp_volume_counted,
  .placed = placed,
  .not_placed = fp_allocator_return,
  .kept = fp_meta_log_exists,
  .answered = fp_meta_log_wake,
  .connect = fp_lane_connect,
  .disconnect = fp_lane_disconnect,
  .is_broken = fp_lane_broken,
  .is_revoked = fp_lane_revoked,
  .event_fd = fp_lane_event_fd,
  .event = fp_lane_event,
  .place_writes = fp_lane_place_writes,
  .probe_others = fp_lanes_probe_others,
  .is_behind = fp_meta_log_is_behind,
  .confirm = fp_meta_log_confirm,
};
