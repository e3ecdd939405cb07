/* SPDX-License-Identifier: BSD-3-Clause */
/* backed.c - the requests to a volume that has a backup. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "volume/backed_int.h"
#include "volume/lane_int.h"

/* ---- one at a time ---- */

static bool
overlaps (const struct fp_backed *k, const struct range *r)
{
  for (const struct range *o = k->ranges; o != NULL; o = o->next)
    if (r->begin < o->end && o->begin < r->end)
      return true;
  return false;
}

/* The deadline is twice what any request may take. */
int
backed_hold (struct fp_backed *k, struct range *r, uint64_t length,
             uint64_t offset)
{
  struct timespec until;

  r->begin = fp_round_down (offset, BLOCK);
  r->end = fp_div_round_up (offset + length, BLOCK) * BLOCK;
  fp_timespec_after (&until, 4 * k->v->p.timeout_ms + 2 * FP_BACKED_STUCK_MS);
  FP_LOCK_SCOPE (&k->lock);
  while (overlaps (k, r)) {
    int err;

    k->waiting++;
    err = pthread_cond_timedwait (&k->cond, &k->lock, &until);
    k->waiting--;
    if (err == ETIMEDOUT)
      return -EIO;
  }
  r->prev = NULL;
  r->next = k->ranges;
  if (r->next != NULL)
    r->next->prev = r;
  k->ranges = r;
  return 0;
}

void
backed_release (struct fp_backed *k, struct range *r)
{
  FP_LOCK_SCOPE (&k->lock);
  if (r->prev != NULL)
    r->prev->next = r->next;
  else
    k->ranges = r->next;
  if (r->next != NULL)
    r->next->prev = r->prev;
  if (k->waiting > 0)
    pthread_cond_broadcast (&k->cond);
}

/* ---- what the servers cannot do ---- */

static bool
any_given_up (const struct fp_volume *v)
{
  for (unsigned i = 0; i < v->nr_links; i++)
    if (!(atomic_load (&v->gone) >> i & 1) && fp_link_given_up (v->links[i]))
      return true;
  return false;
}

/* They failed it, with r: is it the backup's now? */
static bool
is_away (const struct fp_volume *v, int r)
{
  if (atomic_load (&v->taken))
    return false;
  return r == -EIO || (r == -ENOSPC && any_given_up (v));
}

/* What the lane did not count, as the servers did not do it. */
static int
account (struct fp_lane *lane, enum fp_io_kind kind, uint32_t length,
         uint64_t start, int r)
{
  bool read = kind == FP_IO_READ;

  if (r < 0) {
    count (&lane->errors, 1);
    return r;
  }
  count (read ? &lane->reads : &lane->writes, 1);
  count (read ? &lane->bytes_read : &lane->bytes_written, length);
  fp_hist_add_shared (read ? &lane->read_ns : &lane->write_ns,
                      fp_now_ns () - start);
  return r;
}

static int
from_backup (struct fp_backed *k, void *buf, uint64_t length, uint64_t offset)
{
  if (atomic_load (&k->v->taken))
    return -EIO;
  atomic_store (&k->used, true);
  return fp_backup_get (k->store, buf, length, offset);
}

/* *here: some of it came from the backup. */
static int
read_all (struct fp_lane *lane, unsigned char *buf, uint32_t length,
          uint64_t offset, bool *here)
{
  struct fp_backed *k = lane->v->backed;
  int r;

  while (length > 0) {
    uint64_t run = length;
    bool local = fp_backup_any_local (k->store) &&
                 fp_backup_is_local (k->store, offset, length, &run);

    r = local ? -EIO
              : fp_lane_remote_read_now (lane, buf, (uint32_t) run, offset);
    if (r < 0 && is_away (lane->v, r)) {
      r = from_backup (k, buf, run, offset);
      if (r == 0 || local)
        *here = true;
    }
    /* It is not there: so it is worth to wait for the servers. */
    if (r < 0 && !local)
      r = fp_lane_remote (lane, FP_IO_READ, buf, (uint32_t) run, offset);
    if (r < 0)
      return r;
    buf += run;
    length -= (uint32_t) run;
    offset += run;
  }
  return 0;
}

int
fp_backed_read (struct fp_lane *lane, void *buf, uint32_t length,
                uint64_t offset)
{
  uint64_t start = fp_now_ns ();
  bool here = false;
  int r;

  if (!fp_range_ok (offset, length, lane->v->p.size) || length > FP_MAX_IO)
    return -EINVAL;
  r = read_all (lane, buf, length, offset, &here);
  if (here)
    atomic_fetch_add (&lane->v->backed->reads, 1);
  return r < 0 || here ? account (lane, FP_IO_READ, length, start, r) : 0;
}

