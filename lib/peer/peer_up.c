/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_up.c - how a peer comes up: the session, the volume, the lanes'
 * connections, and what the donor holds.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "transport/control/resolve.h"
#include "peer/peer_int.h"
#include "peer/peer_record.h"

#define PING_MAX_MS 5000

/* Return true if a donor that has nothing of the volume is given it again.
 * It was away when a volume that ends with this client was resumed.  All that
 * only this donor can have had was found to be lost then.
 */
static bool
comes_late (const struct fp_peer *l)
{
  const struct fp_volume_params *p = l->peers->p;

  return l->stage < STAGE_OPENED && p->name[0] == '\0' &&
         fp_copies_several (l->peers->extents) && (p->away >> l->index & 1);
}

/* Return the highest version of a list of members that this client has
 * written, or found when it attached the volume.
 */
static uint64_t
attached_version (const struct fp_peer *l)
{
  uint64_t version = atomic_load (&l->peers->recorded->version);

  return version != 0 ? version : l->peers->p->newest;
}

/* Return true if OPEN was refused only because the donor's access file was
 * changed: no other client has opened the volume there since.  Each client
 * that takes the volume, or opens it to write, raises the epoch.
 */
static bool
is_only_barred (struct fp_peer *l, uint64_t deadline)
{
  if (l->record == NULL || !atomic_load (&l->peers->started) ||
      peer_lookup_again (l, deadline) < 0)
    return false;
  return fp_peer_said (l)->epoch == l->epoch &&
         fp_peer_said (l)->members.version <= attached_version (l);
}

static int
open_volume (struct fp_peer *l, struct fp_open_reply *reply, uint64_t deadline,
             struct fp_error *error)
{
  const struct fp_volume_params *p = l->peers->p;
  struct fp_open q = {
    .flags = FP_OPEN_RESUME,
    .transport = l->ops->bit,
    .volume = p->uuid,
    .size = p->size,
    .slab_size = p->slab_size,
    .copies = p->copies,
    .stripe = fp_volume_stripe (p),
  };
  unsigned nr = atomic_load (&l->peers->servers),
           told = atomic_load (&l->told);
  bool closed = !fp_peers_is_open (l->peers, l->index);
  uint64_t asked;
  int r;

  /* A donor that joins is not in fp_peers.servers yet, so it is added.  A
   * donor that leaves is not told: a client that names it alone must be
   * refused.
   */
  if (closed)
    nr = told != 0 ? told : nr + 1;
  /* A donor that was away may know a higher or a lower number.  peer_recount
   * corrects it once we have the volume there.  Before that the donor may not
   * believe us, if another client has opened the volume meanwhile.
   */
  q.servers = l->stage >= STAGE_OPENED ? FP_MAX_SERVERS : nr;
  /* TAKEOVER only until the volume is ours: a client that takes it later
   * keeps it.
   */
  if (p->read_only)
    q.flags |= FP_OPEN_READ_ONLY;
  if (l->stage < STAGE_OPENED && !l->joins && p->takeover &&
      !(p->away >> l->index & 1))
    q.flags |= FP_OPEN_TAKEOVER;
  /* A new volume may be there already, if the answer to an earlier OPEN was
   * lost.  A volume that the donor had is never made again: it would be
   * zeros.
   */
  if (l->stage < STAGE_OPENED &&
      (l->joins || !p->resume || (p->joins >> l->index & 1)))
    q.flags |= FP_OPEN_CREATE;
  if (p->name[0] == '\0')
    q.flags |= FP_OPEN_EPHEMERAL;
  memcpy (q.name, p->name, sizeof q.name);
  asked = fp_boot_ns ();
  r = fp_ctl_volume_open (l->s.ctl, &q, reply, deadline);
  /* The donor came back with nothing.  Its copies of extents with several
   * copies are made again, there or elsewhere.  While any copy is left, the
   * donors that keep the map know which.
   */
  if (r == -ENOENT && l->stage == STAGE_LISTED &&
      fp_copies_several (l->peers->extents)) {
    peer_judge_missing (l);
    atomic_store (&l->lost_any, false);
    if (atomic_load (&l->extents) > 0) {
      /* The owners of these extents find that their memory is gone. */
      return fp_fail (error, -EBUSY,
                      "it restarted empty, and its extents are still in use");
    }
  }
  if (r == -ENOENT && comes_late (l) && !atomic_load (&l->peers->started))
    return fp_fail (error, -ENOTCONN, "it has no part of this volume");
  if (r == -ENOENT && !p->read_only &&
      (comes_late (l) ||
       (l->stage == STAGE_LISTED && !atomic_load (&l->lost_any) &&
        atomic_load (&l->extents) == 0))) {
    /* If the answer is lost, the volume seems to have been there all along. */
    l->anew = true;
    q.flags |= FP_OPEN_CREATE;
    q.servers = nr;
    r = fp_ctl_volume_open (l->s.ctl, &q, reply, deadline);
  }
  if (r == 0) {
    if (l->stage < STAGE_OPENED)
      l->made = !reply->resumed;
    /* A donor that had the volume keeps the number that it was told. */
    if (!reply->resumed)
      atomic_store (&l->told, q.servers);
    r = peer_opened (l, asked, reply->epoch);
    if (r == 0)
      return 0;
    fp_fail (error, r,
             "other clients have opened the volume %" PRIu64
             " times since: one may have changed it: attach it again",
             reply->epoch - l->epoch - 1);
    l->after = FP_SERVER_LOST;
    fp_lease_fence (l->peers->lease, error->text);
    return r;
  }
  fp_fail (error, r, "%s", fp_ctl_why (l->s.ctl));
  /* A donor that does not know a volume that it had has lost it, by a restart
   * or by the end of its lease.  If nothing of ours was there, it is as good
   * as new.  If anything was lost with it earlier, it is not: the next client
   * must find that it does not know the volume.
   */
  if (r == -ENOENT && (l->stage >= STAGE_OPENED || p->resume))
    l->after = FP_SERVER_LOST;
  /* PERM: another client has had the volume, so what we know of it does not
   * count any more.  BUSY is no sign of that: our own last session may still
   * be ending.  Or a client that has the volume now may let it go again
   * without having used it.
   */
  if (l->stage >= STAGE_OPENED && r == -EPERM &&
      !is_only_barred (l, deadline)) {
    l->after = FP_SERVER_LOST;
    fp_lease_fence (l->peers->lease, error->text);
    fp_fail_in (error, r, "fenced: another client has taken the volume over");
  }
  return r;
}

