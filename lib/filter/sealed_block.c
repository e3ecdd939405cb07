/* SPDX-License-Identifier: BSD-3-Clause */
/* sealed_block.c - verify a block, and handle one that fails or is written in
 * part.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "extent/notifier.h"
#include "filter/sealed_int.h"

/* Return true if n bytes at p are zeros.  Mostly the first word decides. */
static bool
is_zeros (const unsigned char *p, size_t n)
{
  uint64_t word;

  for (size_t i = 0; i < n; i += sizeof word) {
    memcpy (&word, p + i, sizeof word);
    if (word != 0)
      return false;
  }
  return true;
}

/* ---- verification ---- */

/* Open a block that has no proof, with the key alone. */
static int
open_unproved (struct fp_sealed *k, struct fp_cipher *cipher,
               unsigned char *out, const unsigned char *in, size_t n,
               uint64_t block)
{
  if (k->encrypts && !is_zeros (in, n))
    return fp_cipher_decrypt (cipher, out, in, n, block, NULL);
  if (out != in)
    memcpy (out, in, n);
  return 0;
}

/* Open a block that must match a proof.  Return -EBADMSG if it does not; then
 * out must not be used.
 */
static int
open_proved (struct fp_sealed *k, struct fp_cipher *cipher,
             const struct fp_proof *proof, unsigned char *out,
             const unsigned char *in, size_t n, uint64_t block)
{
  if (k->gcm)
    return fp_cipher_decrypt (cipher, out, in, n, proof->version, proof->tag);
  if (fp_crc32c (in, n) != proof->tag[0])
    return -EBADMSG;
  if (k->encrypts)
    return fp_cipher_decrypt (cipher, out, in, n, block, NULL);
  if (out != in)
    memcpy (out, in, n);
  return 0;
}

/* Open a block in place, without its range lock.  -EBADMSG may be a false
 * alarm.
 */
static int
open_quickly (struct fp_sealed *k, struct fp_cipher *cipher,
              unsigned char *buf, size_t n, uint64_t block)
{
  struct fp_proof proof;

  if (k->table == NULL)
    return open_unproved (k, cipher, buf, buf, n, block);
  switch (fp_seal_table_look (k->table, block)) {
  case FP_BLOCK_ZEROS:
    memset (buf, 0, n);
    return 0;
  case FP_BLOCK_PROOF:
    proof = fp_seal_table_proof (k->table, block);
    return open_proved (k, cipher, &proof, buf, buf, n, block);
  case FP_BLOCK_ANY:
    return open_unproved (k, cipher, buf, buf, n, block);
  default:
    return -EBADMSG;
  }
}

/* Open a block under its range lock, by all that is known of it.  There must
 * be a table.  out must differ from in.
 */
static int
open_held (struct fp_sealed *k, struct fp_cipher *cipher, unsigned char *out,
           const unsigned char *in, size_t n, uint64_t block)
{
  unsigned state = fp_seal_table_look (k->table, block);
  struct fp_proof proof = fp_seal_table_proof (k->table, block);

  if (state == FP_BLOCK_ANY)
    return open_unproved (k, cipher, out, in, n, block);
  if ((state & FP_BLOCK_PROOF) &&
      open_proved (k, cipher, &proof, out, in, n, block) == 0)
    return 0;
  if ((state & FP_BLOCK_ZEROS) && is_zeros (in, n)) {
    memset (out, 0, n);
    return 0;
  }
  for (unsigned i = 0; (state & FP_BLOCK_MORE) &&
                       fp_seal_table_more (k->table, block, i, &proof);
       i++)
    if (open_proved (k, cipher, &proof, out, in, n, block) == 0)
      return 0;
  return -EBADMSG;
}

/* Open a block with a tool of the lane's readers.  The tool is kept only for
 * that, never while a server is asked.
 */
static int
open_with_tool (struct fp_sealed *k, unsigned lane, unsigned char *out,
                const unsigned char *in, size_t n, uint64_t block)
{
  struct seal_tools *tools = &k->readers[lane];
  struct seal_tool *tool = NULL;
  int r;

  if (k->encrypts) {
    tool = sealed_get (tools, sealed_deadline (k));
    if (tool == NULL)
      return -EIO;
  }
  r = k->table == NULL ? open_unproved (k, tool->cipher, out, in, n, block)
                       : open_held (k, tool != NULL ? tool->cipher : NULL, out,
                                    in, n, block);
  if (tool != NULL)
    sealed_put (tools, tool);
  return r;
}

