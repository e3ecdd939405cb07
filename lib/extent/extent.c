/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/sync.h"
#include "extent/stripe.h"

/* A chunk is at least 64 KiB and an extent has at most 4096 chunks.  So the
 * bits of an extent take at most 512 bytes, whatever the extent's size.
 */
#define MIN_CHUNK_SHIFT 16
#define MAX_CHUNKS 4096u

static void
extents_freep (struct fp_extents **tp)
{
  fp_extents_free (*tp);
}

int
fp_extents_new (struct fp_extents **out, uint64_t size, uint64_t extent_size,
                const struct fp_stripe *stripe, unsigned copies)
{
  FP_CLEANUP (extents_freep) struct fp_extents *t = NULL;

  if (extent_size < (UINT64_C (1) << MIN_CHUNK_SHIFT) ||
      (extent_size & (extent_size - 1)) != 0 || size == 0)
    return -EINVAL;
  if ((size - 1) / extent_size >= FP_MAX_EXTENTS / copies ||
      !fp_stripe_ok (stripe, extent_size))
    return -EINVAL;

  t = calloc (1, sizeof *t);
  if (t == NULL)
    return -ENOMEM;
  t->size = size;
  t->extent_size = extent_size;
  t->shift = (unsigned) __builtin_ctzll (extent_size);
  t->nr = (size - 1) / extent_size + 1;
  t->copies = copies;
  t->all = t->nr * copies;
  t->width = stripe->width;
  t->unit_shift = (unsigned) __builtin_ctzll (stripe->size);
  t->chunk_shift = MIN_CHUNK_SHIFT;
  while (extent_size >> t->chunk_shift > MAX_CHUNKS)
    t->chunk_shift++;
  t->chunks = (uint32_t) (extent_size >> t->chunk_shift);
  t->words = (t->chunks + 63) / 64;
  fp_mutex_init (&t->lock);
  fp_notifier_init (&t->changes);
  t->p = calloc (t->all, sizeof *t->p);
  t->written = calloc (t->nr * t->words, sizeof *t->written);
  t->in_sync = calloc (t->nr, sizeof *t->in_sync);
  t->moving_dirty = calloc (t->words, sizeof *t->moving_dirty);
  atomic_store (&t->moving, FP_NOT_MOVING);
  if (t->p == NULL || t->written == NULL || t->in_sync == NULL ||
      t->moving_dirty == NULL)
    return -ENOMEM;
  if (copies > 1) {
    t->dirty = calloc (t->all * t->words, sizeof *t->dirty);
    if (t->dirty == NULL)
      return -ENOMEM;
  }
  *out = FP_STEAL (t);
  return 0;
}

void
fp_extents_free (struct fp_extents *t)
{
  if (t == NULL)
    return;
  fp_notifier_destroy (&t->changes);
  pthread_mutex_destroy (&t->lock);
  free ((void *) t->moving_dirty);
  free ((void *) t->dirty);
  free ((void *) t->in_sync);
  free ((void *) t->written);
  free (t->p);
  free (t);
}

uint64_t
fp_extents_next_generation (struct fp_extents *t)
{
  return atomic_fetch_add (&t->generation, 1) + 1;
}

void
fp_extents_raise_generation (struct fp_extents *t, uint64_t seen)
{
  uint64_t now = atomic_load (&t->generation);

  while (now < seen &&
         !atomic_compare_exchange_weak (&t->generation, &now, seen))
    ;
}

int
fp_extent_server (const struct fp_extent *p)
{
  enum fp_extent_state s = fp_extent_state (p);

  if (s == FP_EXTENT_EMPTY || s == FP_EXTENT_LOST)
    return -1;
  if (s == FP_EXTENT_BUSY && !atomic_load (&p->held))
    return (int) atomic_load (&p->asked) - 1;
  return (int) atomic_load (&p->server);
}

void
fp_extent_leave (struct fp_extents *t, struct fp_extent *p)
{
  uint32_t w = atomic_fetch_sub_explicit (&p->word, 1, memory_order_acq_rel);

  assert ((w & FP_EXTENT_USERS) != 0);
  if (w >> 24 == FP_EXTENT_READY || (w & FP_EXTENT_USERS) != 1)
    return;
  /* The last operation has left a shut extent: wake the thread that drains it.
   */
  fp_notifier_raise (&t->changes);
}

