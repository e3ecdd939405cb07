/* SPDX-License-Identifier: BSD-3-Clause */
/* servers_count.c - the number of servers of a volume that is not recorded.
 * Each of them is told that number, and later refuses a client that names
 * fewer.
 *
 * A server may learn of a number long after it was sent: a process that was
 * stopped then reads what waits in its socket.  So a number that was sent
 * cannot be ignored.  The place that it was about stays closed (COUNTING or
 * RECOUNTING) until the other servers were told the right number.  No thread
 * waits for that; the peer that is told last opens it.
 */

#include <config.h>

#include <errno.h>
#include <poll.h>

#include "attach/servers.h"
#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sync.h"
#include "peer/peer.h"

#define LOOK_MS 10
#define COUNT_MS 1000u /* least timeout for all of them */

#define NOBODY (-1)
#define COUNTED (-2)

static bool
is_recorded (const struct fp_servers *set)
{
  return fp_volume_is_recorded (set->p);
}

/* Return COUNTED if at least one server is up, and all that are up know the
 * number.  Else return a server that does not know it, or -1 if none is up.
 * With `all`, also servers that are not up must know the number.  That is for
 * a lower number: one server with the old number would refuse the next client.
 */
static int
look (struct fp_servers *set, bool all)
{
  unsigned nr = atomic_load (&set->peers->servers), know = 0;
  int missing = NOBODY;

  if (is_recorded (set))
    return COUNTED;
  for (unsigned i = 0; i < atomic_load (&set->peers->nr); i++) {
    struct fp_peer_room room;
    bool up;

    if (!fp_peers_is_open (set->peers, i))
      continue;
    up = fp_peer_room (set->peers->at[i], &room);
    if (up && fp_peer_told (set->peers->at[i], nr))
      know++;
    else if (all || up)
      missing = (int) i;
  }
  return missing >= 0 ? missing : know > 0 ? COUNTED : NOBODY;
}

int
fp_servers_recount (struct fp_servers *set, unsigned nr, bool all,
                    struct fp_error *error)
{
  uint64_t deadline =
      fp_deadline_in_ms (FP_MAX (4 * set->p->timeout_ms, COUNT_MS));
  char where[FP_ADDR_MAX + 1];
  int missing;

  atomic_store (&set->peers->servers, nr);
  for (;;) {
    missing = look (set, all);
    if (missing == COUNTED)
      return 0;
    if (fp_deadline_passed (deadline))
      break;
    for (unsigned i = 0; i < atomic_load (&set->peers->nr); i++)
      fp_peer_poke (set->peers->at[i]);
    poll (NULL, 0, LOOK_MS);
  }
  if (missing == NOBODY)
    return fp_fail (error, -ENOTCONN, "none of the other servers is up");
  fp_addr_format (&set->p->servers[missing], where);
  return fp_fail (error, -ENOTCONN,
                  "%s did not record the number of servers in time", where);
}

void
fp_servers_counted (struct fp_servers *set)
{
  uint64_t waiting;

  if (atomic_load (&set->peers->counting) == 0)
    return;
  {
    FP_LOCK_SCOPE (&set->count_lock);
    waiting = atomic_load (&set->peers->counting);
    if (waiting == 0 || look (set, false) != COUNTED)
      return;
    for (unsigned i = 0; i < atomic_load (&set->peers->nr); i++)
      if (waiting >> i & 1)
        (void) fp_peers_move (set->peers, i, fp_peers_place (set->peers, i),
                              FP_PLACE_MEMBER);
  }
  fp_notifier_raise (&set->extents->changes);
}

void
fp_servers_open_counted (struct fp_servers *set, unsigned i)
{
  {
    FP_LOCK_SCOPE (&set->count_lock);
    if (!fp_peers_move (set->peers, i, FP_PLACE_JOINING, FP_PLACE_COUNTING))
      (void) fp_peers_move (set->peers, i, FP_PLACE_LEAVING,
                            FP_PLACE_RECOUNTING);
  }
  for (unsigned k = 0; k < atomic_load (&set->peers->nr); k++)
    fp_peer_poke (set->peers->at[k]);
  fp_servers_counted (set);
}
