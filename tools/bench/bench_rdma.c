/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_rdma.c - the RDMA device of this machine by itself, both ends here.
 * One-sided transfers (READ, WRITE, compare-and-swap) can be compared with
 * two-sided ones (SEND and RECV, answered by a thread).
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "tools/bench/bench.h"
#include "transport/verbs_bench.h"

enum { ONE_SIDED, TWO_SIDED };

struct state {
  struct fp_verbs_bench *verbs;
  uint64_t span;
  uint64_t started[BENCH_MAX_DEPTH];
};

static void
rdma_close (void *vp)
{
  struct state *s = vp;

  if (s == NULL)
    return;
  fp_verbs_bench_free (s->verbs);
  free (s);
}

static void
closep (struct state **sp)
{
  rdma_close (*sp);
}

static int
rdma_open (struct bench *b, const struct bench_layer *l, void **out,
           struct fp_error *error)
{
  FP_CLEANUP (closep) struct state *s = calloc (1, sizeof *s);
  struct fp_addr addr = { .port = 0 };
  struct fp_verbs_bench_params p = {
    .addr = &addr,
    .two_sided = l->variant == TWO_SIDED,
    .region = b->size,
    .max_size = BENCH_MAX_SIZE,
    .slots = BENCH_MAX_DEPTH,
  };
  int r;

  if (s == NULL)
    return -ENOMEM;
  if (!bench_rdma_address (addr.host))
    return fp_fail (error, -ENODEV, "no RDMA device here");
  s->span = b->size;
  r = fp_verbs_bench_new (&s->verbs, &p);
  if (r < 0)
    return fp_fail (error, r, "%s: %s", addr.host, strerror (-r));
  *out = FP_STEAL (s);
  return 0;
}

static int
post (struct state *s, const struct bench_row *row, unsigned slot,
      struct bench_random *random)
{
  enum fp_verbs_bench_op op = row->op == BENCH_READ    ? FP_VERBS_BENCH_READ
                              : row->op == BENCH_WRITE ? FP_VERBS_BENCH_WRITE
                                                       : FP_VERBS_BENCH_CAS;

  s->started[slot] = fp_now_ns ();
  return fp_verbs_bench_post (s->verbs, op, slot, row->size,
                              bench_offset (random, s->span, row->size));
}

static int
rdma_run (void *vp, const struct bench_row *row, uint64_t deadline,
          struct bench_result *out, struct fp_error *error)
{
  struct bench_random random = BENCH_RANDOM_INIT;
  unsigned slots[BENCH_MAX_DEPTH], inflight;
  uint64_t start = fp_now_ns (), now;
  struct state *s = vp;
  int n, r = 0;

  for (inflight = 0; r == 0 && inflight < row->depth; inflight++)
    r = post (s, row, inflight, &random);
  while (r == 0 && inflight > 0) {
    n = fp_verbs_bench_wait (s->verbs, slots, row->depth);
    if (n < 0) {
      r = n;
      break;
    }
    now = fp_now_ns ();
    for (int i = 0; r == 0 && i < n; i++) {
      fp_hist_add (out->latency, now - s->started[slots[i]]);
      out->ops++;
      if (now < deadline && !bench_stop)
        r = post (s, row, slots[i], &random);
      else
        inflight--;
    }
  }
  out->ns = fp_now_ns () - start;
  if (r < 0)
    fp_fail (error, r, "%s of %u bytes: %s", bench_op_name (row->op),
             row->size, strerror (-r));
  return r;
}

static int
rdma_donor_ns (void *vp, uint64_t *ns)
{
  struct state *s = vp;

  return fp_verbs_bench_far_ns (s->verbs, ns);
}

static const struct bench_row one_sided_rows[] = {
  { BENCH_READ, 4096, 1 },       { BENCH_WRITE, 4096, 1 },
  { BENCH_READ, 4096, 32 },      { BENCH_WRITE, 4096, 32 },
  { BENCH_READ, 128u << 10, 8 }, { BENCH_WRITE, 128u << 10, 8 },
  { BENCH_CAS, 8, 1 },           { BENCH_CAS, 8, 32 },
};

const struct bench_layer bench_raw_rdma = {
  .name = "raw-rdma",
  .what = "one-sided RDMA, without an engine",
  .rows = one_sided_rows,
  .nr_rows = sizeof one_sided_rows / sizeof one_sided_rows[0],
  .open = rdma_open,
  .run = rdma_run,
  .close = rdma_close,
  .donor_ns = rdma_donor_ns,
  .variant = ONE_SIDED,
};

const struct bench_layer bench_two_sided = {
  .name = "two-sided",
  .what = "RDMA SEND and RECV with a thread that answers",
  .rows = bench_rows,
  .nr_rows = BENCH_NR_ROWS,
  .open = rdma_open,
  .run = rdma_run,
  .close = rdma_close,
  .donor_ns = rdma_donor_ns,
  .variant = TWO_SIDED,
};