/* Connect all lanes, each within ms.  A host that is short of memory connects
 * them slowly, and there may be many.
 */
static int
connect_lanes (struct fp_peer *l, unsigned ms, struct fp_error *error)
{
  struct fp_conn_params cp;
  const char *said = NULL;
  struct fp_addr data;
  int r;

  r = fp_session_data_addr (&l->s, l->ops, l->addr, &data);
  for (unsigned i = 0; r == 0 && i < l->peers->nr_lanes; i++) {
    uint64_t deadline = fp_deadline_in_ms (ms);

    if (atomic_load (&l->stop))
      return -ECANCELED;
    r = fp_session_conn_params (&l->s, l->peers->p, l->ops, &data, i, &cp,
                                &said, deadline);
    if (r == 0)
      r = l->peers->ops->connect (l->peers->lanes[i], l->index, l->ops, &cp,
                                  deadline);
  }
  if (r < 0)
    fp_fail (error, r, "%s data connection: %s", l->ops->name,
             said != NULL ? said : fp_session_conn_error (r));
  return r;
}

/* Look at the donor's list of members, and fence a reader that finds a new
 * one.  A client that writes the volume begins with a new list.  After that,
 * a reader's knowledge of extents and of in-sync copies is of no use.  The
 * donor does not check this, so the reader has to look.
 */
static int
look_again (struct fp_peer *l, uint64_t deadline, struct fp_error *error)
{
  bool reads = l->record != NULL && l->peers->p->read_only;
  bool reads_on = reads && l->stage == STAGE_LISTED;
  uint64_t was = reads_on ? fp_peer_said (l)->members.version : 0, is;
  int r = peer_lookup (l, deadline);

  if (r < 0)
    return fp_fail (error, r, "reading its metadata: %s",
                    fp_ctl_why (l->s.ctl));
  if (!reads)
    return 0;
  /* A donor that was away when it was attached may have an older one. */
  is = fp_peer_said (l)->members.version;
  if (is <= attached_version (l) && (!reads_on || is == was))
    return 0;
  fp_fail (error, -EPERM,
           "another client has written the volume since it was attached: "
           "attach it again");
  l->after = FP_SERVER_LOST;
  fp_lease_fence (l->peers->lease, error->text);
  return -EPERM;
}

/* Look at the list of members when OPEN is BUSY.  Another client has the
 * volume, to read or to write, for as long as it likes.  The donors that a
 * reader can read meanwhile may be those that the writer left out, whose
 * copies are old.
 */
