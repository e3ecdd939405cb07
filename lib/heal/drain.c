/* SPDX-License-Identifier: BSD-3-Clause */
/* drain.c - move all that a server holds to the others, one extent at a time
 * (migrate.h).
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/size.h"
#include "heal/migrate_int.h"

/* ---- the migration thread ---- */

static bool
is_moving (struct fp_migrate *m, unsigned server)
{
  struct fp_drain *d = &m->drains[server];
  struct fp_peer_room room;

  (void) fp_peer_room (m->e->peers->at[server], &room);
  FP_LOCK_SCOPE (&m->lock);
  /* The server was chosen for an extent just before it was drained. */
  if (d->state == FP_DRAIN_DONE && room.held > 0)
    d->state = FP_DRAIN_MOVING;
  return d->state == FP_DRAIN_MOVING;
}

static void
note (struct fp_migrate *m, unsigned server, const char *why)
{
  FP_LOCK_SCOPE (&m->lock);
  snprintf (m->drains[server].why, sizeof m->drains[server].why, "%s", why);
}

uint64_t
migrate_look_for_room (struct fp_engine *e, uint64_t room[FP_MAX_SERVERS])
{
  uint64_t sum = 0;

  /* peers->nr may be higher at the next look. */
  memset (room, 0, FP_MAX_SERVERS * sizeof *room);
  for (unsigned i = 0; i < e->peers->nr; i++) {
    struct fp_peer_room l;

    room[i] = 0;
    if (fp_peers_gets_none (e->peers, i) ||
        !fp_peer_room (e->peers->at[i], &l) || l.mute || l.wanted > 0)
      continue;
    FP_LOCK_SCOPE (&e->extents->lock);
    l.free += e->peers->claims[i];
    room[i] = l.free - FP_MIN (l.free, (uint64_t) l.extents);
    sum += room[i];
  }
  return sum;
}

/* Find the next extent on that server that can be moved now. */
static bool
next_extent (struct fp_migrate *m, unsigned server, uint64_t *out)
{
  struct fp_extents *t = m->e->extents;

  for (uint64_t n = 0; n < t->all; n++) {
    uint64_t i = (m->at + n) % t->all;
    struct fp_extent *p = &t->p[i];

    if (fp_extent_state (p) == FP_EXTENT_READY &&
        atomic_load (&p->server) == server) {
      m->at = (i + 1) % t->all;
      *out = i;
      return true;
    }
  }
  return false;
}

const char *
migrate_reason (int r)
{
  switch (r) {
  case -EAGAIN:
  case -ECANCELED:
    return "";
  case -EIO:
    return "an extent could not be read";
  case -ENOTCONN:
    return "the connection to the target server was lost";
  case -ENOSPC:
  case -ENOMEM:
    return "the other servers have no room now";
  case -EROFS:
    return "the volume is frozen or read-only";
  default:
    return strerror (-r);
  }
}

/* Note how the drain stands: nothing is left, or nothing can be moved now. */
static void
look_after (struct fp_migrate *m, unsigned server)
{
  struct fp_drain *d = &m->drains[server];
  struct fp_peer_room room;
  bool up = fp_peer_room (m->e->peers->at[server], &room);

  FP_LOCK_SCOPE (&m->lock);
  if (d->state != FP_DRAIN_MOVING)
    return;
  d->why[0] = '\0';
  if (room.held == 0 && room.extents == 0) {
    d->state = FP_DRAIN_DONE;
    d->took_ns = fp_now_ns () - d->since_ns;
  }
  else if (!up)
    snprintf (d->why, sizeof d->why, "the server is down");
}

/* Return false if there was nothing to do. */
static bool
drain (struct fp_migrate *m, unsigned server)
{
  uint64_t i, room[FP_MAX_SERVERS];
  int to, r;

  if (!next_extent (m, server, &i)) {
    look_after (m, server);
    return false;
  }
  migrate_look_for_room (m->e, room);
  to = fp_allocator_choose (m->e->allocator, i, room);
  fp_peer_cannot_move (m->e->peers->at[server], to < 0);
  if (to < 0)
    r = -ENOSPC;
  else {
    atomic_store (&m->from, (int) server);
    r = migrate_extent (m, i, (unsigned) to);
    atomic_store (&m->from, -1);
  }
  note (m, server, r == 0 ? "" : migrate_reason (r));
  if (r < 0)
    migrate_pause (m, MIGRATE_FAILED_MS);
  return true;
}

bool
migrate_drain_next (struct fp_migrate *m)
{
  bool any = false;

  for (unsigned i = 0; i < m->e->peers->nr; i++) {
    if (!atomic_load (&m->stop) && is_moving (m, i))
      any |= drain (m, i);
  }
  return any;
}

/* ---- for other threads ---- */

/* Return the number of extents to move from drained servers.  Call with the
 * lock held.
 */
static uint64_t
to_move (struct fp_migrate *m)
{
  uint64_t n = 0;

  for (unsigned i = 0; i < m->e->peers->nr; i++) {
    struct fp_peer_room room;

    if (m->drains[i].state != FP_DRAIN_MOVING)
      continue;
    (void) fp_peer_room (m->e->peers->at[i], &room);
    n += room.held;
  }
  return n;
}

