/* SPDX-License-Identifier: BSD-3-Clause */
/* meta_log_change.c - which servers are there, and how some join a volume with
 * a name while it is used, or leave it: what the next list says.
 *
 * One that joins is in a list that all current members have, not current,
 * before it gets any extent; then it is given the map, as one that comes back.
 * One that leaves hears of the list without it, if it is there: it counts
 * among those that have to have it, and not any more when they do.
 *
 * One that comes back as another one (a new UUID, and nothing of what it had),
 * and one that did not leave after all, may be in no list that counts: who
 * attaches the volume next would not look there.  Until there is such a list
 * they are unlisted (fp_volume.unlisted), and get no extents.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "meta/meta_log_int.h"

static uint64_t
bit (unsigned server)
{
  return UINT64_C (1) << server;
}

void
fp_meta_log_up (struct fp_volume *v, unsigned server,
                const struct fp_uuid *uuid, bool anew)
{
  struct fp_meta_log *r = v->meta_log;

  if (r == NULL)
    return;
  FP_LOCK_SCOPE (&r->lock);
  r->up |= bit (server);
  if (anew || !fp_uuid_eq (&r->uuid[server], uuid)) {
    r->restarted |= bit (server);
    /* Before the first list nothing is given to anybody. */
    if (!fp_uuid_is_nil (&r->uuid[server]))
      atomic_fetch_or (&v->unlisted, bit (server));
    r->uuid[server] = *uuid;
  }
  r->rejoin_ns = 0;
  pthread_cond_broadcast (&r->cond);
}

bool
fp_meta_log_is_behind (struct fp_volume *v, uint64_t version)
{
  struct fp_meta_log *r = v->meta_log;

  /* If it is frozen no list is written, and nothing is released. */
  if (r == NULL || r->frozen)
    return false;
  FP_LOCK_SCOPE (&r->lock);
  if (version <= FP_MAX (v->p.newest, FP_MAX (r->version, r->outdone)))
    return false;
  r->newest = FP_MAX (r->newest, version);
  r->rejoin_ns = 0;
  pthread_cond_broadcast (&r->cond);
  return true;
}

int
fp_meta_log_confirm (struct fp_volume *v, unsigned server,
                     const _Atomic bool *stop, uint64_t deadline_ns)
{
  struct fp_meta_log *r = v->meta_log;

  if (r == NULL || r->frozen)
    return 0; /* likewise */
  FP_LOCK_SCOPE (&r->lock);
  r->confirm |= bit (server);
  r->rejoin_ns = 0;
  pthread_cond_broadcast (&r->cond);
  while (r->confirm & bit (server)) {
    if (fp_deadline_passed (deadline_ns) || r->stop || atomic_load (stop)) {
      r->confirm &= ~bit (server);
      return -ETIMEDOUT;
    }
    meta_log_wait_ms (r, 20);
  }
  return 0;
}

void
fp_meta_log_down (struct fp_volume *v, unsigned server)
{
  struct fp_meta_log *r = v->meta_log;

  if (r == NULL)
    return;
  FP_LOCK_SCOPE (&r->lock);
  r->up &= ~bit (server);
}

void
fp_meta_log_status (struct fp_volume *v, struct fp_meta_log_status *s)
{
  struct fp_meta_log *r = v->meta_log;

  *s = (struct fp_meta_log_status) { .version = 0 };
  if (r == NULL)
    return;
  FP_LOCK_SCOPE (&r->lock);
  s->version = r->version;
  s->current = r->current;
  s->frozen = r->frozen;
}

void
fp_meta_log_expect (struct fp_volume *v, unsigned i,
                    const struct fp_uuid *server)
{
  struct fp_meta_log *r = v->meta_log;

  if (r == NULL)
    return;
  FP_LOCK_SCOPE (&r->lock);
  r->uuid[i] = *server;
  r->restarted &= ~bit (i);
  atomic_fetch_and (&v->unlisted, ~bit (i)); /* it is closed until it is */
  atomic_fetch_and (&r->unheard, ~bit (i));
}