static int
look_at_busy (struct fp_peer *l, uint64_t deadline, struct fp_error *error)
{
  struct fp_error said;

  if (!l->peers->p->read_only || !atomic_load (&l->peers->started) ||
      look_again (l, deadline, &said) == 0 ||
      !fp_lease_is_fenced (l->peers->lease))
    return -EBUSY;
  *error = said;
  return -EPERM;
}

static bool
is_first_after_start (const struct fp_peer *l)
{
  return l->record != NULL && l->stage < STAGE_LISTED &&
         !l->peers->p->read_only && (l->peers->p->away >> l->index & 1);
}

/* Return -EAGAIN if a donor that was away at the start may have been another
 * client's since.  Until that is known, nothing is changed there: it is not
 * opened, and the slabs of the other client are not released.
 */
static int
check_list (struct fp_peer *l, struct fp_error *error)
{
  if (!is_first_after_start (l) ||
      !l->peers->ops->is_behind (l->peers->v,
                                 fp_peer_said (l)->members.version))
    return 0;
  return fp_fail (
      error, -EAGAIN,
      "it has a newer list of the volume's servers: the others must "
      "confirm first that no other client has written the volume");
}

/* After OPEN: wait until the other donors confirm that no other client has
 * the volume.
 */
static int
check_ours (struct fp_peer *l, uint64_t deadline, struct fp_error *error)
{
  int r = check_list (l, error);

  if (r == 0 && is_first_after_start (l) && !l->anew)
    r = l->peers->ops->confirm (l->peers->v, l->index, &l->stop, deadline);
  if (r != -ETIMEDOUT)
    return r;
  return fp_fail (
      error, -EAGAIN,
      "the other servers did not confirm in time that no other client "
      "has the volume");
}

static int
try_transport (struct fp_peer *l, unsigned ms, struct fp_error *error)
{
  uint64_t deadline = fp_deadline_in_ms (ms);
  struct fp_open_reply reply;
  int r;

  if (is_first_after_start (l)) {
    r = look_again (l, deadline, error);
    if (r == 0)
      r = check_list (l, error);
    /* A donor that does not know the volume has no list. */
    if (r < 0 && r != -ENOENT)
      return r;
  }
  r = open_volume (l, &reply, deadline, error);
  if (r == -EBUSY)
    r = look_at_busy (l, deadline, error);
  if (r < 0)
    return r;
  if (l->joins && l->stage < STAGE_LISTED && reply.labels > 0) {
    l->after = FP_SERVER_LOST;
    return fp_fail (error, -EEXIST, "it has extents of this volume");
  }
  /* Count before the donor gets anything, also for a volume that is resumed:
   * its last client may have died before all donors knew their number.
   * Before any peer was started, all donors that were named were found to
   * have the volume.
   */
  r = peer_recount (l, deadline);
  if (r < 0)
    return fp_fail (error, r, "recording the number of servers: %s",
                    fp_ctl_why (l->s.ctl));
  r = look_again (l, deadline, error);
  if (r == 0)
    r = check_ours (l, deadline, error);
  if (r < 0)
    return r;
  r = connect_lanes (l, ms, error);
  if (r == -EXDEV)
    peer_touch_others (l);
  if (r < 0)
    return r;
  r = peer_take_labels (l, reply.labels);
  if (r < 0) {
    const char *text = fp_ctl_why (l->s.ctl);

    return fp_fail (error, r, "listing its slabs: %s",
                    text[0] != '\0' ? text : strerror (-r));
  }
  peer_judge_missing (l);
  return 0;
}

/* Return -ENOENT if the donor that answers at this address is not the one
 * that the list of members names, or that joins.
 */
static int
check_server (struct fp_peer *l, struct fp_error *error)
{
  const struct fp_members *list = &l->peers->p->members;
  const struct fp_uuid *expected = l->joins ? &l->expected
                                   : list->version > 0
                                       ? &list->members[l->index].server
                                       : NULL;

  if (l->stage >= STAGE_OPENED || expected == NULL ||
      fp_uuid_eq (expected, &l->s.hello.server) ||
      (comes_late (l) && atomic_load (&l->peers->started)))
    return 0;
  peer_let_go (l);
  return fp_fail (error, -ENOENT,
                  "it restarted empty, or another server answers there");
}

/* Return -EAGAIN if a host name may lead elsewhere by now.  It is looked up
 * again, however long that takes.  Only then does another donor there count
 * as one that came back with nothing.
 */
static int
check_name (struct fp_peer *l, struct fp_error *error)
{
  if (l->stage < STAGE_LISTED || fp_uuid_is_nil (&l->server) ||
      fp_uuid_eq (&l->server, &l->s.hello.server) || !fp_addr_doubt (l->addr))
    return 0;
  peer_let_go (l);
  return fp_fail (error, -EAGAIN,
                  "another server answers there: its name is looked up again");
}

