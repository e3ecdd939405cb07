/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/probe_named.h"
#include "attach/servers.h"
#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "transport/control/resolve.h"
#include "base/sync.h"
#include "heal/migrate.h"
#include "meta/meta_log.h"
#include "peer/peer.h"
#include "peer/session.h"

#define LOOK_MS 10
#define ANSWER_MS 1000u /* least timeout for one server */
#define CHANGE_MS 1000u /* least timeout for all of them */

static uint64_t
bit (unsigned i)
{
  return UINT64_C (1) << i;
}

static bool
is_recorded (const struct fp_servers *set)
{
  return fp_volume_is_recorded (set->p);
}

static bool
is_up (struct fp_servers *set, unsigned i)
{
  struct fp_peer_room room;

  return fp_peer_room (set->peers->at[i], &room);
}

static uint64_t
change_deadline (const struct fp_servers *set)
{
  return fp_deadline_in_ms (FP_MAX (4 * set->p->timeout_ms, CHANGE_MS));
}

static int
check_may_change (struct fp_servers *set, struct fp_error *error)
{
  struct fp_meta_log_status s;

  fp_meta_log_status (set->meta_log, &s);
  if (set->p->read_only)
    return fp_fail (error, -EROFS,
                    FP_READ_ONLY_WHY "its servers cannot be changed");
  if (s.frozen)
    return fp_fail (
        error, -EROFS,
        "frozen: the volume was attached with half of its servers or "
        "fewer: they cannot be changed: attach it again when more "
        "are up");
  if (fp_lease_is_fenced (set->lease))
    return fp_fail (error, -EPERM,
                    "fenced: another client has taken the volume over");
  return 0;
}

/* Refuse a change while the last one is not recorded yet. */
static int
check_uncounted (struct fp_servers *set, struct fp_error *error)
{
  uint64_t waiting = atomic_load (&set->peers->counting);
  char where[FP_ADDR_MAX + 1];

  if (waiting == 0)
    return 0;
  fp_addr_format (&set->p->servers[__builtin_ctzll (waiting)], where);
  return fp_fail (
      error, -EBUSY,
      "the other servers have not recorded yet that %s is one of them: "
      "try again",
      where);
}

void
fp_servers_list (struct fp_servers *set, struct fp_server_names *out)
{
  out->nr = 0;
  for (unsigned i = 0; i < atomic_load (&set->peers->nr); i++) {
    struct fp_server_name *name = &out->names[out->nr];

    if (!fp_peers_is_server (set->peers, i))
      continue;
    name->addr = set->p->servers[i];
    memcpy (name->domain, set->p->domains[i], sizeof name->domain);
    out->nr++;
  }
}

/* Pass the present servers to keep_servers, except for `without` (-1: all). */
static int
keep (struct fp_servers *set, int without, struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct fp_server_names *names = NULL;
  unsigned n = 0;

  if (set->p->keep_servers == NULL)
    return 0;
  names = malloc (sizeof *names);
  if (names == NULL)
    return fp_fail (error, -ENOMEM, "%s", strerror (ENOMEM));
  fp_servers_list (set, names);
  for (unsigned k = 0; k < names->nr; k++)
    if (without < 0 ||
        !fp_addr_eq (&names->names[k].addr, &set->p->servers[without]))
      names->names[n++] = names->names[k];
  names->nr = n;
  return set->p->keep_servers (set->p->opaque, names, error);
}

/* ---- add a server ---- */

/* Ask the server at addr for its UUID, and for what it knows of the volume. */
static int
look_at (struct fp_servers *set, const struct fp_addr *addr,
         struct fp_uuid *server, struct fp_lookup_reply *said,
         struct fp_error *error)
{
  uint64_t deadline =
      fp_deadline_in_ms (FP_MAX (set->p->timeout_ms, ANSWER_MS));
  struct fp_lookup q = { .volume = set->p->uuid };
  struct fp_bye bye = { .discard = false };
  struct fp_session s;
  int r;

  /* The name may be one of a former server, and lead elsewhere now. */
  fp_addr_forget (addr);
  r = fp_session_open (&s, set->p, addr, NULL, deadline, error);
  if (r < 0)
    return r;
  *server = s.hello.server;
  r = fp_ctl_lookup (s.ctl, &q, said, deadline);
  if (r == -ENOENT) {
    memset (said, 0, sizeof *said);
    r = 0;
  }
  if (r < 0) {
    char where[FP_ADDR_MAX + 1];

    fp_addr_format (addr, where);
    fp_fail (error, r, "%s: %s", where, fp_ctl_why (s.ctl));
  }
  else
    /* If this fails, the server still notices that the connection ends. */
    (void) fp_ctl_bye (s.ctl, &bye, deadline);
  fp_session_close (&s);
  return r;
}

