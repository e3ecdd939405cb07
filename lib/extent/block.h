/* SPDX-License-Identifier: BSD-3-Clause */
/* block.h - one layer of a volume: a table of operations.
 *
 *     front ends
 *         |         fp_lane_read and the like (volume.h): check the range,
 *         v         call the top layer, count the request
 *     [filter/seal]
 *         |         fp_block_read and the like
 *         v
 *       engine      the lowest layer: servers, copies, dirty log
 *
 * A layer calls only the layer below it; volume.c stacks them.  nbdkit filters
 * and SPDK bdev modules have the same structure.
 *
 * A filter embeds struct fp_block as its first member, and its constructor
 * copies that of the layer below, and sets ops and below.  It does no I/O
 * there, as no server is connected yet.  A filter keeps size and offsets.
 * Below the seal there must be none that changes data, because read_copy is
 * the engine's.
 *
 * Units:    bytes.  A range is not empty and lies inside the volume.  A read
 *           or write has at most FP_MAX_IO (volume_params.h), a zero may be
 *           longer.  A lane is an index below `lanes`.
 * Errors:   0 or -errno, as in volume.h.
 * Threads:  any, also several on one lane.  free: one, after the last request.
 * Memory:   no operation but free allocates, frees, opens a file or logs.
 */

#ifndef FP_BLOCK_H
#define FP_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct fp_extent;
struct fp_volume_status;
struct fp_block;

/* ---- requests that the caller waits for ---- */

/* ms; the engine counts requests that waited this long for servers that were
 * away.
 */
#define FP_WAITED_MS 1000u

struct fp_block_request {
  unsigned lane;
  void *buf; /* a write only reads it */
  uint64_t length, offset;
  bool trim; /* zero only: give whole extents back to their servers */
  /* Write, zero: the earliest time at which a front end made the request, by
   * fp_mono_ns; 0 = now.  A layer passes it down, and 0 with its own writes.
   */
  uint64_t made_ns;
  /* Read, write: when it started, by fp_now_ns; 0 = not timed.  The top layer
   * may set it, so that the request is timed.
   */
  uint64_t start_ns;
};

/* ---- requests that complete later ---- */

enum fp_io_kind { FP_IO_READ, FP_IO_WRITE };

/* Which bytes an io of the engine is for: those of the extent, or of the tail
 * behind its memory (dirty_log.h).  The offset in the tail is io->offset minus
 * the start of the extent.
 */
enum fp_tail {
  FP_TAIL_NONE,
  FP_TAIL_RAW,     /* read or write marks; their states stay */
  FP_TAIL_SET,     /* set marks */
  FP_TAIL_CLEAR,   /* clear marks; the caller is inside the extent */
  FP_TAIL_CLEARED, /* read them back; the caller is inside the extent */
};

/* The caller owns the memory of an io, and keeps it valid until poll returns
 * the io.
 */
struct fp_io {
  enum fp_io_kind kind;
  uint32_t length;
  uint64_t offset;
  void *buf;
  int status;         /* 0 or -errno */
  struct fp_io *next; /* link of poll's result, or the engine's */
  uint64_t start_ns;  /* time of submit, by fp_now_ns */
  uint64_t end_ns;    /* time of completion; not set if a thread waits */

  /* Used by the engine only. */
  uint32_t issued;   /* bytes that are done, or handed to fragments */
  uint32_t inflight; /* fragments that are not back yet */
  uint32_t tries;    /* retries */
  uint32_t breaks;   /* tries in which a connection broke */
  uint64_t asked_ns; /* when memory for its extent was asked for, or 0 */
  bool done;
  bool sync;        /* a thread waits; poll does not return it */
  bool forced;      /* sent to the server even where nothing was written */
  bool queued;      /* pending or parked */
  bool redo;        /* repeat all of it: a transfer failed or was not sent */
  bool failed;      /* a transfer of it failed */
  bool broke;       /* a connection broke in this try */
  bool hasty;       /* a read that does not wait for a server that is away */
  bool spread;      /* parts were sent to a set of copies */
  uint64_t made_ns; /* when it was made, by fp_mono_ns; only if front */
  bool front;       /* a front end's write, which must end in await_ms */
  bool waited;      /* has waited for servers that were away */

  /* Set while a write may be in some copies and not in others; counted in
   * fp_engine.unsettled.
   */
  bool unsettled;

  bool linear;  /* offset is a linear address (stripe.h) */
  uint8_t only; /* set of copies that may be read; 0 = any */

  enum fp_tail tail;
  /* Generation that the extent of a tail, or the target, must have; 0 = any.
   */
  uint64_t generation;
  unsigned saying; /* fragments in flight that set marks for it */

  /* Set for internal transfers only. */
  bool migrate;             /* may use an extent that is FROZEN */
  bool owner;               /* uses the target, which is BUSY */
  struct fp_extent *target; /* used instead of the volume's extent there */
};

/* ---- layers ---- */

/* An operation that may be NULL says so.  `down` means that fp_block_* below
 * then call that of the layer below.
 */
struct fp_block_ops {
  int (*read) (struct fp_block *b, struct fp_block_request *r);
  int (*write) (struct fp_block *b, struct fp_block_request *r);
  int (*zero) (struct fp_block *b, struct fp_block_request *r);
  /* Flush all lanes.  NULL: down. */
  int (*flush) (struct fp_block *b);

