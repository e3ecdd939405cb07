/* SPDX-License-Identifier: BSD-3-Clause */
/* lease.c - whether the volume still is this client's. */

#include <config.h>

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "peer/peer.h"
#include "volume/volume_int.h"

void
fp_volume_taken (struct fp_volume *v, const char *by)
{
  {
    FP_LOCK_SCOPE (&v->lock);
    if (by != NULL && v->taken_by[0] == '\0')
      snprintf (v->taken_by, sizeof v->taken_by, "%s", by);
  }
  atomic_store (&v->taken, true);
  for (unsigned i = 0; i < v->nr_links; i++)
    fp_link_poke (v->links[i]);
  fp_volume_wake_lanes (v);
}

bool
fp_volume_is_ours (struct fp_volume *v)
{
  uint64_t now = fp_boot_ns (), current = atomic_load (&v->current);
  int members = __builtin_popcountll (current), held = 0;

  for (unsigned i = 0; i < v->nr_links; i++) {
    /* Who joins may be unknown to who takes the volume over just now. */
    if ((atomic_load (&v->closed) >> i & 1) ||
        !fp_link_is_ours (v->links[i], now))
      continue;
    held += (int) (current >> i & 1);
    if (members == 0 || 2 * held >= members)
      return true;
  }
  for (unsigned i = 0; i < v->nr_links; i++)
    fp_link_poke (v->links[i]);
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
  for (unsigned i = 0; i < v->nr_links; i++)
    if (fp_link_is_learning (v->links[i]))
      return true;
  return false;
}
