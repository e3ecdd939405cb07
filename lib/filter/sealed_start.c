/* SPDX-License-Identifier: BSD-3-Clause */
/* sealed_start.c - start and stop the sealing of a volume, and report its
 * status.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/memlock.h"
#include "base/random.h"
#include "base/secret.h"
#include "base/sync.h"
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
fp_volume_seal_memory (const struct fp_volume_params *p)
{
  uint64_t size = 0;

  if (!fp_volume_is_sealed (p))
    return 0;
  if (has_table (p))
    size += fp_seal_table_memory (nr_blocks (p), p->integrity);
  size += p->lanes * (SEAL_WRITERS + SEAL_LARGE_WRITERS + SEAL_READERS) *
          (uint64_t) sizeof (struct seal_tool);
  if (p->encrypt != FP_ENCRYPT_NONE)
    size += p->lanes * (uint64_t) BUFFERS;
  return size + sizeof (struct fp_sealed);
}

/* ---- before anything is started ---- */

int
fp_sealed_check (struct fp_volume_params *p, char why[FP_WHY_MAX])
{
  if (p->checksum != FP_CHECKSUM_NONE && fp_crc32c_supported () < 0) {
    snprintf (why, FP_WHY_MAX,
              "checksum=crc32c: this was built without ISA-L (Debian: "
              "libisal-dev)");
    return -EOPNOTSUPP;
  }
  if (p->encrypt != FP_ENCRYPT_NONE && fp_cipher_supported () < 0) {
    snprintf (why, FP_WHY_MAX,
              "encrypt: this was built without GnuTLS (Debian: "
              "libgnutls28-dev)");
    return -EOPNOTSUPP;
  }
  return fp_seal_key_check (p, why);
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

/* Make all three kinds of tools, also after an error, because fp_sealed_stop
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
  unsigned lanes = k->v->p.lanes;
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
  if (k->v->p.encrypt == FP_ENCRYPT_EPHEMERAL)
    r = fp_random (key, FP_CIPHER_KEY_MAX);
  else if (k->encrypts)
    r = fp_seal_key_derive (k->v->p.key, &k->v->p.uuid, key);
  if (r == 0)
    r = make_all_tools (k, key);
  fp_secret_free (key, FP_CIPHER_KEY_MAX);
  return r;
}

int
fp_sealed_start (struct fp_volume *v, char why[FP_WHY_MAX])
{
  const struct fp_volume_params *p = &v->p;
  struct fp_sealed *k = calloc (1, sizeof *k);
  int r;

  if (k == NULL) {
    snprintf (why, FP_WHY_MAX, "encrypt, checksum: %s", strerror (ENOMEM));
    return -ENOMEM;
  }
  k->v = v;
  k->encrypts = p->encrypt != FP_ENCRYPT_NONE;
  k->gcm = p->integrity;
  k->kind = k->gcm ? FP_CIPHER_GCM : FP_CIPHER_XTS;
  fp_range_seqlock_init (&k->holds);
  v->sealed = k;
  if (has_table (p)) {
    r = fp_seal_table_new (&k->table, nr_blocks (p), k->gcm, !p->resume);
    if (r < 0) {
      snprintf (why, FP_WHY_MAX,
                "%s: cannot lock memory for %llu blocks: %s (see "
                "RLIMIT_MEMLOCK)",
                k->gcm ? "integrity=on" : "checksum=crc32c",
                (unsigned long long) nr_blocks (p), strerror (-r));
      return r;
    }
  }
  r = start_ciphers (k);
  if (r < 0)
    snprintf (why, FP_WHY_MAX, "encrypt: %s", strerror (-r));
  return r;
}

void
fp_sealed_stop (struct fp_volume *v)
{
  struct fp_sealed *k = v->sealed;

  if (k == NULL)
    return;
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
  fp_range_seqlock_destroy (&k->holds);
  free (k);
  v->sealed = NULL;
}

/* ---- status ---- */

void
fp_sealed_status (struct fp_volume *v, struct fp_seal_status *s)
{
  struct fp_sealed *k = v->sealed;

  *s = (struct fp_seal_status) { .on = k != NULL };
  if (k == NULL)
    return;
  s->checksum = v->p.checksum;
  s->encrypt = v->p.encrypt;
  s->integrity = v->p.integrity;
  s->wrong = atomic_load (&k->wrong);
  s->repaired = atomic_load (&k->repaired);
  s->unreadable = atomic_load (&k->unreadable);
  if (k->table != NULL)
    s->unchecked = fp_seal_table_unknown (k->table) * FP_BLOCK;
  s->memory = fp_volume_seal_memory (&v->p);
}
