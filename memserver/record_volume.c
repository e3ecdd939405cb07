/* SPDX-License-Identifier: BSD-3-Clause */
/* record_volume.c - what a volume that has a name, or several copies of each
 * piece, has besides its slabs: the list of its servers, and the map of its
 * pieces.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "persist.h"
#include "record.h"
#include "server.h"

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
    /* An answer that was lost is asked for again. */
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
record_pieces (const struct record *r)
{
  return fp_div_round_up (r->size, pool_slab_size (r->server->pool));
}

uint64_t
record_bits (const struct record *r)
{
  return fp_map_bits (record_pieces (r), r->copies);
}

static uint64_t
map_words (const struct record *r)
{
  return fp_div_round_up (record_bits (r), 64);
}

int
record_need_map (struct record *r)
{
  uint64_t words = map_words (r);

  if (r->map || !record_has_map (r))
    return 0;
  if (r->server->map_words + words > MAX_MAP_WORDS)
    return -ENOSPC;
  if (r->persist) {
    int e = persist_volume_map (r->persist, words, &r->map);

    if (e < 0)
      return e;
  }
  else
    r->map = calloc (words, sizeof *r->map);
  if (!r->map)
    return -ENOMEM;
  r->server->map_words += words;
  return 0;
}

int
record_map (struct record *r, const struct fp_map_change *q)
{
  uint64_t bits = record_bits (r);
  int ret;

  for (uint32_t i = 0; i < q->count; i++)
    if (q->pieces[i] >= bits)
      return -EINVAL;
  if (!r->map && !q->exist)
    return 0;
  ret = record_need_map (r);
  if (ret < 0)
    return ret;
  for (uint32_t i = 0; i < q->count; i++) {
    uint64_t *word = &r->map[q->pieces[i] / 64];
    uint64_t bit = UINT64_C (1) << (q->pieces[i] % 64);

    *word = q->exist ? *word | bit : *word & ~bit;
  }
  return 0;
}

/* The bits of word w that the map has. */
static uint64_t
valid_bits (const struct record *r, uint64_t w)
{
  uint64_t bits = record_bits (r);

  if (w >= map_words (r))
    return 0;
  return bits - w * 64 >= 64 ? UINT64_MAX
                             : (UINT64_C (1) << (bits - w * 64)) - 1;
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
  for (uint32_t i = 0; i < q->count && first + i < map_words (r); i++)
    r->map[first + i] = q->words[i];
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
    p->words[i] = r->map && first + i < map_words (r) ? r->map[first + i] : 0;
}

uint32_t
record_fenced_ms (const struct record *r)
{
  uint64_t now = fp_now_ns (), ms;

  if (r->holder || now >= r->fenced_ns)
    return 0;
  ms = fp_div_round_up (r->fenced_ns - now, FP_NS_PER_MS);
  return (uint32_t) FP_MIN (ms, (uint64_t) UINT32_MAX);
}

/* Pieces that some copy of exists. */
static uint64_t
existing (const struct record *r)
{
  uint64_t pieces = record_pieces (r), n = 0;

  for (uint64_t i = 0; i < pieces; i++) {
    bool any = false;

    for (uint64_t k = i; !any && k < pieces * r->copies; k += pieces)
      any = r->map[k / 64] >> (k % 64) & 1;
    n += any;
  }
  return n;
}

void
record_describe (const struct record *r, struct fp_volume_entry *e)
{
  *e = (struct fp_volume_entry) {
    .uuid = r->uuid,
    .size = r->size,
    .slab_size = pool_slab_size (r->server->pool),
    .copies = r->copies,
    .stripe = r->stripe,
    .created = r->created,
    .ephemeral = !r->kept,
    .attached = r->holder != NULL,
    .since = r->since,
  };
  if (r->members)
    e->members = r->members->count;
  e->pieces = r->map ? existing (r) : 0;
  memcpy (e->name, r->name, sizeof e->name);
  memcpy (e->client, r->client, sizeof e->client);
  for (uint32_t i = 0; i < r->nr_slabs; i++)
    e->slabs += r->slabs[i]->state == SLAB_LENT &&
                r->slabs[i]->label.piece != FP_PIECE_NONE;
}

void
record_forget_volume (struct record *r)
{
  free (r->members);
  r->members = NULL;
  if (r->map)
    r->server->map_words -= map_words (r);
  if (r->persist)
    persist_volume_close (r->persist); /* its map, too */
  else
    free (r->map);
  r->persist = NULL;
  r->map = NULL;
}
