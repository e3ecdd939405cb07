/* SPDX-License-Identifier: BSD-3-Clause */
/* sessions.c - all sessions of this server. */

#include <config.h>

#include <stddef.h>

#include "base/checked.h"
#include "base/clock.h"
#include "memserver/session/session.h"
#include "memserver/session/sessions.h"
#include "memserver/store/record.h"

/* ---- waiting requests ---- */

static void
on_poke (struct note *note)
{
  struct sessions *all =
      (struct sessions *) ((char *) note - offsetof (struct sessions, poke));
  uint64_t until = fp_deadline_in_ms (TURN_MS);
  struct session *s;

  /* A session that has to wait again goes to the end: one round is enough. */
  if (atomic_exchange (&all->poked, false))
    all->poke_left = all->nr_waiting;
  for (; all->poke_left > 0; all->poke_left--) {
    s = TAILQ_FIRST (&all->waiting);
    if (!s)
      break;
    if (fp_deadline_passed (until)) {
      /* Other events have their turn before the rest of the round. */
      mailbox_post (all->mailbox, &all->poke);
      return;
    }
    s->waiting = false;
    TAILQ_REMOVE (&all->waiting, s, wait_entry);
    all->nr_waiting--;
    all->dispatch (s);
  }
  all->poke_left = 0;
}

void
sessions_poke (struct sessions *all)
{
  atomic_store (&all->poked, true);
  mailbox_post (all->mailbox, &all->poke);
}

/* ---- lists ---- */

void
sessions_init (struct sessions *all, void (*dispatch) (struct session *s))
{
  all->dispatch = dispatch;
  all->poke.run = on_poke;
  TAILQ_INIT (&all->fresh);
  TAILQ_INIT (&all->list);
  TAILQ_INIT (&all->waiting);
}

struct session *
sessions_find (const struct sessions *all, uint64_t id)
{
  struct session *s;

  TAILQ_FOREACH (s, &all->list, entry)
  if (s->id == id)
    return s;
  return NULL;
}

unsigned
sessions_of_origin (const struct sessions *all, const struct origin *origin,
                    unsigned *nr_data)
{
  const struct session *other;
  unsigned n = 0;

  *nr_data = 0;
  TAILQ_FOREACH (other, &all->list, entry)
  {
    if (!origin_eq (&other->origin, origin))
      continue;
    n++;
    *nr_data += other->nr_data;
  }
  return n;
}
