/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_nbd.c - NBD over a Unix socket: nbdkit with our plugin and, to
 * compare, with its own memory plugin.  Both have one connection and one
 * thread.  libnbd drives them from one thread here.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <libnbd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "tools/bench/bench.h"

#define START_MS 20000

enum { MEMORY, FARPAGE };

/* One request; also what libnbd's callbacks get. */
struct request {
  struct state *s;
  struct fp_hist *latency;
  uint64_t started;
  int err;
  bool done;
  unsigned char *buf;
};

struct state {
  struct bench *b;
  const char *name;
  pid_t pid;
  struct nbd_handle *nbd;
  uint64_t span;
  unsigned done; /* completed requests that were not processed yet */
  unsigned char *buf;
  struct request requests[BENCH_MAX_DEPTH];
};
#define BUFS ((size_t) BENCH_MAX_SIZE * BENCH_MAX_DEPTH)

static void
nbd_layer_close (void *vp)
{
  struct state *s = vp;

  if (s == NULL)
    return;
  if (s->nbd != NULL)
    nbd_close (s->nbd);
  bench_end (&s->pid);
  bench_unmap (s->buf, BUFS);
  free (s);
}

static void
closep (struct state **sp)
{
  nbd_layer_close (*sp);
}

static int
start (struct bench *b, struct state *s, int variant, const char *socket,
       struct fp_error *error)
{
  char plugin[4096], server[FP_ADDR_MAX + 16], size[64];
  char *argv[16 + BENCH_MAX_TLS];
  int n = 0, r;

  argv[n++] = (char *) "nbdkit";
  argv[n++] = (char *) "-f";
  argv[n++] = (char *) "-t";
  argv[n++] = (char *) "1";
  argv[n++] = (char *) "-U";
  argv[n++] = (char *) (uintptr_t) socket;
  if (variant == MEMORY) {
    argv[n++] = (char *) "memory";
    snprintf (size, sizeof size, "%" PRIu64, b->size);
  }
  else {
    const char *addr = b->server;

    if (addr == NULL) {
      r = bench_donor_start (b, error);
      if (r < 0)
        return r;
      addr = b->donor_unix;
    }
    bench_find ("nbdkit-plugin/nbdkit-farpage-plugin.so",
                PLUGINDIR "/nbdkit-farpage-plugin.so", "farpage", plugin);
    argv[n++] = plugin;
    snprintf (server, sizeof server, "server=%s", addr);
    argv[n++] = server;
    for (unsigned i = 0; i < b->nr_tls; i++)
      argv[n++] = b->tls[i];
    argv[n++] = (char *) "connections=1";
    /* The memory plugin does not lock its memory either. */
    argv[n++] = (char *) "mlock=false";
    snprintf (size, sizeof size, "size=%" PRIu64, b->size);
  }
  argv[n++] = size;
  argv[n] = NULL;
  return bench_spawn (b, s->name, argv, &s->pid, error);
}

static int
connect_to (struct bench *b, struct state *s, const char *socket,
            struct fp_error *error)
{
  uint64_t deadline = fp_deadline_in_ms (START_MS);
  struct timespec ms10 = { 0, 10000000 };
  int r;

  for (;;) {
    s->nbd = nbd_create ();
    if (s->nbd != NULL && nbd_connect_unix (s->nbd, socket) == 0)
      return 0;
    fp_fail (error, -ENOTCONN, "%s", nbd_get_error ());
    if (s->nbd != NULL)
      nbd_close (s->nbd);
    s->nbd = NULL;
    r = bench_alive (b, s->name, &s->pid, error);
    if (r < 0)
      return r;
    if (bench_stop || fp_deadline_passed (deadline))
      return -ETIMEDOUT;
    nanosleep (&ms10, NULL);
  }
}

static int
fill (struct state *s, struct fp_error *error)
{
  for (uint64_t at = 0; at < s->span;) {
    size_t n = FP_MIN ((uint64_t) BUFS, s->span - at);

    if (bench_stop)
      return -EINTR;
    if (nbd_pwrite (s->nbd, s->buf, n, at, 0) == -1)
      return fp_fail (error, -EIO, "%s", nbd_get_error ());
    at += n;
    bench_progress ("%s: writing all of it: %" PRIu64 " %%", s->name,
                    at * 100 / s->span);
  }
  return 0;
}

