/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_up.c - a peer comes up: the session, the volume, the lanes'
 * connections, and what the server holds.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/resolve.h"
#include "meta/meta_log_int.h"
#include "peer/peer_int.h"

#define PING_MAX_MS 5000

/* A server that has nothing of a volume that will end with this client gets it
 * anew, if nothing is known of what it may have had: it was away when the
 * volume was taken up again, and all that only it can have had was found to be
 * lost then.
 */
static bool
comes_late (const struct fp_peer *l)
{
  const struct fp_volume_params *p = &l->v->p;

  return !l->opened && p->name[0] == '\0' && fp_volume_is_mirrored (l->v) &&
         (p->away >> l->index & 1);
}

/* Return the version of the list of members that the volume was attached with;
 * or of a newer one that was there and did not count.
 */
static uint64_t
attached_version (const struct fp_peer *l)
{
  struct fp_meta_log_status s;

  fp_meta_log_status (l->v, &s);
  return s.version != 0 ? s.version : l->v->p.newest;
}

/* Return true if the server refused OPEN and no other client has opened the
 * volume there since: then its access file was changed.  Each client that
 * takes the volume, or opens it to write, raises the epoch.
 */
static bool
is_only_barred (struct fp_peer *l, uint64_t deadline)
{
  if (l->record == NULL || !atomic_load (&l->v->started) ||
      peer_lookup_again (l, deadline) < 0)
    return false;
  return fp_peer_said (l)->epoch == l->epoch &&
         fp_peer_said (l)->members.version <= attached_version (l);
}

static int
open_volume (struct fp_peer *l, struct fp_open_reply *reply, uint64_t deadline,
             char why[FP_WHY_MAX])
{
  const struct fp_volume_params *p = &l->v->p;
  struct fp_open q = {
    .flags = FP_OPEN_RESUME,
    .transport = l->ops->bit,
    .volume = p->uuid,
    .size = p->size,
    .slab_size = p->slab_size,
    .copies = p->copies,
    .stripe = fp_volume_stripe (p),
  };
  unsigned nr = atomic_load (&l->v->servers), told = atomic_load (&l->told);
  bool closed = atomic_load (&l->v->closed) >> l->index & 1;
  uint64_t asked;
  int r;

  /* One that joins is counted when it is there, and one that leaves is not
   * told that it does: it alone is not the volume.
   */
  if (closed)
    nr = told != 0 ? told : nr + 1;
  /* What the server knows may be more or less, if it was away.  That is mended
   * when we have the volume there (peer_recount), and not before: it may not
   * believe us if somebody else has had a look meanwhile.
   */
  q.servers = l->opened ? FP_MAX_SERVERS : nr;
  /* Only until it is ours: whoever takes it from us later keeps it. */
  if (p->read_only)
    q.flags |= FP_OPEN_READ_ONLY;
  if (!l->opened && !l->joins && p->takeover && !(p->away >> l->index & 1))
    q.flags |= FP_OPEN_TAKEOVER;
  /* Of a new volume the server may have heard before, if its answer was
   * lost.  One that it had is never made anew: that would be zeros.
   */
  if (!l->opened && (l->joins || !p->resume || (p->joins >> l->index & 1)))
    q.flags |= FP_OPEN_CREATE;
  if (p->name[0] == '\0')
    q.flags |= FP_OPEN_EPHEMERAL;
  memcpy (q.name, p->name, sizeof q.name);
  asked = fp_boot_ns ();
  r = fp_ctl_volume_open (l->s.ctl, &q, reply, deadline);
  /* It came back with nothing.  What it had of extents with several copies is
   * made anew, there or elsewhere: as long as any is left, the servers that
   * keep the map know which.
   */
  if (r == -ENOENT && l->learned && fp_volume_is_mirrored (l->v)) {
    peer_judge_missing (l);
    atomic_store (&l->lost_any, false);
    if (atomic_load (&l->extents) > 0) {
      /* Whoever has that shut finds that it is no more. */
      snprintf (why, FP_WHY_MAX,
                "it came back with nothing, while what it had is changed");
      return -EBUSY;
    }
  }
  if (r == -ENOENT && comes_late (l) && !atomic_load (&l->v->started)) {
    snprintf (why, FP_WHY_MAX, "it has nothing of this volume");
    return -ENOTCONN;
  }
  if (r == -ENOENT && !p->read_only &&
      (comes_late (l) || (l->learned && !atomic_load (&l->lost_any) &&
                          atomic_load (&l->extents) == 0))) {
    /* If the answer is lost it looks as if it had been there all along. */
    l->anew = true;
    q.flags |= FP_OPEN_CREATE;
    q.servers = nr;
    r = fp_ctl_volume_open (l->s.ctl, &q, reply, deadline);
  }
  if (r == 0) {
    if (!l->opened)
      l->made = !reply->resumed;
    /* Of a volume that it has it keeps the number that it was told. */
    if (!reply->resumed)
      atomic_store (&l->told, q.servers);
    r = peer_opened (l, asked, reply->epoch);
    if (r == 0)
      return 0;
    snprintf (why, FP_WHY_MAX,
              "other clients have opened the volume %" PRIu64
              " times since: one may have changed it, attach it again",
              reply->epoch - l->epoch - 1);
    l->lost = true;
    fp_volume_set_fenced (l->v, why);
    return r;
  }
  snprintf (why, FP_WHY_MAX, "%s", fp_ctl_why (l->s.ctl));
  /* A server that knows nothing of a volume that it had has lost it: by a
   * restart, or because its lease ended.  If nothing of ours was there it is
   * as good as new.  Not if anything was lost with it earlier: who takes up
   * the volume next is to hear of that by its knowing nothing.
   */
  if (r == -ENOENT && (l->opened || p->resume))
    l->lost = true;
  /* Another client has had it: what we know of it does not count any more.
   * BUSY is no sign of that: our own last session may be ending still, and a
   * client that has it now, and has not used it, may let it go again.
   */
  if (l->opened && r == -EPERM && !is_only_barred (l, deadline)) {
    char said[FP_WHY_MAX - 64];

    l->lost = true;
    snprintf (said, sizeof said, "%.*s", (int) sizeof said - 1, why);
    snprintf (why, FP_WHY_MAX, "another client has taken the volume over: %s",
              said);
    fp_volume_set_fenced (l->v, said);
  }
  return r;
}