static int
check_twice (struct fp_servers *set, const struct fp_server_name *name,
             struct fp_error *error)
{
  char where[FP_ADDR_MAX + 1];

  fp_addr_format (&name->addr, where);
  for (unsigned i = 0; i < atomic_load (&set->peers->nr); i++)
    if (fp_peers_is_server (set->peers, i) &&
        fp_addr_eq (&set->p->servers[i], &name->addr))
      return fp_fail (error, -EEXIST, "%s is a server of this volume already",
                      where);
  return 0;
}

static int
check_new (struct fp_servers *set, const struct fp_server_name *name,
           const struct fp_uuid *server, const struct fp_lookup_reply *said,
           struct fp_error *error)
{
  char where[FP_ADDR_MAX + 1], other[FP_ADDR_MAX + 1];
  struct fp_meta_log_status s;

  fp_addr_format (&name->addr, where);
  for (unsigned i = 0; i < atomic_load (&set->peers->nr); i++) {
    struct fp_uuid uuid;

    if (!fp_peers_is_server (set->peers, i) ||
        !fp_peer_server (set->peers->at[i], &uuid) ||
        !fp_uuid_eq (&uuid, server))
      continue;
    fp_addr_format (&set->p->servers[i], other);
    return fp_fail (
        error, -EEXIST,
        "%s is the same server as %s, which is already one of this "
        "volume",
        where, other);
  }
  if (said->volume.slabs > 0)
    return fp_fail (
        error, -EEXIST,
        "%s still has extents of this volume, from when it was one of "
        "its servers: run 'farpage volumes delete' for it, then add it",
        where);
  fp_meta_log_status (set->meta_log, &s);
  if (said->members.version > s.version)
    return fp_fail (
        error, -EEXIST,
        "%s has a newer list of the servers of this volume: another "
        "client has used the volume there",
        where);
  return 0;
}

/* Let a server forget the volume, which has no name, if it was one of the
 * volume's servers before and the lease there is over.  The server does not
 * tell other clients of the volume, so look_at did not find it.  With what it
 * has, it could not join.  So another client makes a new volume in its place,
 * and ends that at once.
 *
 * An error does not matter: then the server cannot join.
 */
static void
forget_orphan (struct fp_servers *set, const struct fp_addr *addr,
               const struct fp_uuid *server)
{
  uint64_t deadline =
      fp_deadline_in_ms (FP_MAX (set->p->timeout_ms, FP_OPEN_MS));
  struct fp_open q = {
    .flags = FP_OPEN_CREATE | FP_OPEN_EPHEMERAL,
    .volume = set->p->uuid,
    .size = set->p->size,
    .slab_size = set->p->slab_size,
    .copies = set->p->copies,
    .servers = 1,
    .stripe = fp_volume_stripe (set->p),
  };
  struct fp_bye bye = { .discard = true };
  struct fp_open_reply reply;
  struct fp_session s;
  struct fp_error ignored;
  struct fp_uuid uuid;

  /* One that was never heard from may be this one, at another address. */
  for (unsigned i = 0; i < atomic_load (&set->peers->nr); i++)
    if (fp_peers_is_server (set->peers, i) &&
        !fp_peer_server (set->peers->at[i], &uuid))
      return;
  if (fp_session_open (&s, set->p, addr, NULL, deadline, &ignored) < 0)
    return;
  q.transport = fp_session_best (s.transports)->bit;
  /* The address may lead to another one by now, which has the data. */
  if (fp_uuid_eq (&s.hello.server, server) &&
      fp_ctl_volume_open (s.ctl, &q, &reply, deadline) == 0)
    (void) fp_ctl_bye (s.ctl, &bye, deadline);
  fp_session_close (&s);
}

/* Open place i again, whose server does not leave.  was: its state before. */
static void
stay (struct fp_servers *set, unsigned i, enum fp_place was)
{
  if (!is_recorded (set)) {
    fp_servers_open_counted (set, i);
    return;
  }
  (void) fp_peers_move (set->peers, i, FP_PLACE_LEAVING, was);
  /* The metadata log stores the set of current members before it looks for
   * NEW ones.
   */
  if (was == FP_PLACE_NEW && (atomic_load (&set->peers->current) >> i & 1))
    (void) fp_peers_move (set->peers, i, FP_PLACE_NEW, FP_PLACE_MEMBER);
  fp_notifier_raise (&set->extents->changes);
}

