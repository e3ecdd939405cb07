/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_held.c - check whether another client has the volume, or may believe
 * so.
 */

#include <config.h>

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "attach/probe_int.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"

/* Longest lease to wait for, of a client that may not know that it has lost
 * the volume.
 */
#define FENCED_MS 60000
#define FENCED_STEP_MS 500
#define FENCED_MORE_MS 2000 /* more time, for the requests */

static void
note_holder (struct fp_volume_params *p, const struct fp_volume_entry *v)
{
  memcpy (p->holder, v->client, sizeof p->holder);
  p->held_since = v->since;
}

int
probe_check_attached (const struct looks *all, struct fp_error *error)
{
  for (unsigned i = 0; i < all->nr; i++) {
    const struct fp_volume_entry *v = &all->look[i].said.volume;
    char since[32] = "?";
    time_t t = (time_t) v->since;
    struct tm tm;

    if (!all->look[i].knows || !v->attached)
      continue;
    if (all->p->takeover) {
      note_holder (all->p, v);
      continue;
    }
    if (localtime_r (&t, &tm) != NULL)
      strftime (since, sizeof since, "%Y-%m-%d %H:%M:%S", &tm);
    return fp_fail (
        error, -EBUSY,
        "%s: volume %s is attached to %s since %s: detach it there, "
        "or take it over with takeover=true",
        all->look[i].where, all->title,
        v->client[0] != '\0' ? v->client : "a client", since);
  }
  return 0;
}

int
probe_await_fenced (const struct looks *all, uint64_t *deadline,
                    struct fp_error *error)
{
  const struct fp_volume_params *p = all->p;
  const struct look *k = NULL;
  uint32_t ms = 0;

  for (unsigned i = 0; i < all->nr; i++) {
    if (!all->look[i].knows || all->look[i].said.fenced_ms <= ms)
      continue;
    k = &all->look[i];
    ms = k->said.fenced_ms;
  }
  /* A client that takes the volume over fences the other one before it waits.
   * A client that comes back under the same UUID need not wait.
   */
  if (k == NULL || p->takeover || (all->again && !fp_uuid_is_nil (&p->client)))
    return 0;
  fp_fail (error, -EBUSY,
           "%s: %s may still use volume %s, or come back to it, until its "
           "lease there expires",
           k->where, k->said.volume.client, all->title);
  if (*deadline == 0 && ms <= FENCED_MS) {
    *deadline = fp_deadline_in_ms (ms + FENCED_MORE_MS);
    if (p->waits != NULL)
      p->waits (p, error->text, ms);
  }
  if (*deadline == 0 || fp_deadline_passed (*deadline))
    return fp_fail (error, -EBUSY,
                    "%s: try again in %u s, or use takeover=true, which waits",
                    error->text, ms / 1000 + 1);
  poll (NULL, 0, (int) FP_MIN (ms, (uint32_t) FENCED_STEP_MS));
  return -EAGAIN;
}
