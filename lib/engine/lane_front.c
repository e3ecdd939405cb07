/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_front.c - a front end that sleeps in its own event loop (volume.h:
 * fp_lane_fds, fp_lane_sleep).
 *
 * Other threads may poll the lane at the same time.  For example, a flush
 * sends a read on every lane.  They empty fp_lane.wake and take the events of
 * the transports.  So the front end has a wake-up descriptor of its own,
 * front_wake, which only lane_front_sleep empties.  A thread that stops
 * polling wakes the front end, which then polls and arms the transports.
 *
 * The front end may be woken for nothing.
 */

#include <config.h>

#include "base/checked.h"
#include "engine/lane_int.h"

void
lane_front_wake (struct fp_lane *lane)
{
  /* To load it is cheaper than an exchange for each io. */
  if (atomic_load (&lane->front_asleep) &&
      atomic_exchange (&lane->front_asleep, false))
    fp_wakeup_write (&lane->front_wake);
}

bool
lane_front_sleep (struct fp_lane *lane, uint64_t *until_ns)
{
  if (!fp_wakeup_empty (&lane->front_wake))
    return false;
  LANE_LOCK_SCOPE (lane);
  atomic_store (&lane->front_asleep, true);
  /* The flag is set before the look: who ends an io, or wakes the lane without
   * its lock, looks at the flag last.  A thread that polls collects for the
   * front end, and wakes it.
   */
  if (lane->fresh || lane->completed.head != NULL ||
      (!lane->polling && lane_arm (lane))) {
    atomic_store (&lane->front_asleep, false);
    return false;
  }
  lane->front_until_ns = lane->next_scan_ns;
  if (lane->hedging)
    lane->front_until_ns =
        FP_MIN (lane->front_until_ns, lane_hedge_next (lane));
  *until_ns = lane->front_until_ns;
  return true;
}
