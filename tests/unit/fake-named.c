/* SPDX-License-Identifier: BSD-3-Clause */
/* fake-named.c - the fake servers' state for tests, and named volumes. */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fake-ctl-int.h"
#include "meta/membership.h"

void
fake_server_alias (struct fake_server *s, const char *host)
{
  FP_LOCK_SCOPE (&fake_lock);
  snprintf (s->alias, sizeof s->alias, "%s", host);
}

void
fake_server_probe (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->epoch++;
  assert (fp_uuid_generate (&s->client) == 0);
}

bool
fake_server_knows (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  return s->known;
}

unsigned
fake_server_counted (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  return s->opened.servers;
}

void
fake_server_plant (struct fake_server *s, unsigned slab, uint64_t extent,
                   uint64_t generation)
{
  FP_LOCK_SCOPE (&fake_lock);
  assert (s->slab[slab].state == SLAB_FREE);
  s->slab[slab] = (struct fake_slab) { .state = SLAB_LABELLED,
                                       .extent = extent,
                                       .generation = generation };
}

uint64_t
fake_server_generation (struct fake_server *s, uint64_t extent)
{
  uint64_t g = 0;

  FP_LOCK_SCOPE (&fake_lock);
  for (unsigned i = 0; i < s->slabs; i++)
    if (s->slab[i].state == SLAB_LABELLED && s->slab[i].extent == extent &&
        s->slab[i].generation > g)
      g = s->slab[i].generation;
  return g;
}

static unsigned
count_slabs (struct fake_server *s, int state)
{
  unsigned n = 0;

  FP_LOCK_SCOPE (&fake_lock);
  for (unsigned i = 0; i < s->slabs; i++)
    n += (int) s->slab[i].state == state;
  return n;
}

unsigned
fake_server_free_slabs (struct fake_server *s)
{
  return count_slabs (s, SLAB_FREE);
}

unsigned
fake_server_labelled (struct fake_server *s)
{
  return count_slabs (s, SLAB_LABELLED);
}

uint64_t
fake_server_version (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  return s->members.version;
}

unsigned
fake_server_current (struct fake_server *s)
{
  unsigned n = 0;

  FP_LOCK_SCOPE (&fake_lock);
  for (uint32_t i = 0; i < s->members.count; i++)
    n += s->members.members[i].current;
  return n;
}

unsigned
fake_server_mapped (struct fake_server *s)
{
  unsigned n = 0;

  FP_LOCK_SCOPE (&fake_lock);
  for (unsigned i = 0; i < FAKE_MAP_WORDS; i++)
    n += (unsigned) __builtin_popcountll (s->map[i]);
  return n;
}

void
fake_server_set_list (struct fake_server *s, const struct fp_members *list)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->members = *list;
}

void
fake_server_attached (struct fake_server *s, uint64_t times)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->members.version += times * FP_MEMBERSHIP_ROUND;
}

void
fake_server_newer_list (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->members.version++;
}

void
fake_server_hold (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->held = true;
}

uint64_t
fake_server_opened (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  return s->epoch;
}

bool
fake_server_is_read (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  return s->ctl != NULL && s->ctl->read_only;
}

void
fake_server_set_map (struct fake_server *s, uint64_t extent, bool exists)
{
  uint64_t bit = UINT64_C (1) << (extent % 64);

  FP_LOCK_SCOPE (&fake_lock);
  if (exists)
    s->map[extent / 64] |= bit;
  else
    s->map[extent / 64] &= ~bit;
}

int
fp_ctl_lookup (struct fp_ctl *c, const struct fp_lookup *q,
               struct fp_lookup_reply *p, uint64_t deadline_ns)
{
  CALL (c, FP_MSG_LOOKUP, {
    bool named = q->name[0] != '\0';

    assert (named == fp_uuid_is_nil (&q->volume));
    if (!s->known || (named && strcmp (q->name, s->opened.name) != 0) ||
        (!named && !fp_uuid_eq (&q->volume, &s->volume))) {
      r = -ENOENT;
      c->why = "no such volume";
    }
    else {
      memset (p, 0, sizeof *p);
      p->volume.uuid = s->volume;
      memcpy (p->volume.name, s->opened.name, sizeof p->volume.name);
      p->volume.size = s->opened.size;
      p->volume.slab_size = s->slab_size;
      p->volume.copies = s->opened.copies;
      p->volume.stripe = s->opened.stripe;
      for (unsigned i = 0; i < s->slabs; i++)
        p->volume.slabs += s->slab[i].state == SLAB_LABELLED;
      p->volume.ephemeral = (s->opened.flags & FP_OPEN_EPHEMERAL) != 0;
      p->volume.attached = s->ctl != NULL;
      strcpy (p->volume.client, s->ctl != NULL ? s->ctl->name : "");
      p->epoch = s->epoch;
      p->members = s->members;
    }
  });
}

int
fp_ctl_members (struct fp_ctl *c, const struct fp_members *q,
                uint64_t deadline_ns)
{
  CALL (c, FP_MSG_MEMBERS, {
    assert (s->ctl == c && q->count > 0);
    if (q->version < s->members.version ||
        (q->version == s->members.version &&
         memcmp (q, &s->members, sizeof *q) != 0))
      r = -EINVAL;
    else
      s->members = *q;
  });
}

int
fp_ctl_map (struct fp_ctl *c, const struct fp_map_change *q,
            uint64_t deadline_ns)
{
  CALL (c, FP_MSG_MAP, {
    assert (s->ctl == c && q->count > 0);
    for (uint32_t i = 0; i < q->count; i++) {
      uint64_t bit = UINT64_C (1) << (q->extents[i] % 64);

      assert (q->extents[i] < 64 * FAKE_MAP_WORDS);
      if (q->exist)
        s->map[q->extents[i] / 64] |= bit;
      else
        s->map[q->extents[i] / 64] &= ~bit;
    }
  });
}

int
fp_ctl_map_read (struct fp_ctl *c, const struct fp_map_read *q,
                 struct fp_map_words *p, uint64_t deadline_ns)
{
  CALL (c, FP_MSG_MAP_READ, {
    assert (s->ctl == c && q->start / 64 + q->count <= FAKE_MAP_WORDS);
    p->start = q->start;
    p->count = q->count;
    memcpy (p->words, s->map + q->start / 64, q->count * sizeof p->words[0]);
  });
}

int
fp_ctl_map_write (struct fp_ctl *c, const struct fp_map_words *q,
                  uint64_t deadline_ns)
{
  CALL (c, FP_MSG_MAP_WRITE, {
    assert (s->ctl == c && q->start / 64 + q->count <= FAKE_MAP_WORDS);
    memcpy (s->map + q->start / 64, q->words, q->count * sizeof q->words[0]);
  });
}
