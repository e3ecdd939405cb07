/* SPDX-License-Identifier: BSD-3-Clause */
/* io.c - requests of front ends enter the volume here. */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/memlock.h"
#include "engine/lane_int.h"
#include "volume/io.h"
#include "volume/volume_int.h"

#define TIMED 8 /* time at least one request in this many */

/* Return the volume of a lane, which has its engine as its first member. */
static inline struct fp_volume *
volume_of (const struct fp_lane *lane)
{
  _Static_assert(offsetof (struct fp_volume, engine) == 0, "volume_of casts");
  return (struct fp_volume *) lane->e;
}

static bool
is_valid (const struct fp_volume *v, uint64_t length, uint64_t offset)
{
  return fp_range_ok (offset, length, v->p.size) && length <= FP_MAX_IO;
}

static inline struct fp_io_counts *
counts_of (struct fp_lane *lane)
{
  assert (lane->index <
          volume_of (lane)->p.lanes); /* the last lane is migration's */
  return &volume_of (lane)->counts[lane->index];
}

/* Several threads may use a lane. */
static inline void
count (_Atomic uint64_t *counter, uint64_t n)
{
  atomic_fetch_add_explicit (counter, n, memory_order_relaxed);
}

/* Count a read or write that is over.  Return its result. */
static inline int
end (struct fp_io_counts *c, enum fp_io_kind kind, uint64_t length,
     uint64_t ns, bool timed, int result)
{
  bool read = kind == FP_IO_READ;

  if (result < 0) {
    count (&c->errors, 1);
    return result;
  }
  count (read ? &c->reads : &c->writes, 1);
  count (read ? &c->bytes_read : &c->bytes_written, length);
  if (timed)
    fp_hist_add_shared (read ? &c->read_ns : &c->write_ns, ns);
  return 0;
}

static inline int
transfer (struct fp_lane *lane, enum fp_io_kind kind,
          struct fp_block_request *r)
{
  struct fp_block *top = volume_of (lane)->top;
  struct fp_io_counts *c = counts_of (lane);
  bool read = kind == FP_IO_READ, timed;
  uint64_t done = atomic_load_explicit (read ? &c->reads : &c->writes,
                                        memory_order_relaxed);
  int result;

  r->lane = lane->index;
  if (done % TIMED == 0)
    r->start_ns = fp_now_ns ();
  result = read ? top->ops->read (top, r) : top->ops->write (top, r);
  timed = result == 0 && r->start_ns != 0;
  return end (c, kind, r->length, timed ? fp_now_ns () - r->start_ns : 0,
              timed, result);
}

int
fp_lane_read (struct fp_lane *lane, void *buf, uint32_t length,
              uint64_t offset)
{
  struct fp_block_request r = { .buf = buf,
                                .length = length,
                                .offset = offset };

  if (!is_valid (volume_of (lane), length, offset))
    return -EINVAL;
  return length == 0 ? 0 : transfer (lane, FP_IO_READ, &r);
}

int
fp_lane_write_made (struct fp_lane *lane, const void *buf, uint32_t length,
                    uint64_t offset, uint64_t made_ns)
{
  struct fp_block_request r = {
    .buf = (void *) (uintptr_t) buf, /* a write does not change it */
    .length = length,
    .offset = offset,
    .made_ns = made_ns,
  };

  if (volume_of (lane)->p.read_only)
    return -EROFS;
  if (!is_valid (volume_of (lane), length, offset))
    return -EINVAL;
  return length == 0 ? 0 : transfer (lane, FP_IO_WRITE, &r);
}

int
fp_lane_write (struct fp_lane *lane, const void *buf, uint32_t length,
               uint64_t offset)
{
  return fp_lane_write_made (lane, buf, length, offset, fp_mono_ns ());
}

int
fp_lane_zero_made (struct fp_lane *lane, uint64_t length, uint64_t offset,
                   bool trim, uint64_t made_ns)
{
  struct fp_volume *v = volume_of (lane);
  struct fp_io_counts *c;
  int result;

  if (v->p.read_only)
    return -EROFS;
  if (!fp_range_ok (offset, length, v->p.size))
    return -EINVAL;
  if (length == 0)
    return 0;
  c = counts_of (lane);
  result = fp_block_zero (v->top, lane->index, length, offset, trim, made_ns);
  count (result < 0 ? &c->errors : trim ? &c->trims : &c->zeros, 1);
  return result;
}

