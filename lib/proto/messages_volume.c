/* SPDX-License-Identifier: BSD-3-Clause */
/* messages_volume.c - encoders and decoders of the messages about volumes with
 * a name, like those in messages.c.
 */

#include <config.h>

#include "base/checked.h"
#include "proto/encoding.h"

static void
put_members (struct fp_writer *w, const struct fp_members *m)
{
  uint32_t n;

  fp_put_u64 (w, m->version);
  n = put_count (w, m->count, FP_MAX_MEMBERS);
  for (uint32_t i = 0; i < n; i++) {
    const struct fp_member *e = &m->members[i];

    put_uuid (w, &e->server);
    fp_put_string (w, e->addr, FP_ADDR_MAX);
    fp_put_string (w, e->domain, FP_NAME_MAX);
    fp_put_bool (w, e->current);
  }
}

static bool
is_listed_before (const struct fp_members *m, uint32_t i)
{
  for (uint32_t k = 0; k < i; k++)
    if (fp_uuid_eq (&m->members[k].server, &m->members[i].server))
      return true;
  return false;
}

bool
fp_members_ok (const struct fp_members *m)
{
  bool ok = m->count <= FP_MAX_MEMBERS, any_current = false;

  for (uint32_t i = 0; ok && i < m->count; i++) {
    const struct fp_member *e = &m->members[i];

    any_current |= e->current;
    ok = !fp_uuid_is_nil (&e->server) && fp_addr_text_ok (e->addr) &&
         name_ok_or_empty (e->domain) && !is_listed_before (m, i);
  }
  return ok && (m->version > 0) == (m->count > 0) &&
         any_current == (m->count > 0);
}

static bool
get_members (struct fp_reader *r, struct fp_members *m)
{
  m->version = fp_get_u64 (r);
  m->count = get_count (r, 0, FP_MAX_MEMBERS);
  for (uint32_t i = 0; i < m->count; i++) {
    struct fp_member *e = &m->members[i];

    get_uuid (r, &e->server);
    fp_get_string (r, e->addr, FP_ADDR_MAX);
    fp_get_string (r, e->domain, FP_NAME_MAX);
    e->current = fp_get_bool (r);
  }
  return fp_members_ok (m);
}

static void
put_entry (struct fp_writer *w, const struct fp_volume_entry *e)
{
  put_uuid (w, &e->uuid);
  fp_put_string (w, e->name, FP_NAME_MAX);
  fp_put_u64 (w, e->size);
  fp_put_u64 (w, e->slab_size);
  fp_put_u32 (w, e->copies);
  put_stripe (w, &e->stripe);
  fp_put_u64 (w, e->slabs);
  fp_put_u64 (w, e->extents);
  fp_put_u32 (w, e->members);
  fp_put_u64 (w, e->created);
  fp_put_bool (w, e->ephemeral);
  fp_put_bool (w, e->attached);
  fp_put_string (w, e->client, FP_NAME_MAX);
  fp_put_u64 (w, e->since);
}

bool
fp_volume_entry_ok (const struct fp_volume_entry *e)
{
  return !fp_uuid_is_nil (&e->uuid) && name_ok_or_empty (e->name) &&
         e->size > 0 && e->size <= INT64_MAX && slab_size_ok (e->slab_size) &&
         e->copies >= 1 && e->copies <= FP_WIRE_COPIES_MAX &&
         e->extents <= fp_div_round_up (e->size, e->slab_size) &&
         e->members <= FP_MAX_MEMBERS &&
         fp_stripe_ok (&e->stripe, e->slab_size) &&
         name_ok_or_empty (e->client);
}

static bool
get_entry (struct fp_reader *r, struct fp_volume_entry *e)
{
  get_uuid (r, &e->uuid);
  fp_get_string (r, e->name, FP_NAME_MAX);
  e->size = fp_get_u64 (r);
  e->slab_size = fp_get_u64 (r);
  e->copies = fp_get_u32 (r);
  get_stripe (r, &e->stripe);
  e->slabs = fp_get_u64 (r);
  e->extents = fp_get_u64 (r);
  e->members = fp_get_u32 (r);
  e->created = fp_get_u64 (r);
  e->ephemeral = fp_get_bool (r);
  e->attached = fp_get_bool (r);
  fp_get_string (r, e->client, FP_NAME_MAX);
  e->since = fp_get_u64 (r);
  return fp_volume_entry_ok (e);
}

void
fp_enc_lookup (struct fp_writer *w, const struct fp_lookup *m)
{
  put_uuid (w, &m->volume);
  fp_put_string (w, m->name, FP_NAME_MAX);
}

