/* SPDX-License-Identifier: BSD-3-Clause */
/* rooted.c - the records of what is written, and who may write. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/random.h"
#include "base/secret.h"
#include "volume/lane_int.h"
#include "volume/rooted_int.h"
#include "volume/stripe.h"
#include "volume/sync.h"

#define EACH (sizeof (uint64_t) + 1) /* bytes of a block */

/* ---- making it ---- */

uint64_t
rooted_memory (uint64_t blocks)
{
  return blocks * EACH + fp_seal_tree_memory (blocks) +
         sizeof (struct fp_rooted);
}

static int
create_file (struct fp_rooted *r, char why[FP_WHY_MAX])
{
  const struct fp_volume_params *p = &r->k->v->p;
  struct fp_root root = { .uuid = p->uuid, .size = r->k->size };
  uint64_t first;
  int err = fp_random (&first, sizeof first);

  first = 1 + first % FP_ROOTED_FIRST;
  root.limit = first + FP_ROOTED_STEP;
  if (err == 0)
    err = rooted_root (r, root.hash);

  if (err < 0) {
    snprintf (why, FP_WHY_MAX, "root=%s: %s", p->root, strerror (-err));
    return err;
  }
  err = fp_root_create (&r->file, p->root, r->mac, &root, false, why);
  if (err < 0)
    return err;
  r->made = true;
  atomic_store (&r->next, first);
  atomic_store (&r->kept, first);
  atomic_store (&r->limit, root.limit);
  return 0;
}

int
rooted_new (struct fp_sealed *k, char why[FP_WHY_MAX])
{
  const struct fp_volume_params *p = &k->v->p;
  struct fp_rooted *r = calloc (1, sizeof *r);
  struct fp_root root;
  int err;

  if (r == NULL) {
    snprintf (why, FP_WHY_MAX, "integrity: %s", strerror (ENOMEM));
    return -ENOMEM;
  }
  k->rooted = r;
  r->k = k;
  r->blocks = k->size / FP_BLOCK;
  r->table_at = k->size;
  r->behind = FP_ROOTED_BEHIND;
  fp_mutex_init (&r->hash_lock);
  fp_mutex_init (&r->lock);
  fp_cond_init (&r->cond);
  r->memory_size = (size_t) (r->blocks * EACH);
  err = fp_secret_new (&r->memory, r->memory_size);
  if (err == 0) {
    r->newest = r->memory;
    r->roles = (_Atomic uint8_t *) (r->newest + r->blocks);
    err = fp_seal_tree_new (&r->tree, r->blocks);
  }
  if (err == 0)
    err = fp_digest_new (&r->digest);
  if (err == 0)
    err = rooted_mac (&r->mac, p);
  if (err < 0) {
    snprintf (why, FP_WHY_MAX,
              "integrity: no memory that can be locked for %llu blocks: %s "
              "(RLIMIT_MEMLOCK)",
              (unsigned long long) r->blocks, strerror (-err));
    return err;
  }
  /* Before the servers know the volume: there is none without a root. */
  if (p->members.version == 0 && !p->uuid_said &&
      fp_root_read (p->root, r->mac, &root, why) == -ENOENT)
    return create_file (r, why);
  return 0;
}

void
rooted_free (struct fp_rooted *r)
{
  if (r == NULL)
    return;
  if (r->made && !r->stays)
    fp_root_remove (r->file);
  else
    fp_root_close (r->file);
  fp_mac_free (r->mac);
  fp_digest_free (r->digest);
  fp_seal_tree_free (r->tree);
  fp_secret_free (r->memory, r->memory_size);
  pthread_cond_destroy (&r->cond);
  pthread_mutex_destroy (&r->lock);
  pthread_mutex_destroy (&r->hash_lock);
  r->k->rooted = NULL;
  free (r);
}

/* ---- the gate ---- */

int
rooted_enter (struct fp_rooted *r, uint64_t deadline)
{
  if (r == NULL)
    return 0;
  FP_LOCK_SCOPE (&r->lock);
  while (r->gate) {
    struct timespec until;
    unsigned ms = (unsigned) fp_deadline_left_ms (deadline);

    if (ms == 0)
      return -EIO;
    fp_timespec_after (&until, ms);
    (void) pthread_cond_timedwait (&r->cond, &r->lock, &until);
  }
  r->inside++;
  return 0;
}

