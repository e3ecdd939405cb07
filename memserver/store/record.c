/* SPDX-License-Identifier: BSD-3-Clause */
/* record.c - what this server knows of a volume, and the slabs it has here. */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"
#include "memserver/store/persist.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"

void
record_forget (struct record *r)
{
  TAILQ_REMOVE (&r->records->list, r, entry);
  r->records->nr--;
  record_forget_volume (r);
  event_free (r->lease);
  free (r->slabs);
  free (r);
}

/* Give slabs back to the pool: those without a label, or all.  Return how
 * many.  A lost slab does not go back; its mark stays or goes.
 */
static uint32_t
give_back (struct record *r, bool all)
{
  uint32_t kept = 0, given = 0;

  /* First: with only some of its slabs the volume must not be found again. */
  if (all)
    record_doom (r);
  for (uint32_t i = 0; i < r->nr_slabs; i++) {
    struct slab *s = r->slabs[i];

    if (!all && s->label.extent != FP_EXTENT_NONE) {
      r->slabs[kept++] = s;
      continue;
    }
    s->record = NULL;
    record_unkeep_slab (r, s);
    if (s->state == SLAB_LOST)
      continue;
    pool_return (r->records->pool, s);
    given++;
  }
  r->nr_slabs = kept;
  /* Last: a label without a volume means that its file was taken away. */
  if (all)
    record_unkeep (r);
  return given;
}

uint32_t
record_forget_left (struct record *r, const char *why)
{
  uint32_t given = give_back (r, true);
  char title[FP_NAME_MAX + 1];

  record_title (r, title);
  fp_log (FP_LOG_INFO, "volume %s: %s did not come back%s: %u slabs freed",
          title, r->client, why, given);
  record_forget (r);
  return given;
}

static void
on_orphan_time_over (evutil_socket_t fd, short what, void *arg)
{
  (void) fd;
  (void) what;
  record_forget_left (arg, "");
}

/* ---- orphans ---- */

bool
record_is_orphan (const struct record *r)
{
  return !r->kept && !r->holder && fp_now_ns () >= r->orphan_ns;
}

uint32_t
record_lendable (const struct record *r)
{
  return pool_is_pressed (r->records->pool) ? r->nr_sound_huge : r->nr_sound;
}

void
record_forget_orphan (struct record *r)
{
  if (r && record_is_orphan (r))
    record_forget_left (r, ", and another client creates it again");
}

void
record_left_with (struct record *r, const struct slab *s)
{
  if (s->state != SLAB_LENT || s->abandoned)
    return;
  r->nr_sound++;
  r->nr_sound_huge += !pool_is_ordinary (s);
}

int
record_leave (struct record *r, unsigned lease_s, uint64_t ago_s)
{
  uint64_t all_s = (uint64_t) lease_s + r->records->orphan_s;
  uint64_t now = fp_now_ns (), ago = FP_MIN (ago_s, all_s);
  /* After a restart its client has the time of a lease to come back. */
  const struct timeval tv = { .tv_sec = (time_t) FP_MAX (all_s - ago,
                                                         (uint64_t) lease_s) };

  if (ago < lease_s)
    r->orphan_ns = now + (lease_s - ago) * FP_NS_PER_S;
  else
    r->orphan_ns = now - FP_MIN (now, (ago - lease_s) * FP_NS_PER_S);
  r->nr_sound = r->nr_sound_huge = 0;
  for (uint32_t i = 0; i < r->nr_slabs; i++)
    record_left_with (r, r->slabs[i]);
  return event_add (r->lease, &tv) < 0 ? -ENOMEM : 0;
}

int
record_make (struct record **out, struct records *all, const struct fp_open *q)
{
  struct record *r;

  if (all->nr >= MAX_RECORDS)
    return -ENOSPC;
  r = calloc (1, sizeof *r);
  if (!r)
    return -ENOMEM;
  r->records = all;
  r->uuid = q->volume;
  memcpy (r->name, q->name, sizeof r->name);
  r->kept = r->name[0] != '\0' && !(q->flags & FP_OPEN_EPHEMERAL);
  r->size = q->size;
  r->created = (uint64_t) time (NULL);
  r->copies = q->copies;
  r->servers = q->servers;
  r->stripe = q->stripe;
  r->orphan_ns = UINT64_MAX; /* no client has left it */
  r->lease = evtimer_new (all->base, on_orphan_time_over, r);
  if (!r->lease) {
    free (r);
    return -ENOMEM;
  }
  TAILQ_INSERT_TAIL (&all->list, r, entry);
  all->nr++;
  *out = r;
  return 0;
}

int
record_new (struct record **out, struct records *all, const struct fp_open *q)
{
  struct record *r = NULL;
  int e = record_make (&r, all, q);

  if (e == 0)
    e = record_keep (r);
  if (e == 0)
    *out = r;
  else if (r)
    record_forget (r);
  return e;
}

void
record_unmake (struct record *r)
{
  record_unkeep (r);
  record_forget (r);
}

