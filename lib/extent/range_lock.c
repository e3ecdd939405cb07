/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "base/tsan.h"
#include "extent/range_lock.h"

#define LOOK_MS 50 /* ms; longest delay from a missed wake-up */

void
fp_range_lock_init (struct fp_range_lock *lock)
{
  fp_mutex_init (&lock->lock);
  fp_cond_init (&lock->cond);
}

void
fp_range_lock_destroy (struct fp_range_lock *lock)
{
  pthread_cond_destroy (&lock->cond);
  pthread_mutex_destroy (&lock->lock);
}

static bool
is_wide (const struct fp_range_hold *hold)
{
  return hold->end - hold->first > FP_RANGE_LOCK_HOLD_MAX;
}

/* Words of [first, end) in the order of the table.  If the range wraps, these
 * are [0, tail), then [head, head + n).
 */
struct span {
  unsigned tail, head, n;
};

static struct span
span_of (uint64_t first, uint64_t end)
{
  unsigned at = (unsigned) (first % FP_RANGE_LOCK_WORDS);
  unsigned n = (unsigned) FP_MIN (end - first, (uint64_t) FP_RANGE_LOCK_WORDS);

  if (at + n <= FP_RANGE_LOCK_WORDS)
    return (struct span) { .head = at, .n = n };
  return (struct span) {
    .tail = at + n - FP_RANGE_LOCK_WORDS,
    .head = at,
    .n = FP_RANGE_LOCK_WORDS - at,
  };
}

static bool
overlaps (const struct fp_range_lock *lock, const struct fp_range_hold *hold)
{
  for (const struct fp_range_hold *o = lock->list; o != NULL; o = o->next)
    if (o != hold && hold->first < o->end && o->first < hold->end)
      return true;
  return false;
}

/* Wait for a wake-up or LOOK_MS, with lock->lock held.  Return false if the
 * deadline has passed.
 */
static bool
wait_a_little (struct fp_range_lock *lock, uint64_t deadline)
{
  struct timespec until;

  if (fp_deadline_passed (deadline))
    return false;
  fp_timespec_after (&until, LOOK_MS);
  (void) pthread_cond_timedwait (&lock->cond, &lock->lock, &until);
  return true;
}

static void
wake (struct fp_range_lock *lock)
{
  if (atomic_load (&lock->waiting) == 0)
    return;
  FP_LOCK_SCOPE (&lock->lock);
  pthread_cond_broadcast (&lock->cond);
}

/* If word i is even, add to it and return true. */
static bool
try_word (struct fp_range_lock *lock, unsigned i, uint32_t add)
{
  uint32_t w = atomic_load (&lock->words[i]);

  while ((w & 1) == 0)
    if (atomic_compare_exchange_weak (&lock->words[i], &w, w + add))
      return true;
  return false;
}

static int
take_word (struct fp_range_lock *lock, unsigned i, uint32_t add,
           uint64_t deadline)
{
  bool got = try_word (lock, i, add);

  if (got)
    return 0;
  FP_LOCK_SCOPE (&lock->lock);
  atomic_fetch_add (&lock->waiting, 1);
  while (!(got = try_word (lock, i, add)) && wait_a_little (lock, deadline))
    continue;
  atomic_fetch_sub (&lock->waiting, 1);
  return got ? 0 : -EIO;
}

static void
release_words (struct fp_range_lock *lock, unsigned from, unsigned to)
{
  for (unsigned i = from; i < to; i++)
    atomic_fetch_add (&lock->words[i], 1);
}

/* Release the first nr words of the span, in the order of the table. */
static void
give_back (struct fp_range_lock *lock, const struct span *s, unsigned nr)
{
  release_words (lock, 0, FP_MIN (nr, s->tail));
  if (nr > s->tail)
    release_words (lock, s->head, s->head + nr - s->tail);
}

/* Take all words of the span, or none. */
static int
take_words (struct fp_range_lock *lock, const struct span *s,
            uint64_t deadline)
{
  for (unsigned i = 0; i < s->tail + s->n; i++) {
    unsigned at = i < s->tail ? i : s->head + i - s->tail;

    if (take_word (lock, at, 1, deadline) == 0)
      continue;
    give_back (lock, s, i);
    wake (lock);
    return -EIO;
  }
  return 0;
}

static int
await_list (struct fp_range_lock *lock, const struct fp_range_hold *hold,
            uint64_t deadline)
{
  bool ok = true;

  FP_LOCK_SCOPE (&lock->lock);
  atomic_fetch_add (&lock->waiting, 1);
  while (overlaps (lock, hold) && ok)
    ok = wait_a_little (lock, deadline);
  atomic_fetch_sub (&lock->waiting, 1);
  return ok ? 0 : -EIO;
}

