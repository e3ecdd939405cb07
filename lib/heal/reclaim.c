/* SPDX-License-Identifier: BSD-3-Clause */
/* reclaim.c - give slabs back to a server whose host is short of memory, or
 * that is being drained.  The server asks for a number of slabs
 * (fp_ping_reply.wanted).  So many extents go to other servers, one at a time,
 * the least recently used first.
 *
 * The server cannot choose, as it does not see one-sided I/O.  The client
 * knows to about a second when an extent was last used (fp_extent.used).  Each
 * second it asks again how many slabs are missing, so that this ends when
 * enough came back, from any client.  A server that asks gets no new extents,
 * nor any that others give back.  If there is no room elsewhere, the status
 * and the next PING say so: the server takes nothing by force.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "heal/migrate_int.h"

/* Return true if another copy of entry k's extent gets memory, or is about to
 * be brought up to date.  Until then k may be the only one.
 */
static bool
fills_other (struct fp_extents *t, uint64_t k)
{
  uint64_t i = fp_extent_of (t, k);

  for (unsigned c = 0; fp_copies_several (t) && c < t->copies; c++) {
    uint64_t other = fp_copies_entry (t, i, c);
    enum fp_extent_state s = fp_extent_state (&t->p[other]);

    if (other != k && !(fp_copies_in_sync (t, i) >> c & 1) &&
        (s == FP_EXTENT_READY || s == FP_EXTENT_BUSY))
      return true;
  }
  return false;
}

/* Set *out to the least recently used extent of that server for which another
 * server has room, and *to to that one.  -EAGAIN: no extent can be moved now.
 * -ENOSPC: there is no room for any, and no copy elsewhere is about to be
 * brought up to date.
 */
static int
coldest (struct fp_migrate *m, unsigned server, uint64_t *out, unsigned *to)
{
  struct fp_extents *t = m->e->extents;
  uint32_t now = atomic_load (&t->tick), most = 0;
  uint64_t room[FP_MAX_SERVERS], have_room = 0;
  bool any = false, full = false, fills = false;
  int chosen;

  migrate_look_for_room (m->e, room);
  for (unsigned n = 0; n < FP_MAX_SERVERS; n++)
    have_room |= (uint64_t) (room[n] > 0) << n;
  for (uint64_t i = 0; i < t->all; i++) {
    struct fp_extent *p = &t->p[i];
    uint32_t age;

    if (fp_extent_state (p) != FP_EXTENT_READY ||
        atomic_load (&p->server) != server)
      continue;
    if (!(have_room & ~fp_allocator_others (m->e->allocator, i))) {
      full = true;
      fills = fills || fills_other (t, i);
      continue;
    }
    age = now - atomic_load (&p->used);
    if (!any || age > most) {
      any = true;
      most = age;
      *out = i;
    }
  }
  if (!any)
    return full && !fills ? -ENOSPC : -EAGAIN;
  chosen = fp_allocator_choose (m->e->allocator, *out, room);
  *to = (unsigned) chosen;
  return chosen < 0 ? -EAGAIN : 0;
}

static void
note (struct fp_migrate *m, unsigned server, int r)
{
  struct reclaim *g = &m->reclaims[server];

  FP_LOCK_SCOPE (&m->lock);
  g->reclaimed += r == 0;
  snprintf (g->why, sizeof g->why, "%s", r == 0 ? "" : migrate_reason (r));
}

/* Return false if nothing can be done now. */
static bool
reclaim (struct fp_migrate *m, unsigned server)
{
  struct fp_extents *t = m->e->extents;
  struct fp_peer *peer = m->e->peers->at[server];
  uint64_t i = 0;
  unsigned to = 0;
  int r = migrate_is_frozen (m) ? -EROFS : coldest (m, server, &i, &to);

  /* While a move is tried, the server waits for it. */
  fp_peer_cannot_move (peer, r == -ENOSPC || r == -EROFS);
  if (r < 0) {
    if (r != -EAGAIN)
      note (m, server, r);
    return false;
  }
  r = migrate_extent (m, i, to);
  note (m, server, r);
  if (r == 0)
    fp_peer_reclaimed (peer);
  else {
    /* Try another extent first, the next time. */
    atomic_store (&t->p[i].used, atomic_load (&t->tick));
    migrate_pause (m, MIGRATE_FAILED_MS);
  }
  return true;
}

bool
migrate_reclaim_next (struct fp_migrate *m)
{
  bool any = false;

  for (unsigned i = 0; i < m->e->peers->nr; i++) {
    struct fp_peer *peer = m->e->peers->at[i];
    struct fp_peer_room room;

    if (!fp_peer_room (peer, &room) || room.wanted == 0)
      fp_peer_cannot_move (peer, false);
    /* A drain (drain.c) moves everything anyway. */
    else if (!atomic_load (&m->stop) &&
             !fp_peers_must_be_empty (m->e->peers, i))
      any |= reclaim (m, i);
  }
  return any;
}

void
fp_migrate_forget (struct fp_migrate *m, unsigned server)
{
  FP_LOCK_SCOPE (&m->lock);
  memset (&m->reclaims[server], 0, sizeof m->reclaims[server]);
}

void
fp_migrate_reclaim_status (struct fp_migrate *m, unsigned server,
                           struct fp_reclaim_status *s)
{
  struct fp_peer_room room;

  memset (s, 0, sizeof *s);
  if (!fp_peer_room (m->e->peers->at[server], &room))
    room = (struct fp_peer_room) { .wanted = 0 };
  FP_LOCK_SCOPE (&m->lock);
  s->wanted = room.wanted;
  s->draining = room.draining;
  s->reclaimed = m->reclaims[server].reclaimed;
  if (s->wanted > 0)
    memcpy (s->why, m->reclaims[server].why, sizeof s->why);
}