/* Connect all lanes, each within ms: a host that is short of memory connects
 * them slowly, and there may be many.
 */
static int
connect_lanes (struct fp_peer *l, unsigned ms, char why[FP_WHY_MAX])
{
  struct fp_conn_params cp;
  const char *said = NULL;
  struct fp_addr data;
  int r;

  r = fp_session_data_addr (&l->s, l->ops, l->addr, &data);
  for (unsigned i = 0; r == 0 && i < l->v->nr_lanes; i++) {
    uint64_t deadline = fp_deadline_in_ms (ms);

    if (atomic_load (&l->stop))
      return -ECANCELED;
    r = fp_session_conn_params (&l->s, &l->v->p, l->ops, &data, i, &cp, &said,
                                deadline);
    if (r == 0)
      r = fp_lane_connect (l->v->lanes[i], l->index, l->ops, &cp, deadline);
  }
  if (r < 0)
    snprintf (why, FP_WHY_MAX, "%s data connection: %s", l->ops->name,
              said != NULL ? said : fp_session_conn_error (r));
  return r;
}

/* Who writes the volume begins with a new list of its members.  What a reader
 * knows of it, which extents are where and which copies are in sync, is of no
 * use after that; the server asks nothing of it, so it has to look.
 */
static int
look_again (struct fp_peer *l, uint64_t deadline, char why[FP_WHY_MAX])
{
  bool reads = l->record != NULL && l->v->p.read_only;
  bool reads_on = reads && l->learned;
  uint64_t was = reads_on ? fp_peer_said (l)->members.version : 0, is;
  int r = peer_lookup (l, deadline);

  if (r < 0) {
    snprintf (why, FP_WHY_MAX, "what it knows: %s", fp_ctl_why (l->s.ctl));
    return r;
  }
  if (!reads)
    return 0;
  /* One that was away when it was attached may have an older one. */
  is = fp_peer_said (l)->members.version;
  if (is <= attached_version (l) && (!reads_on || is == was))
    return 0;
  snprintf (why, FP_WHY_MAX,
            "another client has written the volume since it was attached: "
            "attach it again");
  l->lost = true;
  fp_volume_set_fenced (l->v, why);
  return -EPERM;
}

