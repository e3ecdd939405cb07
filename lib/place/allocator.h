/* SPDX-License-Identifier: BSD-3-Clause */
/* allocator.h - one thread of a volume that chooses the donor of each extent.
 *
 * It waits for no donor: it leaves the extent with the donor's peer, and the
 * extent becomes READY, or comes back.  If the donor is silent, the allocator
 * withdraws the extent and leaves it with another one.  If the first donor has
 * labelled a slab after all, the generation tells which label counts
 * (peer_learn.h).  A new extent may need a copy for which no other donor can
 * be asked.  If it has another copy, it begins without this one.
 *
 * Errors:   0 or -errno.
 * Threads:  any.  init, start, reserve_all, stop and destroy belong to the one
 *           that starts and stops the volume.
 * Memory:   nothing here allocates but the thread's stack.
 */

#ifndef FP_ALLOCATOR_H
#define FP_ALLOCATOR_H

#include "base/error.h"
#include "base/thread.h"
#include "extent/notifier.h"
#include "peer/peers.h"

struct fp_allocator {
  struct fp_peers *peers;
  const struct fp_volume_params *p;
  struct fp_extents *extents;
  /* Called on each wake-up: decides what a layer above must decide about
   * copies.  Returns ms until the next call.
   */
  unsigned (*look) (void *arg);
  void *arg;

  struct fp_thread thread;
  bool runs;
  struct fp_notifier work; /* raised when the thread has some */

  /* Under extents->lock. */
  bool stopping;
  uint32_t wanted_head, wanted_tail; /* linked by fp_extent.next_wanted */
};

void fp_allocator_init (struct fp_allocator *a, struct fp_peers *peers,
                        unsigned (*look) (void *arg), void *arg);
void fp_allocator_destroy (struct fp_allocator *a);
int fp_allocator_start (struct fp_allocator *a);
void fp_allocator_stop (struct fp_allocator *a); /* and wait for its end */

/* Make the thread look at once. */
void fp_allocator_wake (struct fp_allocator *a);
/* Ask for memory for entry i, if it is EMPTY.  Do not block. */
void fp_allocator_want (struct fp_allocator *a, uint64_t i);
/* Take back entry i, which is BUSY and was left with `server`, and ask another
 * donor.  err: -ENOSPC and -ENOMEM say that this one is full.  If no other has
 * room, i becomes EMPTY.
 */
void fp_allocator_return (struct fp_allocator *a, uint64_t i, unsigned server,
                          int err);
/* Return the set of donors that get no entry k.  There another copy of its
 * extent is, or will be, or is being moved to.
 */
uint64_t fp_allocator_others (const struct fp_allocator *a, uint64_t k);
/* Return a donor with room for entry k, or -1.  room[FP_MAX_SERVERS]: slabs
 * that each can lend, 0 = leave it out; changed.
 */
int fp_allocator_choose (struct fp_allocator *a, uint64_t k, uint64_t *room);
/* Return true if a donor that answers and is trusted has room for entry k. */
bool fp_allocator_has_room (struct fp_allocator *a, uint64_t k);
/* Give all extents memory now (reserve=full): wait until each has some, or was
 * refused.  The thread runs.  -ENOSPC or -ENOTCONN, and the sentence in error.
 * If the volume is resumed, one copy of each extent is enough.
 */
int fp_allocator_reserve_all (struct fp_allocator *a, struct fp_error *error);

#endif /* FP_ALLOCATOR_H */
