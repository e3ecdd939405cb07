/* SPDX-License-Identifier: BSD-3-Clause */
/* volume_int.h - what the files of lib/volume share, and nobody else sees.
 *
 * Locks: a lane's lock before fp_volume.lock and fp_pieces.lock, under which
 * no other is taken; fp_link.lock is never held together with another.  None
 * is held while waiting for a peer.
 */

#ifndef FP_VOLUME_INT_H
#define FP_VOLUME_INT_H

#include <stdatomic.h>

#include <pthread.h>

#include "base/thread.h"
#include "volume/lane.h"
#include "volume/piece.h"
#include "volume/volume.h"

struct fp_link;

#define FP_NO_PIECE UINT32_MAX
/* Grants ahead of need: of one link, and of all. */
#define FP_LINK_SPARES 2
#define FP_MAX_SPARES 4

struct fp_volume {
  struct fp_volume_params p;
  struct fp_pieces *pieces;
  unsigned nr_lanes;
  struct fp_lane **lanes;
  unsigned nr_links;
  struct fp_link **links;
  _Atomic unsigned next_lane;
  _Atomic uint64_t zeros, trims, flushes;
  _Atomic uint64_t allocated, lost; /* pieces */
  _Atomic uint64_t placing;         /* pieces that wait for memory */
  _Atomic uint64_t generation;      /* the highest so far: link_learn.h */

  /* The manager: gives pieces their memory. */
  struct fp_thread manager;
  bool manager_runs;
  pthread_mutex_t lock; /* what follows */
  pthread_cond_t cond;
  bool stopping;
  uint32_t wanted_head, wanted_tail; /* through fp_piece.next_wanted */
  unsigned nr_claims, claims[FP_MAX_SERVERS]; /* spares, or asked for */
};

/* manager.c */
int fp_manager_start (struct fp_volume *v);
void fp_manager_stop (struct fp_volume *v);
/* Piece i, which is EMPTY, shall get memory.  Does not block. */
void fp_manager_want (struct fp_volume *v, uint64_t i);
/* A link could not give it any: others are to be asked. */
void fp_manager_return (struct fp_volume *v, uint64_t i, unsigned server,
                        int err);
/* May that link, which has so many, ask for one more grant ahead of need? */
bool fp_manager_claim (struct fp_volume *v, unsigned server, unsigned has);
void fp_manager_unclaim (struct fp_volume *v, unsigned server);
/* All pieces get memory now: reserve=full. */
int fp_manager_reserve_all (struct fp_volume *v, char why[FP_WHY_MAX]);

/* How long a volume may take to start. */
static inline unsigned
fp_volume_start_ms (const struct fp_volume_params *p)
{
  return 4 * p->timeout_ms > 8000u ? 4 * p->timeout_ms : 8000u;
}

/* volume.c */
void fp_volume_wake_lanes (struct fp_volume *v);
/* The piece is in no state that lets anybody in: wait until all are out. */
void fp_volume_drain_piece (struct fp_volume *v, struct fp_piece *p);

#endif /* FP_VOLUME_INT_H */
