/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "volume/seal_tree.h"

#define LEVELS 10u /* of 128^10 */
#define WORD 64u

/* Level 0 has the leaves, and the last one a single hash. */
struct level {
  uint64_t n;
  uint8_t (*hashes)[FP_HASH];
  _Atomic uint64_t *changed; /* of level 0: closing */
};

struct fp_seal_tree {
  unsigned nr;
  struct level levels[LEVELS];
  _Atomic uint64_t *touched;
};

static uint64_t
words (uint64_t n)
{
  return fp_div_round_up (n, WORD);
}

uint64_t
fp_seal_tree_memory (uint64_t blocks)
{
  uint64_t leaves = fp_div_round_up (blocks, FP_LEAF), size = words (leaves);

  size *= sizeof (uint64_t);
  for (uint64_t n = leaves;; n = fp_div_round_up (n, FP_LEAF)) {
    size += n * FP_HASH + words (n) * sizeof (uint64_t);
    if (n <= 1)
      return size;
  }
}

int
fp_seal_tree_new (struct fp_seal_tree **out, uint64_t blocks)
{
  struct fp_seal_tree *t = calloc (1, sizeof *t);
  uint64_t n = fp_div_round_up (blocks, FP_LEAF);
  bool ok;

  if (t == NULL)
    return -ENOMEM;
  t->touched = calloc (words (n), sizeof *t->touched);
  ok = t->touched != NULL;
  for (;; n = fp_div_round_up (n, FP_LEAF)) {
    struct level *l = &t->levels[t->nr++];

    l->n = n;
    l->hashes = calloc (n, sizeof *l->hashes);
    l->changed = calloc (words (n), sizeof *l->changed);
    ok = ok && l->hashes != NULL && l->changed != NULL;
    for (uint64_t i = 0; ok && i < n; i++)
      atomic_fetch_or (&l->changed[i / WORD], UINT64_C (1) << i % WORD);
    if (n == 1)
      break;
  }
  if (!ok) {
    fp_seal_tree_free (t);
    return -ENOMEM;
  }
  *out = t;
  return 0;
}

void
fp_seal_tree_free (struct fp_seal_tree *t)
{
  if (t == NULL)
    return;
  for (unsigned i = 0; i < t->nr; i++) {
    free (t->levels[i].hashes);
    free (t->levels[i].changed);
  }
  free (t->touched);
  free (t);
}

uint64_t
fp_seal_tree_leaves (const struct fp_seal_tree *t)
{
  return t->levels[0].n;
}

void
fp_seal_tree_touch (struct fp_seal_tree *t, uint64_t leaf)
{
  uint64_t bit = UINT64_C (1) << leaf % WORD;

  assert (leaf < t->levels[0].n);
  if (!(atomic_load (&t->touched[leaf / WORD]) & bit))
    atomic_fetch_or (&t->touched[leaf / WORD], bit);
}

void
fp_seal_tree_close (struct fp_seal_tree *t)
{
  for (uint64_t i = 0; i < words (t->levels[0].n); i++)
    if (atomic_load (&t->touched[i]) != 0)
      atomic_fetch_or (&t->levels[0].changed[i],
                       atomic_exchange (&t->touched[i], 0));
}

bool
fp_seal_tree_closing (const struct fp_seal_tree *t, uint64_t leaf)
{
  return atomic_load (&t->levels[0].changed[leaf / WORD]) >> leaf % WORD & 1;
}

static uint64_t
next_changed (const struct level *l, uint64_t i)
{
  while (i < l->n) {
    uint64_t left = atomic_load (&l->changed[i / WORD]) >> i % WORD;

    if (left != 0)
      return i + (uint64_t) __builtin_ctzll (left);
    i = (i / WORD + 1) * WORD;
  }
  return l->n;
}

uint64_t
fp_seal_tree_next (const struct fp_seal_tree *t, uint64_t leaf)
{
  return next_changed (&t->levels[0], leaf);
}

static void
set (struct fp_seal_tree *t, unsigned level, uint64_t i,
     const uint8_t hash[FP_HASH])
{
  struct level *l = &t->levels[level];
  uint64_t up = i / FP_LEAF;

  memcpy (l->hashes[i], hash, FP_HASH);
  if (level + 1 < t->nr)
    atomic_fetch_or (&l[1].changed[up / WORD], UINT64_C (1) << up % WORD);
  atomic_fetch_and (&l->changed[i / WORD], ~(UINT64_C (1) << i % WORD));
}

void
fp_seal_tree_set (struct fp_seal_tree *t, uint64_t leaf,
                  const uint8_t hash[FP_HASH])
{
  assert (leaf < t->levels[0].n);
  set (t, 0, leaf, hash);
}

int
fp_seal_tree_root (struct fp_seal_tree *t, struct fp_digest *d,
                   uint8_t root[FP_HASH])
{
  uint8_t in[1 + FP_LEAF * FP_HASH] = { 1 }, hash[FP_HASH];

  assert (fp_seal_tree_next (t, 0) == t->levels[0].n);
  for (unsigned k = 1; k < t->nr; k++) {
    struct level *l = &t->levels[k];

    for (uint64_t i = next_changed (l, 0); i < l->n;
         i = next_changed (l, i + 1)) {
      uint64_t first = i * FP_LEAF;
      uint64_t n = FP_MIN ((uint64_t) FP_LEAF, l[-1].n - first);
      int r;

      memcpy (in + 1, l[-1].hashes[first], n * FP_HASH);
      r = fp_digest (d, in, 1 + n * FP_HASH, hash);
      if (r < 0)
        return r;
      set (t, k, i, hash);
    }
  }
  memcpy (root, t->levels[t->nr - 1].hashes[0], FP_HASH);
  return 0;
}
