/* SPDX-License-Identifier: BSD-3-Clause */
/* migrate_int.h - internals of the migration thread.  migrate.c moves an
 * extent, resync.c brings copies up to date, and migrate_copy.c copies, with
 * migrate_mapped.c where it can.  drain.c and reclaim.c decide which extents
 * go where.
 */

#ifndef FP_MIGRATE_INT_H
#define FP_MIGRATE_INT_H

#include <stdatomic.h>

#include <pthread.h>

#include "base/sync.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "heal/migrate.h"
#include "peer/peer.h"
#include "peer/peer_migrate.h"

/* Most buffers that are read or written at a time, so that other I/O gets
 * through.
 */
#define MIGRATE_BUFS 2u
#define MIGRATE_BUF_SIZE (256u * 1024)

struct migrate_buf {
  struct fp_io io; /* first: an io that is done is its buffer */
  enum { BUF_IDLE, BUF_READING, BUF_WRITING } state;
  unsigned char *mem;
};

struct fp_drain {
  enum fp_drain_state state;
  uint64_t extents, since_ns, took_ns;
  _Atomic uint64_t bytes;
  char why[FP_STATUS_REASON_MAX];
};

struct reclaim {
  uint64_t reclaimed;
  char why[FP_STATUS_REASON_MAX];
};

struct fp_migrate {
  struct fp_engine *e;
  struct fp_lane *lane;
  struct fp_thread thread;
  bool started, ended;
  _Atomic bool stop;
  _Atomic int from;      /* server that is being drained, or -1 */
  _Atomic uint64_t rate; /* bytes a second; 0 = no limit */

  pthread_mutex_t lock; /* protects what follows */
  pthread_cond_t cond;
  bool woken; /* there may be work */
  bool asked; /* for one move; the next one waits until it is over */
  uint64_t extent;
  unsigned to;
  int result;
  uint64_t asks, answers;
  struct fp_drain drains[FP_MAX_SERVERS];
  struct reclaim reclaims[FP_MAX_SERVERS];

  /* Used by the migration thread only. */
  unsigned char *memory;
  struct migrate_buf bufs[MIGRATE_BUFS];
  uint64_t *todo;  /* chunks of this round */
  uint64_t *taken; /* chunks of all rounds, for a resync */
  /* to_extent: what is copied to.  dirty: chunks of it that must be copied.
   * They are those of the move's target, or of a copy that is being resynced.
   * That one must have its generation, as it may get other memory meanwhile.
   * (0: any.)
   */
  struct fp_extent *to_extent;
  uint64_t to_generation;
  _Atomic uint64_t *dirty;
  uint64_t next_ns; /* when the rate allows the next transfer */
  uint64_t at;      /* next extent to look at, for a drain */
  uint64_t resync_at;
  struct fp_take *take;
};

/* Longest pause to keep to the rate, before the next look at the requests. */
#define MIGRATE_TURN_MS 10u

/* migrate_copy.c: for the migration thread */

/* Copy the chunks of extent i that are dirty now, until the deadline if it is
 * not 0.  Those that are left then are dirty again.  frozen: the extent, if it
 * is FROZEN.  At the deadline it is thawed, even if transfers are still under
 * way; the call waits for those.  After an error the copy is worth nothing.
 */
int migrate_copy_round (struct fp_migrate *m, uint64_t i, uint64_t deadline,
                        struct fp_extent *frozen);
/* Read a byte back, so that all that was written to the target can be read
 * there.  At the deadline thaw the extent, as above.  -EAGAIN: the answer came
 * after that.  -ENOTCONN: the read failed.
 */
int migrate_read_back (struct fp_migrate *m, uint64_t i, uint64_t deadline,
                       struct fp_extent *frozen);
uint64_t migrate_count_dirty (struct fp_migrate *m); /* bytes */

/* migrate_mapped.c: for the migration thread */

/* Copy [in, in + length) of entry i to to_extent by loads and stores.  Return
 * false if that is not possible now; what was copied is worth nothing.
 */
bool migrate_copy_mapped (struct fp_migrate *m, uint64_t i, uint64_t in,
                          uint32_t length);

/* resync.c: for the migration thread */
bool migrate_resync_next (struct fp_migrate *m);

/* migrate.c: for the migration thread */

/* Copy all that is dirty of extent i, which must have that server and
 * generation.  On success the extent is FROZEN.
 */
int migrate_copy_all (struct fp_migrate *m, uint64_t i, unsigned server,
                      uint64_t generation);
unsigned migrate_pause_ms (const struct fp_engine *e);
int migrate_extent (struct fp_migrate *m, uint64_t i, unsigned to);
bool migrate_cancelled (struct fp_migrate *m);
bool migrate_is_frozen (struct fp_migrate *m);
void migrate_thaw (struct fp_migrate *m, struct fp_extent *p);
void migrate_pause (struct fp_migrate *m, unsigned ms);

/* drain.c: for the migration thread */
bool migrate_drain_next (struct fp_migrate *m);
/* Count the slabs that each server has free for moves, as fp_allocator_choose
 * takes them.  Return the sum.
 */
uint64_t migrate_look_for_room (struct fp_engine *e,
                                uint64_t room[FP_MAX_SERVERS]);
/* Return the reason for people; "" = another try may do. */
const char *migrate_reason (int r);
#define MIGRATE_FAILED_MS 100 /* before the next extent, or label */

/* reclaim.c: for the migration thread */
bool migrate_reclaim_next (struct fp_migrate *m);

#endif /* FP_MIGRATE_INT_H */
