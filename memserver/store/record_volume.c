/* SPDX-License-Identifier: BSD-3-Clause */
/* record_volume.c - the list of servers and the map of extents, for a volume
 * that has a name or several copies of each extent.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "memserver/store/persist.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"

bool
record_has_map (const struct record *r)
{
  return r->name[0] != '\0' || r->copies > 1;
}

static bool
same_member (const struct fp_member *a, const struct fp_member *b)
{
  return fp_uuid_eq (&a->server, &b->server) &&
         strcmp (a->addr, b->addr) == 0 &&
         strcmp (a->domain, b->domain) == 0 && a->current == b->current;
}

static bool
same_members (const struct fp_members *a, const struct fp_members *b)
{
  if (a->version != b->version || a->count != b->count)
    return false;
  for (uint32_t i = 0; i < a->count; i++)
    if (!same_member (&a->members[i], &b->members[i]))
      return false;
  return true;
}

int
record_set_members (struct record *r, const struct fp_members *m)
{
  bool none = !r->members;
  int e = 0;

  if (r->members && m->version <= r->members->version)
    /* A client sends a list again if the reply was lost. */
    return same_members (r->members, m) ? 0 : -EINVAL;
  if (!r->members)
    r->members = malloc (sizeof *r->members);
  if (!r->members)
    return -ENOMEM;
  if (r->persist)
    e = persist_volume_set_members (r->persist, m);
  if (e == 0)
    *r->members = *m;
  else if (none) {
    free (r->members);
    r->members = NULL;
  }
  return e;
}

uint64_t
record_extents (const struct record *r)
{
  return fp_div_round_up (r->size, pool_slab_size (r->records->pool));
}

uint64_t
record_bits (const struct record *r)
{
  return fp_map_bits (record_extents (r), r->copies);
}

bool
record_has_lost (const struct record *r)
{
  uint64_t first = fp_map_lost (record_extents (r), r->copies);

  for (uint64_t w = first / 64;
       r->map && first > 0 && w < record_map_words (r); w++)
    if (r->map[w] != 0)
      return true;
  return false;
}

uint64_t
record_map_words (const struct record *r)
{
  return fp_div_round_up (record_bits (r), 64);
}

/* Return true if one of the first copies of this extent exists.  Word w of the
 * map is taken to be word.
 */
static bool
exists (const struct record *r, uint64_t extent, uint64_t copies, uint64_t w,
        uint64_t word)
{
  uint64_t extents = record_extents (r);

  for (uint64_t bit = extent; bit < copies * extents; bit += extents)
    if ((bit / 64 == w ? word : r->map[bit / 64]) >> (bit % 64) & 1)
      return true;
  return false;
}

void
record_take_map (struct record *r, uint64_t *map)
{
  uint64_t extents = record_extents (r), bit;

  r->map = map;
  r->records->map_words += record_map_words (r);
  r->existing = 0;
  for (uint64_t w = 0; w < record_map_words (r); w++)
    for (uint64_t word = map[w]; word != 0; word &= word - 1) {
      bit = w * 64 + (uint64_t) __builtin_ctzll (word);
      r->existing += bit < extents * r->copies &&
                     !exists (r, bit % extents, bit / extents, w, map[w]);
    }
}

/* Set word w of the map, by one store (persist.h), and count extents. */
static void
set_word (struct record *r, uint64_t w, uint64_t word)
{
  uint64_t extents = record_extents (r), now = r->map[w], bit, mask;

  for (uint64_t changed = now ^ word; changed != 0; changed &= changed - 1) {
    bit = w * 64 + (uint64_t) __builtin_ctzll (changed);
    mask = UINT64_C (1) << (bit % 64);
    now &= ~mask;
    /* Later bits are of no copy: see fp_map_bits. */
    if (bit < extents * r->copies &&
        !exists (r, bit % extents, r->copies, w, now)) {
      if (word & mask)
        r->existing++;
      else
        r->existing--;
    }
    now |= word & mask;
  }
  r->map[w] = word;
}

