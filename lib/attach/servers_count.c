/* SPDX-License-Identifier: BSD-3-Clause */
/* servers_count.c - on how many servers a volume without a name is: what each
 * of them was told, and later asks of whoever takes the volume up.
 *
 * A server may come to know of a number long after it was sent, as a process
 * that was stopped reads what waits in its socket.  So nothing that was sent
 * is taken back by looking away: the place that it was about stays closed
 * (`uncounted`) until the others were told what is right.  Nobody waits for
 * that; the peer that was told last opens it.
 */

#include <config.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "peer/peer.h"
#include "volume/volume_int.h"

#define LOOK_MS 10
#define COUNT_MS 1000u /* at least, for all of them */

#define NOBODY (-1)
#define COUNTED (-2)

static bool
is_recorded (const struct fp_volume *v)
{
  return fp_volume_is_recorded (&v->p);
}

/* COUNTED: all that are up know how many there are, and that is somebody.
 * Else one that does not know, or NOBODY.  Those that are not up do not count,
 * unless `all` have to be there: as one of them is not all of those that would
 * have to be named.
 */
static int
look (struct fp_volume *v, bool all)
{
  unsigned nr = atomic_load (&v->servers), know = 0;
  int missing = NOBODY;

  if (is_recorded (v))
    return COUNTED;
  for (unsigned i = 0; i < atomic_load (&v->nr_peers); i++) {
    struct fp_peer_room room;
    bool up;

    if (atomic_load (&v->closed) >> i & 1)
      continue;
    up = fp_peer_room (v->peers[i], &room);
    if (up && fp_peer_told (v->peers[i], nr))
      know++;
    else if (all || up)
      missing = (int) i;
  }
  return missing >= 0 ? missing : know > 0 ? COUNTED : NOBODY;
}

int
fp_volume_recount (struct fp_volume *v, unsigned nr, bool all,
                   char why[FP_WHY_MAX])
{
  uint64_t deadline =
      fp_deadline_in_ms (FP_MAX (4 * v->p.timeout_ms, COUNT_MS));
  char where[FP_ADDR_MAX + 1];
  int missing;

  atomic_store (&v->servers, nr);
  for (;;) {
    missing = look (v, all);
    if (missing == COUNTED)
      return 0;
    if (fp_deadline_passed (deadline))
      break;
    for (unsigned i = 0; i < atomic_load (&v->nr_peers); i++)
      fp_peer_poke (v->peers[i]);
    poll (NULL, 0, LOOK_MS);
  }
  if (missing == NOBODY) {
    snprintf (why, FP_WHY_MAX, "none of the other servers is there");
    return -ENOTCONN;
  }
  fp_addr_format (&v->p.servers[missing], where);
  snprintf (why, FP_WHY_MAX,
            "%s did not record in time how many servers there are", where);
  return -ENOTCONN;
}

void
fp_volume_counted (struct fp_volume *v)
{
  uint64_t set;

  if (atomic_load (&v->uncounted) == 0)
    return;
  {
    FP_LOCK_SCOPE (&v->count_lock);
    set = atomic_load (&v->uncounted);
    if (set == 0 || look (v, false) != COUNTED)
      return;
    for (unsigned i = 0; i < atomic_load (&v->nr_peers); i++)
      if (set >> i & 1)
        fp_peer_unshut (v->peers[i]);
    if (!is_recorded (v))
      atomic_fetch_and (&v->fresh, ~set);
    atomic_fetch_and (&v->closed, ~set);
    atomic_store (&v->uncounted, 0);
  }
  fp_volume_wake_lanes (v);
}

void
fp_volume_open_counted (struct fp_volume *v, unsigned i)
{
  {
    FP_LOCK_SCOPE (&v->count_lock);
    atomic_fetch_or (&v->uncounted, UINT64_C (1) << i);
  }
  for (unsigned k = 0; k < atomic_load (&v->nr_peers); k++)
    fp_peer_poke (v->peers[k]);
  fp_volume_counted (v);
}
