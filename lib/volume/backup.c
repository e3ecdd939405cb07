/* SPDX-License-Identifier: BSD-3-Clause */
/* backup.c - what is in a backup, and where: the maps and the ring. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "volume/backup_int.h"

/* Blocks that are copied, or looked at, before others get the lock. */
#define COPY_BATCH 16
#define LOOK_BATCH 65536

/* ---- bits ---- */

/* Returns what it was. */
static bool
set_bit (uint64_t *map, uint64_t block, bool to)
{
  uint64_t bit = UINT64_C (1) << (block % 64);
  bool was = map[block / 64] & bit;

  if (to)
    map[block / 64] |= bit;
  else
    map[block / 64] &= ~bit;
  return was;
}

static void
set_local (struct fp_backup *b, uint64_t block, bool to)
{
  bool was = set_bit (b->local, block, to);

  if (was != to)
    atomic_fetch_add (&b->nr_local, to ? 1 : UINT64_MAX);
}

static void
set_valid (struct fp_backup *b, uint64_t block, bool to)
{
  bool was = set_bit (b->valid, block, to);

  if (was != to)
    b->nr_missing += to ? UINT64_MAX : 1;
}

/* ---- the ring ---- */

static struct slot **
bucket (struct fp_backup *b, uint64_t block)
{
  uint64_t h = block * UINT64_C (0x9e3779b97f4a7c15);

  return &b->hash[(h >> 32) & (b->buckets - 1)];
}

static struct slot *
find (struct fp_backup *b, uint64_t block)
{
  struct slot *s = *bucket (b, block);

  while (s != NULL && s->block != block)
    s = s->chain;
  return s;
}

static void
hash_remove (struct fp_backup *b, struct slot *s)
{
  struct slot **at = bucket (b, s->block);

  while (*at != s)
    at = &(*at)->chain;
  *at = s->chain;
}

void
backup_slot_done (struct fp_backup *b, struct slot *s)
{
  if (s->newer != NULL) {
    s->newer->waits = false;
  }
  else {
    if (s->flying && !s->dead)
      set_bit (b->stored, s->block, true);
    hash_remove (b, s);
  }
  s->newer = NULL;
  s->flying = false;
  s->next = b->free_slots;
  b->free_slots = s;
  atomic_fetch_sub (&b->nr_used, 1);
}

/* It is the newest of its block; older is in flight, or NULL. */
static void
enqueue (struct fp_backup *b, struct slot *s, uint64_t block,
         struct slot *older)
{
  struct slot **at = bucket (b, block);

  b->free_slots = s->next;
  if (older != NULL) {
    older->newer = s;
    hash_remove (b, older);
  }
  s->block = block;
  s->seq = ++b->seq;
  s->waits = older != NULL;
  s->dead = s->flying = false;
  s->newer = NULL;
  s->chain = *at;
  *at = s;
  s->next = NULL;
  if (b->queue == NULL)
    b->queued_ns = fp_now_ns ();
  *b->queue_tail = s;
  b->queue_tail = &s->next;
  atomic_fetch_add (&b->nr_used, 1);
}

/* ---- how it ends ---- */

void
backup_fail (struct fp_backup *b, int err, const char *what)
{
  if (atomic_load (&b->failed))
    return;
  if (err == -ETIMEDOUT)
    snprintf (b->why, sizeof b->why, "%s: no answer for %u ms", what,
              b->p.stuck_ms);
  else
    snprintf (b->why, sizeof b->why, "%s: %s", what, strerror (-err));
  atomic_store (&b->failed, true);
  pthread_cond_broadcast (&b->cond);
}

/* Wait for anything to end, a while.  False: the disk has not moved since, nor
 * in the time that it is given; then it has failed.
 */
static bool
await_disk (struct fp_backup *b, uint64_t since, const char *what)
{
  struct timespec until;

  backup_kick (b);
  fp_timespec_after (&until, FP_MIN (b->p.stuck_ms, 100u));
  /* A timeout means only: look again. */
  (void) pthread_cond_timedwait (&b->cond, &b->lock, &until);
  if (atomic_load (&b->failed))
    return false;
  since = FP_MAX (since, b->progress_ns);
  if (fp_now_ns () - since < b->p.stuck_ms * FP_NS_PER_MS)
    return true;
  backup_fail (b, -ETIMEDOUT, what);
  return false;
}

