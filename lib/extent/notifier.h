/* SPDX-License-Identifier: BSD-3-Clause */
/* notifier.h - tell waiting threads that something has changed.
 *
 * A notifier says that something changed, but does not name it.  A thread that
 * waits for a condition reads the count, then looks at the condition, then
 * waits until the count is another one:
 *
 *    for (;;) {
 *      uint32_t seen = fp_notifier_count (n);
 *
 *      if (condition ())
 *        break;
 *      if (!fp_notifier_await (n, seen, deadline_ns))
 *        break;                         the deadline has passed
 *    }
 *
 * The thread that makes the condition true raises the notifier after that.  So
 * the look sees a change that came before it, and a later change ends the
 * wait.  The look must not raise the notifier itself, or the wait would never
 * last.  This is the eventcount of Reed and Kanodia, Synchronization with
 * Eventcounts and Sequencers, CACM 22(2), 1979.
 *
 * A listener is called by each raise as well.  It is for a thread that waits
 * elsewhere, as in poll(2).
 *
 * Units:    deadlines in ns, by fp_now_ns, or FP_NEVER.
 * Threads:  any, except that fp_notifier_listen comes before other threads use
 *           n.  fp_notifier_raise may be called with any lock held.  It takes
 *           only a lock under which no other one is taken, and waits for
 *           nothing else.
 * Memory:   no allocation.
 */

#ifndef FP_NOTIFIER_H
#define FP_NOTIFIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <pthread.h>

struct fp_listener {
  /* Called by each raise, with whatever locks its caller holds.  It does not
   * wait, and takes no lock but that of another notifier.
   */
  void (*wake) (void *arg);
  void *arg;
  struct fp_listener *next;
};

struct fp_notifier {
  _Atomic uint32_t count;
  _Atomic unsigned waiters;
  pthread_mutex_t lock; /* only for sleeping */
  pthread_cond_t cond;
  struct fp_listener *listeners;
};

void fp_notifier_init (struct fp_notifier *n);
void fp_notifier_destroy (struct fp_notifier *n);
void fp_notifier_listen (struct fp_notifier *n, struct fp_listener *l);

static inline uint32_t
fp_notifier_count (struct fp_notifier *n)
{
  return atomic_load (&n->count);
}

void fp_notifier_raise (struct fp_notifier *n);

/* Wait until the count is not `seen`.  Return false if the deadline has
 * passed.
 */
bool fp_notifier_await (struct fp_notifier *n, uint32_t seen,
                        uint64_t deadline_ns);

#endif /* FP_NOTIFIER_H */
