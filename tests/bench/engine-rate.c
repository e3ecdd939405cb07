/* SPDX-License-Identifier: BSD-3-Clause */
/* engine-rate.c - measure the engine, without a front end: random requests of
 * one size at one depth, a fixed number of them.
 *
 *   engine-rate shm|tcp|rdma ADDR read|write SIZE DEPTH COUNT
 *               [THREADS [buffers]]
 *
 * Print the requests a second of all threads together, and the mean time of a
 * request in us.  SIZE is 512 to 1048576, DEPTH at most 64, THREADS 16.  Each
 * thread has a lane of its own and makes COUNT requests, at depth 1 by
 * fp_lane_read and fp_lane_write, else by fp_lane_submit.  With "buffers" all
 * use fp_lane_submit, and buffers of the lane (fp_lane_buffer) instead of
 * memory from malloc.  SIZE is a multiple of 4096 then.
 *
 * engine-rate-sim is the same program with a simulated card (sim/card.h) in
 * the place of shm.
 */

#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "volume/volume.h"

#define SIZE (UINT64_C (64) << 20)
#define FILL (1u << 20)
#define MAX_DEPTH 64u
#define MAX_THREADS 16u

struct job {
  struct fp_lane *lane;
  uint32_t size;
  unsigned depth;
  uint64_t count;
  bool write, buffers;
  unsigned char *buf;
  uint64_t random, ns;
  int err;
  struct fp_io ios[MAX_DEPTH];
};

static uint64_t
next_offset (struct job *j)
{
  j->random ^= j->random << 13;
  j->random ^= j->random >> 7;
  j->random ^= j->random << 17;
  return j->random % (SIZE / j->size) * j->size;
}

static int
run_sync (struct job *j)
{
  int r = 0;

  for (uint64_t i = 0; r == 0 && i < j->count; i++) {
    uint64_t at = next_offset (j);

    r = j->write ? fp_lane_write (j->lane, j->buf, j->size, at)
                 : fp_lane_read (j->lane, j->buf, j->size, at);
  }
  return r;
}

static int
submit (struct job *j, struct fp_io *io)
{
  *io = (struct fp_io) {
    .kind = j->write ? FP_IO_WRITE : FP_IO_READ,
    .length = j->size,
    .offset = next_offset (j),
    .buf = j->buffers ? fp_lane_buffer (j->lane, (unsigned) (io - j->ios))
                      : j->buf + (size_t) (io - j->ios) * j->size,
  };
  return fp_lane_submit (j->lane, io);
}

static int
run_async (struct job *j)
{
  uint64_t left = j->count;
  unsigned inflight = 0;
  int err = 0;

  while (err == 0 && inflight < j->depth && left > 0) {
    err = submit (j, &j->ios[inflight]);
    inflight += err == 0;
    left -= err == 0;
  }
  while (inflight > 0) {
    struct fp_io *io = fp_lane_poll (j->lane, true), *next;

    for (; io != NULL; io = next) {
      next = io->next;
      inflight--;
      if (io->status < 0)
        err = io->status;
      if (err == 0 && left > 0) {
        err = submit (j, io);
        inflight += err == 0;
        left -= err == 0;
      }
    }
  }
  return err;
}

static void *
run (void *vp)
{
  struct job *j = vp;
  uint64_t start = fp_mono_ns ();

  j->err = j->depth == 1 && !j->buffers ? run_sync (j) : run_async (j);
  j->ns = fp_mono_ns () - start;
  return NULL;
}

/* Write the whole volume: reads of what was never written need no transfer. */
static int
fill (struct fp_volume *v)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  void *buf = calloc (1, FILL);
  int r = buf == NULL ? -ENOMEM : 0;

  for (uint64_t at = 0; r == 0 && at < SIZE; at += FILL)
    r = fp_lane_write (lane, buf, FILL, at);
  free (buf);
  fp_volume_lane_put (lane);
  return r;
}