/* ---- what is put here ---- */

void
fp_backup_home (struct fp_backup *b, uint64_t length, uint64_t offset)
{
  uint64_t first = offset / BLOCK, end = first + blocks_of (length);

  FP_LOCK_SCOPE (&b->lock);
  for (uint64_t i = first; i < end; i++)
    set_local (b, i, false);
}

/* With the lock held, which it lets go of meanwhile: until the file says
 * ALONE, so that something may be local.  False: it has failed.
 */
static bool
await_alone (struct fp_backup *b, uint64_t start)
{
  for (;;) {
    if (atomic_load (&b->failed))
      return false;
    b->state_wanted = FILE_ALONE;
    if (b->state == FILE_ALONE)
      return true;
    if (!await_disk (b, start, "header"))
      return false;
  }
}

/* One block; false: there is no slot. */
static bool
put_block (struct fp_backup *b, uint64_t block, const unsigned char *buf,
           uint64_t length, bool local)
{
  struct slot *s = find (b, block);

  if (s == NULL || s->flying) {
    struct slot *older = s;

    s = b->free_slots;
    if (s == NULL)
      return false;
    enqueue (b, s, block, older);
  }
  memcpy (s->data, buf, length);
  memset (s->data + length, 0, BLOCK - length);
  s->dead = false;
  set_valid (b, block, true);
  set_local (b, block, local);
  return true;
}

int
fp_backup_put (struct fp_backup *b, const void *buf, uint64_t length,
               uint64_t offset, bool local)
{
  uint64_t first = offset / BLOCK, nr = blocks_of (length), i = 0;
  uint64_t start = fp_now_ns ();
  const unsigned char *from = buf;

  while (i < nr) {
    FP_LOCK_SCOPE (&b->lock);

    for (unsigned n = 0; i < nr && n < COPY_BATCH; n++, i++) {
      uint64_t at = i * BLOCK;

      while (!atomic_load (&b->failed) && (!local || await_alone (b, start)) &&
             !put_block (b, first + i, from + at,
                         FP_MIN (length - at, (uint64_t) BLOCK), local))
        if (!await_disk (b, start, "does not keep up"))
          break;
      if (atomic_load (&b->failed))
        break;
    }
    if (backup_is_due (b))
      backup_kick (b);
    if (atomic_load (&b->failed))
      break;
  }
  if (!atomic_load (&b->failed))
    return 0;
  /* The servers have it now, and it is not here. */
  if (!local)
    fp_backup_home (b, length, offset);
  return -EIO;
}

static void
drop (struct fp_backup *b, uint64_t first, uint64_t end, bool valid,
      bool local)
{
  if (atomic_load (&b->nr_used) > 0 && end - first < b->nr_slots) {
    for (uint64_t i = first; i < end; i++) {
      struct slot *s = find (b, i);

      if (s != NULL)
        s->dead = true;
    }
  }
  else if (atomic_load (&b->nr_used) > 0) {
    for (uint64_t n = 0; n < b->nr_slots; n++) {
      struct slot *s = &b->slots[n];

      if (s->block >= first && s->block < end)
        s->dead = true; /* a free one is none */
    }
  }
  for (uint64_t i = first; i < end; i++) {
    set_bit (b->stored, i, false);
    set_valid (b, i, valid);
    set_local (b, i, local);
  }
}

static int
drop_all (struct fp_backup *b, uint64_t length, uint64_t offset, bool valid,
          bool local)
{
  uint64_t first = offset / BLOCK, end = first + blocks_of (length);
  uint64_t start = fp_now_ns ();

  while (first < end) {
    uint64_t n = FP_MIN (end - first, (uint64_t) LOOK_BATCH);
    FP_LOCK_SCOPE (&b->lock);

    if (local && !await_alone (b, start))
      return -EIO;
    drop (b, first, first + n, valid, local);
    first += n;
  }
  return 0;
}

