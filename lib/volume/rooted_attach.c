/* SPDX-License-Identifier: BSD-3-Clause */
/* rooted_attach.c - what the servers say of a volume, and whether that is so.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/random.h"
#include "volume/lane_int.h"
#include "volume/rooted_int.h"

#define CHUNK 8192u /* blocks that are looked at at a time */

struct attach {
  struct fp_rooted *r;
  struct fp_lane *lane;
  uint64_t durable, limit; /* of the file */
  bool strict;             /* no record is believed without its code */
  bool believes;           /* reroot */
  uint64_t last;           /* the newest version that was seen */
  uint64_t beyond;         /* records that are newer than the file */
  unsigned char *records[FP_RECORDS], *data;
};

static void
freep (unsigned char **p)
{
  free (*p);
}

/* ---- what there is ---- */

/* Of [first, first + n), n <= CHUNK. */
static int
read_records (struct attach *a, uint64_t first, uint64_t n)
{
  int err = 0;

  for (unsigned i = 0; err == 0 && i < FP_RECORDS; i++)
    err = fp_lane_raw_read (a->lane, a->records[i], (uint32_t) (n * FP_RECORD),
                            rooted_at (a->r, i, first));
  return err;
}

static bool
is_genuine (struct attach *a, uint64_t block, const uint8_t *record)
{
  return fp_record_is_genuine (a->r->mac, block, record);
}

/* It was written after the last flush. */
static bool
is_later (const struct attach *a, const struct fp_record *record)
{
  return record->version > a->durable && record->version < a->limit;
}

/* at: which of those that were read. */
static void
take_block (struct attach *a, uint64_t block, size_t at)
{
  struct fp_rooted *r = a->r;
  struct fp_record best = { .version = 0, .zeros = true };
  unsigned slot = 0;
  uint8_t doubt = 0;

  for (unsigned i = 0; i < FP_RECORDS; i++) {
    const uint8_t *in = a->records[i] + at * FP_RECORD;
    struct fp_record one = fp_record_decode (in);

    if (one.version == 0 || one.version >= FP_VERSION_MAX)
      continue;
    if (one.version <= a->durable) {
      if (one.version > best.version &&
          (!a->strict || is_genuine (a, block, in))) {
        best = one;
        slot = i;
      }
      continue;
    }
    if (!is_genuine (a, block, in))
      continue;
    a->last = FP_MAX (a->last, one.version);
    if (is_later (a, &one))
      doubt = ROOTED_DOUBT;
    else
      a->beyond++;
  }
  if (best.zeros) {
    fp_seal_table_zeroed (r->k->table, block, false);
  }
  else {
    const struct fp_proof proof = { .version = best.version,
                                    .tag = { best.tag[0], best.tag[1] } };

    fp_seal_table_wrote (r->k->table, block, &proof, false);
  }
  atomic_store (&r->newest[block], best.version);
  atomic_store (&r->roles[block], fp_roles (slot, slot, slot) | doubt);
  if (doubt)
    atomic_fetch_add (&r->doubts, 1);
}

/* Mostly nothing was ever written there. */
static bool
is_empty (const struct attach *a, size_t at)
{
  uint64_t any = 0;

  for (unsigned i = 0; i < FP_RECORDS; i++) {
    uint64_t version;

    memcpy (&version, a->records[i] + at * FP_RECORD, sizeof version);
    any |= version;
  }
  return any == 0;
}

static int
load (struct attach *a, bool strict)
{
  struct fp_rooted *r = a->r;

  a->strict = strict;
  a->beyond = 0;
  atomic_store (&r->doubts, 0);
  for (uint64_t b = 0; b < r->blocks; b += CHUNK) {
    uint64_t n = FP_MIN ((uint64_t) CHUNK, r->blocks - b);
    int err = read_records (a, b, n);

    if (err < 0)
      return err;
    for (uint64_t i = 0; i < n; i++)
      if (strict || !is_empty (a, i))
        take_block (a, b + i, i);
  }
  return 0;
}

/* ---- what a block is that was written after the last flush ---- */

struct candidate {
  struct fp_record record;
  unsigned slot;
};