static int
nbd_layer_open (struct bench *b, const struct bench_layer *l, void **out,
                struct fp_error *error)
{
  FP_CLEANUP (closep) struct state *s = calloc (1, sizeof *s);
  char socket[128];
  void *buf;
  int r;

  if (s == NULL)
    return -ENOMEM;
  s->b = b;
  s->name = l->name;
  s->span = b->size;
  r = bench_map (&buf, BUFS);
  if (r < 0)
    return fp_fail (error, r, "buffers: %s", strerror (-r));
  s->buf = buf;
  for (unsigned i = 0; i < BENCH_MAX_DEPTH; i++) {
    s->requests[i].s = s;
    s->requests[i].buf = s->buf + (size_t) i * BENCH_MAX_SIZE;
  }
  snprintf (socket, sizeof socket, "%s/%s", b->dir, l->name);
  r = start (b, s, l->variant, socket, error);
  if (r == 0)
    r = connect_to (b, s, socket, error);
  if (r == 0)
    r = fill (s, error);
  if (r < 0)
    return r;
  *out = FP_STEAL (s);
  return 0;
}

static int
completed (void *vp, int *error)
{
  struct request *q = vp;

  q->err = *error;
  q->done = true;
  q->s->done++;
  fp_hist_add (q->latency, fp_now_ns () - q->started);
  return 1; /* libnbd forgets the request */
}

static int
send_request (struct request *q, const struct bench_row *row, uint64_t at)
{
  nbd_completion_callback cb = { .callback = completed, .user_data = q };
  int64_t cookie;

  q->done = false;
  q->started = fp_now_ns ();
  if (row->op == BENCH_READ)
    cookie = nbd_aio_pread (q->s->nbd, q->buf, row->size, at, cb, 0);
  else
    cookie = nbd_aio_pwrite (q->s->nbd, q->buf, row->size, at, cb, 0);
  return cookie == -1 ? -EIO : 0;
}

static int
nbd_layer_run (void *vp, const struct bench_row *row, uint64_t deadline,
               struct bench_result *out, struct fp_error *error)
{
  struct bench_random random = BENCH_RANDOM_INIT;
  uint64_t start_ns = fp_now_ns ();
  struct state *s = vp;
  unsigned inflight;

  s->done = 0;
  for (inflight = 0; inflight < row->depth; inflight++) {
    struct request *q = &s->requests[inflight];

    q->latency = out->latency;
    if (send_request (q, row, bench_offset (&random, s->span, row->size)) < 0)
      goto failed;
  }
  while (inflight > 0) {
    bool more;

    while (s->done == 0) {
      if (nbd_poll (s->nbd, -1) == -1)
        goto failed;
    }
    more = !fp_deadline_passed (deadline) && !bench_stop;
    for (unsigned i = 0; i < row->depth && s->done > 0; i++) {
      struct request *q = &s->requests[i];

      if (!q->done)
        continue;
      s->done--;
      q->done = false;
      out->ops++;
      if (q->err != 0)
        return fp_fail (error, -EIO, "%s of %u bytes: %s",
                        bench_op_name (row->op), row->size, strerror (q->err));
      if (!more)
        inflight--;
      else if (send_request (q, row,
                             bench_offset (&random, s->span, row->size)) < 0)
        goto failed;
    }
  }
  out->ns = fp_now_ns () - start_ns;
  return 0;

failed:
  return fp_fail (error, -EIO, "%s", nbd_get_error ());
}

const struct bench_layer bench_nbd_memory = {
  .name = "nbd-memory",
  .what = "nbdkit's own memory plugin over a Unix socket",
  .rows = bench_rows,
  .nr_rows = BENCH_NR_ROWS,
  .open = nbd_layer_open,
  .run = nbd_layer_run,
  .close = nbd_layer_close,
  .variant = MEMORY,
};

const struct bench_layer bench_nbd_farpage = {
  .name = "nbd-farpage",
  .what = "nbdkit with our plugin over a Unix socket",
  .rows = bench_rows,
  .nr_rows = BENCH_NR_ROWS,
  .open = nbd_layer_open,
  .run = nbd_layer_run,
  .close = nbd_layer_close,
  .variant = FARPAGE,
};