/* Open blocks in place from buf on, until one fails.  Return the number of
 * bytes that were opened.
 */
static uint64_t
open_some (struct fp_sealed *k, struct fp_cipher *cipher, unsigned char *buf,
           uint64_t length, uint64_t first)
{
  uint64_t at = 0;

  while (at < length) {
    size_t n = (size_t) FP_MIN (length - at, (uint64_t) FP_BLOCK);

    if (open_quickly (k, cipher, buf + at, n, first + at / FP_BLOCK) < 0)
      break;
    at += n;
  }
  return at;
}

int
sealed_open_blocks (struct fp_sealed *k, unsigned lane, unsigned char *buf,
                    uint64_t length, uint64_t first)
{
  struct seal_tools *tools = &k->readers[lane];
  int r = 0;

  while (r == 0 && length > 0) {
    struct seal_tool *tool = NULL;
    uint64_t done;

    if (k->encrypts) {
      tool = sealed_get (tools, sealed_deadline (k));
      if (tool == NULL)
        return -EIO;
    }
    done =
        open_some (k, tool != NULL ? tool->cipher : NULL, buf, length, first);
    if (tool != NULL)
      sealed_put (tools, tool);
    if (done < length) {
      r = sealed_read_block (k, lane, buf + done, first + done / FP_BLOCK);
      done += FP_MIN (length - done, (uint64_t) FP_BLOCK);
    }
    buf += done;
    length -= done;
    first += done / FP_BLOCK;
  }
  return r;
}

/* ---- blocks that fail ---- */

/* Count a block without a right copy.  Return -EIO. */
static int
give_up (struct fp_sealed *k)
{
  atomic_fetch_add (&k->unreadable, 1);
  return -EIO;
}

/* Read a block from any copy.  Return -EBADMSG if that copy is wrong. */
static int
read_any_copy (struct fp_sealed *k, unsigned lane, unsigned char *out,
               uint64_t block)
{
  uint32_t n = (uint32_t) sealed_block_size (k, block);
  unsigned char in[FP_BLOCK];
  int r = fp_block_read (k->block.below, lane, in, n, block * FP_BLOCK);

  return r < 0 ? r : open_with_tool (k, lane, out, in, n, block);
}

/* Return the set of in-sync copies of a block.  Return 0 if there is only one
 * copy, or no table that tells which copy is right.
 */
static uint8_t
in_sync_copies (const struct fp_sealed *k, uint64_t block)
{
  struct fp_block *below = k->block.below;

  if (below->copies == 1 || k->table == NULL)
    return 0;
  return fp_block_in_sync (below, block * FP_BLOCK);
}

/* Read each in-sync copy of a block, and give the wrong ones the content of
 * the first right one.  Return -EAGAIN if no copy that was read is right but
 * other copies were not read, unless last is true.
 */
static int
try_copies (struct fp_sealed *k, unsigned lane, unsigned char *out,
            uint64_t block, uint8_t in_sync, bool last)
{
  struct fp_block *below = k->block.below;
  uint32_t n = (uint32_t) sealed_block_size (k, block);
  unsigned char in[FP_BLOCK], right[FP_BLOCK], other[FP_BLOCK];
  bool found = false, away = false;
  unsigned wrong = 0;
  int err = -EIO;

  for (unsigned c = 0; c < below->copies; c++) {
    int r = -ENODEV;

    if (in_sync >> c & 1)
      r = fp_block_read_copy (below, lane, c, in, n, block * FP_BLOCK);
    away |= r < 0;
    if (r < 0)
      continue;
    r = open_with_tool (k, lane, found ? other : out, in, n, block);
    if (r == -EBADMSG) {
      wrong++;
    }
    else if (r < 0) {
      err = r;
    }
    else if (!found) {
      memcpy (right, in, n);
      found = true;
    }
  }
  if (!found && away && !last)
    return -EAGAIN;
  atomic_fetch_add (&k->wrong, wrong);
  if (found && wrong > 0 &&
      fp_block_write (below, lane, right, n, block * FP_BLOCK, 0) == 0)
    atomic_fetch_add (&k->repaired, wrong);
  if (found)
    return 0;
  return wrong > 0 ? give_up (k) : err;
}

/* Try all copies, and wait for servers that are away.  The right copy may be
 * at one of them.  It is in sync again when its server is back, unless the
 * block was written meanwhile.
 */
