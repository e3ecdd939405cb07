/* SPDX-License-Identifier: BSD-3-Clause */
/* meta_log_change.c - servers that come up and go down, and servers that join
 * or leave a named volume while it is in use.  They decide what the next list
 * says.
 *
 * A server that joins is first listed as not current, and gets extents only
 * after all current members have that list.  Then it is given the map, like a
 * member that comes back.  A server that leaves is told of the list without
 * it, if it is up.  That list is not complete without its answer; afterwards
 * it is no member.
 *
 * A server may come back with a new UUID and without its data, and another may
 * fail to leave.  Either may be in no list that counts, so that the next
 * client would not look there.  Until a list has it, it is unlisted
 * (fp_peers.unlisted) and gets no extents.
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
fp_meta_log_up (struct fp_meta_log *r, unsigned server,
                const struct fp_uuid *uuid, bool restarted)
{
  if (r == NULL)
    return;
  FP_LOCK_SCOPE (&r->lock);
  r->up |= bit (server);
  if (restarted || !fp_uuid_eq (&r->uuid[server], uuid)) {
    r->restarted |= bit (server);
    /* A nil UUID means that there is no list yet: no server has extents. */
    if (!fp_uuid_is_nil (&r->uuid[server]))
      atomic_fetch_or (&r->peers->unlisted, bit (server));
    r->uuid[server] = *uuid;
  }
  r->rejoin_ns = 0;
  pthread_cond_broadcast (&r->cond);
}

bool
fp_meta_log_is_behind (struct fp_meta_log *r, uint64_t version)
{
  /* A frozen volume writes no list and releases nothing. */
  if (r == NULL || r->recorded->frozen)
    return false;
  FP_LOCK_SCOPE (&r->lock);
  if (version <=
      FP_MAX (r->p->newest, FP_MAX (r->recorded->version, r->outdone)))
    return false;
  r->newest = FP_MAX (r->newest, version);
  r->rejoin_ns = 0;
  pthread_cond_broadcast (&r->cond);
  return true;
}

int
fp_meta_log_confirm (struct fp_meta_log *r, unsigned server,
                     const _Atomic bool *stop, uint64_t deadline_ns)
{
  if (r == NULL || r->recorded->frozen)
    return 0; /* frozen: no list is written */
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
fp_meta_log_down (struct fp_meta_log *r, unsigned server)
{
  if (r == NULL)
    return;
  FP_LOCK_SCOPE (&r->lock);
  r->up &= ~bit (server);
}

void
fp_meta_log_status (struct fp_meta_log *r, struct fp_meta_log_status *s)
{
  *s = (struct fp_meta_log_status) { .version = 0 };
  if (r == NULL)
    return;
  FP_LOCK_SCOPE (&r->lock);
  s->version = r->recorded->version;
  s->current = r->current;
  s->frozen = r->recorded->frozen;
  s->unclean = atomic_load (&r->unclean);
  s->resync_bytes = atomic_load (&r->resync_bytes);
  s->resync_of = atomic_load (&r->resync_of);
}

void
fp_meta_log_expect (struct fp_meta_log *r, unsigned i,
                    const struct fp_uuid *server)
{
  if (r == NULL)
    return;
  FP_LOCK_SCOPE (&r->lock);
  r->uuid[i] = *server;
  r->restarted &= ~bit (i);
  atomic_fetch_and (&r->peers->unlisted,
                    ~bit (i)); /* the place stays closed */
  atomic_fetch_and (&r->recorded->unheard, ~bit (i));
}

int
fp_meta_log_join (struct fp_meta_log *r, unsigned i,
                  const struct fp_server_name *name, uint64_t deadline_ns)
{
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
fp_meta_log_leave (struct fp_meta_log *r, unsigned i, uint64_t deadline_ns)
{
  FP_LOCK_SCOPE (&r->lock);
  r->leave |= bit (i);
  pthread_cond_broadcast (&r->cond);
  while (r->listed & bit (i)) {
    if (fp_deadline_passed (deadline_ns) || r->stop) {
      r->leave &= ~bit (i);
      /* A list without it may be somewhere; then one with it is due. */
      if (r->leaving & bit (i))
        atomic_fetch_or (&r->peers->unlisted, bit (i));
      return -ETIMEDOUT;
    }
    meta_log_wait_ms (r, 20);
  }
  return 0;
}

/* ---- the metadata log's thread ---- */

/* Return the servers that leave with the next list.  If no other server would
 * know everything, none leaves until a server that joins or came back is
 * current.
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
  /* The list that was attempted is another one. */
  r->attempted = 0;
  r->list_due = true;
}

/* Return the servers in the list that are listed under their present UUID. */
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

  atomic_fetch_and (&r->peers->unlisted, ~who_is_listed (r));
  r->members &= ~out;
  r->durable &= ~out;
  r->anchor &= ~out;
  r->listed &= ~left;
  r->leave &= ~left;
  r->leaving = 0;
  /* Servers that did not leave after all are in the next list. */
  if (out != left)
    r->list_due = true;
  for (unsigned i = 0; i < FP_MAX_SERVERS; i++)
    if (r->joining & r->listed & bit (i))
      (void) fp_peers_move (r->peers, i, FP_PLACE_JOINING, FP_PLACE_NEW);
  r->joining &= ~r->listed;
  pthread_cond_broadcast (&r->cond);
}
