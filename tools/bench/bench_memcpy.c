/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_memcpy.c - the lower bound: a bare memcpy from and to shared memory at
 * random places.  The memory is made as a memory server makes it.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "tools/bench/bench.h"

/* Reading the clock costs a tenth of a small copy, so only one copy in this
 * many is timed by itself.  The mean is that of all copies.
 */
#define SAMPLE 16

struct state {
  uint64_t span;
  unsigned char *shared;
  void *buf;
};

static void
memcpy_close (void *vp)
{
  struct state *s = vp;

  if (s == NULL)
    return;
  bench_unmap (s->shared, s->span);
  bench_unmap (s->buf, BENCH_MAX_SIZE);
  free (s);
}

static void
closep (struct state **sp)
{
  memcpy_close (*sp);
}

static int
memcpy_open (struct bench *b, const struct bench_layer *l, void **out,
             struct fp_error *error)
{
  FP_CLEANUP (closep) struct state *s = calloc (1, sizeof *s);
  FP_CLEANUP (fp_closep) int fd = memfd_create ("bench", MFD_CLOEXEC);
  void *p;
  int r;

  (void) l;
  fp_fail (error, -ENOMEM, "memory for a memcpy: %s", strerror (ENOMEM));
  if (s == NULL || fd == -1 || ftruncate (fd, (off_t) b->size) == -1)
    return -ENOMEM;
  p = mmap (NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED)
    return -ENOMEM;
  s->span = b->size;
  s->shared = p;
  memset (s->shared, 0xa5, s->span);
  r = bench_map (&s->buf, BENCH_MAX_SIZE);
  if (r < 0)
    return r;
  *out = FP_STEAL (s);
  return 0;
}

static int
memcpy_run (void *vp, const struct bench_row *row, uint64_t deadline,
            struct bench_result *out, struct fp_error *error)
{
  struct bench_random random = BENCH_RANDOM_INIT;
  uint64_t stolen = bench_stolen_ns ();
  uint64_t start = fp_now_ns (), before, now = start;
  struct state *s = vp;

  (void) error;
  do {
    for (unsigned i = 0; i < SAMPLE; i++) {
      unsigned char *far =
          s->shared + bench_offset (&random, s->span, row->size);
      bool timed = i == SAMPLE - 1;

      before = timed ? fp_now_ns () : 0;
      if (row->op == BENCH_READ)
        memcpy (s->buf, far, row->size);
      else
        memcpy (far, s->buf, row->size);
      /* Keep the compiler from leaving out the copy. */
      __asm__ volatile("" ::: "memory");
      if (timed) {
        now = fp_now_ns ();
        fp_hist_add (out->latency, now - before);
      }
    }
    out->ops += SAMPLE;
  } while (now < deadline && !bench_stop);
  stolen = bench_stolen_ns () - stolen;
  out->ns = now - start - FP_MIN (stolen, now - start);
  return 0;
}

static const struct bench_row rows[] = {
  { BENCH_READ, 4096, 1 },
  { BENCH_WRITE, 4096, 1 },
  { BENCH_READ, 128u << 10, 1 },
  { BENCH_WRITE, 128u << 10, 1 },
};

const struct bench_layer bench_memcpy = {
  .name = "memcpy",
  .what = "a bare memcpy from and to shared memory",
  .rows = rows,
  .nr_rows = sizeof rows / sizeof rows[0],
  .open = memcpy_open,
  .run = memcpy_run,
  .close = memcpy_close,
};