static int
run_all (struct fp_volume *v, const struct job *like, unsigned threads)
{
  static struct job jobs[MAX_THREADS];
  pthread_t ids[MAX_THREADS];
  double rate = 0, ns = 0;
  unsigned n = 0;
  int err = fill (v);

  for (; err == 0 && n < threads; n++) {
    struct job *j = &jobs[n];

    *j = *like;
    j->random = 88172645463325252u + n;
    j->lane = fp_volume_lane_get (v);
    j->buf = malloc ((size_t) j->depth * j->size);
    err = -ENOMEM;
    if (j->buf != NULL) {
      memset (j->buf, 0x5a, (size_t) j->depth * j->size);
      err = -pthread_create (&ids[n], NULL, run, j);
    }
    if (err != 0) {
      free (j->buf);
      fp_volume_lane_put (j->lane);
      break;
    }
  }
  for (unsigned i = 0; i < n; i++) {
    struct job *j = &jobs[i];

    pthread_join (ids[i], NULL);
    if (j->err != 0)
      err = j->err;
    rate += (double) j->count * 1e9 / (double) j->ns;
    ns += (double) j->ns * j->depth / (double) j->count / threads;
    free (j->buf);
    fp_volume_lane_put (j->lane);
  }
  if (err == 0)
    printf ("%.0f %.3f\n", rate, ns / 1e3);
  return err;
}

/* Return the transport of that name, or 0. */
static unsigned
transport_of (const char *name)
{
  return strcmp (name, "shm") == 0    ? FP_TRANSPORT_SHM
         : strcmp (name, "tcp") == 0  ? FP_TRANSPORT_TCP
         : strcmp (name, "rdma") == 0 ? FP_TRANSPORT_RDMA
                                      : 0;
}

static int
usage (void)
{
  fprintf (stderr, "usage: engine-rate shm|tcp|rdma ADDR read|write SIZE "
                   "DEPTH COUNT [THREADS [buffers]]\n");
  return 2;
}

int
main (int argc, char *argv[])
{
  struct fp_volume_params p;
  struct fp_error error = { .text = "" };
  struct job job = { 0 };
  unsigned threads = argc > 7 ? (unsigned) atoi (argv[7]) : 1;
  struct fp_volume *v;
  const char *why;
  int r;

  if (argc < 7)
    return usage ();
  fp_volume_params_init (&p);
  p.nr_servers = 1;
  p.size = SIZE;
  p.transports = transport_of (argv[1]);
  job.write = strcmp (argv[3], "write") == 0;
  job.size = (uint32_t) atoi (argv[4]);
  job.depth = (unsigned) atoi (argv[5]);
  job.count = (uint64_t) atoll (argv[6]);
  job.buffers = argc > 8 && strcmp (argv[8], "buffers") == 0;
  if (p.transports == 0 || (!job.write && strcmp (argv[3], "read") != 0) ||
      fp_addr_parse (&p.servers[0], argv[2], &why) < 0 || job.size < 512 ||
      job.size > FILL || job.depth < 1 || job.depth > MAX_DEPTH ||
      job.count < 1 || threads < 1 || threads > MAX_THREADS ||
      (job.buffers && (job.size % 4096 != 0 ||
                       job.size * job.depth > FP_MAX_BUFFER_MEMORY)) ||
      (argc > 8 && !job.buffers))
    return usage ();
  p.slots = 2 * job.depth;
  p.lanes = threads;
  if (job.buffers) {
    p.buffers = job.depth;
    p.buffer_size = job.size;
  }
  r = fp_volume_probe (&p, &error);
  if (r == 0)
    r = fp_volume_start (&v, &p, &error);
  if (r < 0) {
    fprintf (stderr, "engine-rate: %s\n", error.text);
    return 1;
  }
  r = run_all (v, &job, threads);
  fp_volume_stop (v, true);
  if (r < 0)
    fprintf (stderr, "engine-rate: %s\n", strerror (-r));
  return r < 0;
}