/* The newest first. */
static unsigned
list_later (struct attach *a, uint64_t block, size_t at,
            struct candidate c[FP_RECORDS])
{
  unsigned n = 0;

  for (unsigned i = 0; i < FP_RECORDS; i++) {
    const uint8_t *in = a->records[i] + at * FP_RECORD;
    struct candidate one = { .record = fp_record_decode (in), .slot = i };
    unsigned k = n;

    if (!is_later (a, &one.record) || !is_genuine (a, block, in))
      continue;
    for (; k > 0 && c[k - 1].record.version < one.record.version; k--)
      c[k] = c[k - 1];
    c[k] = one;
    n++;
  }
  return n;
}

static bool
opens (struct attach *a, uint64_t version, const uint64_t tag[2],
       const unsigned char *in)
{
  unsigned char out[FP_BLOCK];

  return fp_cipher_decrypt (a->r->tool->cipher, out, in, FP_BLOCK, version,
                            tag) == 0;
}

/* Which of them it is, or -1: what it was at the last flush, or nothing that
 * is known.  Zeros are so whatever the servers have; but where it is not known
 * what was flushed, not if something newer was.
 */
static int
which (struct attach *a, uint64_t block, const struct candidate *c, unsigned n,
       const unsigned char *data)
{
  struct fp_seal_table *t = a->r->k->table;
  struct fp_proof old = fp_seal_table_proof (t, block);
  bool had = fp_seal_table_look (t, block) == FP_BLOCK_PROOF;

  if (had && opens (a, old.version, old.tag, data))
    return -1;
  for (unsigned i = 0; i < n; i++)
    if (c[i].record.zeros
            ? i == 0 || !a->believes
            : opens (a, c[i].record.version, c[i].record.tag, data))
      return (int) i;
  return -1;
}

static void
settle_block (struct attach *a, uint64_t block, size_t at,
              const unsigned char *data)
{
  struct fp_rooted *r = a->r;
  struct candidate c[FP_RECORDS];
  unsigned n = list_later (a, block, at, c);
  unsigned old = fp_roles_newest (atomic_load (&r->roles[block])), slot = old;
  int i = which (a, block, c, n, data);
  /* Then nothing is right, and that is found when it is mended. */
  int is = i < 0 && a->believes && n > 0 ? 0 : i;

  fp_seal_tree_touch (r->tree, block / FP_LEAF);
  if (is >= 0) {
    const struct fp_proof proof = { .version = c[is].record.version,
                                    .tag = { c[is].record.tag[0],
                                             c[is].record.tag[1] } };

    slot = c[is].slot;
    if (atomic_load (&r->newest[block]) == 0)
      old = slot;
    if (c[is].record.zeros)
      fp_seal_table_zeroed (r->k->table, block, false);
    else
      fp_seal_table_wrote (r->k->table, block, &proof, false);
    atomic_store (&r->newest[block], proof.version);
  }
  atomic_store (&r->roles[block], fp_roles (slot, old, old));
  if (i != 0) {
    /* Its newest record is not what it is: it gets another one. */
    atomic_fetch_or (&r->roles[block], (uint8_t) ROOTED_TROUBLE);
    atomic_fetch_add (&r->troubled, 1);
  }
}

static bool
is_doubtful (const struct fp_rooted *r, uint64_t block)
{
  return atomic_load (&r->roles[block]) & ROOTED_DOUBT;
}

/* Of [from, to) of a leaf, block by block: what is lost is nothing. */
static int
read_what_is_left (struct attach *a, uint64_t first, uint64_t from,
                   uint64_t to)
{
  int err = 0;

  for (uint64_t i = from; err == 0 && i < to; i++) {
    unsigned char *in = a->data + (i - from) * FP_BLOCK;

    memset (in, 0, FP_BLOCK);
    if (!is_doubtful (a->r, first + i))
      continue;
    err = fp_lane_raw_read (a->lane, in, FP_BLOCK, (first + i) * FP_BLOCK);
    if (err < 0 && rooted_is_lost (a->r, first + i))
      err = 0;
  }
  return err;
}