/* ---- writing ---- */

/* n bytes, at `in` of that block of size bytes, were written; away: not to the
 * servers.
 */
static int
keep_part (struct fp_lane *lane, const unsigned char *buf, uint64_t n,
           uint64_t block, uint64_t in, uint32_t size, bool away)
{
  struct fp_backup *store = lane->v->backed->store;
  unsigned char all[BLOCK];
  uint64_t run;
  bool here = false,
       local = fp_backup_is_local (store, block, 1, &run) || away;

  if (!local && fp_backup_failed (store))
    return 0;
  if (read_all (lane, all, size, block, &here) < 0) {
    if (local)
      return -EIO;
    fp_backup_forget (store, size, block);
    return 0;
  }
  memcpy (all + in, buf, n);
  /* What the servers have of the rest of one that is local is still older. */
  if (fp_backup_put (store, all, size, block, local) < 0 && local)
    return -EIO;
  return 0;
}

/* What was written; away: not to the servers. */
static int
keep (struct fp_lane *lane, const unsigned char *buf, uint64_t length,
      uint64_t offset, bool away)
{
  struct fp_backed *k = lane->v->backed;
  uint64_t volume = k->v->p.size;
  int r = away ? fp_backup_alone (k->store) : 0;

  while (r == 0 && length > 0) {
    uint64_t in = offset % BLOCK, block = offset - in;
    uint64_t size = FP_MIN ((uint64_t) BLOCK, volume - block);
    uint64_t n = FP_MIN (length, size - in);

    if (n < size) {
      r = keep_part (lane, buf, n, block, in, (uint32_t) size, away);
    }
    else {
      n = offset + length == volume ? length : fp_round_down (length, BLOCK);
      r = fp_backup_put (k->store, buf, n, offset, away);
      r = away ? r : 0; /* then there is no backup, and that is all */
    }
    buf += n;
    offset += n;
    length -= n;
  }
  if (away)
    atomic_store (&k->used, true);
  return r;
}

int
fp_backed_write (struct fp_lane *lane, const void *buf, uint32_t length,
                 uint64_t offset)
{
  struct fp_backed *k = lane->v->backed;
  uint64_t start = fp_now_ns ();
  struct range range;
  bool away;
  int r;

  if (!fp_range_ok (offset, length, k->v->p.size) || length > FP_MAX_IO)
    return -EINVAL;
  if (length == 0)
    return 0;
  r = backed_hold (k, &range, length, offset);
  if (r < 0)
    return account (lane, FP_IO_WRITE, length, start, r);
  r = fp_lane_remote (lane, FP_IO_WRITE, (void *) (uintptr_t) buf, length,
                      offset);
  away = r < 0;
  if (r == 0 || is_away (k->v, r))
    r = keep (lane, buf, length, offset, away);
  backed_release (k, &range);
  if (away)
    atomic_fetch_add (&k->writes, 1);
  return r < 0 || away ? account (lane, FP_IO_WRITE, length, start, r) : 0;
}

/* ---- zeros ---- */

static const unsigned char zeros[BLOCK];

/* Whole blocks, or a part of one. */
static int
zero_some (struct fp_lane *lane, uint64_t length, uint64_t offset, bool trim,
           bool whole)
{
  struct fp_backed *k = lane->v->backed;
  struct range range;
  bool away;
  int r;

  r = backed_hold (k, &range, length, offset);
  if (r < 0)
    return r;
  r = fp_lane_remote_zero (lane, length, offset, trim, 0);
  away = r < 0 && is_away (k->v, r);
  if ((r == 0 || away) && !whole) {
    r = keep (lane, zeros, length, offset, away);
  }
  else if (r == 0 || away) {
    r = away ? fp_backup_alone (k->store) : 0;
    if (r == 0)
      r = fp_backup_zero (k->store, length, offset, away);
    if (away)
      atomic_store (&k->used, true);
  }
  backed_release (k, &range);
  return r;
}

int
fp_backed_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
                bool trim)
{
  uint64_t size = lane->v->p.size;
  int r = 0;

  if (!fp_range_ok (offset, length, size))
    return -EINVAL;
  while (r == 0 && length > 0) {
    uint64_t in = offset % BLOCK, n = length;
    bool whole;

    if (offset + length != size)
      n = fp_round_down (length, BLOCK);
    whole = in == 0 && n > 0;
    if (!whole)
      n = FP_MIN (length, BLOCK - in);
    r = zero_some (lane, n, offset, trim, whole);
    offset += n;
    length -= n;
  }
  return r;
}

