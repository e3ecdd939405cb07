/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_doubt.c - make a donor record that its labels are in doubt
 * (peer_learn.h), for the next client.
 */

#include <config.h>

#include "peer/peer_int.h"

/* Fill in the next labels to write, from entry *i on.  Return how many. */
static unsigned
fill_doubts (struct fp_peer *peer, bool lost, uint64_t *i)
{
  struct fp_extents *t = peer->peers->extents;
  unsigned n = 0;

  FP_LOCK_SCOPE (&peer->peers->extents->lock);
  for (; *i < t->all && n < FP_MAX_GRANTS; ++*i) {
    struct fp_extent *p = &t->p[*i];

    if (!atomic_load (&p->doubt) || atomic_load (&p->server) != peer->index ||
        (fp_extent_state (p) == FP_EXTENT_LOST) != lost)
      continue;
    peer->labels.labels[n++] =
        fp_extent_label (t, *i, p->copy.slab,
                         p->copy.generation | (lost ? FP_GENERATION_OPEN : 0));
    /* A LOST extent stays in doubt. */
    atomic_store (&p->doubt, lost);
  }
  peer->labels.count = n;
  return n;
}

int
peer_label_doubts (struct fp_peer *peer, bool lost)
{
  uint64_t i = 0;
  int r = 0;

  while (r == 0 && fill_doubts (peer, lost, &i) > 0)
    r = fp_ctl_label (peer->s.ctl, &peer->labels, peer_soon (peer));
  return r;
}

void
peer_give_up_doubts (struct fp_peers *peers)
{
  FP_LOCK_SCOPE (&peers->extents->lock);
  for (uint64_t i = 0; i < peers->extents->all; i++) {
    struct fp_extent *p = &peers->extents->p[i];

    if (!atomic_load (&p->doubt) || fp_extent_state (p) != FP_EXTENT_LOST)
      continue;
    atomic_store (&peers->at[atomic_load (&p->server)]->sweep, true);
    atomic_store (&p->doubt, false);
    p->copy = (struct fp_copy) { .slab = UINT64_MAX };
  }
}