int
record_need_map (struct record *r)
{
  uint64_t words = record_map_words (r), *map = NULL;

  if (r->map || !record_has_map (r))
    return 0;
  if (r->records->map_words + words > MAX_MAP_WORDS)
    return -ENOSPC;
  if (r->persist) {
    int e = persist_volume_map (r->persist, words, &map);

    if (e < 0)
      return e;
  }
  else
    map = calloc (words, sizeof *map);
  if (!map)
    return -ENOMEM;
  record_take_map (r, map);
  return 0;
}

/* Return which bits of word w belong to the map. */
static uint64_t
valid_bits (const struct record *r, uint64_t w)
{
  return fp_map_valid (record_extents (r), r->copies, w);
}

int
record_map (struct record *r, const struct fp_map_change *q)
{
  int ret;

  for (uint32_t i = 0; i < q->count; i++)
    if (!(valid_bits (r, q->extents[i] / 64) >> (q->extents[i] % 64) & 1))
      return -EINVAL;
  if (!r->map && !q->exist)
    return 0;
  ret = record_need_map (r);
  if (ret < 0)
    return ret;
  for (uint32_t i = 0; i < q->count; i++) {
    uint64_t w = q->extents[i] / 64;
    uint64_t bit = UINT64_C (1) << (q->extents[i] % 64);

    set_word (r, w, q->exist ? r->map[w] | bit : r->map[w] & ~bit);
  }
  return 0;
}

int
record_map_write (struct record *r, const struct fp_map_words *q)
{
  uint64_t first = q->start / 64, any = 0;
  int ret;

  for (uint32_t i = 0; i < q->count; i++) {
    if (q->words[i] & ~valid_bits (r, first + i))
      return -EINVAL;
    any |= q->words[i];
  }
  if (!r->map && any == 0)
    return 0;
  ret = record_need_map (r);
  if (ret < 0)
    return ret;
  for (uint32_t i = 0; i < q->count && first + i < record_map_words (r); i++)
    set_word (r, first + i, q->words[i]);
  return 0;
}

void
record_map_read (const struct record *r, const struct fp_map_read *q,
                 struct fp_map_words *p)
{
  uint64_t first = q->start / 64;

  p->start = q->start;
  p->count = q->count;
  for (uint32_t i = 0; i < q->count; i++)
    p->words[i] =
        r->map && first + i < record_map_words (r) ? r->map[first + i] : 0;
}

uint32_t
record_fenced_ms (const struct record *r)
{
  uint64_t now = fp_now_ns (), ms;
  uint64_t until = FP_MAX (r->fenced_ns, r->awaited_ns);

  if (r->holder || now >= until)
    return 0;
  ms = fp_div_round_up (until - now, FP_NS_PER_MS);
  return (uint32_t) FP_MIN (ms, (uint64_t) UINT32_MAX);
}

void
record_describe (const struct record *r, struct fp_volume_entry *e)
{
  *e = (struct fp_volume_entry) {
    .uuid = r->uuid,
    .size = r->size,
    .slab_size = pool_slab_size (r->records->pool),
    .copies = r->copies,
    .stripe = r->stripe,
    .created = r->created,
    .ephemeral = !r->kept,
    .attached = r->holder != NULL,
    .since = r->since,
    .extents = r->existing,
  };
  if (r->members)
    e->members = r->members->count;
  memcpy (e->name, r->name, sizeof e->name);
  memcpy (e->client, r->client, sizeof e->client);
  for (uint32_t i = 0; i < r->nr_slabs; i++)
    e->slabs += r->slabs[i]->state == SLAB_LENT &&
                r->slabs[i]->label.extent != FP_EXTENT_NONE;
}

void
record_forget_volume (struct record *r)
{
  free (r->members);
  r->members = NULL;
  if (r->map)
    r->records->map_words -= record_map_words (r);
  if (r->persist)
    persist_volume_close (r->persist); /* with its map */
  else
    free (r->map);
  r->persist = NULL;
  r->map = NULL;
}
