/* SPDX-License-Identifier: BSD-3-Clause */
/* sealed_start.c - start and stop the sealing of a volume, and report its
 * status.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/memlock.h"
#include "base/random.h"
#include "base/sync.h"
#include "extent/volume_status.h"
#include "filter/seal_key.h"
#include "filter/sealed_int.h"

/* Bytes of buffers of each lane. */
#define BUFFERS (SEAL_WRITERS * SEAL_SMALL + SEAL_LARGE_WRITERS * SEAL_LARGE)

static uint64_t
nr_blocks (const struct fp_volume_params *p)
{
  return fp_div_round_up (p->size, FP_BLOCK);
}

static bool
has_table (const struct fp_volume_params *p)
{
  return p->integrity || p->checksum != FP_CHECKSUM_NONE;
}

uint64_t
fp_sealed_memory (const struct fp_volume_params *p)
{
  uint64_t size = sizeof (struct fp_sealed);

  if (!fp_sealed_wanted (p))
    return 0;
  if (has_table (p))
    size += fp_seal_table_memory (nr_blocks (p), p->integrity);
  size += p->lanes * (SEAL_WRITERS + SEAL_LARGE_WRITERS + SEAL_READERS) *
          (uint64_t) sizeof (struct seal_tool);
  if (p->encrypt != FP_ENCRYPT_NONE)
    size += p->lanes * (uint64_t) BUFFERS;
  return size;
}

/* ---- start ---- */

static int
make_tools (struct seal_tools *t, const struct fp_sealed *k, unsigned nr,
            const uint8_t *key, unsigned char *buffers, size_t each)
{
  int r = 0;

  fp_mutex_init (&t->lock);
  fp_cond_init (&t->cond);
  t->all = calloc (nr, sizeof *t->all);
  if (t->all == NULL)
    return -ENOMEM;
  t->nr = nr;
  for (unsigned i = 0; r == 0 && i < nr; i++) {
    struct seal_tool *tool = &t->all[i];

    if (k->encrypts)
      r = fp_cipher_new (&tool->cipher, k->kind, key);
    if (buffers != NULL)
      tool->buf = buffers + i * each;
    tool->next = t->free;
    t->free = tool;
  }
  return r;
}

static void
free_tools (struct seal_tools *t)
{
  for (unsigned i = 0; i < t->nr; i++)
    fp_cipher_free (t->all[i].cipher);
  free (t->all);
  pthread_cond_destroy (&t->cond);
  pthread_mutex_destroy (&t->lock);
}

/* Make all three kinds of tools, also after an error, because sealed_free
 * frees all three.
 */
static int
make_tools_of_lane (struct fp_sealed *k, unsigned i, const uint8_t *key)
{
  unsigned char *small = NULL, *large = NULL;
  int r, err;

  if (k->buffers != NULL) {
    small = (unsigned char *) k->buffers + (size_t) i * BUFFERS;
    large = small + (size_t) SEAL_WRITERS * SEAL_SMALL;
  }
  r = make_tools (&k->writers[i], k, SEAL_WRITERS, key, small, SEAL_SMALL);
  err =
      make_tools (&k->large[i], k, SEAL_LARGE_WRITERS, key, large, SEAL_LARGE);
  r = r < 0 ? r : err;
  err = make_tools (&k->readers[i], k, SEAL_READERS, key, NULL, 0);
  return r < 0 ? r : err;
}

static int
make_all_tools (struct fp_sealed *k, const uint8_t *key)
{
  unsigned lanes = k->block.lanes;
  int r = 0;

  k->writers = calloc (lanes, sizeof *k->writers);
  k->large = calloc (lanes, sizeof *k->large);
  k->readers = calloc (lanes, sizeof *k->readers);
  if (k->writers == NULL || k->large == NULL || k->readers == NULL)
    return -ENOMEM;
  if (k->encrypts) {
    k->buffers_size = lanes * (size_t) BUFFERS;
    r = fp_map_filled (&k->buffers, k->buffers_size);
  }
  for (; r == 0 && k->lanes < lanes; k->lanes++)
    r = make_tools_of_lane (k, k->lanes, key);
  return r;
}

