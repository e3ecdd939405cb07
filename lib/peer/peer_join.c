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
fp_peer_renew (struct fp_peer *l, const struct fp_addr *addr,
               const struct fp_uuid *server)
{
  int r = 0;

  FP_LOCK_SCOPE (&l->lock);
  if (l->session > 0 && fp_uuid_is_nil (&l->peers->p->client))
    r = fp_uuid_generate (&l->client); /* not a former client there */
  if (r < 0)
    return r;
  /* Another thread may still be reading the old address. */
  l->peers->p->servers[l->index] = *addr;
  l->joins = true;
  l->expected = *server;
  l->state = FP_SERVER_DOWN;
  l->session = 0;
  l->transport = 0;
  l->control = NULL;
  l->name[0] = l->why[0] = '\0';
  l->slabs_total = l->slabs_free = l->wanted = l->reconnects = 0;
  l->made = l->anew = false;
  l->stage = STAGE_NEW;
  l->after = FP_SERVER_DOWN;
  l->learn_end_ns = l->epoch = 0;
  l->ops = NULL;
  atomic_store (&l->stop, false);
  atomic_store (&l->mute, false);
  atomic_store (&l->sweep, false);
  atomic_store (&l->lost_any, false);
  fp_lease_reset (l->peers->lease, l->index);
  atomic_store (&l->learn_until_ns, 0);
  atomic_store (&l->down_ns, 0);
  atomic_store (&l->told, 0);
  atomic_store (&l->bytes_read, 0);
  atomic_store (&l->bytes_written, 0);
  atomic_store (&l->ops_done, 0);
  atomic_store (&l->errors, 0);
  peer_record_renew (l);
  return 0;
}

int
fp_peer_check_empty (struct fp_peer *l)
{
  struct call c = { .kind = CALL_CHECK_EMPTY };

  return peer_run_call (l, &c);
}

void
fp_peer_leave (struct fp_peer *l, bool forget)
{
  fp_peer_stop (l, forget ? FP_PEER_FORGET : FP_PEER_KEEP);
  fp_peer_join (l);
}

bool
fp_peer_heard (struct fp_peer *l)
{
  FP_LOCK_SCOPE (&l->lock);
  return l->session > 0;
}

bool
fp_peer_server (struct fp_peer *l, struct fp_uuid *server)
{
  const struct fp_members *list = &l->peers->p->members;

  FP_LOCK_SCOPE (&l->lock);
  if (l->session > 0)
    *server = l->server;
  else if (l->joins)
    *server = l->expected;
  else if (list->version > 0)
    *server = list->members[l->index].server;
  else
    return false;
  return true;
}

bool
fp_peer_told (const struct fp_peer *l, unsigned servers)
{
  return atomic_load (&l->told) == servers;
}

/* ---- the peer's thread ---- */

/* Nothing is added meanwhile.  This thread runs calls one by one, and
 * fp_peer_place looks at the state of the place under the lock.
 */
int
peer_do_check_empty (struct fp_peer *l)
{
  const struct fp_extent *target = &l->peers->extents->target;

  if (fp_extent_state (target) != FP_EXTENT_EMPTY &&
      atomic_load (&target->server) == l->index)
    return -EBUSY;
  FP_LOCK_SCOPE (&l->lock);
  if (l->nr_want > 0 || l->nr_batch > 0 || atomic_load (&l->extents) > 0)
    return -EBUSY;
  return 0;
}

int
peer_recount (struct fp_peer *l, uint64_t deadline_ns)
{
  const struct fp_volume_params *p = l->peers->p;
  struct fp_open q = {
    .flags = FP_OPEN_RESUME | FP_OPEN_EPHEMERAL | FP_OPEN_RECOUNT,
    .transport = l->ops->bit,
    .volume = p->uuid,
    .size = p->size,
    .slab_size = p->slab_size,
    .copies = p->copies,
    .servers = atomic_load (&l->peers->servers),
    .stripe = fp_volume_stripe (p),
  };
  uint64_t asked = fp_boot_ns ();
  struct fp_open_reply reply;
  int r;

  /* A donor that joins is told once it is counted.  A donor that leaves is
   * not told: the number would be that of the others.
   */
  if (fp_volume_is_recorded (p) || q.servers == atomic_load (&l->told) ||
      !fp_peers_is_open (l->peers, l->index)) {
    l->peers->ops->counted (l->peers->v); /* that donor may be down now */
    return 0;
  }
  /* The donor may get this late, and its answer may never reach us. */
  atomic_store (&l->told, 0);
  r = fp_ctl_volume_open (l->s.ctl, &q, &reply, deadline_ns);
  if (r < 0) {
    peer_set_why (l, fp_ctl_why (l->s.ctl));
    return r;
  }
  peer_renewed (l, asked);
  atomic_store (&l->told, q.servers);
  /* The number may have changed meanwhile. */
  if (q.servers != atomic_load (&l->peers->servers))
    peer_wake (l);
  l->peers->ops->counted (l->peers->v);
  return 0;
}
