/* SPDX-License-Identifier: BSD-3-Clause */
/* backup_start.c - the memory of a backup, and how it begins and ends. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memlock.h"
#include "volume/backup_int.h"

/* Those whose disk did not answer when they were to end. */
static struct fp_backup *_Atomic left;

static int
make_memory (struct fp_backup *b)
{
  size_t words = fp_div_round_up (b->blocks, 64);
  unsigned char *data;
  void *m = NULL;
  int r;

  b->nr_slots = FP_MAX (b->p.lag / BLOCK, UINT64_C (1));
  b->buckets = UINT64_C (1) << (fp_log2 (b->nr_slots) + 1);
  b->maps_size = 3 * words * sizeof (uint64_t);
  r = fp_map_filled (&m, b->maps_size);
  if (r < 0)
    return r;
  b->valid = m;
  b->stored = b->valid + words;
  b->local = b->stored + words;
  b->memory_size = BLOCK + FETCHES * FETCH_MAX + b->nr_slots * BLOCK +
                   b->nr_slots * sizeof *b->slots +
                   b->buckets * sizeof (struct slot *);
  r = fp_map_filled (&m, b->memory_size);
  if (r < 0)
    return r;
  b->memory = b->header = m;
  data = b->memory + BLOCK;
  b->slots = (struct slot *) (void *) (data + FETCHES * FETCH_MAX +
                                       b->nr_slots * BLOCK);
  b->hash = (struct slot **) (void *) (b->slots + b->nr_slots);
  for (unsigned i = 0; i < FETCHES; i++, data += FETCH_MAX)
    b->fetches[i].data = data;
  for (uint64_t i = 0; i < b->nr_slots; i++, data += BLOCK) {
    b->slots[i].data = data;
    b->slots[i].next = b->free_slots;
    b->free_slots = &b->slots[i];
  }
  if (b->p.resumed)
    b->nr_missing = b->blocks;
  else
    memset (b->valid, 0xff, words * sizeof *b->valid);
  return 0;
}

static void
backup_release (struct fp_backup *b)
{
  if (b->valid != NULL)
    munmap (b->valid, b->maps_size);
  if (b->memory != NULL)
    munmap (b->memory, b->memory_size);
  if (b->fd >= 0)
    close (b->fd);
  if (b->wake_fd >= 0)
    close (b->wake_fd);
  pthread_cond_destroy (&b->cond);
  pthread_mutex_destroy (&b->lock);
  munmap (b, sizeof *b);
}

/* The header and a flush go the way of all requests, before there is one: so
 * what the kernel makes for the first of them is there (a worker, a work
 * queue), and a disk that cannot do it is found now.
 */
static int
first_use (struct fp_backup *b, char why[FP_WHY_MAX])
{
  fp_backup_rest (b);
  if (fp_backup_flush (b) == 0 && backup_await_rest (b) == 0)
    return 0;
  FP_LOCK_SCOPE (&b->lock);
  snprintf (why, FP_WHY_MAX, "backup=%.200s: %.200s", b->p.path, b->why);
  return -EIO;
}

int
fp_backup_new (struct fp_backup **out, const struct fp_backup_params *p,
               char why[FP_WHY_MAX])
{
  struct fp_backup *b;
  void *m = NULL;
  int r;

  why[0] = '\0';
  r = fp_map_filled (&m, sizeof *b);
  if (r < 0) {
    snprintf (why, FP_WHY_MAX, "backup: %s", strerror (-r));
    return r;
  }
  b = m;
  b->p = *p;
  b->fd = b->wake_fd = -1;
  b->blocks = blocks_of (p->size);
  b->queue_tail = &b->queue;
  b->progress_ns = fp_now_ns ();
  b->state = b->state_wanted = FILE_FREE;
  b->seq = 1; /* there is something to flush */
  fp_mutex_init (&b->lock);
  fp_cond_init (&b->cond);
  r = make_memory (b);
  if (r < 0)
    snprintf (why, FP_WHY_MAX, "backup: %s", strerror (-r));
  if (r == 0)
    r = backup_open (b, why);
  if (r == 0)
    r = backup_disk_start (b, why);
  if (r < 0) {
    backup_release (b);
    return r;
  }
  r = first_use (b, why);
  if (r < 0) {
    fp_backup_free (b, false);
    return r;
  }
  *out = b;
  return 0;
}

void
fp_backup_free (struct fp_backup *b, bool discard)
{
  bool drain;

  if (b == NULL)
    return;
  drain = !discard && fp_backup_any_local (b);
  if (!backup_disk_stop (b, drain, discard)) {
    /* The kernel may still write there: so it stays. */
    b->next_left = atomic_load (&left);
    while (!atomic_compare_exchange_weak (&left, &b->next_left, b))
      continue;
    return;
  }
  backup_release (b);
}
