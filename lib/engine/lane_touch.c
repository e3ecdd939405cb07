/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_touch.c - read one byte of a server over a lane, to learn about its
 * connection, or to have earlier writes placed (lane_flush.c).
 *
 * Threads:  a peer's.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "engine/lane_int.h"

struct touch {
  struct fp_io io;
  unsigned char byte;
  struct fp_lane *lane;
  unsigned server;
  struct fp_extent *extent;
  const _Atomic bool *stop; /* NULL: do not end early */
};

/* Start to read one byte at linear address `at`, in the entry there, or in
 * target, which is shut.
 */
static void
touch_begin (struct touch *b, struct fp_lane *lane, unsigned server,
             uint64_t at, struct fp_extent *target)
{
  struct fp_extents *t = lane->e->extents;

  b->lane = lane;
  b->server = server;
  b->extent = target != NULL ? target : &t->p[at >> t->shift];
  b->io = (struct fp_io) {
    .kind = FP_IO_READ,
    .length = 1,
    .offset = at,
    .buf = &b->byte,
    .forced = true,
    .linear = true,
    .hasty = target == NULL,
    .migrate = target != NULL,
    .owner = target != NULL,
    .target = target,
  };
  fp_lane_sync_begin (lane, &b->io);
}

/* Return true if the read may wait longer.  It waits for completions only,
 * never for another peer's thread to connect a queue pair or to open an
 * extent.
 */
static bool
may_wait (const struct touch *b)
{
  if (fp_lane_broken (b->lane, b->server))
    return false;
  /* The owner's extent stays shut, and its server is the peer's own. */
  return b->io.owner || (fp_lane_has_queue_pair (b->lane, b->server) &&
                         fp_extent_state (b->extent) == FP_EXTENT_READY &&
                         !atomic_load (b->stop));
}

static int
touch_end (struct touch *b)
{
  struct fp_notifier *changes = &b->lane->e->extents->changes;

  for (;;) {
    uint32_t seen = fp_notifier_count (changes);

    if (!may_wait (b)) {
      fp_lane_sync_cancel (b->lane, &b->io);
      (void) fp_lane_sync_await (b->lane, &b->io, NULL, FP_NEVER);
      return b->io.status;
    }
    if (fp_lane_sync_await (b->lane, &b->io, &seen, FP_NEVER))
      return b->io.status;
  }
}

void
fp_lanes_touch_others (struct fp_engine *e, unsigned server,
                       const _Atomic bool *stop)
{
  unsigned nr = 0, servers = atomic_load (&e->peers->nr);
  struct touch *b = calloc ((size_t) e->nr_lanes * servers, sizeof *b);

  if (b == NULL)
    return; /* the next attempt tries again */
  for (unsigned i = 0; i < e->nr_lanes; i++)
    for (unsigned s = 0; s < servers; s++) {
      uint64_t at = 0;

      if (s == server || !fp_lane_has_queue_pair (e->lanes[i], s) ||
          !lane_place_to_read (e, s, &at))
        continue;
      b[nr].stop = stop;
      touch_begin (&b[nr++], e->lanes[i], s, at, NULL);
    }
  for (unsigned n = 0; n < nr; n++)
    (void) touch_end (&b[n]);
  free (b);
}

int
fp_lane_flush_server (struct fp_lane *lane, unsigned server,
                      struct fp_extent *p)
{
  struct fp_extents *t = lane->e->extents;
  uint64_t at, mark = fp_lane_unflushed (lane, server, &at);
  struct touch b = { .stop = NULL };

  if (mark == 0)
    return 0;
  touch_begin (&b, lane, server, (uint64_t) (p - t->p) << t->shift, p);
  return touch_end (&b) == 0 && fp_lane_flushed (lane, server, mark)
             ? 1
             : -ECONNRESET;
}