bool
fp_extent_move (struct fp_extents *t, struct fp_extent *p,
                enum fp_extent_state from, enum fp_extent_state to)
{
  uint32_t w = atomic_load (&p->word);

  do {
    if (w >> 24 != from)
      return false;
  } while (!atomic_compare_exchange_weak (
      &p->word, &w, (uint32_t) to << 24 | (w & FP_EXTENT_USERS)));
  if (from == FP_EXTENT_BUSY || from == FP_EXTENT_FROZEN ||
      (from == FP_EXTENT_READY && to != FP_EXTENT_OFFLINE))
    fp_notifier_raise (&t->changes);
  return true;
}

bool
fp_extent_drained (struct fp_extents *t, struct fp_extent *p,
                   uint64_t deadline_ns)
{
  bool late = false;

  for (;;) {
    uint32_t seen = fp_notifier_count (&t->changes);

    if ((atomic_load (&p->word) & FP_EXTENT_USERS) == 0)
      return true;
    if (late)
      return false;
    late = !fp_notifier_await (&t->changes, seen, deadline_ns);
  }
}

static _Atomic uint64_t *
bits_of (struct fp_extents *t, uint64_t i)
{
  return t->written + i * t->words;
}

void
fp_extent_mark (const struct fp_extents *t, _Atomic uint64_t *bits,
                uint64_t in, uint64_t length)
{
  uint64_t last = (in + length - 1) >> t->chunk_shift;

  /* Always set the bit: a plain test could read it before the write's bytes
   * are visible.
   */
  for (uint64_t c = in >> t->chunk_shift; c <= last; c++)
    atomic_fetch_or (&bits[c / 64], UINT64_C (1) << (c % 64));
}

void
fp_extent_set_written (struct fp_extents *t, uint64_t i, uint64_t offset,
                       uint64_t length)
{
  _Atomic uint64_t *bits = bits_of (t, i);
  uint64_t last = (offset + length - 1) >> t->chunk_shift;

  assert (length > 0 && last < t->chunks);
  for (uint64_t c = offset >> t->chunk_shift; c <= last; c++) {
    uint64_t bit = UINT64_C (1) << (c % 64);

    /* Most bits are set already: do not dirty the cache line for nothing. */
    if (!(atomic_load_explicit (&bits[c / 64], memory_order_relaxed) & bit))
      atomic_fetch_or (&bits[c / 64], bit);
  }
}

void
fp_extent_clear_written (struct fp_extents *t, uint64_t i, uint64_t offset,
                         uint64_t length)
{
  _Atomic uint64_t *bits = bits_of (t, i);
  uint64_t chunk = UINT64_C (1) << t->chunk_shift;
  uint64_t first = (offset + chunk - 1) >> t->chunk_shift;
  uint64_t end = (offset + length) >> t->chunk_shift;

  /* In the last chunk of the extent's part of the volume, bytes beyond the end
   * do not count.
   */
  if (offset + length >= fp_extent_length (t, i))
    end = t->chunks;
  for (uint64_t c = first; c < end; c++)
    atomic_fetch_and (&bits[c / 64], ~(UINT64_C (1) << (c % 64)));
}

void
fp_extent_set_all_written (struct fp_extents *t, uint64_t i)
{
  fp_extent_set_written (t, i, 0, fp_extent_length (t, i));
}

bool
fp_extent_run (struct fp_extents *t, uint64_t i, uint64_t offset,
               uint64_t limit, uint64_t *run)
{
  _Atomic uint64_t *bits = bits_of (t, i);
  uint64_t c = offset >> t->chunk_shift, end;
  bool first = (atomic_load (&bits[c / 64]) >> (c % 64)) & 1;

  for (c++; c < t->chunks; c++) {
    if ((c << t->chunk_shift) - offset >= limit)
      break;
    if (((atomic_load (&bits[c / 64]) >> (c % 64)) & 1) != first)
      break;
  }
  end = (c << t->chunk_shift) - offset;
  *run = end < limit ? end : limit;
  return first;
}
