/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <string.h>

#include "meta/membership.h"

int
fp_membership_find (const struct fp_members *list,
                    const struct fp_uuid *server)
{
  for (uint32_t i = 0; i < list->count; i++)
    if (fp_uuid_eq (&list->members[i].server, server))
      return (int) i;
  return -1;
}

unsigned
fp_membership_current (const struct fp_members *list)
{
  unsigned n = 0;

  for (uint32_t i = 0; i < list->count; i++)
    n += list->members[i].current;
  return n;
}

bool
fp_membership_same (const struct fp_members *a, const struct fp_members *b)
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

static bool
is_current (const struct fp_members *list, const struct fp_uuid *server)
{
  int at = fp_membership_find (list, server);

  return at >= 0 && list->members[at].current;
}

/* Return true if the server has a list other than version 0. */
static bool
has_list (const struct fp_seen *s)
{
  return s->list != NULL && s->list->version > 0;
}

/* Return the list of this server, or NULL. */
static const struct fp_members *
list_of (const struct fp_seen *seen, unsigned nr, const struct fp_uuid *server)
{
  for (unsigned i = 0; i < nr; i++)
    if (has_list (&seen[i]) && fp_uuid_eq (seen[i].server, server))
      return seen[i].list;
  return NULL;
}

uint64_t
fp_membership_newest (const struct fp_seen *seen, unsigned nr)
{
  uint64_t version = 0;

  for (unsigned i = 0; i < nr; i++)
    if (has_list (&seen[i]) && seen[i].list->version > version)
      version = seen[i].list->version;
  return version;
}

bool
fp_membership_is_lacked (const struct fp_seen *seen, unsigned nr,
                         const struct fp_members *list)
{
  for (unsigned i = 0; i < nr; i++)
    if (has_list (&seen[i]) && seen[i].list->version <= list->version &&
        !fp_membership_same (seen[i].list, list) &&
        is_current (list, seen[i].server))
      return true;
  return false;
}

/* Return how many of the list's current members have it. */
static unsigned
held_by (const struct fp_seen *seen, unsigned nr,
         const struct fp_members *list)
{
  unsigned n = 0;

  for (unsigned i = 0; i < nr; i++)
    n += has_list (&seen[i]) && fp_membership_same (seen[i].list, list) &&
         is_current (list, seen[i].server);
  return n;
}

int
fp_membership_best (const struct fp_seen *seen, unsigned nr)
{
  unsigned best_held = 0;
  bool best_lacked = true;
  int best = -1;

  for (unsigned i = 0; i < nr; i++) {
    const struct fp_members *list = seen[i].list;
    uint64_t version = best < 0 ? 0 : seen[best].list->version;
    unsigned held;
    bool lacked, better;

    if (!has_list (&seen[i]) || list->count == 0)
      continue;
    held = held_by (seen, nr, list);
    lacked = fp_membership_is_lacked (seen, nr, list);
    if (lacked != best_lacked)
      better = !lacked;
    else if (list->version != version)
      better = lacked ? list->version < version : list->version > version;
    else
      better = held > best_held;
    if (best < 0 || better) {
      best = (int) i;
      best_held = held;
      best_lacked = lacked;
    }
  }
  return best;
}

bool
fp_membership_counts (const struct fp_members *base,
                      const struct fp_members *list)
{
  return list->version >= base->version && !fp_membership_same (base, list);
}

bool
fp_membership_may_have (const struct fp_seen *seen, unsigned nr,
                        const struct fp_uuid *server,
                        const struct fp_members *list)
{
  const struct fp_members *has = list_of (seen, nr, server);

  return has == NULL || has->version < list->version ||
         fp_membership_same (has, list);
}

bool
fp_membership_is_sure (const struct fp_seen *seen, unsigned nr, unsigned base,
                       unsigned copies)
{
  const struct fp_members *list = seen[base].list;

  return held_by (seen, nr, list) >=
         fp_membership_quorum (fp_membership_current (list), copies);
}

uint64_t
fp_membership_believed (const struct fp_seen *seen, unsigned nr, unsigned base,
                        unsigned copies)
{
  const struct fp_members *list = seen[base].list;
  bool sure = fp_membership_is_sure (seen, nr, base, copies);
  uint64_t set = 0;

  for (uint32_t m = 0; m < list->count; m++) {
    bool all = list->members[m].current;

    for (unsigned i = 0; i < nr && !sure; i++)
      if (has_list (&seen[i]) && fp_membership_counts (list, seen[i].list))
        all = all && is_current (seen[i].list, &list->members[m].server);
    set |= (uint64_t) all << m;
  }
  return set;
}

/* Return how many of the list's current members answer. */
static unsigned
answering (const struct fp_seen *seen, unsigned nr,
           const struct fp_members *list)
{
  unsigned n = 0;

  for (uint32_t m = 0; m < list->count; m++)
    n += list->members[m].current &&
         list_of (seen, nr, &list->members[m].server) != NULL;
  return n;
}

bool
fp_membership_enough (const struct fp_seen *seen, unsigned nr, unsigned base,
                      unsigned copies)
{
  const struct fp_members *list = seen[base].list;
  uint64_t believed = fp_membership_believed (seen, nr, base, copies),
           here = 0;
  bool several = false;

  if (fp_membership_is_sure (seen, nr, base, copies))
    return true;
  for (unsigned i = 0; i < nr; i++) {
    const struct fp_members *other = seen[i].list;

    if (!has_list (&seen[i]) || !fp_membership_counts (list, other))
      continue;
    several = true;
    if (answering (seen, nr, other) <
        fp_membership_quorum (fp_membership_current (other), copies))
      return false;
  }
  for (uint32_t m = 0; m < list->count; m++)
    if ((believed >> m & 1) &&
        list_of (seen, nr, &list->members[m].server) != NULL)
      here |= UINT64_C (1) << m;
  return !several || fp_membership_may_shrink (
                         (unsigned) __builtin_popcountll (believed),
                         (unsigned) __builtin_popcountll (here), copies);
}
