/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/memlock.h"
#include "base/sync.h"
#include "filter/seal_table.h"

#define HEADS 1024u /* a power of two */
#define NONE UINT32_MAX

struct tag {
  _Atomic uint64_t version, tag[2];
};

struct more {
  uint64_t block;
  struct fp_proof proof;
  uint32_t next;
};

struct fp_seal_table {
  uint64_t blocks;
  _Atomic uint64_t unknown;
  /* One allocation for all tables. */
  void *memory;
  size_t size;
  struct tag *tags;        /* or NULL */
  _Atomic uint32_t *sums;  /* or NULL */
  _Atomic uint8_t *states; /* sets of FP_BLOCK_* */

  pthread_mutex_t lock; /* protects the fields below */
  uint32_t free, heads[HEADS];
  struct more *more; /* FP_TABLE_MORE of them */
};

uint64_t
fp_seal_table_memory (uint64_t blocks, bool tags)
{
  return blocks * ((tags ? sizeof (struct tag) : 4) + 1) +
         FP_TABLE_MORE * sizeof (struct more);
}

int
fp_seal_table_new (struct fp_seal_table **out, uint64_t blocks, bool tags,
                   bool known)
{
  struct fp_seal_table *t = calloc (1, sizeof *t);
  unsigned char *p;
  int r;

  if (t == NULL)
    return -ENOMEM;
  fp_mutex_init (&t->lock);
  t->blocks = blocks;
  t->size = (size_t) fp_seal_table_memory (blocks, tags);
  r = fp_secret_new (&t->memory, t->size);
  if (r < 0) {
    fp_seal_table_free (t);
    return r;
  }
  p = t->memory;
  t->more = (struct more *) (void *) p;
  p += FP_TABLE_MORE * sizeof *t->more;
  if (tags)
    t->tags = (struct tag *) (void *) p;
  else
    t->sums = (_Atomic uint32_t *) (void *) p;
  p += blocks * (tags ? sizeof *t->tags : sizeof *t->sums);
  t->states = (_Atomic uint8_t *) p;
  memset (p, known ? FP_BLOCK_ZEROS : FP_BLOCK_ANY, blocks);
  atomic_store (&t->unknown, known ? 0 : blocks);
  for (uint32_t i = 0; i < HEADS; i++)
    t->heads[i] = NONE;
  for (uint32_t i = 0; i < FP_TABLE_MORE; i++)
    t->more[i].next = i + 1 < FP_TABLE_MORE ? i + 1 : NONE;
  *out = t;
  return 0;
}

void
fp_seal_table_free (struct fp_seal_table *t)
{
  if (t == NULL)
    return;
  fp_secret_free (t->memory, t->size);
  pthread_mutex_destroy (&t->lock);
  free (t);
}

uint64_t
fp_seal_table_unknown (const struct fp_seal_table *t)
{
  return atomic_load (&t->unknown);
}

unsigned
fp_seal_table_look (const struct fp_seal_table *t, uint64_t block)
{
  assert (block < t->blocks);
  return atomic_load_explicit (&t->states[block], memory_order_acquire);
}

struct fp_proof
fp_seal_table_proof (const struct fp_seal_table *t, uint64_t block)
{
  struct fp_proof p = { .version = 0 };

  if (t->tags == NULL) {
    p.tag[0] = atomic_load_explicit (&t->sums[block], memory_order_relaxed);
    return p;
  }
  p.version =
      atomic_load_explicit (&t->tags[block].version, memory_order_relaxed);
  for (unsigned i = 0; i < 2; i++)
    p.tag[i] =
        atomic_load_explicit (&t->tags[block].tag[i], memory_order_relaxed);
  return p;
}

static void
set_proof (struct fp_seal_table *t, uint64_t block, const struct fp_proof *p)
{
  if (t->tags == NULL) {
    atomic_store_explicit (&t->sums[block], (uint32_t) p->tag[0],
                           memory_order_relaxed);
    return;
  }
  atomic_store_explicit (&t->tags[block].version, p->version,
                         memory_order_relaxed);
  for (unsigned i = 0; i < 2; i++)
    atomic_store_explicit (&t->tags[block].tag[i], p->tag[i],
                           memory_order_relaxed);
}

static void
set_state (struct fp_seal_table *t, uint64_t block, unsigned state)
{
  if (atomic_load_explicit (&t->states[block], memory_order_relaxed) ==
      FP_BLOCK_ANY)
    atomic_fetch_sub (&t->unknown, 1);
  atomic_store_explicit (&t->states[block], (uint8_t) state,
                         memory_order_release);
}

/* ---- further proofs, of writes that failed ---- */

bool
fp_seal_table_more (struct fp_seal_table *t, uint64_t block, unsigned i,
                    struct fp_proof *out)
{
  FP_LOCK_SCOPE (&t->lock);
  for (uint32_t n = t->heads[block % HEADS]; n != NONE; n = t->more[n].next)
    if (t->more[n].block == block && i-- == 0) {
      *out = t->more[n].proof;
      return true;
    }
  return false;
}

static bool
add_more (struct fp_seal_table *t, uint64_t block, const struct fp_proof *p)
{
  uint32_t n;

  FP_LOCK_SCOPE (&t->lock);
  n = t->free;
  if (n == NONE)
    return false;
  t->free = t->more[n].next;
  t->more[n] = (struct more) {
    .block = block,
    .proof = *p,
    .next = t->heads[block % HEADS],
  };
  t->heads[block % HEADS] = n;
  return true;
}

static void
drop_more (struct fp_seal_table *t, uint64_t block)
{
  uint32_t *at;

  FP_LOCK_SCOPE (&t->lock);
  at = &t->heads[block % HEADS];
  while (*at != NONE) {
    uint32_t n = *at;

    if (t->more[n].block != block) {
      at = &t->more[n].next;
      continue;
    }
    *at = t->more[n].next;
    t->more[n].next = t->free;
    t->free = n;
  }
}

/* ---- changes ---- */

static void
failed_write (struct fp_seal_table *t, uint64_t block,
              const struct fp_proof *proof)
{
  unsigned state = fp_seal_table_look (t, block);

  if (state == 0 || state == FP_BLOCK_ANY)
    return;
  if (!(state & FP_BLOCK_PROOF)) {
    set_proof (t, block, proof);
    set_state (t, block, state | FP_BLOCK_PROOF);
  }
  else if (add_more (t, block, proof)) {
    set_state (t, block, state | FP_BLOCK_MORE);
  }
  else {
    set_state (t, block, 0);
    if (state & FP_BLOCK_MORE)
      drop_more (t, block);
  }
}

void
fp_seal_table_wrote (struct fp_seal_table *t, uint64_t block,
                     const struct fp_proof *proof, bool failed)
{
  unsigned state = fp_seal_table_look (t, block);

  if (failed) {
    failed_write (t, block, proof);
    return;
  }
  set_proof (t, block, proof);
  set_state (t, block, FP_BLOCK_PROOF);
  if (state & FP_BLOCK_MORE)
    drop_more (t, block);
}

void
fp_seal_table_zeroed (struct fp_seal_table *t, uint64_t block, bool failed)
{
  unsigned state = fp_seal_table_look (t, block);

  if (failed) {
    if (state != 0 && state != FP_BLOCK_ANY)
      set_state (t, block, state | FP_BLOCK_ZEROS);
    return;
  }
  set_state (t, block, FP_BLOCK_ZEROS);
  if (state & FP_BLOCK_MORE)
    drop_more (t, block);
}
