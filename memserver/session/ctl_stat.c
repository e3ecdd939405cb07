/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl_stat.c - STAT: what this server lends, and to whom. */

#include <config.h>

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "memserver/session/ctl.h"
#include "memserver/session/drain.h"
#include "memserver/session/guard.h"
#include "memserver/session/session.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"

/* Return the next entry to fill in, or NULL if there is no room. */
static struct fp_stat_session *
next (struct fp_stat_reply *p)
{
  p->nr_all++;
  return p->nr_sessions < FP_MAX_SESSIONS_LISTED
             ? &p->sessions[p->nr_sessions++]
             : NULL;
}

/* Return true if session asks may know of s, which has no volume. */
static bool
may_know (const struct session *asks, const struct session *s)
{
  return guard_rights (asks)->is_admin || who_eq (&asks->who, &s->who);
}

/* List clients that have memory first, then those that are only connected. */
static void
list_sessions (const struct session *asks, struct fp_stat_reply *p)
{
  const struct sessions *all = asks->sessions;
  const struct record *r;
  const struct session *s;
  struct fp_stat_session *e;

  TAILQ_FOREACH (r, &all->records->list, entry)
  {
    if (!guard_lists (asks, r) || (e = next (p)) == NULL)
      continue;
    snprintf (e->client, sizeof e->client, "%s", r->client);
    record_title (r, e->volume);
    e->transport = r->transport;
    e->slabs = r->nr_slabs;
    e->since = r->since;
    e->attached = r->holder != NULL;
  }
  TAILQ_FOREACH (s, &all->list, entry)
  {
    if (s->record || s == asks || !may_know (asks, s) ||
        (e = next (p)) == NULL)
      continue;
    snprintf (e->client, sizeof e->client, "%s", s->name);
    e->since = s->since;
    e->attached = true;
  }
}

int
ctl_stat (struct call *call)
{
  const struct sessions *all = call->session->sessions;
  struct pool_counts counts = pool_count (all->pool);
  struct fp_stat_reply p = {
    .server = all->uuid,
    .slab_size = pool_slab_size (all->pool),
    .total = counts.total,
    .free = counts.in[SLAB_FREE],
    .lent = counts.in[SLAB_LENT],
    .scrubbing = counts.in[SLAB_SCRUBBING],
    .unpopulated = counts.in[SLAB_UNPOPULATED],
    .uptime_s = (fp_now_ns () - all->start_ns) / FP_NS_PER_S,
    .stopping = all->stopping,
    .pressed = pool_is_pressed (all->pool),
    .insecure = all->insecure,
    .wanted = drain_asked (all),
    .returned = counts.given,
  };

  if (!fp_reader_done (&call->in))
    return -EPROTO;
  snprintf (p.name, sizeof p.name, "%s", all->name);
  list_sessions (call->session, &p);
  fp_enc_stat_reply (&call->out, &p);
  return 0;
}
