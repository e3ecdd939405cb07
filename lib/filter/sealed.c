/* SPDX-License-Identifier: BSD-3-Clause */
/* sealed.c - read, write and zero a sealed volume. */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/sync.h"
#include "filter/sealed_int.h"

uint64_t
sealed_deadline (const struct fp_sealed *k)
{
  /* Twice the time that another request may hold a range or a tool. */
  return fp_deadline_in_ms (2 * k->block.await_ms);
}

/* ---- tools ---- */

struct seal_tool *
sealed_get (struct seal_tools *t, uint64_t deadline)
{
  struct seal_tool *tool;

  FP_LOCK_SCOPE (&t->lock);
  while (t->free == NULL) {
    struct timespec until;
    unsigned ms = fp_deadline_left_ms (deadline);

    if (ms == 0)
      return NULL;
    fp_timespec_after (&until, ms);
    t->waiting++;
    (void) pthread_cond_timedwait (&t->cond, &t->lock, &until);
    t->waiting--;
  }
  tool = t->free;
  t->free = tool->next;
  return tool;
}

void
sealed_put (struct seal_tools *t, struct seal_tool *tool)
{
  FP_LOCK_SCOPE (&t->lock);
  tool->next = t->free;
  t->free = tool;
  if (t->waiting > 0)
    pthread_cond_signal (&t->cond);
}

/* ---- reading ---- */

/* Read whole blocks under their range lock.  Without a table, a read that
 * mixes old and new content cannot be told from a good one.
 */
static int
fetch_held (struct fp_sealed *k, unsigned lane, unsigned char *buf,
            uint64_t length, uint64_t first)
{
  uint64_t deadline = sealed_deadline (k);
  int r = 0;

  while (r == 0 && length > 0) {
    uint64_t n = FP_MIN (length, (uint64_t) SEAL_LARGE);
    uint64_t end = first + fp_div_round_up (n, FP_BLOCK);
    struct fp_range_hold hold;

    r = fp_range_lock_take (&k->holds, &hold, first, end, deadline);
    if (r < 0)
      return r;
    r = fp_block_read (k->block.below, lane, buf, (uint32_t) n,
                       first * FP_BLOCK);
    fp_range_lock_release (&k->holds, &hold);
    buf += n;
    length -= n;
    first = end;
  }
  return r;
}

/* Read and open whole blocks.  Without a table, read again under the range
 * lock if another thread changed a block meanwhile.
 */
static int
read_blocks (struct fp_sealed *k, unsigned lane, unsigned char *buf,
             uint64_t length, uint64_t first)
{
  uint64_t end = first + fp_div_round_up (length, FP_BLOCK), before, after;
  bool told = k->table != NULL;
  int r;

  if (!told && !fp_range_lock_sum (&k->holds, first, end, &before)) {
    r = fetch_held (k, lane, buf, length, first);
  }
  else {
    r = fp_block_read (k->block.below, lane, buf, (uint32_t) length,
                       first * FP_BLOCK);
    if (r == 0 && !told &&
        (!fp_range_lock_sum (&k->holds, first, end, &after) ||
         after != before))
      r = fetch_held (k, lane, buf, length, first);
  }
  return r < 0 ? r : sealed_open_blocks (k, lane, buf, length, first);
}

/* Return the length of the whole blocks that a request starts with.  If it
 * starts with a part of a block, return 0, and set *in and *n to the offset
 * and length of that part.
 */
static uint64_t
whole_blocks (const struct fp_sealed *k, uint64_t length, uint64_t offset,
              uint32_t *in, uint32_t *n)
{
  uint64_t whole = length;

  *in = (uint32_t) (offset % FP_BLOCK);
  if (offset + length != k->block.size)
    whole = fp_round_down (length, FP_BLOCK);
  if (*in == 0 && whole > 0)
    return whole;
  *n = (uint32_t) FP_MIN (length, (uint64_t) FP_BLOCK - *in);
  return 0;
}

int
sealed_read (struct fp_block *b, struct fp_block_request *req)
{
  struct fp_sealed *k = sealed_of (b);
  unsigned lane = req->lane;
  unsigned char *to = req->buf;
  uint64_t left = req->length, offset = req->offset;
  int r = 0;

  while (r == 0 && left > 0) {
    uint64_t block = offset / FP_BLOCK, n;
    uint32_t in, part;

    n = whole_blocks (k, left, offset, &in, &part);
    if (n > 0) {
      r = read_blocks (k, lane, to, n, block);
    }
    else {
      unsigned char all[FP_BLOCK];

      n = part;
      r = read_blocks (k, lane, all, sealed_block_size (k, block), block);
      memcpy (to, all + in, n);
    }
    to += n;
    offset += n;
    left -= n;
  }
  return r;
}

/* ---- writing ---- */

/* Return true if a front end's write must not be sent any more.  Then the
 * table must not record it either.
 */
static bool
is_stale (const struct fp_sealed *k, uint64_t made_ns)
{
  return made_ns != 0 && fp_block_is_stale (&k->block, made_ns);
}