/* Start the ciphers with a key that is nowhere else, and is wiped here after
 * use.
 */
static int
start_ciphers (struct fp_sealed *k)
{
  void *key = NULL;
  int r = 0;

  if (k->encrypts)
    r = fp_secret_new (&key, FP_CIPHER_KEY_MAX);
  if (r < 0)
    return r;
  if (k->p->encrypt == FP_ENCRYPT_EPHEMERAL)
    r = fp_random (key, FP_CIPHER_KEY_MAX);
  else if (k->encrypts)
    r = fp_seal_key_derive (k->p->key, &k->p->uuid, key);
  if (r == 0)
    r = make_all_tools (k, key);
  fp_secret_free (key, FP_CIPHER_KEY_MAX);
  return r;
}

static void
sealed_free (struct fp_block *b)
{
  struct fp_sealed *k = sealed_of (b);

  for (unsigned i = 0; i < k->lanes; i++) {
    free_tools (&k->writers[i]);
    free_tools (&k->large[i]);
    free_tools (&k->readers[i]);
  }
  free (k->writers);
  free (k->large);
  free (k->readers);
  if (k->buffers != NULL)
    munmap (k->buffers, k->buffers_size);
  fp_seal_table_free (k->table);
  fp_range_lock_destroy (&k->holds);
  free (k);
}

static void
sealed_status (struct fp_block *b, struct fp_volume_status *s)
{
  struct fp_sealed *k = sealed_of (b);

  s->seal = (struct fp_seal_status) {
    .on = true,
    .checksum = k->p->checksum,
    .encrypt = k->p->encrypt,
    .integrity = k->p->integrity,
    .wrong = atomic_load (&k->wrong),
    .repaired = atomic_load (&k->repaired),
    .unreadable = atomic_load (&k->unreadable),
    .memory = fp_sealed_memory (k->p),
  };
  if (k->table != NULL)
    s->seal.unchecked = fp_seal_table_unknown (k->table) * FP_BLOCK;
}

static const struct fp_block_ops sealed_ops = {
  .read = sealed_read,
  .write = sealed_write,
  .zero = sealed_zero,
  .zero_is_fast = sealed_zero_is_fast,
  .status = sealed_status,
  .repair = sealed_repair,
  .free = sealed_free,
};

int
fp_sealed_new (struct fp_block **out, const struct fp_volume_params *p,
               struct fp_block *below, struct fp_error *error)
{
  struct fp_sealed *k = calloc (1, sizeof *k);
  int r = 0;

  if (k == NULL)
    return fp_fail (error, -ENOMEM, "encrypt, checksum: %s",
                    strerror (ENOMEM));
  k->block = *below;
  k->block.ops = &k->ops;
  k->block.below = below;
  k->ops = sealed_ops;
  k->p = p;
  k->encrypts = p->encrypt != FP_ENCRYPT_NONE;
  k->gcm = p->integrity;
  k->kind = k->gcm ? FP_CIPHER_GCM : FP_CIPHER_XTS;
  fp_range_lock_init (&k->holds);
  if (has_table (p)) {
    r = fp_seal_table_new (&k->table, nr_blocks (p), k->gcm, !p->resume);
    if (r < 0)
      fp_fail (error, r,
               "%s: cannot lock memory for %llu blocks: %s (see "
               "RLIMIT_MEMLOCK)",
               k->gcm ? "integrity=on" : "checksum=crc32c",
               (unsigned long long) nr_blocks (p), strerror (-r));
  }
  else {
    k->ops.repair = NULL; /* nothing tells which copy is right */
  }
  if (r == 0) {
    r = start_ciphers (k);
    if (r < 0)
      fp_fail (error, r, "encrypt: %s", strerror (-r));
  }
  if (r < 0) {
    sealed_free (&k->block);
    return r;
  }
  *out = &k->block;
  return 0;
}
