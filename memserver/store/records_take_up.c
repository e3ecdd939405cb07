/* SPDX-License-Identifier: BSD-3-Clause */
/* records_take_up.c - take up the records and labels that the last server
 * saved.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "memserver/store/persist.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"

/* Take up a saved record.  The client that had the volume may not know that
 * this server was away.  So what that client believes of its lease counts
 * (record.fenced_ns).
 */
static void
take_up_fields (struct record *r, const struct persist_record *p)
{
  unsigned lease = persist_lease_s (r->records->persist);

  r->created = p->created;
  r->epoch = p->epoch;
  r->since = p->since;
  r->transport = p->transport;
  r->ephemeral = (p->flags & PERSIST_EPHEMERAL) != 0;
  r->kept = (p->flags & PERSIST_KEPT) != 0;
  r->holder_uuid = p->holder;
  r->user = p->user;
  r->nr_former = p->nr_former;
  memcpy (r->former, p->former, sizeof r->former);
  memcpy (r->client, p->client, sizeof r->client);
  r->fenced_ns = p->flags & PERSIST_ATTACHED
                     ? fp_now_ns () + lease * FP_NS_PER_S
                     : p->fenced_ns;
}

static int
take_up_volume (struct records *all, struct persist_found *f)
{
  unsigned lease_s = all->lease_s;
  time_t ago_s;
  struct fp_open q = { .volume = f->record.uuid,
                       .size = f->record.size,
                       .copies = f->record.copies,
                       .servers = f->record.servers,
                       .stripe = persist_stripe (&f->record) };
  struct record *r;
  int e;

  memcpy (q.name, f->record.name, sizeof q.name);
  e = record_make (&r, all, &q);
  if (e < 0) {
    persist_volume_close (f->v);
    return e;
  }
  r->persist = f->v;
  if (f->map)
    record_take_map (r, f->map);
  take_up_fields (r, &f->record);
  r->owner = f->owner;
  /* While the volume is fenced, no other client can come back to it. */
  if (f->record.flags & PERSIST_ATTACHED)
    lease_s += persist_lease_s (all->persist);
  if (f->members.version > 0) {
    r->members = malloc (sizeof *r->members);
    if (!r->members)
      return -ENOMEM;
    *r->members = f->members;
  }
  if (f->record.flags & PERSIST_ATTACHED)
    r->since = (uint64_t) time (NULL); /* counts as left now */
  ago_s = time (NULL) - (time_t) r->since;
  /* The lease starts again, unless the volume was an orphan already. */
  if (ago_s < (time_t) lease_s)
    ago_s = 0;
  e = r->kept ? 0 : record_leave (r, lease_s, (uint64_t) ago_s);
  return e < 0 ? e : record_keep (r);
}

static int
take_up_slab (struct records *all, uint32_t i)
{
  struct persist_label l = persist_labelled (all->persist, i);
  struct slab *s = pool_slab (all->pool, i);
  struct record *r;
  int e;

  if (l.state == PERSIST_FREE)
    return 0;
  r = records_find (all, &l.volume);
  if (!r)
    return -EBADMSG; /* persist_open has checked it */
  e = record_add (r, s);
  if (e < 0)
    return e;
  s->label.extent = l.extent;
  s->label.copy = l.copy;
  s->label.generation = l.generation;
  /* Only the last server knew whether that client was done with it. */
  s->exposed = s->abandoned = !fp_uuid_is_nil (&l.mapper);
  s->mapper = l.mapper;
  record_left_with (r, s);
  return 0;
}

int
records_take_up (struct records *all)
{
  struct persist_found *f = calloc (1, sizeof *f);
  struct record *r;
  int e = f ? 0 : -ENOMEM;

  while (e == 0 && persist_next_found (all->persist, f))
    e = take_up_volume (all, f);
  free (f);
  for (uint32_t i = 0; e == 0 && i < pool_count (all->pool).total; i++)
    e = take_up_slab (all, i);
  TAILQ_FOREACH (r, &all->list, entry)
  {
    char title[FP_NAME_MAX + 1];

    record_title (r, title);
    fp_log (FP_LOG_INFO, "volume %s: found again, with %u slabs", title,
            r->nr_slabs);
  }
  return e;
}