/* Another client has it: to read it, too, or to write, for as long as it
 * likes.  The servers that can be read meanwhile may be those that it does
 * without, whose copies are old.
 */
static int
look_at_busy (struct fp_peer *l, uint64_t deadline, char why[FP_WHY_MAX])
{
  char text[FP_WHY_MAX];

  if (!l->v->p.read_only || !atomic_load (&l->v->started) ||
      look_again (l, deadline, text) == 0 || !atomic_load (&l->v->fenced))
    return -EBUSY;
  memcpy (why, text, sizeof text);
  return -EPERM;
}

static bool
is_first_after_start (const struct fp_peer *l)
{
  return l->record != NULL && !l->learned && !l->v->p.read_only &&
         (l->v->p.away >> l->index & 1);
}

/* A server that was away at the start may have been another client's since
 * then.  Until it is known that it was not, nothing is changed there: it is
 * not opened, and what the other client has there is not released.
 */
static int
check_list (struct fp_peer *l, char why[FP_WHY_MAX])
{
  if (!is_first_after_start (l) ||
      !fp_meta_log_is_behind (l->v, fp_peer_said (l)->members.version))
    return 0;
  snprintf (why, FP_WHY_MAX,
            "it has a newer list of the volume's servers: the other servers "
            "have to say first that no other client has written it");
  return -EAGAIN;
}

/* It was opened. */
static int
check_ours (struct fp_peer *l, uint64_t deadline, char why[FP_WHY_MAX])
{
  int r = check_list (l, why);

  if (r == 0 && is_first_after_start (l) && !l->anew)
    r = fp_meta_log_confirm (l->v, l->index, &l->stop, deadline);
  if (r != -ETIMEDOUT)
    return r;
  snprintf (why, FP_WHY_MAX,
            "the other servers did not confirm in time that no other client "
            "has the volume");
  return -EAGAIN;
}

static int
try_transport (struct fp_peer *l, unsigned ms, char why[FP_WHY_MAX])
{
  uint64_t deadline = fp_deadline_in_ms (ms);
  struct fp_open_reply reply;
  int r;

  if (is_first_after_start (l)) {
    r = look_again (l, deadline, why);
    if (r == 0)
      r = check_list (l, why);
    /* One that does not know the volume has no list. */
    if (r < 0 && r != -ENOENT)
      return r;
  }
  r = open_volume (l, &reply, deadline, why);
  if (r == -EBUSY)
    r = look_at_busy (l, deadline, why);
  if (r < 0)
    return r;
  if (l->joins && !l->learned && reply.labels > 0) {
    snprintf (why, FP_WHY_MAX, "it has pieces of this volume");
    l->lost = true;
    return -EEXIST;
  }
  /* Before it gets anything.  Of a volume that is taken up again, too: whoever
   * had it may have died before all knew their number; that all who are named
   * have it was looked at before any peer was started.
   */
  r = peer_recount (l, deadline);
  if (r < 0) {
    snprintf (why, FP_WHY_MAX, "how many there are: %s",
              fp_ctl_why (l->s.ctl));
    return r;
  }
  r = look_again (l, deadline, why);
  if (r == 0)
    r = check_ours (l, deadline, why);
  if (r < 0)
    return r;
  r = connect_lanes (l, ms, why);
  if (r == -EXDEV)
    peer_look_at_others (l);
  if (r < 0)
    return r;
  r = peer_take_labels (l, reply.labels);
  if (r < 0) {
    const char *text = fp_ctl_why (l->s.ctl);

    snprintf (why, FP_WHY_MAX, "what it holds: %s",
              text[0] != '\0' ? text : strerror (-r));
    return r;
  }
  peer_judge_missing (l);
  return 0;
}

/* A volume with a name is known to be on this server, and not on another one
 * that answers at its address now.
 */