/* Return a FREE place, or -1 if there is none.  It may be at or above nr. */
static int
find_place (struct fp_servers *set)
{
  for (unsigned i = 0; i < FP_MAX_SERVERS; i++)
    if (fp_peers_place (set->peers, i) == FP_PLACE_FREE)
      return (int) i;
  return -1;
}

/* Give up place i, which is CONNECTING, JOINING or LEAVING. */
static void
leave_place (struct fp_servers *set, unsigned i, bool forget)
{
  (void) fp_peers_move (set->peers, i, fp_peers_place (set->peers, i),
                        FP_PLACE_FREE);
  fp_peer_leave (set->peers->at[i], forget);
}

/* Give place i, which is FREE, to the server, and wait until its peer is up.
 */
static int
take_place (struct fp_servers *set, unsigned i,
            const struct fp_server_name *name, const struct fp_uuid *server,
            struct fp_error *error)
{
  bool is_new = i == atomic_load (&set->peers->nr);
  int r = 0;

  (void) fp_peers_move (set->peers, i, FP_PLACE_FREE, FP_PLACE_CONNECTING);
  memcpy (set->p->domains[i], name->domain, sizeof set->p->domains[i]);
  if (is_new && set->peers->at[i] == NULL)
    r = fp_peer_new (&set->peers->at[i], set->peers, i);
  if (r == 0)
    r = fp_peer_renew (set->peers->at[i], &name->addr, server);
  if (r == 0) {
    fp_meta_log_expect (set->meta_log, i, server);
    if (is_new)
      atomic_store (&set->peers->nr, i + 1);
    r = fp_peer_start (set->peers->at[i]);
  }
  if (r < 0) {
    (void) fp_peers_move (set->peers, i, FP_PLACE_CONNECTING, FP_PLACE_FREE);
    return fp_fail (error, r, "cannot start a connection: %s: try again",
                    strerror (-r));
  }
  r = fp_peer_wait_up (set->peers->at[i], change_deadline (set), NULL, error);
  if (r < 0)
    leave_place (set, i, true);
  return r;
}

static int
join_recorded (struct fp_servers *set, unsigned i,
               const struct fp_server_name *name, struct fp_error *error)
{
  char where[FP_ADDR_MAX + 1];
  struct fp_error ignored;
  int r = fp_meta_log_join (set->meta_log, i, name, change_deadline (set));

  fp_addr_format (&name->addr, where);
  if (r == -EBUSY) {
    leave_place (set, i, true);
    return fp_fail (error, r,
                    "another server is being added, and the others have "
                    "not recorded that yet: try again later");
  }
  if (r < 0)
    return fp_fail (
        error, r,
        "%s: the other servers did not record it in time: it joins as "
        "soon as they do",
        where);
  /* An error does not matter, because the list on the servers has it, too. */
  (void) keep (set, -1, &ignored);
  return 0;
}

static int
join_counted (struct fp_servers *set, unsigned i, struct fp_error *error)
{
  char where[FP_ADDR_MAX + 1];
  struct fp_error ignored;
  int r = keep (set, -1, error);

  if (r < 0) {
    leave_place (set, i, true);
    (void) keep (set, -1, &ignored);
    return r;
  }
  r = fp_servers_recount (set, atomic_load (&set->peers->servers) + 1, false,
                          &ignored);
  /* Open the place even after a timeout.  Some servers know the new number, or
   * will, and refuse a client that does not name the new server.
   */
  fp_servers_open_counted (set, i);
  if (r == 0)
    return 0;
  fp_addr_format (&set->p->servers[i], where);
  return fp_fail (
      error, -ETIMEDOUT,
      "%s: the other servers did not record it in time: it joins as "
      "soon as they do",
      where);
}