int
fp_backup_zero (struct fp_backup *b, uint64_t length, uint64_t offset,
                bool local)
{
  return drop_all (b, length, offset, true, local);
}

void
fp_backup_forget (struct fp_backup *b, uint64_t length, uint64_t offset)
{
  (void) drop_all (b, length, offset, false, false);
}

static bool
is_zeros (struct fp_backup *b, uint64_t block)
{
  const struct slot *s = find (b, block);

  return s != NULL ? s->dead : !bit_of (b->stored, block);
}

int
fp_backup_keep (struct fp_backup *b, uint64_t length, uint64_t offset)
{
  uint64_t first = offset / BLOCK, end = first + blocks_of (length);
  uint64_t start = fp_now_ns (), i = first;

  while (i < end) {
    FP_LOCK_SCOPE (&b->lock);

    for (unsigned n = 0; i < end && n < LOOK_BATCH; n++, i++)
      if (!bit_of (b->valid, i))
        return -EIO;
  }
  for (i = first; i < end;) {
    FP_LOCK_SCOPE (&b->lock);

    if (!await_alone (b, start))
      return -EIO;
    for (unsigned n = 0; i < end && n < LOOK_BATCH; n++, i++)
      if (!is_zeros (b, i))
        set_local (b, i, true);
  }
  return 0;
}

/* ---- what is read from here ---- */

static struct fetch *
free_fetch (struct fp_backup *b)
{
  for (unsigned i = 0; i < FETCHES; i++)
    if (b->fetches[i].state == FETCH_FREE)
      return &b->fetches[i];
  return NULL;
}

/* From the disk, at most FETCH_MAX from in on in that block.  The lock is let
 * go of meanwhile.
 */
static int
fetch (struct fp_backup *b, uint64_t block, uint64_t in, unsigned char *buf,
       uint64_t length)
{
  uint64_t start = fp_now_ns ();
  struct fetch *f;
  int r;

  while ((f = free_fetch (b)) == NULL)
    if (!await_disk (b, start, "read"))
      return -EIO;
  f->state = FETCH_WANTED;
  f->left = false;
  f->at = DATA_AT + block * BLOCK;
  f->length = (uint32_t) (blocks_of (in + length) * BLOCK);
  while (f->state != FETCH_DONE) {
    if (!await_disk (b, start, "read")) {
      f->left = f->state == FETCH_FLYING;
      if (!f->left)
        f->state = FETCH_FREE;
      return -EIO;
    }
  }
  r = f->result;
  if (r == 0)
    memcpy (buf, f->data + in, length);
  f->state = FETCH_FREE;
  pthread_cond_broadcast (&b->cond);
  return r < 0 ? -EIO : 0;
}

/* Blocks from this one on that are on the disk alone: limit bytes at most. */
static uint64_t
stored_run (struct fp_backup *b, uint64_t block, uint64_t limit)
{
  uint64_t n = 0, nr = blocks_of (limit);

  while (n < nr && bit_of (b->valid, block + n) &&
         bit_of (b->stored, block + n) &&
         (n == 0 || find (b, block + n) == NULL))
    n++;
  return n * BLOCK;
}

/* Some of it, at least one byte; how many, or -errno. */
static int64_t
get_some (struct fp_backup *b, unsigned char *buf, uint64_t length,
          uint64_t offset)
{
  uint64_t block = offset / BLOCK, in = offset % BLOCK;
  uint64_t n = FP_MIN (length, BLOCK - in);
  struct slot *s;
  int r;

  FP_LOCK_SCOPE (&b->lock);
  if (atomic_load (&b->failed) || !bit_of (b->valid, block))
    return -EIO;
  s = find (b, block);
  if (s != NULL && !s->dead) {
    memcpy (buf, s->data + in, n);
  }
  else if (s != NULL || !bit_of (b->stored, block)) {
    memset (buf, 0, n);
  }
  else {
    n = stored_run (b, block, FP_MIN (in + length, (uint64_t) FETCH_MAX));
    n = FP_MIN (length, n - in);
    r = fetch (b, block, in, buf, n);
    if (r < 0)
      return r;
  }
  return (int64_t) n;
}

