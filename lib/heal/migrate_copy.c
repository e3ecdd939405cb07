/* SPDX-License-Identifier: BSD-3-Clause */
/* migrate_copy.c - choose which chunks of a moving extent are copied, and copy
 * them.  A few large transfers run at a time, so that other I/O gets through.
 *
 * No write is lost.  A writer sets the dirty bit after its write is over, and
 * before it leaves the extent.  The migration thread clears the bit before it
 * reads the chunk.  To mark before the write is sent would not do: the bit
 * could be cleared and the chunk read before the bytes land.
 *
 * Over rdma, a WRITE that was acknowledged to one queue pair need not be seen
 * by a READ of another.  So each queue pair that has written reads one byte,
 * between clearing and reading.  One byte is read back from the target, before
 * its label is sent.
 */

#include <config.h>

#include <errno.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "extent/stripe.h"
#include "heal/migrate_int.h"

/* ---- dirty chunks ---- */

uint64_t
migrate_count_dirty (struct fp_migrate *m)
{
  const struct fp_extents *t = m->e->extents;
  uint64_t n = 0;

  for (unsigned w = 0; w < t->words; w++)
    n += (uint64_t) __builtin_popcountll (atomic_load (&m->dirty[w]));
  return n << t->chunk_shift;
}

static bool
take_dirty (struct fp_migrate *m)
{
  uint64_t any = 0;

  for (unsigned w = 0; w < m->e->extents->words; w++) {
    m->todo[w] = atomic_exchange (&m->dirty[w], 0);
    m->taken[w] |= m->todo[w];
    any |= m->todo[w];
  }
  return any != 0;
}

static void
put_back (struct fp_migrate *m)
{
  for (unsigned w = 0; w < m->e->extents->words; w++)
    atomic_fetch_or (&m->dirty[w], m->todo[w]);
}

static bool
is_todo (const struct fp_migrate *m, uint64_t c)
{
  return m->todo[c / 64] >> (c % 64) & 1;
}

/* Return the bytes of the next run of chunks of extent i that fits a buffer,
 * and move *at to it.  Its chunks leave m->todo, except one in which the run
 * ends.
 */
static uint32_t
next_run (struct fp_migrate *m, uint64_t i, uint64_t *at)
{
  const struct fp_extents *t = m->e->extents;
  uint64_t end = fp_extent_length (t, fp_extent_of (t, i));
  uint64_t chunk = UINT64_C (1) << t->chunk_shift, stop;

  while (*at < end && !is_todo (m, *at >> t->chunk_shift))
    *at = ((*at >> t->chunk_shift) + 1) << t->chunk_shift;
  if (*at >= end)
    return 0;
  for (stop = *at; stop < end && stop - *at < MIGRATE_BUF_SIZE &&
                   is_todo (m, stop >> t->chunk_shift);)
    stop = ((stop >> t->chunk_shift) + 1) << t->chunk_shift;
  stop = FP_MIN (FP_MIN (stop, end), *at + MIGRATE_BUF_SIZE);
  for (uint64_t c = *at & ~(chunk - 1); c < stop; c += chunk)
    if (c + chunk <= stop || stop == end)
      m->todo[(c >> t->chunk_shift) / 64] &=
          ~(UINT64_C (1) << (c >> t->chunk_shift) % 64);
  return (uint32_t) (stop - *at);
}

/* ---- copying ---- */

/* Make the queue pair of another lane read a byte of the extent.  Only users
 * of that pair wait for it.  Requests that *frozen keeps out wait until the
 * deadline at most: then the extent is thawed, and *frozen is NULL.
 */
static int
flush_lane (struct fp_lane *lane, struct fp_migrate *m, uint64_t i,
            uint64_t deadline, struct fp_extent **frozen)
{
  unsigned char byte;
  struct fp_io io = {
    .kind = FP_IO_READ,
    .length = 1,
    .offset = i << m->e->extents->shift,
    .buf = &byte,
    .forced = true,
    .linear = true,
    .migrate = true,
  };

  fp_lane_sync_begin (lane, &io);
  if (*frozen != NULL && !fp_lane_sync_await (lane, &io, NULL, deadline)) {
    migrate_thaw (m, *frozen);
    *frozen = NULL;
  }
  (void) fp_lane_sync_await (lane, &io, NULL, FP_NEVER);
  return io.status;
}

/* Make reads of this lane see every write acknowledged to any lane. */
static int
flush_source (struct fp_migrate *m, uint64_t i, uint64_t deadline,
              struct fp_extent **frozen)
{
  struct fp_engine *e = m->e;
  unsigned server = atomic_load (&e->extents->p[i].server);

  for (unsigned k = 0; k < e->p->lanes; k++) {
    uint64_t at;
    int r;

    if (fp_lane_unflushed (e->lanes[k], server, &at) == 0)
      continue;
    r = flush_lane (e->lanes[k], m, i, deadline, frozen);
    if (r < 0)
      return r;
  }
  return 0;
}

static void
submit (struct fp_migrate *m, struct migrate_buf *b, enum fp_io_kind kind,
        struct fp_extent *target, uint64_t offset, uint32_t length)
{
  b->state = kind == FP_IO_READ ? BUF_READING : BUF_WRITING;
  b->io = (struct fp_io) {
    .kind = kind,
    .length = length,
    .offset = offset,
    .buf = b->mem,
    .linear = true,
    .migrate = true,
    .target = target,
    .generation = target != NULL ? m->to_generation : 0,
  };
  fp_lane_start (m->lane, &b->io);
}

