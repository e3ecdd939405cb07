/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <stdlib.h>

#include "age.h"

#include "base/cleanup.h"
#include "base/clock.h"

void
fp_age_init (struct fp_age *a)
{
  *a = (struct fp_age) { .active = 0 };
  if (pthread_mutex_init (&a->lock, NULL) != 0)
    abort ();
}

void
fp_age_destroy (struct fp_age *a)
{
  pthread_mutex_destroy (&a->lock);
}

/* Return true if the socket is empty, after this pause without a request. */
static bool
is_empty (struct fp_age *a, uint64_t pause_ns)
{
  a->gaps = pause_ns >= FP_AGE_GAP_MS * FP_NS_PER_MS ? a->gaps + 1 : 0;
  return pause_ns >= FP_AGE_IDLE_MS * FP_NS_PER_MS || a->gaps >= FP_AGE_GAPS;
}

uint64_t
fp_age_begin (struct fp_age *a)
{
  uint64_t made_ns = fp_mono_ns ();

  FP_LOCK_SCOPE (&a->lock);
  if (a->active == 0 && is_empty (a, fp_now_ns () - a->end_ns)) {
    a->behind = 0;
    a->again = false;
  }
  else if (a->active > 0)
    a->gaps = 0;
  a->active++;
  return a->behind > 0 ? a->behind_ns : made_ns;
}

static void
start_batch (struct fp_age *a, uint64_t made_ns)
{
  a->behind = FP_AGE_BEHIND;
  a->behind_ns = made_ns;
  a->gaps = 0;
  a->again = false;
}

void
fp_age_end (struct fp_age *a, uint64_t made_ns, bool waited)
{
  FP_LOCK_SCOPE (&a->lock);
  a->active--;
  a->end_ns = fp_now_ns ();
  if (a->behind > 0)
    a->behind--;
  /* The requests after the batch were sent after its first request ended. */
  if (a->behind == 0 && a->again) {
    start_batch (a, a->first_end_ns);
    a->first_end_ns = a->last_end_ns;
  }
  if (!waited)
    return;
  a->gaps = 0; /* the socket had time to fill */
  a->last_end_ns = fp_mono_ns ();
  if (a->behind > 0) {
    a->again = true;
    return;
  }
  start_batch (a, made_ns);
  a->first_end_ns = a->last_end_ns;
}
