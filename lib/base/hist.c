/* SPDX-License-Identifier: BSD-3-Clause */
/* hist.c - a histogram in fixed memory. */

#include <config.h>

#include <string.h>

#include "base/checked.h"
#include "base/hist.h"

#define SUB_BITS 4
#define SUB (1u << SUB_BITS)

#define LOAD(p) atomic_load_explicit (p, memory_order_relaxed)
#define STORE(p, v) atomic_store_explicit (p, v, memory_order_relaxed)

static unsigned
bucket_of (uint64_t value)
{
  unsigned e;

  if (value < SUB)
    return (unsigned) value;
  e = fp_log2 (value);
  return (e - SUB_BITS + 1) * SUB +
         (unsigned) (value >> (e - SUB_BITS) & (SUB - 1));
}

/* Return the middle of a bucket. */
static uint64_t
value_of (unsigned bucket)
{
  unsigned shift;

  if (bucket < SUB)
    return bucket;
  shift = bucket / SUB - 1;
  return ((uint64_t) (SUB + bucket % SUB) << shift) +
         (shift ? UINT64_C (1) << (shift - 1) : 0);
}

void
fp_hist_add (struct fp_hist *h, uint64_t value)
{
  _Atomic uint64_t *bucket = &h->buckets[bucket_of (value)];

  STORE (bucket, LOAD (bucket) + 1);
  STORE (&h->sum, LOAD (&h->sum) + value);
  if (value > LOAD (&h->max))
    STORE (&h->max, value);
}

void
fp_hist_add_shared (struct fp_hist *h, uint64_t value)
{
  uint64_t max = LOAD (&h->max);

  atomic_fetch_add_explicit (&h->buckets[bucket_of (value)], 1,
                             memory_order_relaxed);
  atomic_fetch_add_explicit (&h->sum, value, memory_order_relaxed);
  while (value > max &&
         !atomic_compare_exchange_weak_explicit (
             &h->max, &max, value, memory_order_relaxed, memory_order_relaxed))
    ;
}

void
fp_hist_merge (struct fp_hist *dst, const struct fp_hist *src)
{
  for (unsigned i = 0; i < FP_HIST_BUCKETS; i++)
    STORE (&dst->buckets[i],
           LOAD (&dst->buckets[i]) + LOAD (&src->buckets[i]));
  STORE (&dst->sum, LOAD (&dst->sum) + LOAD (&src->sum));
  STORE (&dst->max, FP_MAX (LOAD (&dst->max), LOAD (&src->max)));
}

/* Return a value that permille of the count samples do not exceed. */
static uint64_t
quantile (const struct fp_hist *h, uint64_t count, unsigned permille,
          uint64_t max)
{
  /* Split the product, so that no count overflows. */
  uint64_t rank = count / 1000 * permille +
                  fp_div_round_up (count % 1000 * permille, 1000);
  uint64_t seen = 0;

  for (unsigned i = 0; i < FP_HIST_BUCKETS; i++) {
    seen += LOAD (&h->buckets[i]);
    if (seen >= rank)
      return FP_MIN (value_of (i), max);
  }
  return max;
}

void
fp_hist_summary (const struct fp_hist *h, struct fp_hist_summary *out)
{
  memset (out, 0, sizeof *out);
  for (unsigned i = 0; i < FP_HIST_BUCKETS; i++)
    out->count += LOAD (&h->buckets[i]);
  if (out->count == 0)
    return;
  out->mean = LOAD (&h->sum) / out->count;
  out->max = LOAD (&h->max);
  out->p50 = quantile (h, out->count, 500, out->max);
  out->p99 = quantile (h, out->count, 990, out->max);
  out->p999 = quantile (h, out->count, 999, out->max);
}

uint64_t
fp_hist_below (const struct fp_hist *h, uint64_t value)
{
  unsigned end = value == UINT64_MAX ? FP_HIST_BUCKETS : bucket_of (value);
  uint64_t n = 0;

  for (unsigned i = 0; i < end; i++)
    n += LOAD (&h->buckets[i]);
  return n;
}

uint64_t
fp_hist_sum (const struct fp_hist *h)
{
  return LOAD (&h->sum);
}
