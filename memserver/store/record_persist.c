/* SPDX-License-Identifier: BSD-3-Clause */
/* record_persist.c - save records and labels for the next server (persist.h).
 */

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

_Static_assert(RECORD_FORMER == PERSIST_FORMER, "all of them are kept");

static void
describe (const struct record *r, struct persist_record *out)
{
  *out = (struct persist_record) {
    .uuid = r->uuid,
    .holder = r->holder_uuid,
    .user = r->user,
    .size = r->size,
    .created = r->created,
    .epoch = r->epoch,
    .since = r->since,
    .fenced_ns = r->fenced_ns,
    .flags = (r->kept ? PERSIST_KEPT : 0) |
             (r->ephemeral ? PERSIST_EPHEMERAL : 0) |
             (r->holder ? PERSIST_ATTACHED : 0),
    .copies = r->copies,
    .servers = r->servers,
    .stripe_width = (uint16_t) r->stripe.width,
    .stripe_shift = (uint16_t) __builtin_ctzll (r->stripe.size),
    .transport = r->transport,
    .nr_former = r->nr_former,
  };
  snprintf (out->name, sizeof out->name, "%s", r->name);
  snprintf (out->client, sizeof out->client, "%s", r->client);
  memcpy (out->former, r->former, sizeof out->former);
}

int
record_keep (struct record *r)
{
  struct persist_record p;

  if (!r->records->persist)
    return 0;
  describe (r, &p);
  if (!r->persist)
    return persist_volume_new (&r->persist, r->records->persist, &p);
  persist_volume_save (r->persist, &p);
  return 0;
}

void
record_keep_slab (const struct record *r, const struct slab *s)
{
  struct persist_label l = {
    .volume = r->uuid,
    .extent = s->label.extent,
    .generation = s->label.generation,
    .copy = s->label.copy,
    .state = s->state == SLAB_LOST ? PERSIST_LOST : PERSIST_LABELLED,
    .serial = s->backing.serial,
  };

  if (s->exposed)
    l.mapper = s->mapper;

  if (r->records->persist)
    persist_label (r->records->persist, s->index, &l);
}

void
record_unkeep_slab (const struct record *r, const struct slab *s)
{
  if (r->records->persist)
    persist_unlabel (r->records->persist, s->index);
}

void
record_doom (struct record *r)
{
  if (r->persist)
    persist_volume_doom (r->persist);
}

void
record_unkeep (struct record *r)
{
  if (!r->persist)
    return;
  persist_volume_delete (r->persist);
  r->persist = NULL;
  if (r->map)
    r->records->map_words -= record_map_words (r);
  r->map = NULL;
  r->existing = 0;
}

/* ---- the next server ---- */

enum pool_left
records_left (const struct records *all, uint32_t slab, uint32_t *serial)
{
  struct persist_label l = persist_labelled (all->persist, slab);

  *serial = l.serial;
  switch (l.state) {
  case PERSIST_LABELLED:
    return POOL_LEFT_LENT;
  case PERSIST_LOST:
    return POOL_LEFT_LOST;
  default:
    return POOL_LEFT_FREE;
  }
}

void
record_moved (void *ctx, struct slab *s)
{
  (void) ctx;
  if (s->record && s->label.extent != FP_EXTENT_NONE)
    record_keep_slab (s->record, s);
}
