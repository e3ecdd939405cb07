/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <string.h>

#include "volume/roster.h"

int
fp_roster_find (const struct fp_members *list, const struct fp_uuid *server)
{
  for (uint32_t i = 0; i < list->count; i++)
    if (fp_uuid_eq (&list->members[i].server, server))
      return (int) i;
  return -1;
}

unsigned
fp_roster_current (const struct fp_members *list)
{
  unsigned n = 0;

  for (uint32_t i = 0; i < list->count; i++)
    n += list->members[i].current;
  return n;
}

static bool
same (const struct fp_members *a, const struct fp_members *b)
{
  if (a->version != b->version || a->count != b->count)
    return false;
  for (uint32_t i = 0; i < a->count; i++) {
    const struct fp_member *m = &a->members[i], *n = &b->members[i];

    if (!fp_uuid_eq (&m->server, &n->server) || m->current != n->current ||
        strcmp (m->addr, n->addr) != 0 || strcmp (m->domain, n->domain) != 0)
      return false;
  }
  return true;
}

/* How many of its current members have this list. */
static unsigned
held_by (const struct fp_seen *seen, unsigned nr,
         const struct fp_members *list)
{
  unsigned n = 0;

  for (unsigned i = 0; i < nr; i++) {
    int at;

    if (seen[i].list == NULL || !same (seen[i].list, list))
      continue;
    at = fp_roster_find (list, seen[i].server);
    n += at >= 0 && list->members[at].current;
  }
  return n;
}

int
fp_roster_best (const struct fp_seen *seen, unsigned nr)
{
  unsigned best_held = 0;
  bool best_whole = false;
  int best = -1;

  for (unsigned i = 0; i < nr; i++) {
    const struct fp_members *list = seen[i].list;
    unsigned held;
    bool whole;

    if (list == NULL || list->version == 0 || list->count == 0 ||
        (best >= 0 && list->version < seen[best].list->version))
      continue;
    held = held_by (seen, nr, list);
    whole = held == fp_roster_current (list);
    if (best < 0 || list->version > seen[best].list->version ||
        (whole && !best_whole) || (whole == best_whole && held > best_held)) {
      best = (int) i;
      best_held = held;
      best_whole = whole;
    }
  }
  return best;
}
