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
fp_meta_log_up (struct fp_meta_log *log, unsigned server,
                const struct fp_uuid *uuid, bool restarted)
{
  if (log == NULL)
    return;
  FP_LOCK_SCOPE (&log->lock);
  log->up |= bit (server);
  if (restarted || !fp_uuid_eq (&log->uuid[server], uuid)) {
    log->restarted |= bit (server);
    /* A nil UUID means that there is no list yet: no server has extents. */
    if (!fp_uuid_is_nil (&log->uuid[server]))
      atomic_fetch_or (&log->peers->unlisted, bit (server));
    log->uuid[server] = *uuid;
  }
  log->rejoin_ns = 0;
  pthread_cond_broadcast (&log->cond);
}

bool
fp_meta_log_is_behind (struct fp_meta_log *log, uint64_t version)
{
  /* A frozen volume writes no list and releases nothing. */
  if (log == NULL || log->recorded->frozen)
    return false;
  FP_LOCK_SCOPE (&log->lock);
  if (version <=
      FP_MAX (log->p->newest, FP_MAX (log->recorded->version, log->outdone)))
    return false;
  log->newest = FP_MAX (log->newest, version);
  log->rejoin_ns = 0;
  pthread_cond_broadcast (&log->cond);
  return true;
}

int
fp_meta_log_confirm (struct fp_meta_log *log, unsigned server,
                     const _Atomic bool *stop, uint64_t deadline_ns)
{
  if (log == NULL || log->recorded->frozen)
    return 0; /* frozen: no list is written */
  FP_LOCK_SCOPE (&log->lock);
  log->confirm |= bit (server);
  log->rejoin_ns = 0;
  pthread_cond_broadcast (&log->cond);
  while (log->confirm & bit (server)) {
    if (fp_deadline_passed (deadline_ns) || log->stop || atomic_load (stop)) {
      log->confirm &= ~bit (server);
      return -ETIMEDOUT;
    }
    meta_log_wait_ms (log, 20);
  }
  return 0;
}

void
fp_meta_log_down (struct fp_meta_log *log, unsigned server)
{
  if (log == NULL)
    return;
  FP_LOCK_SCOPE (&log->lock);
  log->up &= ~bit (server);
}

void
fp_meta_log_status (struct fp_meta_log *log, struct fp_meta_log_status *s)
{
  *s = (struct fp_meta_log_status) { .version = 0 };
  if (log == NULL)
    return;
  FP_LOCK_SCOPE (&log->lock);
  s->version = log->recorded->version;
  s->current = log->current;
  s->frozen = log->recorded->frozen;
  s->unclean = atomic_load (&log->unclean);
  s->resync_bytes = atomic_load (&log->resync_bytes);
  s->resync_of = atomic_load (&log->resync_of);
}

void
fp_meta_log_expect (struct fp_meta_log *log, unsigned i,
                    const struct fp_uuid *server)
{
  if (log == NULL)
    return;
  FP_LOCK_SCOPE (&log->lock);
  log->uuid[i] = *server;
  log->restarted &= ~bit (i);
  atomic_fetch_and (&log->peers->unlisted,
                    ~bit (i)); /* the place stays closed */
  atomic_fetch_and (&log->recorded->unheard, ~bit (i));
}

int
fp_meta_log_join (struct fp_meta_log *log, unsigned i,
                  const struct fp_server_name *name, uint64_t deadline_ns)
{
  FP_LOCK_SCOPE (&log->lock);
  if (log->joining != 0)
    return -EBUSY;
  fp_addr_format (&name->addr, log->join.addr);
  memcpy (log->join.domain, name->domain, sizeof log->join.domain);
  log->joining = bit (i);
  pthread_cond_broadcast (&log->cond);
  while (log->joining & bit (i)) {
    if (fp_deadline_passed (deadline_ns) || log->stop)
      return -ETIMEDOUT;
    meta_log_wait_ms (log, 20);
  }
  return 0;
}

int
fp_meta_log_leave (struct fp_meta_log *log, unsigned i, uint64_t deadline_ns)
{
  FP_LOCK_SCOPE (&log->lock);
  log->leave |= bit (i);
  pthread_cond_broadcast (&log->cond);
  while (log->listed & bit (i)) {
    if (fp_deadline_passed (deadline_ns) || log->stop) {
      log->leave &= ~bit (i);
      /* A list without it may be somewhere; then one with it is due. */
      if (log->leaving & bit (i))
        atomic_fetch_or (&log->peers->unlisted, bit (i));
      return -ETIMEDOUT;
    }
    meta_log_wait_ms (log, 20);
  }
  return 0;
}

/* ---- the metadata log's thread ---- */

/* Return the servers that leave with the next list.  If no other server would
 * know everything, none leaves until a server that joins or came back is
 * current.
 */
static uint64_t
may_leave (const struct fp_meta_log *log)
{
  uint64_t leave = log->leave & log->listed;

  if (log->durable != 0 && (log->durable & log->anchor & ~leave) == 0)
    return 0;
  return leave;
}

bool
meta_log_asked (const struct fp_meta_log *log)
{
  return (log->joining & ~log->listed) != 0 || may_leave (log) != log->leaving;
}

void
meta_log_note_changes (struct fp_meta_log *log)
{
  uint64_t joins;

  FP_LOCK_SCOPE (&log->lock);
  if (!meta_log_asked (log))
    return;
  joins = log->joining & ~log->listed;
  if (joins != 0) {
    unsigned i = (unsigned) __builtin_ctzll (joins);

    log->join.server = log->uuid[i];
    log->list.members[i] = log->join;
    log->listed |= joins;
  }
  log->leaving = may_leave (log);
  /* The list that was attempted is another one. */
  log->attempted = 0;
  log->list_due = true;
}

/* Return the servers in the list that are listed under their present UUID. */
static uint64_t
who_is_listed (const struct fp_meta_log *log)
{
  uint64_t set = 0;

  for (unsigned i = 0; i < FP_MAX_SERVERS; i++)
    if ((log->listed & ~log->leaving & bit (i)) &&
        fp_uuid_eq (&log->list.members[i].server, &log->uuid[i]))
      set |= bit (i);
  return set;
}

void
meta_log_changed (struct fp_meta_log *log)
{
  uint64_t out = log->leaving, left = out & log->leave;

  atomic_fetch_and (&log->peers->unlisted, ~who_is_listed (log));
  log->members &= ~out;
  log->durable &= ~out;
  log->anchor &= ~out;
  log->listed &= ~left;
  log->leave &= ~left;
  log->leaving = 0;
  /* Servers that did not leave after all are in the next list. */
  if (out != left)
    log->list_due = true;
  for (unsigned i = 0; i < FP_MAX_SERVERS; i++)
    if (log->joining & log->listed & bit (i))
      (void) fp_peers_move (log->peers, i, FP_PLACE_JOINING, FP_PLACE_NEW);
  log->joining &= ~log->listed;
  pthread_cond_broadcast (&log->cond);
}
