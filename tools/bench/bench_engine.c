/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_engine.c - the engine (lib/volume) over one transport.  Depth 1 uses
 * its synchronous calls, a higher depth the asynchronous ones.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "tools/bench/bench.h"
#include "volume/volume.h"

#define SAMPLE 16 /* as in bench_memcpy.c, for fast transports */

struct state {
  struct bench *b;
  struct fp_volume_params params;
  struct fp_volume *volume;
  struct fp_lane *lane;
  uint64_t span;
  bool fast;
  unsigned char *buf; /* BENCH_MAX_SIZE bytes for each io */
  struct fp_io ios[BENCH_MAX_DEPTH];
  uint64_t started[BENCH_MAX_DEPTH];
};
#define BUFS ((size_t) BENCH_MAX_SIZE * BENCH_MAX_DEPTH)

static void
engine_close (void *vp)
{
  struct state *s = vp;

  if (s == NULL)
    return;
  if (s->lane != NULL)
    fp_volume_lane_put (s->lane);
  fp_volume_stop (s->volume, true);
  bench_unmap (s->buf, BUFS);
  free (s);
}

static void
closep (struct state **sp)
{
  engine_close (*sp);
}

static int
address (struct bench *b, unsigned transport, struct fp_addr *out,
         struct fp_error *error)
{
  const char *s = b->server, *reason;
  int r;

  if (s == NULL) {
    r = bench_donor_start (b, error);
    if (r < 0)
      return r;
    s = transport == FP_TRANSPORT_SHM   ? b->donor_unix
        : transport == FP_TRANSPORT_TCP ? b->donor_tcp
                                        : b->donor_rdma;
  }
  if (s[0] == '\0')
    return fp_fail (error, -ENODEV, "no RDMA device here");
  r = fp_addr_parse (out, s, &reason);
  if (r < 0)
    return fp_fail (error, r, "%s: %s", s, reason);
  /* With --server the address decides: a Unix socket is for shm, any other
   * address for the other transports.
   */
  if (b->server != NULL && out->is_unix != (transport == FP_TRANSPORT_SHM))
    return fp_fail (error, -ENODEV, "not possible over the address %s", s);
  return 0;
}

/* Write all of the span, because reads of what was never written are answered
 * without the network.
 */
static int
fill (struct state *s, const char *name, struct fp_error *error)
{
  for (uint64_t at = 0; at < s->span;) {
    uint32_t n = (uint32_t) FP_MIN ((uint64_t) BUFS, s->span - at);
    int r = bench_stop ? -EINTR : fp_lane_write (s->lane, s->buf, n, at);

    if (r < 0)
      return fp_fail (error, r, "writing: %s", strerror (-r));
    at += n;
    bench_progress ("%s: writing all of it: %" PRIu64 " %%", name,
                    at * 100 / s->span);
  }
  return 0;
}

static int
engine_prepare (struct bench *b, const struct bench_layer *l, void **out,
                struct fp_error *error)
{
  FP_CLEANUP (closep) struct state *s = calloc (1, sizeof *s);
  int r;

  if (s == NULL)
    return -ENOMEM;
  s->b = b;
  s->span = b->size;
  s->fast = l->variant == FP_TRANSPORT_SHM;
  fp_volume_params_init (&s->params);
  s->params.nr_servers = 1;
  s->params.size = b->size;
  s->params.transports = (unsigned) l->variant;
  s->params.slots = 2 * BENCH_MAX_DEPTH;
  r = address (b, s->params.transports, &s->params.servers[0], error);
  /* The probe fills in the slab size. */
  if (r == 0)
    r = fp_volume_probe (&s->params, error);
  if (r < 0)
    return r;
  *out = FP_STEAL (s);
  return 0;
}

static int
engine_open (struct bench *b, const struct bench_layer *l, void **state,
             struct fp_error *error)
{
  struct state *s = *state;
  void *buf;
  int r;

  (void) b;
  r = fp_volume_start (&s->volume, &s->params, error);
  if (r < 0)
    return r;
  s->lane = fp_volume_lane_get (s->volume);
  r = bench_map (&buf, BUFS);
  if (r < 0)
    return fp_fail (error, r, "buffers: %s", strerror (-r));
  s->buf = buf;
  return fill (s, l->name, error);
}

static int
failed (const struct bench_row *row, int r, struct fp_error *error)
{
  return fp_fail (error, r, "%s of %u bytes: %s", bench_op_name (row->op),
                  row->size, strerror (-r));
}