static int
check_server (struct fp_peer *l, char why[FP_WHY_MAX])
{
  const struct fp_members *list = &l->v->p.members;
  const struct fp_uuid *expected = l->joins ? &l->expected
                                   : list->version > 0
                                       ? &list->members[l->index].server
                                       : NULL;

  if (l->opened || expected == NULL ||
      fp_uuid_eq (expected, &l->s.hello.server) ||
      (comes_late (l) && atomic_load (&l->v->started)))
    return 0;
  snprintf (why, FP_WHY_MAX,
            "it came back with nothing, or another server answers there");
  peer_let_go (l);
  return -ENOENT;
}

/* A name may lead elsewhere by now: it has to be looked up, however long that
 * takes, before that is taken for a server that came back with nothing.
 */
static int
check_name (struct fp_peer *l, char why[FP_WHY_MAX])
{
  if (!l->learned || fp_uuid_is_nil (&l->server) ||
      fp_uuid_eq (&l->server, &l->s.hello.server) || !fp_addr_doubt (l->addr))
    return 0;
  snprintf (why, FP_WHY_MAX,
            "another server answers there: its name is looked up again");
  peer_let_go (l);
  return -EAGAIN;
}

/* It could not join: it shall not remember that it was asked. */
static void
undo_join (struct fp_peer *l)
{
  struct fp_bye bye = { .discard = true };

  if (l->joins && !l->learned && l->opened && l->made && l->s.ctl != NULL)
    (void) fp_ctl_bye (l->s.ctl, &bye, fp_deadline_in_ms (l->v->p.timeout_ms));
}

/* From here on who stops the volume need not wait for this server: what it is
 * asked of what it holds may take PEER_SLOW_MS.
 */
static void
may_be_hurried (struct fp_peer *l)
{
  FP_LOCK_SCOPE (&l->lock);
  l->asked = l->s.ctl;
  l->busy_ns = fp_now_ns ();
}

static int
come_up (struct fp_peer *l, char why[FP_WHY_MAX])
{
  unsigned timeout = FP_MAX (l->v->p.timeout_ms, 1000u);
  uint64_t deadline = fp_deadline_in_ms (timeout);
  unsigned untried;
  int r;

  peer_move (l, FP_SERVER_CONNECTING);
  l->attempt++;
  l->mend_ns = 0;
  /* The start of the volume waits for one list, not for one each attempt. */
  if (l->learned)
    l->learn_end_ns = 0;
  if (atomic_load (&l->v->fenced)) {
    snprintf (why, FP_WHY_MAX, "another client has taken the volume over");
    l->lost = true;
    return -EPERM;
  }
  if (!l->joins && ((l->v->p.leaves & l->v->p.away) >> l->index & 1)) {
    snprintf (why, FP_WHY_MAX, "it is no server of this volume any more");
    l->lost = true;
    return -ENOENT;
  }
  r = fp_session_open (&l->s, &l->v->p, l->addr, &l->client, deadline, why);
  if (r == 0)
    r = check_name (l, why);
  if (r == 0)
    r = check_server (l, why);
  if (r < 0)
    return r;
  may_be_hurried (l);
  /* Once one transport worked for this server it stays with that. */
  untried = l->learned ? l->ops->bit : l->s.transports;
  untried &= l->s.transports;
  r = -EOPNOTSUPP;
  while (untried != 0) {
    l->ops = fp_session_best (untried);
    untried &= ~l->ops->bit;
    r = try_transport (l, timeout, why);
    /* -EAGAIN: that is no matter of the transport. */
    if (r == 0 || r == -EAGAIN || l->lost || untried == 0)
      break;
    /* The next transport needs a session of its own. */
    undo_join (l);
    peer_let_go (l);
    if (fp_session_open (&l->s, &l->v->p, l->addr, &l->client,
                         fp_deadline_in_ms (timeout), why) < 0)
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
  fp_meta_log_up (l->v, l->index, &l->s.hello.server, l->anew);
  l->anew = false;
  peer_move (l, FP_SERVER_UP);
  fp_volume_counted (l->v);
  fp_mirror_poke (l->v);
  fp_volume_wake_lanes (l->v);
  return 0;
}

int
peer_come_up (struct fp_peer *l, char why[FP_WHY_MAX])
{
  int r = come_up (l, why);

  /* Whatever it was: who answered there may be somebody else. */
  if (r < 0)
    (void) fp_addr_doubt (l->addr);
  return r;
}
