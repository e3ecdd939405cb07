/* SPDX-License-Identifier: BSD-3-Clause */
/* migrate_int.h - the inside of the migration thread, for the files that are
 * one: migrate.c moves an extent, resync.c makes copies anew, migrate_copy.c
 * copies (where it can by migrate_mapped.c), drain.c and reclaim.c decide what
 * goes where.
 */

#ifndef FP_MIGRATE_INT_H
#define FP_MIGRATE_INT_H

#include <stdatomic.h>

#include <pthread.h>

#include "base/sync.h"
#include "heal/migrate.h"
#include "peer/peer.h"
#include "peer/peer_migrate.h"
#include "volume/volume_int.h"

/* At most these are read or written at a time, so that others get through. */
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
  char why[FP_WHY_MAX];
};

struct reclaim {
  uint64_t reclaimed;
  char why[FP_WHY_MAX];
};

struct fp_migrate {
  struct fp_volume *v;
  struct fp_lane *lane;
  struct fp_thread thread;
  bool started, ended;
  _Atomic bool stop;
  _Atomic int from;      /* the server that is being drained; or -1 */
  _Atomic uint64_t rate; /* bytes a second; 0: any */

  pthread_mutex_t lock; /* what follows */
  pthread_cond_t cond;
  bool woken; /* there may be something to do */
  bool asked; /* for one move; the next waits until it is over */
  uint64_t extent;
  unsigned to;
  int result;
  uint64_t asks, answers;
  struct fp_drain drains[FP_MAX_SERVERS];
  struct reclaim reclaims[FP_MAX_SERVERS];

  /* The thread's. */
  unsigned char *memory;
  struct migrate_buf bufs[MIGRATE_BUFS];
  uint64_t *todo;  /* chunks of this round */
  uint64_t *taken; /* of all rounds; of who has several copies */
  /* What is copied to, and the chunks of it that are to be: the target's, or
   * those of a copy that is made anew.
   */
  struct fp_extent *to_extent;
  _Atomic uint64_t *dirty;
  uint64_t next_ns; /* when the rate allows to go on */
  uint64_t at;      /* the next extent to look at, of a drain */
  uint64_t resync_at;
  struct fp_take *take;
};

/* Longest sleep without a look at what was asked. */
#define MIGRATE_TURN_MS 10u

/* migrate_copy.c: the thread's */

/* Copy what is dirty now of extent i; not longer than until the deadline, if
 * there is one: what is left then is dirty again.  frozen: the extent, if it
 * is FROZEN; at the deadline it is thawed, even if transfers are still under
 * way, and those are waited for.  After an error the copy is worth nothing.
 */
int migrate_copy_round (struct fp_migrate *m, uint64_t i, uint64_t deadline,
                        struct fp_extent *frozen);
/* All that was written to the target can be read there; the same deadline.  If
 * it passes: -ENOTCONN.
 */
int migrate_read_back (struct fp_migrate *m, uint64_t i, uint64_t deadline,
                       struct fp_extent *frozen);
uint64_t migrate_count_dirty (struct fp_migrate *m); /* in bytes */

/* migrate_mapped.c: the thread's */

/* Copy [in, in + length) of entry i to to_extent by loads and stores.  False:
 * that cannot be done now, and what was done of it is worth nothing.
 */
bool migrate_copy_mapped (struct fp_migrate *m, uint64_t i, uint64_t in,
                          uint32_t length);

/* resync.c: the thread's */
bool migrate_resync_next (struct fp_migrate *m);

/* migrate.c: the thread's */

/* Copy all that is dirty of extent i, which is there, with that generation; on
 * success it is FROZEN.
 */
int migrate_copy_all (struct fp_migrate *m, uint64_t i, unsigned server,
                      uint64_t generation);
unsigned migrate_pause_ms (const struct fp_volume *v);
int migrate_extent (struct fp_migrate *m, uint64_t i, unsigned to);
bool migrate_cancelled (struct fp_migrate *m);
bool migrate_is_frozen (struct fp_migrate *m);
void migrate_thaw (struct fp_migrate *m, struct fp_extent *p);
void migrate_pause (struct fp_migrate *m, unsigned ms);

/* drain.c: the thread's */
bool migrate_drain_next (struct fp_migrate *m);
/* A server for extent i, which is to be moved, or -1: none has room. */
int migrate_choose (struct fp_volume *v, uint64_t i);
/* For people; "": it will go better next time. */
const char *migrate_reason (int r);
#define MIGRATE_FAILED_MS 100 /* before the next extent is tried */

/* reclaim.c: the thread's */
bool migrate_reclaim_next (struct fp_migrate *m);

#endif /* FP_MIGRATE_INT_H */
