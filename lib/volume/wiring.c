/* SPDX-License-Identifier: BSD-3-Clause */
/* wiring.c - what the parts of a volume do when a part below tells them
 * something (peers.h, meta_log.h).
 */

#include <config.h>

#include "engine/dirty_log.h"
#include "engine/lane.h"
#include "engine/mirror.h"
#include "meta/meta_log.h"
#include "volume/volume_int.h"

/* ---- from a peer: what happened ---- */

static void
coming_up (struct fp_volume *v, unsigned server, const struct fp_uuid *uuid,
           bool restarted)
{
  fp_meta_log_up (v->meta_log, server, uuid, restarted);
}

static void
up (struct fp_volume *v)
{
  fp_servers_counted (&v->servers); /* the last one may know now */
  fp_mirror_poke (&v->engine);
}

static void
closing (struct fp_volume *v, unsigned server)
{
  fp_meta_log_down (v->meta_log, server);
}

static void
down (struct fp_volume *v)
{
  fp_mirror_poke (&v->engine);
}

static void
counted (struct fp_volume *v)
{
  fp_servers_counted (&v->servers);
}

static void
placed (struct fp_volume *v, const uint32_t *fresh, unsigned nr)
{
  for (unsigned n = 0; n < nr; n++)
    fp_meta_log_exists (v->meta_log, fresh[n]);
  if (fp_copies_several (v->extents)) /* a copy to fill may be there */
    fp_mirror_poke (&v->engine);
}

static void
not_placed (struct fp_volume *v, uint64_t k, unsigned server, int err)
{
  fp_allocator_return (&v->allocator, k, server, err);
}

static void
kept (struct fp_volume *v, uint64_t k)
{
  fp_meta_log_exists (v->meta_log, k);
}

static void
answered (struct fp_volume *v)
{
  fp_meta_log_wake (v->meta_log);
}

/* ---- from a peer: what it needs ---- */

static void
touch_others (struct fp_volume *v, unsigned server, const _Atomic bool *stop)
{
  fp_lanes_touch_others (&v->engine, server, stop);
}

static bool
is_behind (struct fp_volume *v, uint64_t version)
{
  return fp_meta_log_is_behind (v->meta_log, version);
}

static int
confirm (struct fp_volume *v, unsigned server, const _Atomic bool *stop,
         uint64_t deadline_ns)
{
  return fp_meta_log_confirm (v->meta_log, server, stop, deadline_ns);
}

const struct fp_peer_ops fp_volume_peer_ops = {
  .coming_up = coming_up,
  .up = up,
  .closing = closing,
  .down = down,
  .counted = counted,
  .placed = placed,
  .not_placed = not_placed,
  .kept = kept,
  .answered = answered,
  .connect = fp_lane_connect,
  .disconnect = fp_lane_disconnect,
  .is_broken = fp_lane_broken,
  .is_revoked = fp_lane_revoked,
  .event_fd = fp_lane_event_fd,
  .event = fp_lane_event,
  .flush = fp_lane_flush_server,
  .touch_others = touch_others,
  .is_behind = is_behind,
  .confirm = confirm,
};

/* ---- from the metadata log ---- */

static void
dropped (struct fp_volume *v, uint64_t k)
{
  fp_mirror_dropped (&v->engine, k);
}

static uint64_t
differ (struct fp_volume *v, uint64_t i, unsigned c, unsigned believed)
{
  return fp_dirty_log_differ (&v->engine, i, c, believed);
}

const struct fp_meta_log_ops fp_volume_meta_log_ops = {
  .dropped = dropped,
  .differ = differ,
};