int
fp_backup_get (struct fp_backup *b, void *buf, uint64_t length,
               uint64_t offset)
{
  unsigned char *to = buf;

  while (length > 0) {
    int64_t n = get_some (b, to, length, offset);

    if (n < 0)
      return (int) n;
    to += n;
    offset += (uint64_t) n;
    length -= (uint64_t) n;
  }
  return 0;
}

/* ---- flush ---- */

int
fp_backup_flush (struct fp_backup *b)
{
  uint64_t start = fp_now_ns (), until;

  FP_LOCK_SCOPE (&b->lock);
  until = b->seq;
  b->sync_wanted = FP_MAX (b->sync_wanted, until);
  while (!atomic_load (&b->failed) && b->synced < until)
    if (!await_disk (b, start, "flush"))
      break;
  return atomic_load (&b->failed) ? -EIO : 0;
}

int
fp_backup_alone (struct fp_backup *b)
{
  uint64_t start = fp_now_ns ();

  FP_LOCK_SCOPE (&b->lock);
  return await_alone (b, start) ? 0 : -EIO;
}

void
fp_backup_rest (struct fp_backup *b)
{
  FP_LOCK_SCOPE (&b->lock);
  if (atomic_load (&b->nr_local) > 0 || b->state_wanted == FILE_USED)
    return;
  b->state_wanted = FILE_USED;
  backup_kick (b);
}

int
backup_await_rest (struct fp_backup *b)
{
  uint64_t start = fp_now_ns ();

  FP_LOCK_SCOPE (&b->lock);
  while (b->state != FILE_USED)
    if (!await_disk (b, start, "header"))
      return -EIO;
  return 0;
}

/* ---- questions ---- */

static bool
run_of (struct fp_backup *b, const uint64_t *map, uint64_t offset,
        uint64_t limit, uint64_t *run)
{
  uint64_t block = offset / BLOCK;
  uint64_t end = fp_div_round_up (offset + limit, BLOCK), i = block + 1;
  bool is;

  FP_LOCK_SCOPE (&b->lock);
  is = bit_of (map, block);
  while (i < end && bit_of (map, i) == is)
    i++;
  *run = FP_MIN (i * BLOCK - offset, limit);
  return is;
}

bool
fp_backup_is_local (struct fp_backup *b, uint64_t offset, uint64_t limit,
                    uint64_t *run)
{
  return run_of (b, b->local, offset, limit, run);
}

bool
fp_backup_is_valid (struct fp_backup *b, uint64_t offset, uint64_t limit,
                    uint64_t *run)
{
  return run_of (b, b->valid, offset, limit, run);
}

bool
fp_backup_is_zeros (struct fp_backup *b, uint64_t offset, uint64_t limit,
                    uint64_t *run)
{
  uint64_t block = offset / BLOCK;
  uint64_t end = fp_div_round_up (offset + limit, BLOCK), i = block + 1;
  bool is;

  FP_LOCK_SCOPE (&b->lock);
  is = is_zeros (b, block);
  while (i < end && is_zeros (b, i) == is)
    i++;
  *run = FP_MIN (i * BLOCK - offset, limit);
  return is;
}

bool
fp_backup_all_valid (struct fp_backup *b)
{
  FP_LOCK_SCOPE (&b->lock);
  return b->nr_missing == 0;
}

bool
fp_backup_any_local (const struct fp_backup *b)
{
  return atomic_load (&b->nr_local) != 0;
}

bool
fp_backup_failed (const struct fp_backup *b)
{
  return atomic_load (&b->failed);
}

bool
fp_backup_has_room (const struct fp_backup *b)
{
  return atomic_load (&b->nr_used) < b->nr_slots / 2;
}

void
fp_backup_counts (struct fp_backup *b, struct fp_backup_counts *c)
{
  FP_LOCK_SCOPE (&b->lock);
  c->failed = atomic_load (&b->failed);
  memcpy (c->why, b->why, sizeof c->why);
  c->behind = atomic_load (&b->nr_used) * BLOCK;
  c->missing = b->nr_missing * BLOCK;
  c->local = atomic_load (&b->nr_local) * BLOCK;
  c->bytes_written = b->bytes_written;
  c->bytes_read = b->bytes_read;
}