void
record_attach (struct record *r, const struct record_holder *h,
               const struct fp_open *q)
{
  event_del (r->lease);
  if (!h->read_only)
    r->holder_who = *h->who;
  r->holder = h->session;
  r->holder_uuid = *h->client;
  r->fenced_ns = r->awaited_ns = 0;
  r->transport = q->transport;
  r->ephemeral = (q->flags & FP_OPEN_EPHEMERAL) != 0;
  r->epoch += !h->read_only;
  r->since = (uint64_t) time (NULL);
  snprintf (r->client, sizeof r->client, "%s", h->name);
  (void) record_keep (r); /* cannot fail: the file exists */
}

void
record_own (struct record *r, const struct who *owner)
{
  r->owner = *owner;
  if (r->persist)
    persist_volume_set_owner (r->persist, owner);
}

void
record_recount (struct record *r, uint32_t servers)
{
  r->servers = servers;
  (void) record_keep (r); /* cannot fail: the file exists */
}

bool
record_is_former (const struct record *r, const struct fp_uuid *client)
{
  for (unsigned i = 0; i < FP_MIN (r->nr_former, RECORD_FORMER); i++)
    if (fp_uuid_eq (&r->former[i], client))
      return true;
  return false;
}

static bool
add_former (struct record *r, const struct fp_uuid *client)
{
  if (fp_uuid_is_nil (client) || record_is_former (r, client))
    return false;
  r->former[r->nr_former++ % RECORD_FORMER] = *client;
  return true;
}

void
record_used (struct record *r)
{
  if (fp_uuid_eq (&r->user, &r->holder_uuid))
    return;
  add_former (r, &r->user);
  r->user = r->holder_uuid;
  (void) record_keep (r);
}

bool
record_shut_out (struct record *r)
{
  if (!add_former (r, &r->holder_uuid))
    return false;
  /* A client dropped from the list can tell by this: PROTOCOL.md, PERM. */
  r->epoch++;
  (void) record_keep (r);
  return true;
}

void
record_detach (struct record *r, bool discard)
{
  const struct records *all = r->records;
  char title[FP_NAME_MAX + 1];
  uint32_t given;

  record_title (r, title);
  r->holder = NULL;
  r->since = (uint64_t) time (NULL);
  given = give_back (r, discard);
  if (!discard && !r->kept && record_leave (r, all->lease_s, 0) < 0) {
    /* There is no lease without a timer. */
    discard = true;
    given += give_back (r, true);
  }
  if (!discard)
    (void) record_keep (r); /* cannot fail: the file exists */
  if (discard)
    fp_log (FP_LOG_INFO, "volume %s: discarded by %s: %u slabs freed", title,
            r->client, given);
  else if (r->kept)
    fp_log (FP_LOG_INFO, "volume %s: left by %s: %u slabs freed, %u kept",
            title, r->client, given, r->nr_slabs);
  else
    fp_log (FP_LOG_INFO,
            "volume %s: left by %s: %u slabs freed, %u kept for %u s, then "
            "for %u s more unless they are needed",
            title, r->client, given, r->nr_slabs, all->lease_s, all->orphan_s);
  if (discard)
    record_forget (r);
}

void
record_delete (struct record *r, const char *by)
{
  char title[FP_NAME_MAX + 1];
  uint32_t given;

  record_title (r, title);
  given = give_back (r, true);
  fp_log (FP_LOG_INFO, "volume %s: deleted by %s: %u slabs freed", title, by,
          given);
  record_forget (r);
}

int
record_add (struct record *r, struct slab *s)
{
  if (r->nr_slabs == r->max_slabs) {
    uint32_t max = FP_MAX (16u, 2 * r->max_slabs);
    struct slab **slabs = realloc (r->slabs, max * sizeof *slabs);

    if (!slabs)
      return -ENOMEM;
    r->slabs = slabs;
    r->max_slabs = max;
  }
  r->slabs[r->nr_slabs++] = s;
  s->record = r;
  s->label = (struct fp_label) { .slab = s->index, .extent = FP_EXTENT_NONE };
  return 0;
}

static void
take_out (struct record *r, struct slab *s)
{
  for (uint32_t i = 0; i < r->nr_slabs; i++) {
    if (r->slabs[i] == s) {
      memmove (&r->slabs[i], &r->slabs[i + 1],
               (r->nr_slabs - i - 1) * sizeof *r->slabs);
      r->nr_slabs--;
      break;
    }
  }
  s->record = NULL;
}

void
record_release (struct record *r, struct slab *s)
{
  take_out (r, s);
  record_unkeep_slab (r, s);
  if (s->state != SLAB_LOST)
    pool_return (r->records->pool, s);
}

void
record_label (struct record *r, struct slab *s, const struct fp_label *l)
{
  s->label = *l;
  record_keep_slab (r, s);
}

void
record_lose (struct record *r, struct slab *s)
{
  fp_log (FP_LOG_ERROR, "slab %u is lost: its key cannot be revoked",
          s->index);
  if (s->label.extent == FP_EXTENT_NONE)
    take_out (r, s);
  pool_lose (r->records->pool, s);
  if (s->record)
    record_keep_slab (r, s);
}

void
record_title (const struct record *r, char out[FP_NAME_MAX + 1])
{
  char uuid[FP_UUID_STR_MAX];

  fp_uuid_format (&r->uuid, uuid);
  snprintf (out, FP_NAME_MAX + 1, "%s", r->name[0] ? r->name : uuid);
}
