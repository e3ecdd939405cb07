/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_join.c - the peer of a donor that joins or leaves a volume in use:
 * servers.c.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "peer/peer_int.h"

/* The peer's thread has ended.  Other threads may look at the peer, as at any
 * that is DOWN.
 */
int
fp_peer_renew (struct fp_peer *peer, const struct fp_addr *addr,
               const struct fp_uuid *server)
{
  int r = 0;

  FP_LOCK_SCOPE (&peer->lock);
  if (peer->session > 0 && fp_uuid_is_nil (&peer->peers->p->client))
    r = fp_uuid_generate (&peer->client); /* not a former client there */
  if (r < 0)
    return r;
  /* Another thread may still be reading the old address. */
  peer->peers->p->servers[peer->index] = *addr;
  peer->joins = true;
  peer->expected = *server;
  peer->state = FP_SERVER_DOWN;
  peer->session = 0;
  peer->transport = 0;
  peer->control = NULL;
  peer->name[0] = peer->why[0] = '\0';
  peer->slabs_total = peer->slabs_free = peer->wanted = peer->reconnects = 0;
  peer->draining = false;
  peer->made = peer->anew = false;
  peer->stage = STAGE_NEW;
  peer->after = FP_SERVER_DOWN;
  peer->learn_end_ns = peer->epoch = 0;
  peer->ops = NULL;
  atomic_store (&peer->stop, false);
  atomic_store (&peer->mute, false);
  atomic_store (&peer->sweep, false);
  atomic_store (&peer->lost_any, false);
  atomic_store (&peer->stuck, false);
  fp_lease_reset (peer->peers->lease, peer->index);
  atomic_store (&peer->learn_until_ns, 0);
  atomic_store (&peer->down_ns, 0);
  atomic_store (&peer->told, 0);
  for (unsigned i = 0; i <= FP_MAX_LANES; i++) {
    struct peer_counts *c = &peer->counts[i];

    atomic_store (&c->bytes_read, 0);
    atomic_store (&c->bytes_written, 0);
    atomic_store (&c->ops, 0);
    atomic_store (&c->errors, 0);
  }
  peer_record_renew (peer);
  return 0;
}

int
fp_peer_check_empty (struct fp_peer *peer)
{
  struct call c = { .kind = CALL_CHECK_EMPTY };

  return peer_run_call (peer, &c);
}

void
fp_peer_leave (struct fp_peer *peer, bool forget)
{
  fp_peer_stop (peer, forget ? FP_PEER_FORGET : FP_PEER_KEEP);
  fp_peer_join (peer);
}

bool
fp_peer_heard (struct fp_peer *peer)
{
  FP_LOCK_SCOPE (&peer->lock);
  return peer->session > 0;
}

bool
fp_peer_server (struct fp_peer *peer, struct fp_uuid *server)
{
  const struct fp_members *list = &peer->peers->p->members;

  FP_LOCK_SCOPE (&peer->lock);
  if (peer->session > 0)
    *server = peer->server;
  else if (peer->joins)
    *server = peer->expected;
  else if (list->version > 0)
    *server = list->members[peer->index].server;
  else
    return false;
  return true;
}

bool
fp_peer_told (const struct fp_peer *peer, unsigned servers)
{
  return atomic_load (&peer->told) == servers;
}

/* ---- the peer's thread ---- */

/* Nothing is added meanwhile.  This thread runs calls one by one, and
 * fp_peer_place looks at the state of the place under the lock.
 */
int
peer_do_check_empty (struct fp_peer *peer)
{
  const struct fp_extent *target = &peer->peers->extents->target;

  if (fp_extent_state (target) != FP_EXTENT_EMPTY &&
      atomic_load (&target->server) == peer->index)
    return -EBUSY;
  FP_LOCK_SCOPE (&peer->lock);
  if (peer->nr_want > 0 || peer->nr_batch > 0 ||
      atomic_load (&peer->extents) > 0)
    return -EBUSY;
  return 0;
}

int
peer_recount (struct fp_peer *peer, uint64_t deadline_ns)
{
  const struct fp_volume_params *p = peer->peers->p;
  struct fp_open q = {
    .flags = FP_OPEN_RESUME | FP_OPEN_EPHEMERAL | FP_OPEN_RECOUNT,
    .transport = peer->ops->bit,
    .volume = p->uuid,
    .size = p->size,
    .slab_size = p->slab_size,
    .copies = p->copies,
    .servers = atomic_load (&peer->peers->servers),
    .stripe = fp_volume_stripe (p),
  };
  uint64_t asked = fp_boot_ns ();
  struct fp_open_reply reply;
  int r;

  /* A donor that joins is told once it is counted.  A donor that leaves is
   * not told: the number would be that of the others.
   */
  if (fp_volume_is_recorded (p) || q.servers == atomic_load (&peer->told) ||
      !fp_peers_is_open (peer->peers, peer->index)) {
    peer->peers->ops->counted (
        peer->peers->v); /* that donor may be down now */
    return 0;
  }
  /* The donor may get this late, and its answer may never reach us. */
  atomic_store (&peer->told, 0);
  r = fp_ctl_volume_open (peer->s.ctl, &q, &reply, deadline_ns);
  if (r < 0) {
    peer_set_why (peer, fp_ctl_why (peer->s.ctl));
    return r;
  }
  peer_renewed (peer, asked);
  atomic_store (&peer->told, q.servers);
  /* The number may have changed meanwhile. */
  if (q.servers != atomic_load (&peer->peers->servers))
    peer_wake (peer);
  peer->peers->ops->counted (peer->peers->v);
  return 0;
}