static int
settle_leaf (struct attach *a, uint64_t first, uint64_t n)
{
  struct fp_rooted *r = a->r;
  uint64_t from = n, to = 0;
  int err;

  for (uint64_t i = 0; i < n; i++)
    if (is_doubtful (r, first + i)) {
      from = FP_MIN (from, i);
      to = i + 1;
    }
  if (from >= to)
    return 0;
  err = read_records (a, first, n);
  if (err < 0)
    return err;
  err =
      fp_lane_raw_read (a->lane, a->data, (uint32_t) ((to - from) * FP_BLOCK),
                        (first + from) * FP_BLOCK);
  if (err < 0)
    err = read_what_is_left (a, first, from, to);
  for (uint64_t i = from; err == 0 && i < to; i++)
    if (is_doubtful (r, first + i))
      settle_block (a, first + i, i, a->data + (i - from) * FP_BLOCK);
  return err;
}

static int
settle (struct attach *a)
{
  struct fp_rooted *r = a->r;
  int err = 0;

  for (uint64_t b = 0; err == 0 && b < r->blocks; b += FP_LEAF)
    err = settle_leaf (a, b, FP_MIN ((uint64_t) FP_LEAF, r->blocks - b));
  return err;
}

/* ---- is it so? ---- */

static int
refuse_table (const struct attach *a, const char *path, char why[FP_WHY_MAX])
{
  const struct fp_volume_params *p = &a->r->k->v->p;

  if (a->beyond > 0)
    snprintf (why, FP_WHY_MAX,
              "root=%s: is older than what the servers of volume %s have: it "
              "was replaced by an older file, or the volume was attached with "
              "another one since, which is the one to use",
              path, p->name);
  else
    snprintf (why, FP_WHY_MAX,
              "volume %s: its servers do not have what was last flushed: what "
              "they have is older, or was changed; or %s is not the file that "
              "it was last attached with.  reroot=true believes them",
              p->name, path);
  return -EUCLEAN;
}

static void
touch_all (struct fp_rooted *r)
{
  for (uint64_t i = 0; i < fp_seal_tree_leaves (r->tree); i++)
    fp_seal_tree_touch (r->tree, i);
  fp_seal_tree_close (r->tree);
}

/* What the root is of. */
static int
verify (struct attach *a, const struct fp_root *root, char why[FP_WHY_MAX])
{
  const char *path = a->r->k->v->p.root;
  uint8_t hash[FP_HASH];

  for (unsigned strict = 0; strict < 2; strict++) {
    int err = load (a, strict);

    if (err == 0)
      err = rooted_root (a->r, hash);
    if (err < 0) {
      snprintf (why, FP_WHY_MAX,
                "volume %s: what is known of its blocks cannot be read from "
                "its servers: %s",
                a->r->k->v->p.name, strerror (-err));
      return err;
    }
    if (a->beyond > 0)
      break;
    if (memcmp (hash, root->hash, FP_HASH) == 0)
      return 0;
    touch_all (a->r);
  }
  return refuse_table (a, path, why);
}

/* Without a root: nothing is durable, and versions go on where none can be.
 * Until that is over the file says so, and whoever comes next goes on.
 */
static int
believe (struct attach *a, struct fp_root *root, char why[FP_WHY_MAX])
{
  const struct fp_volume_params *p = &a->r->k->v->p;
  uint64_t chance;
  int err = fp_random (&chance, sizeof chance);

  a->believes = true;
  a->durable = 0;
  a->limit = FP_VERSION_MAX;
  touch_all (a->r);
  if (err == 0)
    err = load (a, true);
  if (err == 0)
    err = rooted_root (a->r, root->hash);
  if (err == 0 && a->last >= FP_VERSION_MAX / 2)
    err = -EOVERFLOW;
  if (err < 0) {
    snprintf (why, FP_WHY_MAX, "volume %s: reroot=true: %s", p->name,
              strerror (-err));
    return err;
  }
  root->uuid = p->uuid;
  root->size = a->r->k->size;
  root->durable = 0;
  root->believes = true;
  root->limit =
      FP_MAX (a->last, root->limit) + FP_ROOTED_STEP + chance % FP_ROOTED_LEAP;
  a->limit = root->limit;
  if (a->r->file == NULL)
    return fp_root_create (&a->r->file, p->root, a->r->mac, root, true, why);
  err = fp_root_write (a->r->file, a->r->mac, root);
  if (err < 0)
    snprintf (why, FP_WHY_MAX, "root=%s: %s", p->root, strerror (-err));
  return err;
}