int
fp_dec_lookup (struct fp_reader *r, struct fp_lookup *m)
{
  get_uuid (r, &m->volume);
  fp_get_string (r, m->name, FP_NAME_MAX);
  return verdict (r, name_ok_or_empty (m->name) &&
                         fp_uuid_is_nil (&m->volume) != (m->name[0] == '\0'));
}

void
fp_enc_lookup_reply (struct fp_writer *w, const struct fp_lookup_reply *m)
{
  put_entry (w, &m->volume);
  fp_put_u64 (w, m->epoch);
  fp_put_u32 (w, m->fenced_ms);
  put_members (w, &m->members);
}

int
fp_dec_lookup_reply (struct fp_reader *r, struct fp_lookup_reply *m)
{
  bool ok = get_entry (r, &m->volume);

  m->epoch = fp_get_u64 (r);
  m->fenced_ms = fp_get_u32 (r);
  return verdict (r, get_members (r, &m->members) && ok);
}

void
fp_enc_members (struct fp_writer *w, const struct fp_members *m)
{
  put_members (w, m);
}

int
fp_dec_members (struct fp_reader *r, struct fp_members *m)
{
  return verdict (r, get_members (r, m) && m->version > 0);
}

void
fp_enc_map_change (struct fp_writer *w, const struct fp_map_change *m)
{
  uint32_t n;

  fp_put_bool (w, m->exist);
  n = put_count (w, m->count, FP_MAX_GRANTS);
  for (uint32_t i = 0; i < n; i++)
    fp_put_u64 (w, m->extents[i]);
}

int
fp_dec_map_change (struct fp_reader *r, struct fp_map_change *m)
{
  m->exist = fp_get_bool (r);
  m->count = get_count (r, 1, FP_MAX_GRANTS);
  for (uint32_t i = 0; i < m->count; i++)
    m->extents[i] = fp_get_u64 (r);
  return verdict (r, true);
}

void
fp_enc_map_read (struct fp_writer *w, const struct fp_map_read *m)
{
  fp_put_u64 (w, m->start);
  fp_put_u32 (w, m->count);
}

int
fp_dec_map_read (struct fp_reader *r, struct fp_map_read *m)
{
  m->start = fp_get_u64 (r);
  m->count = get_count (r, 1, FP_MAP_WORDS);
  return verdict (r, m->start % 64 == 0);
}

void
fp_enc_map_words (struct fp_writer *w, const struct fp_map_words *m)
{
  uint32_t n;

  fp_put_u64 (w, m->start);
  n = put_count (w, m->count, FP_MAP_WORDS);
  for (uint32_t i = 0; i < n; i++)
    fp_put_u64 (w, m->words[i]);
}

int
fp_dec_map_words (struct fp_reader *r, struct fp_map_words *m)
{
  m->start = fp_get_u64 (r);
  m->count = get_count (r, 1, FP_MAP_WORDS);
  for (uint32_t i = 0; i < m->count; i++)
    m->words[i] = fp_get_u64 (r);
  return verdict (r, m->start % 64 == 0);
}

void
fp_enc_delete (struct fp_writer *w, const struct fp_delete *m)
{
  put_uuid (w, &m->volume);
}

int
fp_dec_delete (struct fp_reader *r, struct fp_delete *m)
{
  get_uuid (r, &m->volume);
  return verdict (r, !fp_uuid_is_nil (&m->volume));
}

void
fp_enc_volumes_req (struct fp_writer *w, const struct fp_volumes_req *m)
{
  fp_put_u32 (w, m->start);
}

int
fp_dec_volumes_req (struct fp_reader *r, struct fp_volumes_req *m)
{
  m->start = fp_get_u32 (r);
  return verdict (r, true);
}

void
fp_enc_volumes (struct fp_writer *w, const struct fp_volumes *m)
{
  uint32_t n;

  fp_put_u32 (w, m->total);
  n = put_count (w, m->count, FP_MAX_VOLUMES_LISTED);
  for (uint32_t i = 0; i < n; i++)
    put_entry (w, &m->volumes[i]);
}

int
fp_dec_volumes (struct fp_reader *r, struct fp_volumes *m)
{
  bool ok = true;

  m->total = fp_get_u32 (r);
  m->count = get_count (r, 0, FP_MAX_VOLUMES_LISTED);
  for (uint32_t i = 0; i < m->count; i++)
    ok = get_entry (r, &m->volumes[i]) && ok;
  return verdict (r, ok && m->count <= m->total);
}
