/* SPDX-License-Identifier: BSD-3-Clause */
/* lease.c - does this client still hold the volume? */

#include <config.h>

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "peer/peer.h"
#include "volume/volume_int.h"

void
fp_volume_set_fenced (struct fp_volume *v, const char *by)
{
  {
    FP_LOCK_SCOPE (&v->lock);
    if (by != NULL && v->fenced_by[0] == '\0')
      snprintf (v->fenced_by, sizeof v->fenced_by, "%s", by);
  }
  atomic_store (&v->fenced, true);
  for (unsigned i = 0; i < v->nr_peers; i++)
    fp_peer_poke (v->peers[i]);
  fp_volume_wake_lanes (v);
}

bool
fp_volume_is_leased (struct fp_volume *v)
{
  uint64_t now = fp_boot_ns (), current = atomic_load (&v->current);
  int members = __builtin_popcountll (current), held = 0;

  for (unsigned i = 0; i < v->nr_peers; i++) {
    /* A client that takes the volume over now may not know a joining server.
     */
    if ((atomic_load (&v->closed) >> i & 1) ||
        !fp_peer_is_leased (v->peers[i], now))
      continue;
    held += (int) (current >> i & 1);
    if (members == 0 || 2 * held >= members)
      return true;
  }
  for (unsigned i = 0; i < v->nr_peers; i++)
    fp_peer_poke (v->peers[i]);
  return false;
}

uint64_t
fp_volume_waits (const struct fp_volume *v)
{
  return atomic_load (&v->waits);
}

bool
fp_volume_is_learning (const struct fp_volume *v)
{
  for (unsigned i = 0; i < v->nr_peers; i++)
    if (fp_peer_is_learning (v->peers[i]))
      return true;
  return false;
}
