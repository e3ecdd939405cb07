/* SPDX-License-Identifier: BSD-3-Clause */
/* range_lock.h - exclusive right to change blocks of 4 KiB, with a check by
 * which a reader can tell whether a block changed meanwhile.
 *
 * The engine keeps overlapping writes to several copies from being in flight
 * together, because the copies could apply them in different orders.  The seal
 * keeps a block and its proof together.  Each has a table of its own.
 *
 * Blocks share the words of a table.  An odd word is held:
 *
 *     even --take--> odd --release--> even, which is higher
 *
 * A reader adds up the words of its blocks before and after the read.  If all
 * words are even and both sums are equal, none of the words was held in
 * between.  Now and then a thread waits for another whose block only shares
 * its word.
 *
 * A hold of more than FP_RANGE_LOCK_HOLD_MAX blocks (a large zeroing) is wide.
 * A wide holder enters a list, then goes through all its words once and waits
 * for their holders.  A narrow holder takes its words, then looks at the list.
 * If its blocks are on the list, it lets the words go and waits.
 *
 * There is no deadlock.  Words are taken in the order of the table.  A narrow
 * holder releases its words before it waits for the list.  A thread that has
 * its whole range takes nothing more.  fp_range_lock_try does not wait, so its
 * caller may hold other ranges.
 *
 * Units:    block numbers; ranges are [first, end) and not empty.
 * Errors:   -EIO if the range was not free before the deadline.
 * Threads:  any.
 * Memory:   a hold lives on the caller's stack.  The table belongs to the
 *           struct that embeds it.
 */

#ifndef FP_RANGE_LOCK_H
#define FP_RANGE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <pthread.h>

#define FP_RANGE_LOCK_SHIFT 12     /* log2 of the bytes in a block */
#define FP_RANGE_LOCK_WORDS 16384u /* a power of two */
#define FP_RANGE_LOCK_HOLD_MAX 256u
/* Most blocks for fp_range_lock_sum: fewer than FP_RANGE_LOCK_WORDS. */
#define FP_RANGE_LOCK_LOOK_MAX 8193u

struct fp_range_hold {
  uint64_t first, end;
  struct fp_range_hold *prev, *next; /* list of wide holds */
};

struct fp_range_lock {
  _Atomic uint32_t words[FP_RANGE_LOCK_WORDS];
  _Atomic unsigned waiting; /* waiting threads */
  _Atomic unsigned wide;    /* number of holds on the list */
  _Atomic bool refused;     /* a try met a held word, and no untry since */
  pthread_mutex_t lock;
  pthread_cond_t cond;
  struct fp_range_hold *list;
};

/* Initialise *lock, which must be all zeros. */
void fp_range_lock_init (struct fp_range_lock *lock);
void fp_range_lock_destroy (struct fp_range_lock *lock);

int fp_range_lock_take (struct fp_range_lock *lock, struct fp_range_hold *hold,
                        uint64_t first, uint64_t end, uint64_t deadline_ns);
void fp_range_lock_release (struct fp_range_lock *lock,
                            struct fp_range_hold *hold);

/* Take the range, of at most FP_RANGE_LOCK_WORDS blocks, without waiting.
 * Return false, with nothing held, if it is not free now.  A table is
 * used by take and release, or by try and untry, but not by both.  The caller
 * tries again after a release that returned true, or after a while.  Rarely,
 * two callers refuse each other, and no release tells of it.
 */
bool fp_range_lock_try (struct fp_range_lock *lock, uint64_t first,
                        uint64_t end);
/* Release it.  Return true if a caller was refused that should try again. */
bool fp_range_lock_untry (struct fp_range_lock *lock, uint64_t first,
                          uint64_t end);

/* Set *sum to the sum of the range's words.  Return false if a block of the
 * range is held, or may be.
 */
bool fp_range_lock_sum (struct fp_range_lock *lock, uint64_t first,
                        uint64_t end, uint64_t *sum);

#endif /* FP_RANGE_LOCK_H */