static int
run_sync (struct state *s, const struct bench_row *row, uint64_t deadline,
          struct bench_result *out, struct fp_error *error)
{
  struct bench_random random = BENCH_RANDOM_INIT;
  uint64_t stolen = s->fast ? bench_stolen_ns () : 0;
  uint64_t start = fp_now_ns (), before, now = start;
  unsigned sample = s->fast ? SAMPLE : 1;

  do {
    for (unsigned i = 0; i < sample; i++) {
      uint64_t at = bench_offset (&random, s->span, row->size);
      bool timed = i == sample - 1;
      int r;

      before = timed ? fp_now_ns () : 0;
      if (row->op == BENCH_READ)
        r = fp_lane_read (s->lane, s->buf, row->size, at);
      else
        r = fp_lane_write (s->lane, s->buf, row->size, at);
      if (r < 0)
        return failed (row, r, error);
      if (timed) {
        now = fp_now_ns ();
        fp_hist_add (out->latency, now - before);
      }
    }
    out->ops += sample;
  } while (now < deadline && !bench_stop);
  stolen = s->fast ? bench_stolen_ns () - stolen : 0;
  out->ns = now - start - FP_MIN (stolen, now - start);
  return 0;
}

/* Start io at a new offset. */
static int
submit (struct state *s, const struct bench_row *row, struct fp_io *io,
        struct bench_random *random, uint64_t now)
{
  size_t i = (size_t) (io - s->ios);

  *io = (struct fp_io) {
    .kind = row->op == BENCH_READ ? FP_IO_READ : FP_IO_WRITE,
    .length = row->size,
    .offset = bench_offset (random, s->span, row->size),
    .buf = s->buf + i * BENCH_MAX_SIZE,
  };
  s->started[i] = now;
  return fp_lane_submit (s->lane, io);
}

static int
run_async (struct state *s, const struct bench_row *row, uint64_t deadline,
           struct bench_result *out, struct fp_error *error)
{
  struct bench_random random = BENCH_RANDOM_INIT;
  uint64_t start = fp_now_ns (), now = start;
  unsigned inflight = 0;
  int err = 0;

  while (err == 0 && inflight < row->depth) {
    err = submit (s, row, &s->ios[inflight], &random, now);
    inflight += err == 0;
  }
  /* Wait for everything that was sent, because it uses our buffers. */
  while (inflight > 0) {
    struct fp_io *io = fp_lane_poll (s->lane, true), *next;

    now = fp_now_ns ();
    for (; io != NULL; io = next) {
      next = io->next;
      if (io->status < 0)
        err = io->status;
      fp_hist_add (out->latency, now - s->started[io - s->ios]);
      out->ops++;
      inflight--;
      if (now < deadline && !bench_stop && err == 0) {
        err = submit (s, row, io, &random, now);
        inflight += err == 0;
      }
    }
  }
  out->ns = now - start;
  return err < 0 ? failed (row, err, error) : 0;
}

static int
engine_run (void *vp, const struct bench_row *row, uint64_t deadline,
            struct bench_result *out, struct fp_error *error)
{
  if (row->depth == 1)
    return run_sync (vp, row, deadline, out, error);
  return run_async (vp, row, deadline, out, error);
}

static int
engine_donor_ns (void *vp, uint64_t *ns)
{
  struct state *s = vp;

  return s->b->donor != 0 ? bench_cpu_ns (s->b->donor, ns) : -ENODATA;
}

#define ENGINE(suffix, bit, text)                                             \
  const struct bench_layer bench_engine_##suffix = {                          \
    .name = "engine-" #suffix,                                                \
    .what = text,                                                             \
    .rows = bench_rows,                                                       \
    .nr_rows = BENCH_NR_ROWS,                                                 \
    .prepare = engine_prepare,                                                \
    .open = engine_open,                                                      \
    .run = engine_run,                                                        \
    .close = engine_close,                                                    \
    .donor_ns = engine_donor_ns,                                              \
    .variant = bit,                                                           \
  }

ENGINE (shm, FP_TRANSPORT_SHM, "lib/volume over shared memory");
ENGINE (tcp, FP_TRANSPORT_TCP, "lib/volume over TCP");
ENGINE (rdma, FP_TRANSPORT_RDMA, "lib/volume over RDMA");