/* Make a donor that could not join forget the volume. */
static void
undo_join (struct fp_peer *l)
{
  struct fp_bye bye = { .discard = true };

  if (l->joins && l->stage < STAGE_LISTED && l->stage >= STAGE_OPENED &&
      l->made && l->s.ctl != NULL)
    (void) fp_ctl_bye (l->s.ctl, &bye,
                       fp_deadline_in_ms (l->peers->p->timeout_ms));
}

/* From here on a volume that stops need not wait for this donor
 * (fp_peer_hurry).  Requests about what it holds may take PEER_SLOW_MS.
 */
static void
may_be_hurried (struct fp_peer *l)
{
  FP_LOCK_SCOPE (&l->lock);
  l->asked = l->s.ctl;
  l->busy_ns = fp_now_ns ();
}

static int
come_up (struct fp_peer *l, struct fp_error *error)
{
  unsigned timeout = FP_MAX (l->peers->p->timeout_ms, 1000u);
  uint64_t deadline = fp_deadline_in_ms (timeout);
  unsigned untried;
  int r;

  peer_move (l, FP_SERVER_CONNECTING);
  l->attempt++;
  l->mend_ns = 0;
  /* The start waits for one list, not for one in each attempt. */
  if (l->stage == STAGE_LISTED)
    l->learn_end_ns = 0;
  if (fp_lease_is_fenced (l->peers->lease)) {
    l->after = FP_SERVER_LOST;
    return fp_fail (error, -EPERM,
                    "fenced: another client has taken the volume over");
  }
  if (!l->joins &&
      ((l->peers->p->leaves & l->peers->p->away) >> l->index & 1)) {
    l->after = FP_SERVER_LOST;
    return fp_fail (error, -ENOENT, "it is no longer a server of this volume");
  }
  r = fp_session_open (&l->s, l->peers->p, l->addr, &l->client, deadline,
                       error);
  if (r == 0)
    r = check_name (l, error);
  if (r == 0)
    r = check_server (l, error);
  if (r < 0)
    return r;
  may_be_hurried (l);
  /* Once a transport has worked for this donor, it is kept. */
  untried = l->stage == STAGE_LISTED ? l->ops->bit : l->s.transports;
  untried &= l->s.transports;
  r = -EOPNOTSUPP;
  while (untried != 0) {
    l->ops = fp_session_best (untried);
    untried &= ~l->ops->bit;
    r = try_transport (l, timeout, error);
    /* -EAGAIN: another transport would not help. */
    if (r == 0 || r == -EAGAIN || l->after == FP_SERVER_LOST || untried == 0)
      break;
    /* The next transport needs a session of its own. */
    undo_join (l);
    peer_let_go (l);
    if (fp_session_open (&l->s, l->peers->p, l->addr, &l->client,
                         fp_deadline_in_ms (timeout), error) < 0)
      return r;
    may_be_hurried (l);
  }
  if (r < 0) {
    undo_join (l);
    peer_let_go (l);
    return r;
  }
  l->ping_ms =
      FP_MIN (FP_MAX (l->s.hello.lease_ms / 4, 100u), (unsigned) PING_MAX_MS);
  {
    FP_LOCK_SCOPE (&l->lock);
    memcpy (l->name, l->s.hello.name, sizeof l->name);
    l->server = l->s.hello.server;
    l->transport = l->ops->bit;
    l->control = fp_ctl_secured (l->s.ctl);
    l->slabs_total = l->s.hello.slabs_total;
    l->slabs_free = l->s.hello.slabs_free;
    l->wanted = 0;
    l->why[0] = '\0';
    if (l->session++ > 0)
      l->reconnects++;
  }
  atomic_store (&l->down_ns, 0);
  atomic_store (&l->learn_until_ns, 0);
  atomic_store (&l->distrust_ns, 0);
  l->peers->ops->coming_up (l->peers->v, l->index, &l->s.hello.server,
                            l->anew);
  l->anew = false;
  peer_move (l, FP_SERVER_UP);
  l->peers->ops->up (l->peers->v);
  fp_notifier_raise (&l->peers->extents->changes);
  return 0;
}

int
peer_come_up (struct fp_peer *l, struct fp_error *error)
{
  int r = come_up (l, error);

  /* Whatever the error was, another donor may have answered there. */
  if (r < 0)
    (void) fp_addr_doubt (l->addr);
  return r;
}
