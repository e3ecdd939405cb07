/* SPDX-License-Identifier: BSD-3-Clause */
/* migrate_int.h - the inside of the mover, for the files that are one:
 * migrate.c moves a piece, resync.c makes copies anew, migrate_copy.c copies
 * (where it can by migrate_mapped.c), drain.c and reclaim.c decide what goes
 * where.
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
#define MOVER_BUFS 2u
#define MOVER_BUF_SIZE (256u * 1024)

struct mover_buf {
  struct fp_io io; /* first: an io that is done is its buffer */
  enum { BUF_IDLE, BUF_READING, BUF_WRITING } state;
  unsigned char *mem;
};

struct fp_drain {
  enum fp_drain_state state;
  uint64_t pieces, since_ns, took_ns;
  _Atomic uint64_t bytes;
  char why[FP_WHY_MAX];
};

struct give {
  uint64_t gave;
  char why[FP_WHY_MAX];
};

struct fp_mover {
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
  uint64_t piece;
  unsigned to;
  int result;
  uint64_t asks, answers;
  struct fp_drain drains[FP_MAX_SERVERS];
  struct give gives[FP_MAX_SERVERS];

  /* The thread's. */
  unsigned char *memory;
  struct mover_buf bufs[MOVER_BUFS];
  uint64_t *todo;  /* chunks of this round */
  uint64_t *taken; /* of all rounds; of who has several copies */
  /* What is copied to, and the chunks of it that are to be: the target's, or
   * those of a copy that is made anew.
   */
  struct fp_piece *to_piece;
  _Atomic uint64_t *dirty;
  uint64_t next_ns; /* when the rate allows to go on */
  uint64_t at;      /* the next piece to look at, of a drain */
  uint64_t rebuild_at;
  struct fp_take *take;
};

/* Longest sleep without a look at what was asked. */
#define MOVER_TURN_MS 10u

/* migrate_copy.c: the thread's */

/* Copy what is dirty now of piece i; not longer than until the deadline, if
 * there is one: what is left then is dirty again.  frozen: the piece, if it is
 * FROZEN; at the deadline it is thawed, even if transfers are still under way,
 * and those are waited for.  After an error the copy is worth nothing.
 */
int mover_copy_round (struct fp_mover *m, uint64_t i, uint64_t deadline,
                      struct fp_piece *frozen);
/* All that was written to the target can be read there; the same deadline.  If
 * it passes: -ENOTCONN.
 */
int mover_read_back (struct fp_mover *m, uint64_t i, uint64_t deadline,
                     struct fp_piece *frozen);
uint64_t mover_count_dirty (struct fp_mover *m); /* in bytes */

/* migrate_mapped.c: the thread's */

/* Copy [in, in + length) of entry i to to_piece by loads and stores.  False:
 * that cannot be done now, and what was done of it is worth nothing.
 */
bool mover_copy_mapped (struct fp_mover *m, uint64_t i, uint64_t in,
                        uint32_t length);

/* resync.c: the thread's */
bool mover_rebuild_next (struct fp_mover *m);

/* migrate.c: the thread's */

/* Copy all that is dirty of piece i, which is there, with that generation; on
 * success it is FROZEN.
 */
int mover_copy_all (struct fp_mover *m, uint64_t i, unsigned server,
                    uint64_t generation);
unsigned mover_pause_ms (const struct fp_volume *v);
int mover_move (struct fp_mover *m, uint64_t i, unsigned to);
bool mover_cancelled (struct fp_mover *m);
bool mover_is_frozen (struct fp_mover *m);
void mover_thaw (struct fp_mover *m, struct fp_piece *p);
void mover_pause (struct fp_mover *m, unsigned ms);

/* drain.c: the thread's */
bool mover_drain_next (struct fp_mover *m);
/* A server for piece i, which is to be moved, or -1: none has room. */
int mover_choose (struct fp_volume *v, uint64_t i);
/* For people; "": it will go better next time. */
const char *mover_reason (int r);
#define MOVER_FAILED_MS 100 /* before the next piece is tried */

/* reclaim.c: the thread's */
bool mover_give_next (struct fp_mover *m);

#endif /* FP_MIGRATE_INT_H */