int
fp_servers_add (struct fp_servers *set, const struct fp_server_name *name,
                struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct fp_lookup_reply *said = NULL;
  struct fp_uuid server;
  int i = find_place (set), r;

  error->text[0] = '\0';
  r = check_may_change (set, error);
  if (r == 0)
    r = check_uncounted (set, error);
  if (r == 0)
    r = check_twice (set, name, error);
  if (r == 0 && is_recorded (set))
    r = fp_check_kept_addr (&name->addr, error);
  if (r == 0 && i < 0)
    r = fp_fail (error, -ENOSPC,
                 "the volume already has %d servers, the maximum",
                 FP_MAX_SERVERS);
  if (r < 0)
    return r;
  said = malloc (sizeof *said);
  if (said == NULL)
    return fp_fail (error, -ENOMEM, "%s", strerror (ENOMEM));
  r = look_at (set, &name->addr, &server, said, error);
  if (r == 0)
    r = check_new (set, name, &server, said, error);
  if (r == 0 && set->p->name[0] == '\0' && said->volume.size == 0 &&
      !fp_uuid_is_nil (&set->p->client))
    forget_orphan (set, &name->addr, &server);
  if (r == 0)
    r = take_place (set, (unsigned) i, name, &server, error);
  if (r < 0)
    return r;
  (void) fp_peers_move (set->peers, (unsigned) i, FP_PLACE_CONNECTING,
                        FP_PLACE_JOINING);
  r = is_recorded (set) ? join_recorded (set, (unsigned) i, name, error)
                        : join_counted (set, (unsigned) i, error);
  fp_notifier_raise (&set->extents->changes);
  return r;
}

/* ---- remove a server ---- */

/* Check that all other servers are up, and that one of them is not drained. */
static int
check_others (struct fp_servers *set, unsigned server, struct fp_error *error)
{
  char where[FP_ADDR_MAX + 1];
  bool any = false;

  fp_addr_format (&set->p->servers[server], where);
  for (unsigned i = 0; i < atomic_load (&set->peers->nr); i++)
    any |= i != server && !fp_peers_must_be_empty (set->peers, i);
  if (!any)
    return fp_fail (error, -EBUSY,
                    "%s is the last server of this volume that is not drained",
                    where);
  for (unsigned i = 0; i < atomic_load (&set->peers->nr); i++) {
    if (i == server || !fp_peers_is_server (set->peers, i) || is_up (set, i))
      continue;
    fp_addr_format (&set->p->servers[i], where);
    return fp_fail (error, -ENOTCONN,
                    "%s is down: a server can only be removed while all the "
                    "others are up",
                    where);
  }
  return 0;
}

/* Refuse if this server alone knows that extents are lost, or if the loss of
 * some is still in doubt.
 */
static int
check_lost (struct fp_servers *set, unsigned server, struct fp_error *error)
{
  struct fp_extents *t = set->extents;
  char where[FP_ADDR_MAX + 1];

  fp_addr_format (&set->p->servers[server], where);
  FP_LOCK_SCOPE (&set->extents->lock);
  for (uint64_t k = 0; k < t->all; k++) {
    struct fp_extent *p = &t->p[k];

    if (fp_extent_state (p) != FP_EXTENT_LOST ||
        atomic_load (&p->server) != server)
      continue;
    if (!is_recorded (set))
      return fp_fail (
          error, -EIO,
          "%s: its data is lost, and no other server knows that: it "
          "cannot be removed until the volume is detached",
          where);
    if (atomic_load (&p->doubt))
      return fp_fail (
          error, -EIO,
          "%s: some of its extents may be lost, and only servers that "
          "are down can tell: attach the volume with all of them",
          where);
  }
  return 0;
}

/* Check that the server holds nothing, and drain it, so that nothing more goes
 * there.
 */
static int
empty (struct fp_servers *set, unsigned server, bool *was_drained,
       struct fp_error *error)
{
  bool named = set->p->name[0] != '\0';
  uint64_t deadline = change_deadline (set);
  struct fp_drain_status d;
  struct fp_peer_room room;
  char where[FP_ADDR_MAX + 1];
  int r = 0;

  fp_addr_format (&set->p->servers[server], where);
  fp_migrate_status (set->migrate, server, &d);
  *was_drained = d.state != FP_DRAIN_NONE;
  (void) fp_peer_room (set->peers->at[server], &room);
  if (!fp_peer_heard (set->peers->at[server]))
    return fp_fail (
        error, -ENOTEMPTY,
        "%s has not been up since the volume was attached, and may "
        "hold extents of it, which would be lost",
        where);
  if (room.held > 0 && !is_up (set, server))
    return fp_fail (error, -ENOTEMPTY,
                    "%s is down, and holds %" PRIu64
                    " extents of this volume, which would be lost%s%s%s",
                    where, room.held,
                    named ? ": if it is gone for good, detach the volume, "
                            "and attach it with remove="
                          : "",
                    named ? where : "", named ? " degraded=true" : "");
  if (d.state == FP_DRAIN_MOVING)
    return fp_fail (error, -ENOTEMPTY,
                    "%s is still being drained: %" PRIu64 " extents are left",
                    where, d.left);
  if (room.held + room.extents > 0)
    return fp_fail (error, -ENOTEMPTY,
                    "%s holds %" PRIu64
                    " extents of this volume: move them to the "
                    "others first (farpage drain)",
                    where, room.held + room.extents);
  if (!*was_drained)
    r = fp_migrate_drain (set->migrate, server, 0, error);
  while (r == 0) {
    fp_migrate_status (set->migrate, server, &d);
    if (d.state == FP_DRAIN_DONE)
      return 0;
    if (fp_deadline_passed (deadline))
      return fp_fail (error, -ENOTEMPTY,
                      "%s holds extents of this volume: move them "
                      "to the others first (farpage drain)",
                      where);
    poll (NULL, 0, LOOK_MS);
  }
  return r;
}

