/* SPDX-License-Identifier: BSD-3-Clause */
/* reclaim.c - a server whose host is short of memory asks for slabs back
 * (fp_ping_reply.wanted): so many pieces go to other servers, one after the
 * other, what was not used for the longest time first.
 *
 * The server cannot choose: it does not see one-sided I/O.  When a piece was
 * last used is known here to about a second (fp_piece.used).  How many are
 * missing is asked anew each second meanwhile, so that this ends when it is
 * enough, whoever gave it.  One that asks gets no new pieces, nor any that
 * others give back.  Where there is no room elsewhere nothing happens but that
 * the status says so: the server takes nothing by force.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "heal/migrate_int.h"

/* The piece of that server that can be moved now and was not used for the
 * longest time.
 */
static bool
coldest (struct fp_mover *m, unsigned server, uint64_t *out)
{
  struct fp_pieces *t = m->v->pieces;
  uint32_t now = atomic_load (&t->tick), most = 0;
  bool any = false;

  for (uint64_t i = 0; i < t->all; i++) {
    struct fp_piece *p = &t->p[i];
    uint32_t age;

    if (fp_piece_state (p) != FP_PIECE_READY ||
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
note (struct fp_mover *m, unsigned server, int r)
{
  struct give *g = &m->gives[server];

  FP_LOCK_SCOPE (&m->lock);
  g->gave += r == 0;
  snprintf (g->why, sizeof g->why, "%s", r == 0 ? "" : mover_reason (r));
}

/* Returns false if nothing can be done now. */
static bool
give (struct fp_mover *m, unsigned server)
{
  struct fp_pieces *t = m->v->pieces;
  uint64_t i = 0;
  int to, r;

  if (!coldest (m, server, &i))
    return false;
  to = mover_choose (m->v, i);
  r = to < 0 ? -ENOSPC : mover_move (m, i, (unsigned) to);
  note (m, server, r);
  if (r == 0)
    fp_link_gave (m->v->links[server]);
  else if (to >= 0) {
    /* Another one first, the next time. */
    atomic_store (&t->p[i].used, atomic_load (&t->tick));
    mover_pause (m, MOVER_FAILED_MS);
  }
  return to >= 0;
}

bool
mover_give_next (struct fp_mover *m)
{
  bool any = false;

  for (unsigned i = 0; i < m->v->nr_links; i++) {
    struct fp_link_room room;

    /* What is drained goes anyway. */
    if (!atomic_load (&m->stop) && fp_link_room (m->v->links[i], &room) &&
        room.wanted > 0 && !fp_volume_is_emptied (m->v, i))
      any |= give (m, i);
  }
  return any;
}

void
fp_mover_forget (struct fp_mover *m, unsigned server)
{
  FP_LOCK_SCOPE (&m->lock);
  memset (&m->gives[server], 0, sizeof m->gives[server]);
}

void
fp_mover_give_status (struct fp_mover *m, unsigned server,
                      struct fp_give_status *s)
{
  struct fp_link_room room;

  memset (s, 0, sizeof *s);
  if (!fp_link_room (m->v->links[server], &room))
    room.wanted = 0;
  FP_LOCK_SCOPE (&m->lock);
  s->wanted = room.wanted;
  s->gave = m->gives[server].gave;
  if (s->wanted > 0)
    memcpy (s->why, m->gives[server].why, sizeof s->why);
}