int
sealed_put_blocks (struct fp_sealed *k, unsigned lane, struct seal_tool *tool,
                   const unsigned char *buf, uint32_t length, uint64_t first)
{
  unsigned nr = (unsigned) fp_div_round_up (length, FP_BLOCK);
  const unsigned char *sent = k->encrypts ? tool->buf : buf;
  uint64_t version = 0;
  int r;

  if (is_stale (k, tool->made_ns))
    return -EIO;
  if (k->gcm)
    version = atomic_fetch_add (&k->version, nr) + 1;
  for (unsigned i = 0; i < nr; i++) {
    struct fp_proof *proof = &tool->proofs[i];
    size_t at = (size_t) i * FP_BLOCK, n = FP_MIN (length - at, FP_BLOCK);

    proof->version = version + i;
    if (k->encrypts &&
        fp_cipher_encrypt (tool->cipher, tool->buf + at, buf + at, n,
                           k->gcm ? proof->version : first + i,
                           proof->tag) < 0)
      return -EIO;
    if (k->table != NULL && !k->gcm)
      proof->tag[0] = fp_crc32c (sent + at, n);
  }
  r = fp_block_write (k->block.below, lane, sent, length, first * FP_BLOCK,
                      tool->made_ns);
  for (unsigned i = 0; k->table != NULL && i < nr; i++)
    fp_seal_table_wrote (k->table, first + i, &tool->proofs[i], r < 0);
  return r;
}

/* Write whole blocks, SEAL_LARGE bytes at most. */
static int
write_blocks (struct fp_sealed *k, unsigned lane, const unsigned char *buf,
              uint32_t length, uint64_t first, uint64_t made_ns)
{
  struct seal_tools *tools =
      length > SEAL_SMALL ? &k->large[lane] : &k->writers[lane];
  uint64_t deadline = sealed_deadline (k);
  struct seal_tool *tool = sealed_get (tools, deadline);
  struct fp_range_hold hold;
  int r = tool == NULL ? -EIO : 0;

  if (r == 0)
    r = fp_range_lock_take (&k->holds, &hold, first,
                            first + fp_div_round_up (length, FP_BLOCK),
                            deadline);
  if (r == 0) {
    tool->made_ns = made_ns;
    r = sealed_put_blocks (k, lane, tool, buf, length, first);
    fp_range_lock_release (&k->holds, &hold);
  }
  if (tool != NULL)
    sealed_put (tools, tool);
  return r;
}

int
sealed_write (struct fp_block *b, struct fp_block_request *req)
{
  struct fp_sealed *k = sealed_of (b);
  unsigned lane = req->lane;
  uint64_t left = req->length, offset = req->offset, made_ns = req->made_ns;
  const unsigned char *from = req->buf;
  int r = 0;

  while (r == 0 && left > 0) {
    uint64_t block = offset / FP_BLOCK, n;
    uint32_t in, part;

    n = FP_MIN (whole_blocks (k, left, offset, &in, &part),
                (uint64_t) SEAL_LARGE);
    if (n > 0) {
      r = write_blocks (k, lane, from, (uint32_t) n, block, made_ns);
    }
    else {
      n = part;
      r = sealed_write_part (k, lane, from, block, in, part, made_ns);
    }
    from += n;
    offset += n;
    left -= n;
  }
  return r;
}

/* ---- zeroing ---- */

static int
zero_blocks (struct fp_sealed *k, unsigned lane, uint64_t length,
             uint64_t first, bool trim, uint64_t made_ns)
{
  uint64_t end = first + fp_div_round_up (length, FP_BLOCK);
  struct fp_range_hold hold;
  int r =
      fp_range_lock_take (&k->holds, &hold, first, end, sealed_deadline (k));

  if (r < 0)
    return r;
  if (is_stale (k, made_ns)) {
    fp_range_lock_release (&k->holds, &hold);
    return -EIO;
  }
  r = fp_block_zero (k->block.below, lane, length, first * FP_BLOCK, trim,
                     made_ns);
  for (uint64_t b = first; k->table != NULL && b < end; b++)
    fp_seal_table_zeroed (k->table, b, r < 0);
  fp_range_lock_release (&k->holds, &hold);
  return r;
}

int
sealed_zero (struct fp_block *b, struct fp_block_request *req)
{
  struct fp_sealed *k = sealed_of (b);
  unsigned lane = req->lane;
  uint64_t length = req->length, offset = req->offset;
  int r = 0;

  while (r == 0 && length > 0) {
    uint32_t in, part;
    uint64_t n = whole_blocks (k, length, offset, &in, &part);

    if (n > 0) {
      r = zero_blocks (k, lane, n, offset / FP_BLOCK, req->trim, req->made_ns);
    }
    else {
      n = part;
      r = sealed_write_part (k, lane, NULL, offset / FP_BLOCK, in, part,
                             req->made_ns);
    }
    offset += n;
    length -= n;
  }
  return r;
}

/* Return false if a part of a block must be read and written. */
bool
sealed_zero_is_fast (struct fp_block *b, uint64_t length, uint64_t offset,
                     bool trim)
{
  bool whole = offset % FP_BLOCK == 0 &&
               (length % FP_BLOCK == 0 || offset + length == b->size);

  return whole && b->below->ops->zero_is_fast (b->below, length, offset, trim);
}