int
fp_lane_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
              bool trim)
{
  return fp_lane_zero_made (lane, length, offset, trim, fp_mono_ns ());
}

int
fp_lane_flush (struct fp_lane *lane)
{
  struct fp_io_counts *c = counts_of (lane);
  int result = fp_block_flush (volume_of (lane)->top);

  count (result < 0 ? &c->errors : &c->flushes, 1);
  return result;
}

bool
fp_volume_zero_is_fast (struct fp_volume *v, uint64_t length, uint64_t offset,
                        bool trim)
{
  return v->top->ops->zero_is_fast (v->top, length, offset, trim);
}

void
fp_volume_extent (struct fp_volume *v, uint64_t offset, uint64_t limit,
                  bool *hole, uint64_t *length)
{
  fp_block_extent (v->top, offset, limit, hole, length);
}

/* ---- requests that complete later ---- */

int
fp_lane_submit (struct fp_lane *lane, struct fp_io *io)
{
  struct fp_block *top = volume_of (lane)->top;

  if (top->ops->submit == NULL)
    return -EOPNOTSUPP;
  if (io->kind == FP_IO_WRITE && volume_of (lane)->p.read_only)
    return -EROFS;
  if (io->length == 0 || !is_valid (volume_of (lane), io->length, io->offset))
    return -EINVAL;
  top->ops->submit (top, lane->index, io);
  return 0;
}

struct fp_io *
fp_lane_poll (struct fp_lane *lane, bool wait)
{
  struct fp_block *top = volume_of (lane)->top;
  struct fp_io_counts *c = counts_of (lane);
  struct fp_io *ios;

  if (top->ops->poll == NULL)
    return NULL;
  ios = top->ops->poll (top, lane->index, wait);
  for (struct fp_io *io = ios; io != NULL; io = io->next)
    (void) end (c, io->kind, io->length, io->end_ns - io->start_ns, true,
                io->status);
  return ios;
}

void *
fp_lane_buffer (const struct fp_lane *lane, unsigned i)
{
  const struct fp_volume_params *p = lane->e->p;

  assert (i < p->buffers && lane->index < p->lanes);
  return lane->buffers + (size_t) i * p->buffer_size;
}

void
fp_lane_fds (const struct fp_lane *lane, int fds[FP_LANE_FDS])
{
  fds[0] = lane->front_wake.fd;
  fds[1] = lane->epoll;
}

bool
fp_lane_may_poll (struct fp_lane *lane)
{
  LANE_LOCK_SCOPE (lane);
  return lane_may_poll (lane);
}

bool
fp_lane_sleep (struct fp_lane *lane, uint64_t *until_ns)
{
  return lane_front_sleep (lane, until_ns);
}

/* ---- counts ---- */

static size_t
counts_size (const struct fp_volume *v)
{
  return v->p.lanes * sizeof *v->counts;
}

int
fp_io_new (struct fp_volume *v)
{
  void *p;
  int r = fp_map_filled (&p, counts_size (v));

  if (r == 0)
    v->counts = p;
  return r;
}

void
fp_io_free (struct fp_volume *v)
{
  if (v->counts != NULL)
    munmap (v->counts, counts_size (v));
}

void
fp_io_latencies (struct fp_volume *v, struct fp_hist *reads,
                 struct fp_hist *writes)
{
  for (unsigned i = 0; i < v->p.lanes; i++) {
    fp_hist_merge (reads, &v->counts[i].read_ns);
    fp_hist_merge (writes, &v->counts[i].write_ns);
  }
}

void
fp_io_status (struct fp_volume *v, struct fp_volume_status *s)
{
  struct fp_hist *hist = calloc (2, sizeof *hist);

  for (unsigned i = 0; i < v->p.lanes; i++) {
    struct fp_io_counts *c = &v->counts[i];

    s->reads += atomic_load (&c->reads);
    s->writes += atomic_load (&c->writes);
    s->zeros += atomic_load (&c->zeros);
    s->trims += atomic_load (&c->trims);
    s->flushes += atomic_load (&c->flushes);
    s->errors += atomic_load (&c->errors);
    s->bytes_read += atomic_load (&c->bytes_read);
    s->bytes_written += atomic_load (&c->bytes_written);
  }
  if (hist == NULL)
    return;
  fp_io_latencies (v, &hist[0], &hist[1]);
  fp_hist_summary (&hist[0], &s->read_ns);
  fp_hist_summary (&hist[1], &s->write_ns);
  free (hist);
}
