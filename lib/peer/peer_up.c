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
comes_late (const struct fp_peer *peer)
{
  const struct fp_volume_params *p = peer->peers->p;

  return peer->stage < STAGE_OPENED && p->name[0] == '\0' &&
         fp_copies_several (peer->peers->extents) &&
         (p->away >> peer->index & 1);
}

uint64_t
peer_attached_version (const struct fp_peer *peer)
{
  uint64_t version = atomic_load (&peer->peers->recorded->version);

  return version != 0 ? version : peer->peers->p->newest;
}

/* Return true if OPEN was refused only because the donor's access file was
 * changed: no other client has opened the volume there since.  Each client
 * that takes the volume, or opens it to write, raises the epoch.
 */
static bool
is_only_barred (struct fp_peer *peer, uint64_t deadline)
{
  if (peer->record == NULL || !atomic_load (&peer->peers->started) ||
      peer_lookup_again (peer, deadline) < 0)
    return false;
  return fp_peer_said (peer)->epoch == peer->epoch &&
         fp_peer_said (peer)->members.version <= peer_attached_version (peer);
}

static int
open_volume (struct fp_peer *peer, struct fp_open_reply *reply,
             uint64_t deadline, struct fp_error *error)
{
  const struct fp_volume_params *p = peer->peers->p;
  struct fp_open q = {
    .flags = FP_OPEN_RESUME,
    .transport = peer->ops->bit,
    .volume = p->uuid,
    .size = p->size,
    .slab_size = p->slab_size,
    .copies = p->copies,
    .stripe = fp_volume_stripe (p),
  };
  unsigned nr = atomic_load (&peer->peers->servers),
           told = atomic_load (&peer->told);
  bool closed = !fp_peers_is_open (peer->peers, peer->index);
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
  q.servers = peer->stage >= STAGE_OPENED ? FP_MAX_SERVERS : nr;
  /* TAKEOVER only until the volume is ours: a client that takes it later
   * keeps it.
   */
  if (p->read_only)
    q.flags |= FP_OPEN_READ_ONLY;
  if (peer->stage < STAGE_OPENED && !peer->joins && p->takeover &&
      !(p->away >> peer->index & 1))
    q.flags |= FP_OPEN_TAKEOVER;
  /* A new volume may be there already, if the answer to an earlier OPEN was
   * lost.  A volume that the donor had is never made again: it would be
   * zeros.
   */
  if (peer->stage < STAGE_OPENED &&
      (peer->joins || !p->resume || (p->joins >> peer->index & 1)))
    q.flags |= FP_OPEN_CREATE;
  if (p->name[0] == '\0')
    q.flags |= FP_OPEN_EPHEMERAL;
  memcpy (q.name, p->name, sizeof q.name);
  asked = fp_boot_ns ();
  r = fp_ctl_volume_open (peer->s.ctl, &q, reply, deadline);
  /* The donor came back with nothing.  Its copies of extents with several
   * copies are made again, there or elsewhere.  While any copy is left, the
   * donors that keep the map know which.
   */
  if (r == -ENOENT && peer->stage == STAGE_LISTED &&
      fp_copies_several (peer->peers->extents)) {
    peer_judge_missing (peer);
    atomic_store (&peer->lost_any, false);
    if (atomic_load (&peer->extents) > 0) {
      /* The owners of these extents find that their memory is gone. */
      return fp_fail (error, -EBUSY,
                      "it restarted empty, and its extents are still in use");
    }
  }
  if (r == -ENOENT && comes_late (peer) &&
      !atomic_load (&peer->peers->started))
    return fp_fail (error, -ENOTCONN, "it has no part of this volume");
  if (r == -ENOENT && !p->read_only &&
      (comes_late (peer) ||
       (peer->stage == STAGE_LISTED && !atomic_load (&peer->lost_any) &&
        atomic_load (&peer->extents) == 0))) {
    /* If the answer is lost, the volume seems to have been there all along. */
    peer->anew = true;
    q.flags |= FP_OPEN_CREATE;
    q.servers = nr;
    r = fp_ctl_volume_open (peer->s.ctl, &q, reply, deadline);
  }
  if (r == 0) {
    if (peer->stage < STAGE_OPENED)
      peer->made = !reply->resumed;
    /* A donor that had the volume keeps the number that it was told. */
    if (!reply->resumed)
      atomic_store (&peer->told, q.servers);
    r = peer_opened (peer, asked, reply->epoch);
    if (r == 0)
      return 0;
    fp_fail (error, r,
             "other clients have opened the volume %" PRIu64
             " times since: one may have changed it: attach it again",
             reply->epoch - peer->epoch - 1);
    peer->after = FP_SERVER_LOST;
    fp_lease_fence (peer->peers->lease, error->text);
    return r;
  }
  fp_fail (error, r, "%s", fp_ctl_why (peer->s.ctl));
  /* A donor that does not know a volume that it had has lost it, by a restart
   * or by the end of its lease.  If nothing of ours was there, it is as good
   * as new.  If anything was lost with it earlier, it is not: the next client
   * must find that it does not know the volume.
   */
  if (r == -ENOENT && (peer->stage >= STAGE_OPENED || p->resume))
    peer->after = FP_SERVER_LOST;
  /* PERM: another client has had the volume, so what we know of it does not
   * count any more.  BUSY is no sign of that: our own last session may still
   * be ending.  Or a client that has the volume now may let it go again
   * without having used it.
   */
  if (peer->stage >= STAGE_OPENED && r == -EPERM &&
      !is_only_barred (peer, deadline)) {
    peer->after = FP_SERVER_LOST;
    fp_lease_fence (peer->peers->lease, error->text);
    fp_fail_in (error, r, "fenced: another client has taken the volume over");
  }
  return r;
}

