/* SPDX-License-Identifier: BSD-3-Clause */
/* drain.c - ask clients to move slabs to other servers, and answer DRAIN. */

#include <config.h>

#include <assert.h>
#include <errno.h>

#include "base/checked.h"
#include "base/log.h"
#include "memserver/session/ctl.h"
#include "memserver/session/drain.h"
#include "memserver/session/guard.h"
#include "memserver/session/session.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"

void
drain_move (struct sessions *all, enum drain to)
{
  static const bool legal[3][3] = {
    [DRAIN_NOT] = { [DRAIN_ASKED] = true, [DRAIN_LAST] = true },
    [DRAIN_ASKED] = { [DRAIN_NOT] = true, [DRAIN_LAST] = true },
  };
  struct session *s;

  assert (legal[all->drain][to]);
  if (all->drain == DRAIN_NOT) {
    /* Ignore earlier reports. */
    TAILQ_FOREACH (s, &all->list, entry)
    s->stuck = false;
  }
  all->drain = to;
  sessions_poke (all); /* requests that wait for a slab fail, or succeed */
}

static uint32_t
lent (const struct record *rec)
{
  uint32_t n = 0;

  for (uint32_t i = 0; i < rec->nr_slabs; i++)
    n += rec->slabs[i]->state == SLAB_LENT;
  return n;
}

struct drain_left
drain_look (const struct sessions *all)
{
  struct drain_left left = { .moving = 0 };
  const struct record *rec;

  TAILQ_FOREACH (rec, &all->records->list, entry)
  {
    const struct session *s = rec->holder;
    uint32_t n = lent (rec);

    if (!s || s->read_only || session_is_leaving (s))
      left.kept += n;
    else if (s->stuck)
      left.stuck += n;
    else
      left.moving += n;
  }
  return left;
}

uint32_t
drain_asked (const struct sessions *all)
{
  struct drain_left left;

  if (all->drain == DRAIN_NOT)
    return all->wanted;
  left = drain_look (all);
  return left.moving + left.stuck;
}

/* The slabs that this host needs are divided in proportion to the sessions'
 * slabs, with at least 1 each.  So a client that can move slabs elsewhere is
 * asked until the host has enough, whatever the others do.
 */
uint32_t
drain_share (const struct sessions *all, const struct session *asks)
{
  uint64_t wanted = all->wanted, slabs = 0, own;
  const struct session *s;

  if (!asks->record || asks->record->nr_slabs == 0)
    return 0;
  if (all->drain != DRAIN_NOT)
    return lent (asks->record);
  if (wanted == 0)
    return 0;
  TAILQ_FOREACH (s, &all->list, entry)
  if (s->record)
    slabs += s->record->nr_slabs;
  own = asks->record->nr_slabs;
  slabs = FP_MAX (slabs, own);
  return (uint32_t) ((wanted * own - 1) / slabs + 1);
}

/* Begin or cancel.  Each may come twice, from two people. */
static int
change (struct call *call, enum fp_drain_action action)
{
  static struct fp_log_limit limit;
  struct session *s = call->session;
  struct sessions *all = s->sessions;
  bool begins = action == FP_DRAIN_BEGIN;

  if (!guard_rights (s)->is_admin)
    return ctl_fail (call, -EPERM, "DRAIN needs admin = yes (--access)");
  if (all->stopping || (all->drain == DRAIN_LAST && !begins))
    return ctl_fail (call, -ESHUTDOWN, "this server is stopping");
  if (begins ? all->drain != DRAIN_NOT : all->drain == DRAIN_NOT)
    return 0;
  drain_move (all, begins ? DRAIN_ASKED : DRAIN_NOT);
  fp_log_limited (&limit, FP_LOG_INFO,
                  begins
                      ? "%s drains this server: it lends nothing, and clients "
                        "are asked to move their slabs to other servers"
                      : "%s cancels the drain: this server lends again",
                  s->name);
  return 0;
}

int
ctl_drain (struct call *call)
{
  const struct sessions *all = call->session->sessions;
  struct fp_drain_req q;
  struct fp_drain_reply p;
  struct drain_left left;
  int r = fp_dec_drain_req (&call->in, &q);

  if (r == 0 && q.action != FP_DRAIN_LOOK)
    r = change (call, (enum fp_drain_action) q.action);
  if (r < 0)
    return r;
  left = drain_look (all);
  p = (struct fp_drain_reply) { .drains = all->drain != DRAIN_NOT,
                                .moving = left.moving,
                                .stuck = left.stuck,
                                .kept = left.kept };
  fp_enc_drain_reply (&call->out, &p);
  return 0;
}