/* Return 0 if server i, which is marked as drained already, can be drained.
 * Else set error and return -errno.
 */
static int
check_others (struct fp_migrate *m, unsigned i, struct fp_error *error)
{
  struct fp_engine *e = m->e;
  uint64_t room[FP_MAX_SERVERS], has, need = to_move (m);
  char addr[FP_ADDR_MAX + 1], missing[FP_SIZE_STR_MAX];
  unsigned left;

  fp_addr_format (&e->p->servers[i], addr);
  left = (unsigned) __builtin_popcountll (atomic_load (&e->peers->open) &
                                          ~atomic_load (&e->peers->drained) &
                                          fp_peers_all (e->peers));
  if (left > 0 && left < e->extents->copies)
    return fp_fail (
        error, -EBUSY,
        "%s: each extent has %u copies on as many servers, but only %u "
        "servers that are not drained would be left: add a server",
        addr, e->extents->copies, left);
  if (left == 0)
    return fp_fail (error, -EBUSY,
                    "%s is the last server of this volume that is not drained",
                    addr);
  has = migrate_look_for_room (e, room);
  if (has >= need)
    return 0;
  fp_format_size ((need - has) * e->p->slab_size, missing);
  return fp_fail (error, -ENOSPC,
                  "%s: %" PRIu64
                  " extents have to be moved, but the other servers"
                  " have room for %" PRIu64 ": %s are missing",
                  addr, need, has, missing);
}

int
fp_migrate_drain (struct fp_migrate *m, unsigned i, uint64_t rate,
                  struct fp_error *error)
{
  struct fp_engine *e = m->e;
  struct fp_drain *d = &m->drains[i];
  struct fp_peer_room room;
  int r;

  error->text[0] = '\0';
  if (e->p->read_only)
    return fp_fail (error, -EROFS, FP_READ_ONLY_WHY "extents cannot be moved");
  if (migrate_is_frozen (m))
    return fp_fail (
        error, -EROFS,
        "frozen: too few of the volume's servers were up when it was"
        " attached: extents cannot be moved: attach it again when more"
        " are up");
  {
    FP_LOCK_SCOPE (&m->lock);
    if (d->state != FP_DRAIN_NONE)
      return 0;
    /* First stop giving it extents, then count what it has. */
    atomic_fetch_or (&e->peers->drained, UINT64_C (1) << i);
    (void) fp_peer_room (e->peers->at[i], &room);
    d->state = FP_DRAIN_MOVING;
    r = check_others (m, i, error);
    if (r < 0) {
      d->state = FP_DRAIN_NONE;
      atomic_fetch_and (&e->peers->drained, ~(UINT64_C (1) << i));
      return r;
    }
    d->extents = room.held + room.extents;
    d->since_ns = fp_now_ns ();
    d->took_ns = 0;
    d->why[0] = '\0';
    atomic_store (&d->bytes, 0);
    atomic_store (&m->rate, rate != 0 ? rate : e->p->move_rate);
    pthread_cond_broadcast (&m->cond);
  }
  fp_peer_poke (e->peers->at[i]); /* grants ahead of need go back */
  return 0;
}

int
fp_migrate_drain_cancel (struct fp_migrate *m, unsigned i,
                         struct fp_error *error)
{
  struct fp_engine *e = m->e;
  char addr[FP_ADDR_MAX + 1];

  error->text[0] = '\0';
  {
    FP_LOCK_SCOPE (&m->lock);
    if (m->drains[i].state == FP_DRAIN_NONE) {
      fp_addr_format (&e->p->servers[i], addr);
      return fp_fail (error, -ENOENT, "%s is not being drained", addr);
    }
    m->drains[i].state = FP_DRAIN_NONE;
    atomic_fetch_and (&e->peers->drained, ~(UINT64_C (1) << i));
    pthread_cond_broadcast (&m->cond);
  }
  fp_peer_poke (e->peers->at[i]);
  return 0;
}

void
fp_migrate_status (struct fp_migrate *m, unsigned server,
                   struct fp_drain_status *s)
{
  struct fp_drain *d = &m->drains[server];
  struct fp_peer_room room;
  uint64_t done;

  (void) fp_peer_room (m->e->peers->at[server], &room);
  memset (s, 0, sizeof *s);
  FP_LOCK_SCOPE (&m->lock);
  s->state = d->state;
  if (d->state == FP_DRAIN_NONE)
    return;
  s->extents = d->extents;
  s->left = d->state == FP_DRAIN_DONE ? 0 : room.held + room.extents;
  s->bytes = atomic_load (&d->bytes);
  s->since_ns =
      d->state == FP_DRAIN_DONE ? d->took_ns : fp_now_ns () - d->since_ns;
  done = s->extents - FP_MIN (s->left, s->extents);
  if (done > 0)
    s->left_ns = s->since_ns / done * s->left;
  memcpy (s->why, d->why, sizeof s->why);
}