static void
use_rate (struct fp_migrate *m, uint32_t length)
{
  uint64_t rate = atomic_load (&m->rate);

  if (rate != 0)
    m->next_ns =
        FP_MAX (m->next_ns, fp_now_ns ()) + length * FP_NS_PER_S / rate;
}

/* Return the milliseconds until the rate allows the next transfer. */
static unsigned
rate_ms (const struct fp_migrate *m)
{
  return atomic_load (&m->rate) == 0
             ? 0
             : (unsigned) fp_deadline_left_ms (m->next_ns);
}

/* Count bytes that are at the target. */
static void
count_copied (struct fp_migrate *m, uint32_t length)
{
  int from = atomic_load (&m->from);

  if (from >= 0)
    atomic_fetch_add (&m->drains[from].bytes, length);
}

/* Finish a transfer: write what was read, count what was written. */
static int
buf_done (struct fp_migrate *m, struct migrate_buf *b, bool go_on)
{
  bool read = b->state == BUF_READING;

  b->state = BUF_IDLE;
  if (b->io.status < 0)
    return read ? -EIO : -ENOTCONN;
  if (!read)
    count_copied (m, b->io.length);
  if (read && go_on)
    submit (m, b, FP_IO_WRITE, m->to_extent, b->io.offset, b->io.length);
  return 0;
}

/* Let other users in, as copying takes too long.  Mark what is in flight as
 * dirty again.
 */
static void
give_up_freeze (struct fp_migrate *m, struct fp_extent *frozen)
{
  const struct fp_extents *t = m->e->extents;

  for (unsigned k = 0; k < MIGRATE_BUFS; k++)
    if (m->bufs[k].state != BUF_IDLE)
      fp_extent_mark (t, m->dirty, m->bufs[k].io.offset & (t->extent_size - 1),
                      m->bufs[k].io.length);
  migrate_thaw (m, frozen);
}

/* Copy the next run, or start reading it into this free buffer.  Return false
 * if nothing is left.
 */
static bool
copy_next (struct fp_migrate *m, uint64_t i, uint64_t *at,
           struct migrate_buf *b)
{
  uint32_t n = next_run (m, i, at);

  if (n == 0)
    return false;
  if (migrate_copy_mapped (m, i, *at, n))
    count_copied (m, n);
  else
    submit (m, b, FP_IO_READ, NULL, (i << m->e->extents->shift) + *at, n);
  use_rate (m, n);
  *at += n;
  return true;
}

/* Finish transfers that are done; if none is, wait until one is, or until the
 * deadline.  Return how many buffers are free again.
 */
static unsigned
go_on (struct fp_migrate *m, uint64_t deadline, int *r)
{
  unsigned freed = 0;

  for (struct fp_io *io = fp_lane_collect (m->lane, deadline), *next;
       io != NULL; io = next) {
    struct migrate_buf *b = (struct migrate_buf *) io;
    int s;

    next = io->next;
    s = buf_done (m, b, *r == 0);
    if (s < 0 && *r == 0)
      *r = s;
    freed += b->state == BUF_IDLE;
  }
  return freed;
}

int
migrate_copy_round (struct fp_migrate *m, uint64_t i, uint64_t deadline,
                    struct fp_extent *frozen)
{
  uint64_t at = 0;
  unsigned busy = 0;
  bool more = take_dirty (m);
  int r = more ? flush_source (m, i, deadline, &frozen) : 0;

  while (busy > 0 || (r == 0 && more)) {
    if (r == 0 && migrate_cancelled (m))
      r = -ECANCELED;
    if (deadline != 0 && fp_deadline_passed (deadline)) {
      more = false;
      if (frozen != NULL)
        give_up_freeze (m, frozen);
      frozen = NULL;
    }
    for (unsigned k = 0; r == 0 && more && k < MIGRATE_BUFS; k++) {
      if (m->bufs[k].state != BUF_IDLE)
        continue;
      if (deadline == 0 && rate_ms (m) > 0)
        break;
      more = copy_next (m, i, &at, &m->bufs[k]);
      busy += m->bufs[k].state != BUF_IDLE;
    }
    if (busy > 0)
      busy -= go_on (m, frozen == NULL ? FP_NEVER : deadline, &r);
    else if (r == 0 && more && rate_ms (m) > 0)
      migrate_pause (m, FP_MIN (rate_ms (m), MIGRATE_TURN_MS));
  }
  put_back (m);
  return r;
}

int
migrate_read_back (struct fp_migrate *m, uint64_t i, uint64_t deadline,
                   struct fp_extent *frozen)
{
  struct migrate_buf *b = &m->bufs[0];
  bool late = false;

  submit (m, b, FP_IO_READ, m->to_extent, i << m->e->extents->shift, 1);
  if (fp_lane_collect (m->lane, deadline) == NULL) {
    late = true;
    migrate_thaw (m, frozen);
    (void) fp_lane_collect (m->lane, FP_NEVER);
  }
  b->state = BUF_IDLE;
  if (b->io.status < 0)
    return -ENOTCONN;
  /* The target answered, so nothing is wrong with its memory. */
  return late ? -EAGAIN : 0;
}