static int
open_file (struct attach *a, struct fp_root *root, char why[FP_WHY_MAX])
{
  const struct fp_volume_params *p = &a->r->k->v->p;
  int err = fp_root_open (&a->r->file, p->root, a->r->mac, root,
                          fp_deadline_in_ms (ROOTED_LOCK_MS), why);

  return err < 0 ? err : rooted_is_of (root, p, why);
}

/* It says what it said, and that from now on versions are used that were not
 * used before; nor, as is likely, by somebody who has a copy of the file.
 */
static int
begin (struct attach *a, struct fp_root *root, char why[FP_WHY_MAX])
{
  struct fp_rooted *r = a->r;
  uint64_t chance;
  int err = fp_random (&chance, sizeof chance);

  if (err == 0 && root->limit > FP_VERSION_MAX - 2 * FP_ROOTED_JUMP)
    err = -EOVERFLOW;
  root->limit += chance % FP_ROOTED_JUMP;
  atomic_store (&r->next, root->limit);
  atomic_store (&r->kept, root->limit);
  atomic_store (&r->durable, root->durable);
  atomic_store (&r->closed, root->durable);
  root->limit += FP_ROOTED_STEP;
  if (err == 0)
    err = fp_root_write (r->file, r->mac, root);
  if (err < 0) {
    snprintf (why, FP_WHY_MAX, "root=%s: %s", r->k->v->p.root,
              strerror (-err));
    return err;
  }
  atomic_store (&r->limit, root->limit);
  return 0;
}

static int
attach (struct attach *a, char why[FP_WHY_MAX])
{
  struct fp_rooted *r = a->r;
  struct fp_root root = { .limit = 0 };
  int err = open_file (a, &root, why);
  bool is = err == 0; /* a root of it */

  if (is) {
    a->durable = root.durable;
    a->limit = root.limit;
    a->believes = root.believes;
    err = verify (a, &root, why);
  }
  /* What need not be believed is not. */
  if (r->k->v->p.reroot &&
      (is ? err == -EUCLEAN : err == -ENOENT || err == -EBADMSG))
    err = believe (a, &root, why);
  if (err == 0)
    err = begin (a, &root, why);
  if (err < 0)
    return err;
  if (atomic_load (&r->doubts) == 0 && !a->believes)
    return 0;
  err = settle (a);
  if (err == 0)
    err = rooted_commit (r);
  if (err < 0)
    snprintf (why, FP_WHY_MAX,
              "volume %s: what was written after its last flush cannot be "
              "made sure of: %s",
              r->k->v->p.name, strerror (-err));
  return err;
}

int
rooted_attach (struct fp_rooted *r, char why[FP_WHY_MAX])
{
  FP_CLEANUP (freep) unsigned char *buf = NULL;
  struct attach a = { .r = r, .lane = r->k->v->lanes[0] };
  int err = 0;

  r->uuid = r->k->v->p.uuid;
  if (r->file == NULL) {
    size_t each = (size_t) CHUNK * FP_RECORD;

    buf = malloc (FP_RECORDS * each + (size_t) FP_LEAF * FP_BLOCK);
    if (buf == NULL)
      err = -ENOMEM;
    for (unsigned i = 0; err == 0 && i < FP_RECORDS; i++)
      a.records[i] = buf + i * each;
    if (err == 0) {
      a.data = buf + FP_RECORDS * each;
      err = attach (&a, why);
    }
    else {
      snprintf (why, FP_WHY_MAX, "integrity: %s", strerror (-err));
    }
  }
  if (err == 0) {
    err = rooted_run (r);
    if (err < 0)
      snprintf (why, FP_WHY_MAX, "thread: %s", strerror (-err));
  }
  r->stays |= err == 0;
  return err;
}
