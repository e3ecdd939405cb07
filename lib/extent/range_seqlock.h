/* SPDX-License-Identifier: BSD-3-Clause */
/* range_seqlock.h - who changes a block of 4 KiB has it alone, and who read it
 * can tell whether somebody did meanwhile.
 *
 * Blocks share the words of a table; an odd word is held:
 *
 *     even --take--> odd --release--> even, which is higher
 *
 * so the sum of some words that are all even is the same before and after a
 * read only if none of them was held in between.  Now and then two wait for
 * each other whose blocks share a word and are not the same.
 *
 * Who takes more than FP_RANGE_SEQLOCK_HOLD_MAX blocks (a large zeroing) is on
 * a list instead, and goes through all of his words once, waiting for those
 * who have them; who takes some looks at the list afterwards, and if his are
 * there lets go and waits.
 *
 * Nobody waits in a circle: words are taken in the order of the table, who has
 * some of the list's lets them go before he waits for it, and who has all he
 * asked for takes nothing more.
 *
 * Units:    numbers of blocks: [first, end), not empty.
 * Errors:   -EIO: not before the deadline.
 * Threads:  any.
 * Memory:   a hold is the caller's, on his stack; the table of who embeds it.
 */

#ifndef FP_RANGE_SEQLOCK_H
#define FP_RANGE_SEQLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <pthread.h>

#define FP_RANGE_SEQLOCK_WORDS 16384u /* words: a power of two */
#define FP_RANGE_SEQLOCK_HOLD_MAX 256u
/* Of fp_range_seqlock_sum: fewer than FP_RANGE_SEQLOCK_WORDS. */
#define FP_RANGE_SEQLOCK_LOOK_MAX 8193u

struct fp_range_hold {
  uint64_t first, end;
  struct fp_range_hold *prev, *next; /* of a wide one */
};

struct fp_range_seqlock {
  _Atomic uint32_t words[FP_RANGE_SEQLOCK_WORDS];
  _Atomic unsigned waiting; /* threads */
  _Atomic unsigned wide;    /* how many are on the list */
  pthread_mutex_t lock;
  pthread_cond_t cond;
  struct fp_range_hold *list;
};

/* Initialise *h, which is all zeros. */
void fp_range_seqlock_init (struct fp_range_seqlock *h);
void fp_range_seqlock_destroy (struct fp_range_seqlock *h);

int fp_range_seqlock_take (struct fp_range_seqlock *h,
                           struct fp_range_hold *hold, uint64_t first,
                           uint64_t end, uint64_t deadline_ns);
void fp_range_seqlock_release (struct fp_range_seqlock *h,
                               struct fp_range_hold *hold);

/* False: somebody has one of them, or may.  Else *sum: see above. */
bool fp_range_seqlock_sum (struct fp_range_seqlock *h, uint64_t first,
                           uint64_t end, uint64_t *sum);

#endif /* FP_RANGE_SEQLOCK_H */
