/* SPDX-License-Identifier: BSD-3-Clause */
/* reclaim.c - give slabs back to a server whose host is short of memory.  The
 * server asks for a number of slabs (fp_ping_reply.wanted).  So many extents
 * go to other servers, one at a time, the least recently used first.
 *
 * The server cannot choose, as it does not see one-sided I/O.  The client
 * knows to about a second when an extent was last used (fp_extent.used).  Each
 * second it asks again how many slabs are missing, so that this ends when
 * enough came back, from any client.  A server that asks gets no new extents,
 * nor any that others give back.  If there is no room elsewhere, only the
 * status says so: the server takes nothing by force.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "heal/migrate_int.h"

/* Find the least recently used extent of that server that can be moved now. */
static bool
coldest (struct fp_migrate *m, unsigned server, uint64_t *out)
{
  struct fp_extents *t = m->e->extents;
  uint32_t now = atomic_load (&t->tick), most = 0;
  bool any = false;

  for (uint64_t i = 0; i < t->all; i++) {
    struct fp_extent *p = &t->p[i];
    uint32_t age;

    if (fp_extent_state (p) != FP_EXTENT_READY ||
        atomic_load (&p->server) != server)
      continue;
    age = now - atomic_load (&p->used);
    if (!any || age > most) {
      any = true;
      most = age;
      *out = i;
    }
  }
  return any;
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
  uint64_t i = 0;
  int to, r;

  if (!coldest (m, server, &i))
    return false;
  to = migrate_choose (m->e, i);
  r = to < 0 ? -ENOSPC : migrate_extent (m, i, (unsigned) to);
  note (m, server, r);
  if (r == 0)
    fp_peer_reclaimed (m->e->peers->at[server]);
  else if (to >= 0) {
    /* Try another extent first, the next time. */
    atomic_store (&t->p[i].used, atomic_load (&t->tick));
    migrate_pause (m, MIGRATE_FAILED_MS);
  }
  return to >= 0;
}

bool
migrate_reclaim_next (struct fp_migrate *m)
{
  bool any = false;

  for (unsigned i = 0; i < m->e->peers->nr; i++) {
    struct fp_peer_room room;

    /* A drain moves everything anyway. */
    if (!atomic_load (&m->stop) && fp_peer_room (m->e->peers->at[i], &room) &&
        room.wanted > 0 && !fp_peers_must_be_empty (m->e->peers, i))
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
    room.wanted = 0;
  FP_LOCK_SCOPE (&m->lock);
  s->wanted = room.wanted;
  s->reclaimed = m->reclaims[server].reclaimed;
  if (s->wanted > 0)
    memcpy (s->why, m->reclaims[server].why, sizeof s->why);
}