  /* Start io.  NULL: the layer takes only requests that the caller waits for.
   */
  void (*submit) (struct fp_block *b, unsigned lane, struct fp_io *io);
  /* Make progress, and return the completed ios, linked by next.  wait: if
   * there is none, but some are in flight, sleep until one is done.  NULL if
   * submit is.
   */
  struct fp_io *(*poll) (struct fp_block *b, unsigned lane, bool wait);

  /* Return true if zeroing that range sends nothing, except to give whole
   * extents back.
   */
  bool (*zero_is_fast) (struct fp_block *b, uint64_t length, uint64_t offset,
                        bool trim);
  /* Say if there is a hole at offset.  *length: bytes from there that are
   * alike, of the next limit bytes.  NULL: down.
   */
  void (*extent) (struct fp_block *b, uint64_t offset, uint64_t limit,
                  bool *hole, uint64_t *length);
  /* Set this layer's fields of s, which starts as zeros. */
  void (*status) (struct fp_block *b, struct fp_volume_status *s);

  /* Give every in-sync copy the right content, in blocks of 4 KiB; offset is a
   * multiple of that.  Return 0 if a block was repaired, -EAGAIN if none had
   * to be, or -EIO if no copy is right or can be read.  NULL: down, and if no
   * layer has it, none knows which copy is right (fp_block_repairer).
   */
  int (*repair) (struct fp_block *b, uint64_t length, uint64_t offset);

  /* Return the set of in-sync copies at offset.  NULL: down. */
  uint8_t (*in_sync) (struct fp_block *b, uint64_t offset);
  /* Read one copy.  Return -EIO if it is not in sync or its server is away.
   * NULL: down.
   */
  int (*read_copy) (struct fp_block *b, struct fp_block_request *r,
                    unsigned copy);

  /* Free this layer only.  The lanes are gone.  NULL: the engine. */
  void (*free) (struct fp_block *b);
};

struct fp_block {
  const struct fp_block_ops *ops;
  struct fp_block *below; /* NULL: the engine */
  uint64_t size;
  unsigned lanes; /* lanes of front ends */
  unsigned copies;
  unsigned await_ms; /* longest wait for servers that are away */
  /* A write or zero must end when it is older than end_ms, and is not sent any
   * more when it is older than send_ms.
   */
  unsigned end_ms, send_ms;
  /* Raised when a read_copy that failed may succeed now. */
  struct fp_notifier *changes;
};

static inline int
fp_block_read (struct fp_block *b, unsigned lane, void *buf, uint64_t length,
               uint64_t offset)
{
  struct fp_block_request r = {
    .lane = lane, .buf = buf, .length = length, .offset = offset
  };

  return b->ops->read (b, &r);
}

static inline int
fp_block_write (struct fp_block *b, unsigned lane, const void *buf,
                uint64_t length, uint64_t offset, uint64_t made_ns)
{
  struct fp_block_request r = {
    .lane = lane,
    .buf = (void *) (uintptr_t) buf, /* a write does not change it */
    .length = length,
    .offset = offset,
    .made_ns = made_ns,
  };

  return b->ops->write (b, &r);
}

static inline int
fp_block_zero (struct fp_block *b, unsigned lane, uint64_t length,
               uint64_t offset, bool trim, uint64_t made_ns)
{
  struct fp_block_request r = {
    .lane = lane,
    .length = length,
    .offset = offset,
    .trim = trim,
    .made_ns = made_ns,
  };

  return b->ops->zero (b, &r);
}

static inline int
fp_block_read_copy (struct fp_block *b, unsigned lane, unsigned copy,
                    void *buf, uint64_t length, uint64_t offset)
{
  struct fp_block_request r = {
    .lane = lane, .buf = buf, .length = length, .offset = offset
  };

  while (b->ops->read_copy == NULL)
    b = b->below;
  return b->ops->read_copy (b, &r, copy);
}

static inline uint8_t
fp_block_in_sync (struct fp_block *b, uint64_t offset)
{
  while (b->ops->in_sync == NULL)
    b = b->below;
  return b->ops->in_sync (b, offset);
}

/* Return the first layer, from b downwards, that has repair, or NULL. */
static inline struct fp_block *
fp_block_repairer (struct fp_block *b)
{
  while (b != NULL && b->ops->repair == NULL)
    b = b->below;
  return b;
}

static inline int
fp_block_flush (struct fp_block *b)
{
  while (b->ops->flush == NULL)
    b = b->below;
  return b->ops->flush (b);
}

static inline void
fp_block_extent (struct fp_block *b, uint64_t offset, uint64_t limit,
                 bool *hole, uint64_t *length)
{
  while (b->ops->extent == NULL)
    b = b->below;
  b->ops->extent (b, offset, limit, hole, length);
}

/* A front end without an answer may send a write again, get its answer, and
 * then write something else to the same place.  The front end's clock runs
 * while this process is stopped: NBD uses the kernel's.  So a write made at
 * made_ns, by fp_mono_ns and not 0, must end within end_ms.
 *
 * Return how much of that time is left, in ns.  At 0 the caller must break the
 * connections that still carry the write.
 */
static inline uint64_t
fp_block_left_ns (const struct fp_block *b, uint64_t made_ns)
{
  uint64_t now = fp_mono_coarse_ns ();
  uint64_t end = made_ns + b->end_ms * FP_NS_PER_MS;

  return end > now ? end - now : 0;
}

/* Return true if little of that time is left.  The caller must not send the
 * write.
 */
static inline bool
fp_block_is_stale (const struct fp_block *b, uint64_t made_ns)
{
  return fp_mono_coarse_ns () >= made_ns + b->send_ms * FP_NS_PER_MS;
}

#endif /* FP_BLOCK_H */
