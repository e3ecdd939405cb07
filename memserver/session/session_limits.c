/* SPDX-License-Identifier: BSD-3-Clause */
/* session_limits.c - end sessions: all of them when the server stops, and
 * connections without HELLO when there are too many or descriptors have run
 * out.
 */

#include <config.h>

#include "memserver/session/session.h"
#include "memserver/session/sessions.h"

/* ---- the server stops ---- */

void
sessions_gone (struct sessions *all)
{
  sessions_poke (all); /* another client may wait for its volume */
  if (all->stopped && all->nr == 0)
    all->stopped (all->stopped_ctx);
}

void
sessions_stop (struct sessions *all, void (*stopped) (void *ctx), void *ctx)
{
  struct session *s, *next;

  all->stopping = true;
  while (!TAILQ_EMPTY (&all->fresh))
    session_end (TAILQ_FIRST (&all->fresh), "the server stops");
  for (s = TAILQ_FIRST (&all->list); s; s = next) {
    next = TAILQ_NEXT (s, entry);
    session_end (s, "the server stops");
  }
  all->stopped = stopped;
  all->stopped_ctx = ctx;
  if (all->nr == 0)
    stopped (ctx);
}

/* ---- connections without HELLO ---- */

/* Return the oldest fresh connection of this origin, if possible one without a
 * waiting request.  Set *nr to the number of its fresh
 * connections.
 */
static struct session *
oldest_fresh (const struct sessions *all, const struct origin *origin,
              unsigned *nr)
{
  struct session *s, *oldest = NULL;

  *nr = 0;
  TAILQ_FOREACH (s, &all->fresh, entry)
  {
    if (!origin_eq (&s->origin, origin))
      continue;
    ++*nr;
    if (!oldest || (oldest->waiting && !s->waiting))
      oldest = s;
  }
  return oldest;
}

/* Drop a connection of the origin that has the most.  This compares all pairs,
 * but it runs only when a limit is reached.
 */
bool
sessions_shed (struct sessions *all)
{
  struct session *s, *oldest, *victim = NULL;
  unsigned most = 0, nr;

  TAILQ_FOREACH (s, &all->fresh, entry)
  {
    oldest = oldest_fresh (all, &s->origin, &nr);
    if (nr > most) {
      most = nr;
      victim = oldest;
    }
  }
  if (victim)
    session_end (victim, "too many newer connections");
  return victim != NULL;
}

void
sessions_make_room (struct sessions *all, const struct origin *origin)
{
  unsigned nr;
  struct session *oldest = oldest_fresh (all, origin, &nr);

  if (nr >= MAX_FRESH_ORIGIN)
    session_end (oldest, "too many newer connections from its address");
  else if (all->nr_fresh >= MAX_FRESH)
    (void) sessions_shed (all);
}