/* Connect all lanes, each within ms.  A host that is short of memory connects
 * them slowly, and there may be many.
 */
static int
connect_lanes (struct fp_peer *peer, unsigned ms, struct fp_error *error)
{
  struct fp_conn_params cp;
  const char *said = NULL;
  struct fp_addr data;
  int r;

  r = fp_session_data_addr (&peer->s, peer->ops, peer->addr, &data);
  for (unsigned i = 0; r == 0 && i < peer->peers->nr_lanes; i++) {
    uint64_t deadline = fp_deadline_in_ms (ms);

    if (atomic_load (&peer->stop))
      return -ECANCELED;
    r = fp_session_conn_params (&peer->s, peer->peers->p, peer->ops, &data, i,
                                &cp, &said, deadline);
    if (r == 0)
      r = peer->peers->ops->connect (peer->peers->lanes[i], peer->index,
                                     peer->ops, &cp, deadline);
  }
  if (r < 0)
    fp_fail (error, r, "%s data connection: %s", peer->ops->name,
             said != NULL ? said : fp_session_conn_error (r));
  return r;
}

/* Look at the donor's list of members, and fence a reader that finds a new
 * one.  A client that writes the volume begins with a new list.  After that,
 * a reader's knowledge of extents and of in-sync copies is of no use.  The
 * donor does not check this, so the reader has to look.
 */
static int
look_again (struct fp_peer *peer, uint64_t deadline, struct fp_error *error)
{
  bool reads = peer->record != NULL && peer->peers->p->read_only;
  bool reads_on = reads && peer->stage == STAGE_LISTED;
  uint64_t was = reads_on ? fp_peer_said (peer)->members.version : 0, is;
  int r = peer_lookup (peer, deadline);

  if (r < 0)
    return fp_fail (error, r, "reading its metadata: %s",
                    fp_ctl_why (peer->s.ctl));
  if (!reads)
    return 0;
  /* A donor that was away when it was attached may have an older one. */
  is = fp_peer_said (peer)->members.version;
  if (is <= peer_attached_version (peer) && (!reads_on || is == was))
    return 0;
  fp_fail (error, -EPERM,
           "another client has written the volume since it was attached: "
           "attach it again");
  peer->after = FP_SERVER_LOST;
  fp_lease_fence (peer->peers->lease, error->text);
  return -EPERM;
}

/* Look at the list of members when OPEN is BUSY.  Another client has the
 * volume, to read or to write, for as long as it likes.  The donors that a
 * reader can read meanwhile may be those that the writer left out, whose
 * copies are old.
 */
static int
look_at_busy (struct fp_peer *peer, uint64_t deadline, struct fp_error *error)
{
  struct fp_error said;

  if (!peer->peers->p->read_only || !atomic_load (&peer->peers->started) ||
      look_again (peer, deadline, &said) == 0 ||
      !fp_lease_is_fenced (peer->peers->lease))
    return -EBUSY;
  *error = said;
  return -EPERM;
}

static bool
is_first_after_start (const struct fp_peer *peer)
{
  return peer->record != NULL && peer->stage < STAGE_LISTED &&
         !peer->peers->p->read_only &&
         (peer->peers->p->away >> peer->index & 1);
}

/* Return -EAGAIN if a donor that was away at the start may have been another
 * client's since.  Until that is known, nothing is changed there: it is not
 * opened, and the slabs of the other client are not released.
 */
