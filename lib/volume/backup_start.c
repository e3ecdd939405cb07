/* SPDX-License-Identifier: BSD-3-Clause */
/* backup_start.c - the memory of a backup, and how it begins and ends. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "volume/backup_int.h"

/* Those whose disk did not answer when they were to end. */
static struct fp_backup *_Atomic left;

static int
map_memory (void **out, size_t size)
{
  void *m = mmap (NULL, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

  if (m == MAP_FAILED)
    return -errno;
  *out = m;
  return 0;
}

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
  r = map_memory (&m, b->maps_size);
  if (r < 0)
    return r;
  b->valid = m;
  b->stored = b->valid + words;
  b->local = b->stored + words;
  b->memory_size = BLOCK + FETCHES * FETCH_MAX + b->nr_slots * BLOCK +
                   b->nr_slots * sizeof *b->slots +
                   b->buckets * sizeof (struct slot *);
  r = map_memory (&m, b->memory_size);
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
  free (b);
}

int
fp_backup_new (struct fp_backup **out, const struct fp_backup_params *p,
               char why[FP_WHY_MAX])
{
  struct fp_backup *b = calloc (1, sizeof *b);
  int r;

  why[0] = '\0';
  if (b == NULL) {
    snprintf (why, FP_WHY_MAX, "backup: %s", strerror (ENOMEM));
    return -ENOMEM;
  }
  b->p = *p;
  b->fd = b->wake_fd = -1;
  b->blocks = blocks_of (p->size);
  b->queue_tail = &b->queue;
  b->progress_ns = fp_now_ns ();
  b->state = b->state_wanted = FILE_USED; /* backup_open writes that */
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
