/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_front.c - a front end that sleeps in its own event loop (volume.h:
 * fp_lane_fd, fp_lane_sleep).
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

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/checked.h"
#include "engine/lane_int.h"

static int
add (struct fp_lane *lane, int fd)
{
  struct epoll_event event = { .events = EPOLLIN };

  return epoll_ctl (lane->front_fd, EPOLL_CTL_ADD, fd, &event) == -1 ? -errno
                                                                     : 0;
}

int
lane_front_add (struct fp_lane *lane, const struct fp_queue *q)
{
  int fd = q->ops->fd (q);

  return lane->front_fd == 0 || fd < 0 ? 0 : add (lane, fd);
}

int
lane_front_fd (struct fp_lane *lane)
{
  int r;

  LANE_LOCK_SCOPE (lane);
  if (lane->front_fd != 0)
    return lane->front_fd;
  r = fp_wakeup_open (&lane->front_wake);
  if (r < 0)
    return r;
  lane->front_fd = epoll_create1 (EPOLL_CLOEXEC);
  r = lane->front_fd == -1 ? -errno : add (lane, lane->front_wake.fd);
  for (unsigned i = 0; r == 0 && i < NR_QUEUES; i++)
    if (lane->queues[i] != NULL)
      r = lane_front_add (lane, lane->queues[i]);
  if (r < 0)
    lane_front_close (lane);
  return r < 0 ? r : lane->front_fd;
}

void
lane_front_close (struct fp_lane *lane)
{
  if (lane->front_fd > 0)
    close (lane->front_fd);
  lane->front_fd = 0;
  fp_wakeup_close (&lane->front_wake);
}

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
  struct pollfd fds[NR_QUEUES + 1];
  nfds_t nr;

  assert (lane->front_fd > 0);
  if (!fp_wakeup_empty (&lane->front_wake))
    return false;
  LANE_LOCK_SCOPE (lane);
  atomic_store (&lane->front_asleep, true);
  /* The flag is set before the look: who ends an io, or wakes the lane without
   * its lock, looks at the flag last.  A thread that polls collects for the
   * front end, and wakes it.
   */
  if (lane->fresh || lane->completed.head != NULL ||
      (!lane->polling && lane_arm (lane, fds, &nr))) {
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