int
fp_backed_flush (struct fp_lane *lane)
{
  struct fp_backed *k = lane->v->backed;
  int r = fp_lane_remote_flush (lane);

  if (atomic_load (&k->v->taken))
    return -EIO;
  if (fp_backup_flush (k->store) == 0)
    return 0;
  /* Of a backup that has failed: what is local is EIO, and so is this. */
  return fp_backup_any_local (k->store) ? -EIO : r;
}

/* ---- start and stop ---- */

uint64_t
fp_volume_backup_memory (const struct fp_volume_params *p)
{
  return p->backup[0] != '\0' ? fp_backup_memory (p->size, p->backup_lag) : 0;
}

static struct fp_backup_params
store_params (const struct fp_volume_params *p)
{
  return (struct fp_backup_params) {
    .path = p->backup,
    .size = p->size,
    .uuid = p->uuid,
    .lag = p->backup_lag,
    .stuck_ms = FP_BACKED_STUCK_MS,
    .resumed = p->resume,
    .reserve = p->reserve_full,
  };
}

int
fp_backed_check (const struct fp_volume_params *p, char why[FP_WHY_MAX])
{
  struct fp_backup_params sp = store_params (p);

  return fp_backup_check (&sp, why);
}

int
fp_backed_start (struct fp_volume *v, char why[FP_WHY_MAX])
{
  struct fp_backup_params sp = store_params (&v->p);
  struct fp_backed *k = calloc (1, sizeof *k);
  int r;

  if (k == NULL) {
    snprintf (why, FP_WHY_MAX, "backup: %s", strerror (ENOMEM));
    return -ENOMEM;
  }
  k->v = v;
  fp_mutex_init (&k->lock);
  fp_cond_init (&k->cond);
  v->backed = k;
  k->buf = malloc (FILL_SIZE);
  if (k->buf == NULL) {
    snprintf (why, FP_WHY_MAX, "backup: %s", strerror (ENOMEM));
    return -ENOMEM;
  }
  memset (k->buf, 1, FILL_SIZE); /* touched; zeros would be left out */
  r = fp_backup_new (&k->store, &sp, why);
  if (r == 0) {
    r = fp_thread_create (&k->thread, "fp-backup-fill", backed_mend, k);
    if (r < 0)
      snprintf (why, FP_WHY_MAX, "thread: %s", strerror (-r));
    k->runs = r == 0;
  }
  return r;
}

void
fp_backed_stop (struct fp_volume *v, bool discard)
{
  struct fp_backed *k = v->backed;

  if (k == NULL)
    return;
  {
    FP_LOCK_SCOPE (&k->lock);
    k->stop = true;
    pthread_cond_broadcast (&k->cond);
  }
  if (k->runs)
    fp_thread_join (&k->thread);
  fp_backup_free (k->store, discard);
  pthread_cond_destroy (&k->cond);
  pthread_mutex_destroy (&k->lock);
  free (k->buf);
  free (k);
  v->backed = NULL;
}

/* ---- questions ---- */

bool
fp_backed_any_local (const struct fp_volume *v)
{
  return v->backed != NULL && fp_backup_any_local (v->backed->store);
}

static bool
all_there (const struct fp_volume *v)
{
  for (unsigned i = 0; i < v->nr_links; i++)
    if (!(atomic_load (&v->gone) >> i & 1) &&
        fp_link_away_ms (v->links[i]) > 0)
      return false;
  return atomic_load (&v->lost) == 0;
}

void
fp_backed_status (struct fp_volume *v, struct fp_backup_status *s)
{
  struct fp_backed *k = v->backed;
  struct fp_backup_counts c;

  memset (s, 0, sizeof *s);
  if (k == NULL)
    return;
  fp_backup_counts (k->store, &c);
  s->on = true;
  snprintf (s->path, sizeof s->path, "%s", v->p.backup);
  s->failed = c.failed;
  memcpy (s->why, c.why, sizeof s->why);
  s->serving =
      !c.failed && (c.local > 0 || (atomic_load (&k->used) && !all_there (v)));
  s->lag = v->p.backup_lag;
  s->behind = c.behind;
  s->missing = c.missing;
  s->local = c.local;
  s->bytes_read = c.bytes_read;
  s->bytes_written = c.bytes_written;
  s->reads = atomic_load (&k->reads);
  s->writes = atomic_load (&k->writes);
}
