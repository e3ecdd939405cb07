/* SPDX-License-Identifier: BSD-3-Clause */
/* records.c - the volumes that this server has. */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "memserver/store/record.h"
#include "memserver/store/records.h"

void
records_init (struct records *all)
{
  TAILQ_INIT (&all->list);
}

void
records_free (struct records *all)
{
  while (!TAILQ_EMPTY (&all->list))
    record_forget (TAILQ_FIRST (&all->list));
}

struct record *
records_find (const struct records *all, const struct fp_uuid *uuid)
{
  struct record *r;

  TAILQ_FOREACH (r, &all->list, entry)
  if (fp_uuid_eq (&r->uuid, uuid))
    return r;
  return NULL;
}

struct record *
records_find_name (const struct records *all, const char *name)
{
  struct record *r;

  TAILQ_FOREACH (r, &all->list, entry)
  if (strcmp (r->name, name) == 0)
    return r;
  return NULL;
}

/* ---- orphans ---- */

static bool
is_orphan_of (const struct record *r, const struct who *owner)
{
  return record_is_orphan (r) && (!owner || who_eq (&r->owner, owner));
}

uint32_t
records_reclaimable (const struct records *all, const struct who *owner)
{
  const struct record *r;
  uint32_t slabs = 0;

  TAILQ_FOREACH (r, &all->list, entry)
  if (is_orphan_of (r, owner))
    slabs += record_lendable (r);
  return slabs;
}

bool
records_map_would_fit (const struct records *all, uint64_t words)
{
  const struct record *r;

  words += all->map_words;
  TAILQ_FOREACH (r, &all->list, entry)
  if (r->map && record_is_orphan (r))
    words -= record_map_words (r);
  return words <= MAX_MAP_WORDS;
}

static bool
yields (const struct record *r, enum reclaim what)
{
  switch (what) {
  case RECLAIM_MAP:
    return r->map != NULL;
  case RECLAIM_SLABS:
    return r->nr_slabs > 0;
  case RECLAIM_LENDABLE:
    return record_lendable (r) > 0;
  case RECLAIM_ORDINARY:
    return r->nr_sound > r->nr_sound_huge;
  default:
    return true;
  }
}

int
records_reclaim (struct records *all, const struct who *owner,
                 enum reclaim what)
{
  struct record *r, *first = NULL;

  TAILQ_FOREACH (r, &all->list, entry)
  if (is_orphan_of (r, owner) && (!first || r->orphan_ns < first->orphan_ns) &&
      yields (r, what))
    first = r;
  return first ? (int) record_forget_left (first, ", and its memory is needed")
               : -ENOENT;
}