void
rooted_leave (struct fp_rooted *r)
{
  if (r == NULL)
    return;
  FP_LOCK_SCOPE (&r->lock);
  if (--r->inside == 0 && r->gate)
    pthread_cond_broadcast (&r->cond);
}

uint64_t
rooted_draw (struct fp_rooted *r, uint64_t nr)
{
  uint64_t first = atomic_fetch_add (&r->next, nr);

  return first + nr <= atomic_load (&r->limit) ? first : 0;
}

/* ---- records ---- */

/* Of these blocks the leaves are as of the close, or were hashed. */
static int
prepare (struct fp_rooted *r, uint64_t first, uint64_t end)
{
  int err = 0;

  for (uint64_t leaf = first / FP_LEAF; leaf <= (end - 1) / FP_LEAF; leaf++) {
    if (fp_seal_tree_closing (r->tree, leaf))
      err = rooted_hash_leaf (r, leaf);
    if (err < 0)
      return err;
    fp_seal_tree_touch (r->tree, leaf);
  }
  return 0;
}

static uint8_t
roles_now (const struct fp_rooted *r, uint64_t block,
           const struct fp_bounds *b)
{
  return fp_roles_now (
      atomic_load_explicit (&r->roles[block], memory_order_relaxed),
      atomic_load_explicit (&r->newest[block], memory_order_relaxed), b);
}

static void
set_newest (struct fp_rooted *r, uint64_t block, uint64_t version,
            uint8_t roles)
{
  if (atomic_load (&r->roles[block]) & ROOTED_TROUBLE)
    atomic_fetch_sub (&r->troubled, 1);
  atomic_store_explicit (&r->newest[block], version, memory_order_relaxed);
  atomic_store_explicit (&r->roles[block], roles, memory_order_relaxed);
}

static void
set_trouble (struct fp_rooted *r, uint64_t block)
{
  if (!(atomic_fetch_or (&r->roles[block], (uint8_t) ROOTED_TROUBLE) &
        ROOTED_TROUBLE))
    atomic_fetch_add (&r->troubled, 1);
}

/* From block first on, of at most nr: so many have one that is free for all of
 * them, which is *slot.
 */
static unsigned
run_of (const struct fp_rooted *r, uint64_t first, unsigned nr,
        const struct fp_bounds *b, unsigned *slot)
{
  unsigned set = fp_roles_free (roles_now (r, first, b)), n = 1;

  for (; n < nr; n++) {
    unsigned both = set & fp_roles_free (roles_now (r, first + n, b));

    if (both == 0)
      break;
    set = both;
  }
  *slot = (unsigned) __builtin_ctz (set);
  return n;
}

static int
send_records (struct fp_lane *lane, struct fp_rooted *r,
              const unsigned char *records, uint64_t first, unsigned nr,
              unsigned slot)
{
  uint32_t n = nr * FP_RECORD;
  int err =
      fp_lane_raw_write (lane, records, n, rooted_at (r, slot, first), 0);

  if (err == 0) {
    atomic_fetch_add (&r->table_ops, 1);
    atomic_fetch_add (&r->table_bytes, n);
  }
  return err;
}

int
rooted_put (struct fp_lane *lane, struct seal_tool *tool, uint64_t first,
            unsigned nr)
{
  struct fp_rooted *r = lane->v->sealed->rooted;
  int err = prepare (r, first, first + nr);
  unsigned n, slot;

  tool->bounds = rooted_bounds (r);
  for (unsigned i = 0; err == 0 && i < nr; i += n) {
    n = run_of (r, first + i, nr - i, &tool->bounds, &slot);
    for (unsigned j = i; err == 0 && j < i + n; j++) {
      const struct fp_proof *proof = &tool->proofs[j];
      const struct fp_record record = {
        .version = proof->version, .tag = { proof->tag[0], proof->tag[1] }
      };

      tool->slots[j] = (uint8_t) slot;
      err = fp_record_encode (tool->mac, first + j, &record,
                              tool->records + (size_t) (j - i) * FP_RECORD);
    }
    if (err == 0)
      err = send_records (lane, r, tool->records, first + i, n, slot);
  }
  return err;
}

void
rooted_wrote (struct fp_rooted *r, struct seal_tool *tool, uint64_t first,
              unsigned nr, bool failed)
{
  for (unsigned i = 0; i < nr; i++) {
    uint64_t block = first + i;

    if (failed)
      set_trouble (r, block);
    else
      set_newest (r, block, tool->proofs[i].version,
                  fp_roles_wrote (roles_now (r, block, &tool->bounds),
                                  tool->slots[i]));
  }
}