int
fp_meta_log_join (struct fp_volume *v, unsigned i,
                  const struct fp_server_name *name, uint64_t deadline_ns)
{
  struct fp_meta_log *r = v->meta_log;

  FP_LOCK_SCOPE (&r->lock);
  if (r->joining != 0)
    return -EBUSY;
  fp_addr_format (&name->addr, r->join.addr);
  memcpy (r->join.domain, name->domain, sizeof r->join.domain);
  r->joining = bit (i);
  pthread_cond_broadcast (&r->cond);
  while (r->joining & bit (i)) {
    if (fp_deadline_passed (deadline_ns) || r->stop)
      return -ETIMEDOUT;
    meta_log_wait_ms (r, 20);
  }
  return 0;
}

int
fp_meta_log_leave (struct fp_volume *v, unsigned i, uint64_t deadline_ns)
{
  struct fp_meta_log *r = v->meta_log;

  FP_LOCK_SCOPE (&r->lock);
  r->leave |= bit (i);
  pthread_cond_broadcast (&r->cond);
  while (r->listed & bit (i)) {
    if (fp_deadline_passed (deadline_ns) || r->stop) {
      r->leave &= ~bit (i);
      /* There may be a list without it; one with it is due then. */
      if (r->leaving & bit (i))
        atomic_fetch_or (&v->unlisted, bit (i));
      return -ETIMEDOUT;
    }
    meta_log_wait_ms (r, 20);
  }
  return 0;
}

/* ---- the metadata log's thread ---- */

/* Who leaves with the next list.  The last one that has all stays until
 * another one, that joins or came back, is current too.
 */
static uint64_t
may_leave (const struct fp_meta_log *r)
{
  uint64_t leave = r->leave & r->listed;

  if (r->durable != 0 && (r->durable & r->anchor & ~leave) == 0)
    return 0;
  return leave;
}

bool
meta_log_asked (const struct fp_meta_log *r)
{
  return (r->joining & ~r->listed) != 0 || may_leave (r) != r->leaving;
}

void
meta_log_note_changes (struct fp_meta_log *r)
{
  uint64_t joins;

  FP_LOCK_SCOPE (&r->lock);
  if (!meta_log_asked (r))
    return;
  joins = r->joining & ~r->listed;
  if (joins != 0) {
    unsigned i = (unsigned) __builtin_ctzll (joins);

    r->join.server = r->uuid[i];
    r->list.members[i] = r->join;
    r->listed |= joins;
  }
  r->leaving = may_leave (r);
  /* What was attempted was another list. */
  r->attempted = 0;
  r->list_due = true;
}

/* Who is in the list, as who it is now. */
static uint64_t
who_is_listed (const struct fp_meta_log *r)
{
  uint64_t set = 0;

  for (unsigned i = 0; i < FP_MAX_SERVERS; i++)
    if ((r->listed & ~r->leaving & bit (i)) &&
        fp_uuid_eq (&r->list.members[i].server, &r->uuid[i]))
      set |= bit (i);
  return set;
}

void
meta_log_changed (struct fp_meta_log *r)
{
  uint64_t out = r->leaving, left = out & r->leave;

  atomic_fetch_and (&r->v->unlisted, ~who_is_listed (r));
  r->members &= ~out;
  r->durable &= ~out;
  r->anchor &= ~out;
  r->listed &= ~left;
  r->leave &= ~left;
  r->leaving = 0;
  /* Who did not leave after all is in the next one. */
  if (out != left)
    r->list_due = true;
  if (r->joining & r->listed) {
    atomic_fetch_and (&r->v->closed, ~(r->joining & r->listed));
    r->joining &= ~r->listed;
  }
  pthread_cond_broadcast (&r->cond);
}