static bool
is_listed (struct fp_range_lock *lock, const struct fp_range_hold *hold)
{
  if (atomic_load (&lock->wide) == 0)
    return false;
  FP_LOCK_SCOPE (&lock->lock);
  return overlaps (lock, hold);
}

static int
take_narrow (struct fp_range_lock *lock, struct fp_range_hold *hold,
             uint64_t deadline)
{
  struct span s = span_of (hold->first, hold->end);

  for (;;) {
    int r = take_words (lock, &s, deadline);

    if (r < 0)
      return r;
    /* Look at the list after the words were made odd.  Both are sequentially
     * consistent, so this thread or the wide holder sees the other one.
     */
    if (!is_listed (lock, hold))
      return 0;
    fp_range_lock_release (lock, hold);
    r = await_list (lock, hold, deadline);
    if (r < 0)
      return r;
  }
}

static int
take_wide (struct fp_range_lock *lock, struct fp_range_hold *hold,
           uint64_t deadline)
{
  struct span s = span_of (hold->first, hold->end);
  bool ok = true;

  {
    FP_LOCK_SCOPE (&lock->lock);
    atomic_fetch_add (&lock->waiting, 1);
    while (overlaps (lock, hold) && ok)
      ok = wait_a_little (lock, deadline);
    atomic_fetch_sub (&lock->waiting, 1);
    if (!ok)
      return -EIO;
    hold->prev = NULL;
    hold->next = lock->list;
    if (hold->next != NULL)
      hold->next->prev = hold;
    lock->list = hold;
    atomic_fetch_add (&lock->wide, 1);
  }
  for (unsigned i = 0; i < s.tail + s.n; i++) {
    if (take_word (lock, i < s.tail ? i : s.head + i - s.tail, 2, deadline) <
        0) {
      fp_range_lock_release (lock, hold);
      return -EIO;
    }
  }
  return 0;
}

int
fp_range_lock_take (struct fp_range_lock *lock, struct fp_range_hold *hold,
                    uint64_t first, uint64_t end, uint64_t deadline_ns)
{
  *hold = (struct fp_range_hold) { .first = first, .end = end };
  return is_wide (hold) ? take_wide (lock, hold, deadline_ns)
                        : take_narrow (lock, hold, deadline_ns);
}

void
fp_range_lock_release (struct fp_range_lock *lock, struct fp_range_hold *hold)
{
  if (is_wide (hold)) {
    FP_LOCK_SCOPE (&lock->lock);
    if (hold->prev != NULL)
      hold->prev->next = hold->next;
    else
      lock->list = hold->next;
    if (hold->next != NULL)
      hold->next->prev = hold->prev;
    atomic_fetch_sub (&lock->wide, 1);
    pthread_cond_broadcast (&lock->cond);
  }
  else {
    struct span s = span_of (hold->first, hold->end);

    give_back (lock, &s, s.tail + s.n);
    wake (lock);
  }
}

static bool
try_words (struct fp_range_lock *lock, const struct span *s)
{
  for (unsigned i = 0; i < s->tail + s->n; i++) {
    unsigned at = i < s->tail ? i : s->head + i - s->tail;

    if (try_word (lock, at, 1))
      continue;
    /* Set this before the second try: a holder that lets go later sees it. */
    atomic_store (&lock->refused, true);
    if (try_word (lock, at, 1))
      continue;
    give_back (lock, s, i);
    return false;
  }
  return true;
}

bool
fp_range_lock_try (struct fp_range_lock *lock, uint64_t first, uint64_t end)
{
  struct span s = span_of (first, end);

  return try_words (lock, &s);
}

bool
fp_range_lock_untry (struct fp_range_lock *lock, uint64_t first, uint64_t end)
{
  struct span s = span_of (first, end);

  give_back (lock, &s, s.tail + s.n);
  /* Read this after the releases: all are sequentially consistent. */
  return atomic_load (&lock->refused) &&
         atomic_exchange (&lock->refused, false);
}

bool
fp_range_lock_sum (struct fp_range_lock *lock, uint64_t first, uint64_t end,
                   uint64_t *sum)
{
  /* The caller's earlier reads of data must not move below this point. */
  fp_fence (memory_order_acquire);
  *sum = 0;
  for (uint64_t b = first; b < end; b++) {
    uint32_t w = atomic_load (&lock->words[b % FP_RANGE_LOCK_WORDS]);

    if (w & 1)
      return false;
    *sum += w;
  }
  return atomic_load (&lock->wide) == 0;
}
