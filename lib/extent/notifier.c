/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "extent/notifier.h"

void
fp_notifier_init (struct fp_notifier *n)
{
  *n = (struct fp_notifier) { .listeners = NULL };
  fp_mutex_init (&n->lock);
  fp_cond_init (&n->cond);
}

void
fp_notifier_destroy (struct fp_notifier *n)
{
  pthread_cond_destroy (&n->cond);
  pthread_mutex_destroy (&n->lock);
}

void
fp_notifier_listen (struct fp_notifier *n, struct fp_listener *l)
{
  l->next = n->listeners;
  n->listeners = l;
}

void
fp_notifier_raise (struct fp_notifier *n)
{
  /* A thread that waits counts itself before it reads the count.  Both are
   * sequentially consistent, so one of the two threads sees the other.
   */
  atomic_fetch_add (&n->count, 1);
  if (atomic_load (&n->waiters) > 0) {
    FP_LOCK_SCOPE (&n->lock);
    pthread_cond_broadcast (&n->cond);
  }
  for (struct fp_listener *l = n->listeners; l != NULL; l = l->next)
    l->wake (l->arg);
}

bool
fp_notifier_await (struct fp_notifier *n, uint32_t seen, uint64_t deadline_ns)
{
  atomic_fetch_add (&n->waiters, 1);
  {
    FP_LOCK_SCOPE (&n->lock);
    while (atomic_load (&n->count) == seen &&
           fp_cond_wait_until (&n->cond, &n->lock, deadline_ns))
      ;
  }
  atomic_fetch_sub (&n->waiters, 1);
  /* Report the deadline even if n was raised.  Otherwise a caller that is
   * woken all the time never finds that it is late.
   */
  return deadline_ns == FP_NEVER || !fp_deadline_passed (deadline_ns);
}