static int
leave_recorded (struct fp_servers *set, unsigned server,
                struct fp_error *error)
{
  char where[FP_ADDR_MAX + 1];
  struct fp_error ignored;
  /* First, so that a client that resumes names no server that has left. */
  int r = keep (set, (int) server, error);

  if (r == 0 &&
      fp_meta_log_leave (set->meta_log, server, change_deadline (set)) < 0) {
    fp_addr_format (&set->p->servers[server], where);
    r = fp_fail (
        error, -ENOTCONN,
        "%s: not removed: the others did not record the removal in time",
        where);
  }
  if (r < 0)
    (void) keep (set, -1, &ignored);
  return r;
}

static int
leave_counted (struct fp_servers *set, unsigned server, struct fp_error *error)
{
  unsigned nr = atomic_load (&set->peers->servers);
  struct fp_error ignored;
  int r = fp_servers_recount (set, nr - 1, true, error);

  if (r < 0) {
    atomic_store (&set->peers->servers, nr);
    return r;
  }
  r = keep (set, (int) server, error);
  if (r < 0)
    (void) fp_servers_recount (set, nr, false, &ignored);
  return r;
}

int
fp_servers_remove (struct fp_servers *set, unsigned i, struct fp_error *error)
{
  char where[FP_ADDR_MAX + 1];
  struct fp_error ignored;
  bool was_drained = true, up;
  enum fp_place was;
  int r;

  error->text[0] = '\0';
  r = check_may_change (set, error);
  fp_addr_format (&set->p->servers[i], where);
  if (r == 0 && !fp_peers_is_server (set->peers, i))
    r = fp_fail (error, -ENOENT, "%s is not a server of this volume", where);
  if (r == 0)
    r = check_uncounted (set, error);
  if (r == 0 && !fp_peers_is_open (set->peers, i))
    r = fp_fail (error, -EBUSY,
                 "%s is being added: the others have not recorded "
                 "that yet",
                 where);
  if (r == 0)
    r = check_others (set, i, error);
  if (r == 0)
    r = check_lost (set, i, error);
  if (r == 0)
    r = empty (set, i, &was_drained, error);
  if (r < 0)
    goto undrain;

  /* A NEW one becomes a MEMBER by itself. */
  do
    was = fp_peers_place (set->peers, i);
  while (!fp_peers_move (set->peers, i, was, FP_PLACE_LEAVING));
  if (fp_peer_check_empty (set->peers->at[i]) < 0) {
    r = fp_fail (error, -ENOTEMPTY,
                 "%s has just been given an extent: try again", where);
    goto reopen;
  }
  r = is_recorded (set) ? leave_recorded (set, i, error)
                        : leave_counted (set, i, error);
  if (r < 0)
    goto reopen;
  up = is_up (set, i);
  leave_place (set, i, true);
  (void) fp_migrate_drain_cancel (set->migrate, i, &ignored);
  fp_migrate_forget (set->migrate, i);
  if (!up)
    fp_fail (error, 0, "%s is down: it may still know the volume", where);
  return 0;

reopen:
  stay (set, i, was);
undrain:
  if (!was_drained)
    (void) fp_migrate_drain_cancel (set->migrate, i, &ignored);
  return r;
}

void
fp_servers_let_leave (struct fp_servers *set, uint64_t servers)
{
  for (unsigned i = 0; i < atomic_load (&set->peers->nr); i++)
    if (servers & bit (i))
      leave_place (set, i, false);
}

void
fp_servers_init (struct fp_servers *set, struct fp_peers *peers)
{
  *set = (struct fp_servers) {
    .peers = peers,
    .p = peers->p,
    .extents = peers->extents,
    .lease = peers->lease,
  };
  fp_mutex_init (&set->count_lock);
}

void
fp_servers_destroy (struct fp_servers *set)
{
  pthread_mutex_destroy (&set->count_lock);
}
