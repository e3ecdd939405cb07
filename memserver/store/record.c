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
#include "memserver/options.h"
#include "memserver/server.h"
#include "memserver/session/session.h"
#include "memserver/store/persist.h"
#include "memserver/store/record.h"

struct record *
record_find (struct server *srv, const struct fp_uuid *uuid)
{
  struct record *r;

  TAILQ_FOREACH (r, &srv->records, entry)
  if (fp_uuid_eq (&r->uuid, uuid))
    return r;
  return NULL;
}

struct record *
record_find_name (struct server *srv, const char *name)
{
  struct record *r;

  TAILQ_FOREACH (r, &srv->records, entry)
  if (strcmp (r->name, name) == 0)
    return r;
  return NULL;
}

static void
forget (struct record *r)
{
  TAILQ_REMOVE (&r->server->records, r, entry);
  r->server->nr_records--;
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
    pool_return (r->server->pool, s);
    given++;
  }
  r->nr_slabs = kept;
  /* Last: a label without a volume means that its file was taken away. */
  if (all)
    record_unkeep (r);
  return given;
}

/* Forget a volume that its client left.  Return how many slabs go back to the
 * pool.
 */
static uint32_t
forget_left (struct record *r, const char *why)
{
  uint32_t given = give_back (r, true);
  char title[FP_NAME_MAX + 1];

  record_title (r, title);
  fp_log (FP_LOG_INFO, "volume %s: %s did not come back%s: %u slabs freed",
          title, r->client, why, given);
  forget (r);
  return given;
}

static void
on_orphan_time_over (evutil_socket_t fd, short what, void *arg)
{
  (void) fd;
  (void) what;
  forget_left (arg, "");
}

/* ---- orphans ---- */

bool
record_is_orphan (const struct record *r)
{
  return !r->kept && !r->holder && fp_now_ns () >= r->orphan_ns;
}

struct record *
record_for (const struct session *s, struct record *r)
{
  bool known;

  if (!r || !record_is_orphan (r))
    return r;
  /* A session that got no key does not change which client may come back. */
  known = record_was_had_by (r, s) || fp_uuid_eq (&r->user, &s->client) ||
          record_is_former (r, &s->client); /* told that it is one */
  return known && !fp_uuid_is_nil (&s->client) ? r : NULL;
}

struct record *
record_find_for (const struct session *s, const struct fp_uuid *uuid)
{
  return record_for (s, record_find (s->server, uuid));
}

static bool
is_orphan_of (const struct record *r, const struct who *owner)
{
  return record_is_orphan (r) && (!owner || who_eq (&r->owner, owner));
}

/* Return how many of its slabs could be lent.  While the host is short of
 * memory, ordinary pages go to the host.
 */
static uint32_t
lendable (const struct record *r)
{
  return pool_is_pressed (r->server->pool) ? r->nr_sound_huge : r->nr_sound;
}

uint32_t
record_reclaimable (const struct server *srv, const struct who *owner)
{
  const struct record *r;
  uint32_t slabs = 0;

  TAILQ_FOREACH (r, &srv->records, entry)
  if (is_orphan_of (r, owner))
    slabs += lendable (r);
  return slabs;
}

bool
record_map_would_fit (const struct record *r)
{
  const struct server *srv = r->server;
  uint64_t words = srv->map_words + record_map_words (r);
  const struct record *other;

  TAILQ_FOREACH (other, &srv->records, entry)
  if (record_is_orphan (other) && other->map)
    words -= record_map_words (other);
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
    return lendable (r) > 0;
  case RECLAIM_ORDINARY:
    return r->nr_sound > r->nr_sound_huge;
  default:
    return true;
  }
}

void
record_forget_orphan (struct record *r)
{
  if (r && record_is_orphan (r))
    forget_left (r, ", and another client creates it again");
}

int
record_reclaim (struct server *srv, const struct who *owner, enum reclaim what)
{
  struct record *r, *first = NULL;

  TAILQ_FOREACH (r, &srv->records, entry)
  if (is_orphan_of (r, owner) && (!first || r->orphan_ns < first->orphan_ns) &&
      yields (r, what))
    first = r;
  return first ? (int) forget_left (first, ", and its memory is needed")
               : -ENOENT;
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
  uint64_t all_s = (uint64_t) lease_s + r->server->options->orphan_s;
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
record_make (struct record **out, struct server *srv, const struct fp_open *q)
{
  struct record *r;

  if (srv->nr_records >= MAX_RECORDS)
    return -ENOSPC;
  r = calloc (1, sizeof *r);
  if (!r)
    return -ENOMEM;
  r->server = srv;
  r->uuid = q->volume;
  memcpy (r->name, q->name, sizeof r->name);
  r->kept = r->name[0] != '\0' && !(q->flags & FP_OPEN_EPHEMERAL);
  r->size = q->size;
  r->created = (uint64_t) time (NULL);
  r->copies = q->copies;
  r->servers = q->servers;
  r->stripe = q->stripe;
  r->orphan_ns = UINT64_MAX; /* no client has left it */
  r->lease = evtimer_new (srv->base, on_orphan_time_over, r);
  if (!r->lease) {
    free (r);
    return -ENOMEM;
  }
  TAILQ_INSERT_TAIL (&srv->records, r, entry);
  srv->nr_records++;
  *out = r;
  return 0;
}

int
record_new (struct record **out, struct server *srv, const struct fp_open *q)
{
  struct record *r = NULL;
  int e = record_make (&r, srv, q);

  if (e == 0)
    e = record_keep (r);
  if (e == 0)
    *out = r;
  else if (r)
    forget (r);
  return e;
}

void
record_unmake (struct record *r)
{
  record_unkeep (r);
  forget (r);
}

void
record_attach (struct record *r, struct session *s, const struct fp_open *q)
{
  event_del (r->lease);
  s->stranger = s->server->access &&
                (s->read_only || (r->holder_who.kind != WHO_NOBODY &&
                                  !who_eq (&r->holder_who, &s->who)));
  if (!s->read_only)
    r->holder_who = s->who;
  r->holder = s;
  r->holder_uuid = s->client;
  r->fenced_ns = r->awaited_ns = 0;
  r->transport = q->transport;
  r->ephemeral = (q->flags & FP_OPEN_EPHEMERAL) != 0;
  r->epoch += !s->read_only;
  r->since = (uint64_t) time (NULL);
  snprintf (r->client, sizeof r->client, "%s", s->name);
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
record_was_had_by (const struct record *r, const struct session *s)
{
  return fp_uuid_eq (&r->holder_uuid, &s->client) &&
         (!s->server->access || r->holder_who.kind == WHO_NOBODY ||
          who_eq (&r->holder_who, &s->who));
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
  const struct options *o = r->server->options;
  char title[FP_NAME_MAX + 1];
  uint32_t given;

  record_title (r, title);
  r->holder = NULL;
  r->since = (uint64_t) time (NULL);
  given = give_back (r, discard);
  if (!discard && !r->kept && record_leave (r, o->lease_s, 0) < 0) {
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
            title, r->client, given, r->nr_slabs, o->lease_s, o->orphan_s);
  if (discard)
    forget (r);
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
  forget (r);
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
    pool_return (r->server->pool, s);
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
  pool_lose (r->server->pool, s);
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

void
record_free_all (struct server *srv)
{
  while (!TAILQ_EMPTY (&srv->records))
    forget (TAILQ_FIRST (&srv->records));
}
