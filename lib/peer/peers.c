/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>

#include "base/cleanup.h"
#include "base/sync.h"
#include "peer/peers.h"

#define TO(state) (1u << FP_PLACE_##state)

/* The moves that are legal: any other is a bug. */
static const unsigned legal[] = {
  /* a volume starts with places of the last three states */
  [FP_PLACE_FREE] = TO (CONNECTING) | TO (NEW) | TO (MEMBER) | TO (LEAVING),
  [FP_PLACE_CONNECTING] = TO (JOINING) | TO (FREE),
  [FP_PLACE_JOINING] = TO (COUNTING) | TO (NEW) | TO (FREE),
  [FP_PLACE_COUNTING] = TO (MEMBER),
  [FP_PLACE_RECOUNTING] = TO (MEMBER),
  [FP_PLACE_NEW] = TO (MEMBER) | TO (LEAVING),
  [FP_PLACE_MEMBER] = TO (LEAVING),
  [FP_PLACE_LEAVING] = TO (RECOUNTING) | TO (NEW) | TO (MEMBER) | TO (FREE),
};

void
fp_peers_init (struct fp_peers *peers)
{
  fp_mutex_init (&peers->lock);
}

void
fp_peers_destroy (struct fp_peers *peers)
{
  pthread_mutex_destroy (&peers->lock);
}

static void
put (_Atomic uint64_t *set, unsigned i, bool in)
{
  if (in)
    atomic_fetch_or (set, UINT64_C (1) << i);
  else
    atomic_fetch_and (set, ~(UINT64_C (1) << i));
}

bool
fp_peers_move (struct fp_peers *peers, unsigned i, enum fp_place from,
               enum fp_place to)
{
  FP_LOCK_SCOPE (&peers->lock);
  if (fp_peers_place (peers, i) != from)
    return false;
  assert (legal[from] & 1u << to);
  atomic_store (&peers->place[i], (uint8_t) to);
  put (&peers->counting, i,
       to == FP_PLACE_COUNTING || to == FP_PLACE_RECOUNTING);
  put (&peers->open, i, to == FP_PLACE_NEW || to == FP_PLACE_MEMBER);
  return true;
}

bool
fp_peers_claim (struct fp_peers *peers, unsigned server, unsigned has)
{
  unsigned most = atomic_load (&peers->nr) == 1 ? FP_PEER_SPARES : 1;
  struct fp_extents *t = peers->extents;

  if (peers->p->read_only || fp_peers_gets_none (peers, server))
    return false;
  FP_LOCK_SCOPE (&t->lock);
  if (has >= most || peers->nr_claims >= FP_MAX_SPARES ||
      fp_extents_used (t) + peers->nr_claims >= t->all)
    return false;
  peers->claims[server]++;
  peers->nr_claims++;
  return true;
}

void
fp_peers_unclaim (struct fp_peers *peers, unsigned server)
{
  FP_LOCK_SCOPE (&peers->extents->lock);
  peers->claims[server]--;
  peers->nr_claims--;
}