/* ---- zeros ---- */

static bool
is_zeros (const struct fp_rooted *r, uint64_t block)
{
  return fp_seal_table_look (r->k->table, block) == FP_BLOCK_ZEROS &&
         !(atomic_load (&r->roles[block]) & ROOTED_TROUBLE);
}

/* From first on, which is not, to before end: *n. */
static int
zero_run (struct fp_lane *lane, struct seal_tool *tool, uint64_t first,
          uint64_t end, unsigned *n)
{
  struct fp_rooted *r = lane->v->sealed->rooted;
  unsigned max = (unsigned) FP_MIN (end - first,
                                    (uint64_t) (SEAL_SMALL / FP_RECORD)),
           slot;
  struct fp_bounds b = rooted_bounds (r);
  uint64_t version;
  int err;

  *n = 1;
  while (*n < max && !is_zeros (r, first + *n))
    ++*n;
  err = prepare (r, first, first + *n);
  if (err < 0)
    return err;
  *n = run_of (r, first, *n, &b, &slot);
  version = rooted_draw (r, *n);
  if (version == 0)
    return -EIO;
  for (unsigned i = 0; err == 0 && i < *n; i++) {
    const struct fp_record record = { .version = version + i, .zeros = true };

    err = fp_record_encode (tool->mac, first + i, &record,
                            tool->buf + (size_t) i * FP_RECORD);
  }
  if (err == 0)
    err = send_records (lane, r, tool->buf, first, *n, slot);
  for (unsigned i = 0; i < *n; i++) {
    uint64_t block = first + i;

    fp_seal_table_zeroed (r->k->table, block, err < 0);
    if (err < 0)
      set_trouble (r, block);
    else
      set_newest (r, block, version + i,
                  fp_roles_wrote (roles_now (r, block, &b), slot));
  }
  return err;
}

int
rooted_zero (struct fp_lane *lane, struct seal_tool *tool, uint64_t first,
             uint64_t end)
{
  struct fp_rooted *r = lane->v->sealed->rooted;
  int err = 0;

  for (uint64_t b = first; err == 0 && b < end;) {
    unsigned n = 1;

    if (!is_zeros (r, b))
      err = zero_run (lane, tool, b, end, &n);
    b += n;
  }
  return err;
}

/* ---- what has failed ---- */

/* Nothing is right for it. */
static int
put_torn (struct fp_lane *lane, struct fp_rooted *r, uint64_t block)
{
  struct fp_proof *proof = &r->tool->proofs[0];
  int err;

  *proof = (struct fp_proof) { .version = rooted_draw (r, 1) };
  if (proof->version == 0)
    return -EIO;
  err = rooted_put (lane, r->tool, block, 1);
  fp_seal_table_wrote (r->k->table, block, proof, err < 0);
  rooted_wrote (r, r->tool, block, 1, err < 0);
  if (err == 0)
    atomic_fetch_add (&r->torn, 1);
  return err;
}

bool
rooted_is_lost (const struct fp_rooted *r, uint64_t block)
{
  struct fp_pieces *t = r->k->v->pieces;
  uint64_t run;
  struct fp_piece *p =
      &t->p[fp_stripe_at (t, block * FP_BLOCK, &run) >> t->shift];

  return fp_piece_state (p) == FP_PIECE_LOST && !atomic_load (&p->doubt);
}

int
rooted_mend (struct fp_rooted *r, uint64_t block)
{
  struct fp_sealed *k = r->k;
  struct fp_lane *lane = k->v->lanes[0];
  unsigned char all[FP_BLOCK];
  struct fp_hold hold;
  int err =
      fp_hold_take (&k->holds, &hold, block, block + 1, sealed_deadline (k));

  if (err < 0)
    return err;
  if (fp_seal_table_look (k->table, block) == FP_BLOCK_ZEROS) {
    err = rooted_zero (lane, r->tool, block, block + 1);
  }
  else {
    err = sealed_look_held (lane, all, block, true);
    if (err == 0)
      err = sealed_put_blocks (lane, r->tool, all, FP_BLOCK, block);
    else if (err == -EBADMSG || rooted_is_lost (r, block))
      err = put_torn (lane, r, block);
  }
  fp_hold_release (&k->holds, &hold);
  return err;
}
