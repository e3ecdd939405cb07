/* SPDX-License-Identifier: BSD-3-Clause */
/* rooted_flush.c - one root after the other. */

#include <config.h>

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "volume/lane_int.h"
#include "volume/rooted_int.h"
#include "volume/sync.h"

/* ---- hashes ---- */

#define ENTRY 24u

/* Under hash_lock. */
static int
hash_leaf (struct fp_rooted *r, uint64_t leaf)
{
  uint64_t first = leaf * FP_LEAF;
  uint64_t n = FP_MIN ((uint64_t) FP_LEAF, r->blocks - first);
  uint8_t in[1 + FP_LEAF * ENTRY] = { 0 }, hash[FP_HASH];
  int err;

  for (uint64_t i = 0; i < n; i++) {
    unsigned state = fp_seal_table_look (r->k->table, first + i);
    struct fp_proof p = fp_seal_table_proof (r->k->table, first + i);
    uint64_t version = htole64 (p.version);
    uint8_t *at = in + 1 + i * ENTRY;

    if (state == FP_BLOCK_ZEROS)
      continue;
    if (state != FP_BLOCK_PROOF)
      return -EIO; /* it is in trouble, and that was not mended */
    memcpy (at, &version, sizeof version);
    memcpy (at + sizeof version, p.tag, sizeof p.tag);
  }
  err = fp_digest (r->digest, in, 1 + n * ENTRY, hash);
  if (err == 0)
    fp_seal_tree_set (r->tree, leaf, hash);
  return err;
}

int
rooted_hash_leaf (struct fp_rooted *r, uint64_t leaf)
{
  FP_LOCK_SCOPE (&r->hash_lock);
  return fp_seal_tree_closing (r->tree, leaf) ? hash_leaf (r, leaf) : 0;
}

int
rooted_root (struct fp_rooted *r, uint8_t hash[FP_HASH])
{
  uint64_t leaves = fp_seal_tree_leaves (r->tree);
  int err = 0;

  for (uint64_t i = fp_seal_tree_next (r->tree, 0); err == 0 && i < leaves;
       i = fp_seal_tree_next (r->tree, i + 1))
    err = rooted_hash_leaf (r, i);
  if (err < 0)
    return err;
  FP_LOCK_SCOPE (&r->hash_lock);
  return fp_seal_tree_root (r->tree, r->digest, hash);
}

/* ---- the gate ---- */

static int
shut (struct fp_rooted *r, uint64_t deadline)
{
  FP_LOCK_SCOPE (&r->lock);
  r->gate = true;
  while (r->inside > 0) {
    struct timespec until;
    unsigned ms = (unsigned) fp_deadline_left_ms (deadline);

    if (ms == 0)
      return -EIO;
    fp_timespec_after (&until, ms);
    (void) pthread_cond_timedwait (&r->cond, &r->lock, &until);
  }
  return 0;
}

static void
open_again (struct fp_rooted *r)
{
  FP_LOCK_SCOPE (&r->lock);
  r->gate = false;
  pthread_cond_broadcast (&r->cond);
}

/* Writes that failed.  There are few, and they are seldom. */
static int
mend_all (struct fp_rooted *r, uint64_t deadline)
{
  int err = 0;

  for (uint64_t b = 0;
       err == 0 && b < r->blocks && atomic_load (&r->troubled) > 0; b++)
    if (atomic_load_explicit (&r->roles[b], memory_order_relaxed) &
        ROOTED_TROUBLE)
      err = fp_deadline_passed (deadline) ? -EIO : rooted_mend (r, b);
  return err;
}

/* Nobody is inside, nothing is in trouble, and the gate is shut; else -EIO.
 * What is in trouble is mended before, as others may write meanwhile: then
 * there is little left of it, or nothing.
 */
static int
settle_down (struct fp_rooted *r)
{
  int err = mend_all (r, UINT64_MAX);
  uint64_t deadline;

  if (err < 0)
    return err;
  deadline = sealed_deadline (r->k) + rooted_patience_ms (r) * 1000000;
  err = shut (r, deadline);
  return err < 0 ? err : mend_all (r, deadline);
}

/* ---- a root ---- */

static int
say (struct fp_rooted *r, const char *what, int err)
{
  FP_LOCK_SCOPE (&r->lock);
  if (err < 0)
    snprintf (r->why, sizeof r->why, "%s: %s", what, strerror (-err));
  else
    r->why[0] = '\0';
  return err;
}