static int
check_list (struct fp_peer *peer, struct fp_error *error)
{
  if (!is_first_after_start (peer) ||
      !peer->peers->ops->is_behind (peer->peers->v,
                                    fp_peer_said (peer)->members.version))
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
check_ours (struct fp_peer *peer, uint64_t deadline, struct fp_error *error)
{
  int r = check_list (peer, error);

  if (r == 0 && is_first_after_start (peer) && !peer->anew)
    r = peer->peers->ops->confirm (peer->peers->v, peer->index, &peer->stop,
                                   deadline);
  if (r != -ETIMEDOUT)
    return r;
  return fp_fail (
      error, -EAGAIN,
      "the other servers did not confirm in time that no other client "
      "has the volume");
}

static int
try_transport (struct fp_peer *peer, unsigned ms, struct fp_error *error)
{
  uint64_t deadline = fp_deadline_in_ms (ms);
  struct fp_open_reply reply;
  int r;

  if (is_first_after_start (peer)) {
    r = look_again (peer, deadline, error);
    if (r == 0)
      r = check_list (peer, error);
    /* A donor that does not know the volume has no list. */
    if (r < 0 && r != -ENOENT)
      return r;
  }
  r = open_volume (peer, &reply, deadline, error);
  if (r == -EBUSY)
    r = look_at_busy (peer, deadline, error);
  if (r < 0)
    return r;
  if (peer->joins && peer->stage < STAGE_LISTED && reply.labels > 0) {
    peer->after = FP_SERVER_LOST;
    return fp_fail (error, -EEXIST, "it has extents of this volume");
  }
  /* Count before the donor gets anything, also for a volume that is resumed:
   * its last client may have died before all donors knew their number.
   * Before any peer was started, all donors that were named were found to
   * have the volume.
   */
  r = peer_recount (peer, deadline);
  if (r < 0)
    return fp_fail (error, r, "recording the number of servers: %s",
                    fp_ctl_why (peer->s.ctl));
  r = look_again (peer, deadline, error);
  if (r == 0)
    r = check_ours (peer, deadline, error);
  if (r < 0)
    return r;
  r = connect_lanes (peer, ms, error);
  if (r == -EXDEV)
    peer_touch_others (peer);
  if (r < 0)
    return r;
  r = peer_take_labels (peer, reply.labels);
  if (r < 0) {
    const char *text = fp_ctl_why (peer->s.ctl);

    return fp_fail (error, r, "listing its slabs: %s",
                    text[0] != '\0' ? text : strerror (-r));
  }
  peer_judge_missing (peer);
  return 0;
}

/* Return -ENOENT if the donor that answers at this address is not the one
 * that the list of members names, or that joins.
 */
static int
check_server (struct fp_peer *peer, struct fp_error *error)
{
  const struct fp_members *list = &peer->peers->p->members;
  const struct fp_uuid *expected = peer->joins ? &peer->expected
                                   : list->version > 0
                                       ? &list->members[peer->index].server
                                       : NULL;

  if (peer->stage >= STAGE_OPENED || expected == NULL ||
      fp_uuid_eq (expected, &peer->s.hello.server) ||
      (comes_late (peer) && atomic_load (&peer->peers->started)))
    return 0;
  peer_let_go (peer);
  return fp_fail (error, -ENOENT,
                  "it restarted empty, or another server answers there");
}

/* Return -EAGAIN if a host name may lead elsewhere by now.  It is looked up
 * again, however long that takes.  Only then does another donor there count
 * as one that came back with nothing.
 */
static int
check_name (struct fp_peer *peer, struct fp_error *error)
{
  if (peer->stage < STAGE_LISTED || fp_uuid_is_nil (&peer->server) ||
      fp_uuid_eq (&peer->server, &peer->s.hello.server) ||
      !fp_addr_doubt (peer->addr))
    return 0;
  peer_let_go (peer);
  return fp_fail (error, -EAGAIN,
                  "another server answers there: its name is looked up again");
}

/* Return -EAGAIN if the address leads to the donor of another place now.  An
 * OPEN would end the session of that place, as both are the same client.
 */
static int
check_twice (struct fp_peer *peer, struct fp_error *error)
{
  struct fp_peers *peers = peer->peers;
  char where[FP_ADDR_MAX + 1];

  for (unsigned i = 0; i < atomic_load (&peers->nr); i++) {
    struct fp_uuid server;

    if (i == peer->index || !fp_peers_is_server (peers, i) ||
        !fp_peer_server (peers->at[i], &server) ||
        !fp_uuid_eq (&server, &peer->s.hello.server))
      continue;
    peer_let_go (peer);
    fp_addr_format (&peers->p->servers[i], where);
    return fp_fail (error, -EAGAIN, "it is the same server as %s", where);
  }
  return 0;
}

/* Make a donor that could not join forget the volume. */
static void
undo_join (struct fp_peer *peer)
{
  struct fp_bye bye = { .discard = true };

  if (peer->joins && peer->stage < STAGE_LISTED &&
      peer->stage >= STAGE_OPENED && peer->made && peer->s.ctl != NULL)
    (void) fp_ctl_bye (peer->s.ctl, &bye,
                       fp_deadline_in_ms (peer->peers->p->timeout_ms));
}

/* From here on a volume that stops need not wait for this donor
 * (fp_peer_hurry).  Requests about what it holds may take PEER_SLOW_MS.
 */
static void
may_be_hurried (struct fp_peer *peer)
{
  FP_LOCK_SCOPE (&peer->lock);
  peer->asked = peer->s.ctl;
  peer->busy_ns = fp_now_ns ();
}

/* Open a session with the right donor. */
static int
say_hello (struct fp_peer *peer, uint64_t deadline, struct fp_error *error)
{
  int r = fp_session_open (&peer->s, peer->peers->p, peer->addr, &peer->client,
                           deadline, error);

  if (r == 0)
    r = check_name (peer, error);
  if (r == 0)
    r = check_server (peer, error);
  if (r == 0)
    r = check_twice (peer, error);
  if (r == 0)
    may_be_hurried (peer);
  return r;
}

static int
come_up (struct fp_peer *peer, struct fp_error *error)
{
  unsigned timeout = FP_MAX (peer->peers->p->timeout_ms, 1000u);
  uint64_t deadline = fp_deadline_in_ms (timeout);
  unsigned untried;
  int r;

  peer_move (peer, FP_SERVER_CONNECTING);
  peer->attempt++;
  peer->mend_ns = 0;
  /* The start waits for one list, not for one in each attempt. */
  if (peer->stage == STAGE_LISTED)
    peer->learn_end_ns = 0;
  if (fp_lease_is_fenced (peer->peers->lease)) {
    peer->after = FP_SERVER_LOST;
    return fp_fail (error, -EPERM,
                    "fenced: another client has taken the volume over");
  }
  if (!peer->joins &&
      ((peer->peers->p->leaves & peer->peers->p->away) >> peer->index & 1)) {
    peer->after = FP_SERVER_LOST;
    return fp_fail (error, -ENOENT, "it is no longer a server of this volume");
  }
  r = say_hello (peer, deadline, error);
  if (r < 0)
    return r;
  /* Once a transport has worked for this donor, it is kept. */
  untried = peer->stage == STAGE_LISTED ? peer->ops->bit : peer->s.transports;
  untried &= peer->s.transports;
  r = -EOPNOTSUPP;
  while (untried != 0) {
    peer->ops = fp_session_best (untried);
    untried &= ~peer->ops->bit;
    r = try_transport (peer, timeout, error);
    /* -EAGAIN: another transport would not help. */
    if (r == 0 || r == -EAGAIN || peer->after == FP_SERVER_LOST ||
        untried == 0)
      break;
    /* The next transport needs a session of its own. */
    undo_join (peer);
    peer_let_go (peer);
    if (say_hello (peer, fp_deadline_in_ms (timeout), error) < 0)
      return r;
  }
  if (r < 0) {
    undo_join (peer);
    peer_let_go (peer);
    return r;
  }
  peer->ping_ms = FP_MIN (FP_MAX (peer->s.hello.lease_ms / 4, 100u),
                          (unsigned) PING_MAX_MS);
  {
    FP_LOCK_SCOPE (&peer->lock);
    memcpy (peer->name, peer->s.hello.name, sizeof peer->name);
    peer->server = peer->s.hello.server;
    peer->transport = peer->ops->bit;
    peer->control = fp_ctl_secured (peer->s.ctl);
    peer->slabs_total = peer->s.hello.slabs_total;
    peer->slabs_free = peer->s.hello.slabs_free;
    peer->wanted = 0;
    peer->draining = false;
    peer->why[0] = '\0';
    if (peer->session++ > 0)
      peer->reconnects++;
  }
  atomic_store (&peer->down_ns, 0);
  atomic_store (&peer->learn_until_ns, 0);
  atomic_store (&peer->distrust_ns, 0);
  peer->peers->ops->coming_up (peer->peers->v, peer->index,
                               &peer->s.hello.server, peer->anew);
  peer->anew = false;
  peer_move (peer, FP_SERVER_UP);
  peer->peers->ops->up (peer->peers->v);
  fp_notifier_raise (&peer->peers->extents->changes);
  return 0;
}

int
peer_come_up (struct fp_peer *peer, struct fp_error *error)
{
  int r = come_up (peer, error);

  /* Whatever the error was, another donor may have answered there. */
  if (r < 0)
    (void) fp_addr_doubt (peer->addr);
  return r;
}