static int
read_copies (struct fp_sealed *k, unsigned lane, unsigned char *out,
             uint64_t block)
{
  uint64_t deadline = fp_deadline_in_ms (k->block.await_ms);

  for (;;) {
    uint32_t seen = fp_notifier_count (k->block.changes);
    int r = try_copies (k, lane, out, block, in_sync_copies (k, block),
                        fp_deadline_passed (deadline));

    if (r != -EAGAIN)
      return r;
    (void) fp_notifier_await (k->block.changes, seen, deadline);
  }
}

int
sealed_read_held (struct fp_sealed *k, unsigned lane, unsigned char *out,
                  uint64_t block, bool suspect)
{
  uint8_t in_sync = in_sync_copies (k, block);
  int r;

  if (k->table != NULL &&
      fp_seal_table_look (k->table, block) == FP_BLOCK_ZEROS) {
    memset (out, 0, sealed_block_size (k, block));
    return 0;
  }
  if (!suspect || in_sync == 0) {
    r = read_any_copy (k, lane, out, block);
    if (r != -EBADMSG)
      return r;
  }
  /* Over rdma, this lane sees an acknowledged write of another lane for sure
   * only after a flush.
   */
  (void) fp_block_flush (k->block.below);
  if (in_sync != 0)
    return read_copies (k, lane, out, block);
  r = read_any_copy (k, lane, out, block);
  if (r != -EBADMSG)
    return r;
  atomic_fetch_add (&k->wrong, 1);
  return give_up (k);
}

int
sealed_read_block (struct fp_sealed *k, unsigned lane, unsigned char *out,
                   uint64_t block)
{
  struct fp_range_hold hold;
  int r = fp_range_lock_take (&k->holds, &hold, block, block + 1,
                              sealed_deadline (k));

  if (r < 0)
    return r;
  r = sealed_read_held (k, lane, out, block, true);
  fp_range_lock_release (&k->holds, &hold);
  return r;
}

/* ---- copies that differ ---- */

static int
mend_held (struct fp_sealed *k, unsigned lane, uint64_t block)
{
  uint64_t n = sealed_block_size (k, block), repaired;
  unsigned char out[FP_BLOCK];
  int r;

  switch (fp_seal_table_look (k->table, block)) {
  case FP_BLOCK_ANY:
    return -EAGAIN;
  case FP_BLOCK_ZEROS:
    return fp_block_zero (k->block.below, lane, n, block * FP_BLOCK, false, 0);
  default:
    repaired = atomic_load (&k->repaired);
    r = sealed_read_held (k, lane, out, block, true);
    return r == 0 && atomic_load (&k->repaired) == repaired ? -EAGAIN : r;
  }
}

int
sealed_repair (struct fp_block *b, uint64_t length, uint64_t offset)
{
  struct fp_sealed *k = sealed_of (b);
  int result = -EAGAIN;

  for (uint64_t at = offset; at < offset + length; at += FP_BLOCK) {
    uint64_t block = at / FP_BLOCK;
    struct fp_range_hold hold;
    int r = fp_range_lock_take (&k->holds, &hold, block, block + 1,
                                sealed_deadline (k));

    if (r < 0)
      return r;
    r = mend_held (k, 0, block);
    fp_range_lock_release (&k->holds, &hold);
    if (r == 0)
      result = 0;
    else if (r != -EAGAIN)
      return r;
  }
  return result;
}

/* ---- a part of a block ---- */

int
sealed_write_part (struct fp_sealed *k, unsigned lane,
                   const unsigned char *buf, uint64_t block, uint32_t in,
                   uint32_t n, uint64_t made_ns)
{
  struct seal_tools *tools = &k->writers[lane];
  uint64_t deadline = sealed_deadline (k);
  struct seal_tool *tool = sealed_get (tools, deadline);
  unsigned char all[FP_BLOCK];
  struct fp_range_hold hold;
  int r = tool == NULL ? -EIO : 0;

  if (r == 0)
    r = fp_range_lock_take (&k->holds, &hold, block, block + 1, deadline);
  if (r == 0) {
    tool->made_ns = made_ns;
    r = sealed_read_held (k, lane, all, block, false);
    if (r == 0) {
      if (buf != NULL)
        memcpy (all + in, buf, n);
      else
        memset (all + in, 0, n);
      r = sealed_put_blocks (k, lane, tool, all,
                             (uint32_t) sealed_block_size (k, block), block);
    }
    fp_range_lock_release (&k->holds, &hold);
  }
  if (tool != NULL)
    sealed_put (tools, tool);
  return r;
}