/* `closed` becomes durable. */
static int
finish (struct fp_rooted *r)
{
  struct fp_volume *v = r->k->v;
  struct fp_root root = { .uuid = r->uuid,
                          .size = r->k->size,
                          .durable = atomic_load (&r->closed) };
  int err = fp_lane_remote_flush (v->lanes[0]);

  if (err == 0)
    err = rooted_root (r, root.hash);
  /* Who has it now has its file, too. */
  if (err == 0 && (atomic_load (&v->taken) || r->file == NULL))
    err = -EIO;
  if (err < 0)
    return say (r, "what was written cannot be flushed", err);
  root.limit = atomic_load (&r->next) + FP_ROOTED_STEP;
  err = fp_root_write (r->file, r->mac, &root);
  if (err < 0)
    return say (r, "the root file cannot be written", err);
  atomic_store (&r->limit, root.limit);
  atomic_store (&r->durable, root.durable);
  atomic_store (&r->kept, root.durable + 1);
  atomic_fetch_add (&r->roots, 1);
  {
    FP_LOCK_SCOPE (&r->lock);
    r->pending = false;
  }
  return say (r, "", 0);
}

int
rooted_commit (struct fp_rooted *r)
{
  int err = 0;

  if (r->pending)
    err = finish (r);
  if (err < 0)
    return err;
  err = settle_down (r);
  if (err == 0) {
    uint64_t last = atomic_load (&r->next) - 1;

    /* Nothing was written: what is durable is all there is. */
    if (last != atomic_load (&r->closed)) {
      atomic_store (&r->closed, last);
      fp_seal_tree_close (r->tree);
      FP_LOCK_SCOPE (&r->lock);
      r->pending = true;
    }
  }
  open_again (r);
  if (err < 0)
    return say (r, "what was written cannot be flushed", err);
  return r->pending ? finish (r) : 0;
}

/* ---- its thread ---- */

static void
commit_for (struct fp_rooted *r, uint64_t number)
{
  int err = rooted_commit (r);

  FP_LOCK_SCOPE (&r->lock);
  if (err == 0)
    r->done = number;
  else
    r->failed = number;
  pthread_cond_broadcast (&r->cond);
}

/* Versions become scarce; or so much was written that whoever attached the
 * volume after this client died would read for long before it answers.
 */
static bool
is_due (const struct fp_rooted *r)
{
  if (atomic_load (&r->next) - atomic_load (&r->kept) > r->behind)
    return true;
  return atomic_load (&r->next) + FP_ROOTED_STEP / 2 > atomic_load (&r->limit);
}

/* The number of the flush that is to be made. */
static uint64_t
wait_for_one (struct fp_rooted *r, bool *stop)
{
  uint64_t seen = FP_MAX (r->done, r->failed);

  FP_LOCK_SCOPE (&r->lock);
  while (!r->stopping && r->asked == seen) {
    struct timespec until;

    fp_timespec_after (&until, ROOTED_LOOK_MS);
    (void) pthread_cond_timedwait (&r->cond, &r->lock, &until);
    if (is_due (r) || (r->file != NULL && atomic_load (&r->k->v->taken)))
      break;
  }
  *stop = r->stopping && r->asked == seen;
  return r->asked;
}

static void
run (void *arg)
{
  struct fp_rooted *r = arg;

  for (;;) {
    bool stop;
    uint64_t number = wait_for_one (r, &stop);

    if (stop)
      return;
    if (atomic_load (&r->k->v->taken) && r->file != NULL) {
      fp_root_close (r->file);
      r->file = NULL;
    }
    commit_for (r, number);
  }
}

int
rooted_run (struct fp_rooted *r)
{
  int err = fp_thread_create_large (&r->thread, "root", run, r);

  r->runs = err == 0;
  return err;
}

int
rooted_flush (struct fp_rooted *r)
{
  uint64_t deadline = sealed_deadline (r->k) +
                      (rooted_patience_ms (r) + ROOTED_STUCK_MS) * 1000000,
           number;

  FP_LOCK_SCOPE (&r->lock);
  number = ++r->asked;
  pthread_cond_broadcast (&r->cond);
  while (r->done < number && r->failed < number) {
    struct timespec until;
    unsigned ms = (unsigned) fp_deadline_left_ms (deadline);

    if (ms == 0)
      return -EIO;
    fp_timespec_after (&until, ms);
    (void) pthread_cond_timedwait (&r->cond, &r->lock, &until);
  }
  return r->done >= number ? 0 : -EIO;
}

void
rooted_end (struct fp_rooted *r, bool discard)
{
  if (r == NULL)
    return;
  r->stays |= !discard;
  if (!r->runs)
    return;
  if (!atomic_load (&r->k->v->taken))
    (void) rooted_flush (r);
  {
    FP_LOCK_SCOPE (&r->lock);
    r->stopping = true;
    pthread_cond_broadcast (&r->cond);
  }
  (void) fp_thread_join (&r->thread);
  r->runs = false;
}

void
rooted_status (struct fp_rooted *r, struct fp_seal_status *s)
{
  s->rooted = true;
  s->roots = atomic_load (&r->roots);
  s->doubts = atomic_load (&r->doubts);
  s->torn = atomic_load (&r->torn);
  s->troubled = atomic_load (&r->troubled);
  s->table_writes = atomic_load (&r->table_ops);
  s->table_bytes = atomic_load (&r->table_bytes);
  FP_LOCK_SCOPE (&r->lock);
  memcpy (s->why, r->why, sizeof s->why);
}
