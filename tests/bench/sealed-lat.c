/* SPDX-License-Identifier: BSD-3-Clause */
/* sealed-lat.c - measure what checksums and encryption cost the engine,
 * without NBD.  Random reads and writes of depth 1, of 4 KiB and of 1 MiB, go
 * to volumes of one server, in turns of some milliseconds.
 *
 *   sealed-lat shm|tcp|rdma SECONDS ADDR
 *
 * For each way and each kind of request, print in us the median of the turns'
 * medians.  Then print the median of the differences to a plain volume.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "volume/volume.h"

#define SIZE (64u << 20)
#define FILL (1u << 20)
#define TURN_NS (10 * FP_NS_PER_MS)
#define MAX_TURNS 20000u
#define MAX_OPS 100000u

static const struct {
  const char *name;
  enum fp_checksum checksum;
  enum fp_encrypt encrypt;
  bool integrity;
} ways[] = {
  { "none", FP_CHECKSUM_NONE, FP_ENCRYPT_NONE, false },
  { "crc32c", FP_CHECKSUM_CRC32C, FP_ENCRYPT_NONE, false },
  { "xts", FP_CHECKSUM_NONE, FP_ENCRYPT_EPHEMERAL, false },
  { "xts+crc32c", FP_CHECKSUM_CRC32C, FP_ENCRYPT_EPHEMERAL, false },
  { "gcm", FP_CHECKSUM_NONE, FP_ENCRYPT_EPHEMERAL, true },
};
#define WAYS (sizeof ways / sizeof ways[0])

/* Reads and writes of either size. */
static const struct {
  const char *name;
  bool write;
  uint32_t size;
} jobs[] = {
  { "read 4k", false, 4096 },
  { "write 4k", true, 4096 },
  { "read 1m", false, FILL },
  { "write 1m", true, FILL },
};
#define JOBS (sizeof jobs / sizeof jobs[0])

static double took[MAX_OPS];
static double turns[JOBS][WAYS][MAX_TURNS], more[JOBS][WAYS][MAX_TURNS];
static unsigned char buf[FILL];
static uint64_t x = 88172645463325252u;

static uint64_t
rnd (void)
{
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

static int
open_one (struct fp_volume **v, struct fp_volume_params p, unsigned way)
{
  struct fp_error error = { .text = "" };
  struct fp_lane *lane;
  int r;

  p.checksum = ways[way].checksum;
  p.encrypt = ways[way].encrypt;
  p.integrity = ways[way].integrity;
  r = fp_volume_probe (&p, &error);
  if (r == 0)
    r = fp_volume_start (v, &p, &error);
  if (r < 0) {
    fprintf (stderr, "sealed-lat: %s: %s\n", ways[way].name, error.text);
    return r;
  }
  lane = fp_volume_lane_get (*v);
  for (uint64_t at = 0; r == 0 && at < SIZE; at += FILL)
    r = fp_lane_write (lane, buf, FILL, at);
  fp_volume_lane_put (lane);
  return r;
}

static int
compare (const void *a, const void *b)
{
  const double *p = a, *q = b;

  return (*p > *q) - (*p < *q);
}

static double
median (double *v, unsigned n)
{
  qsort (v, n, sizeof *v, compare);
  return v[n / 2];
}

/* Return the median time of a request in us, or < 0 on an error. */
static double
turn (struct fp_lane *lane, bool write, uint32_t size)
{
  uint64_t start = fp_now_ns (), before = start, now;
  unsigned n = 0;

  do {
    uint64_t at = rnd () % (SIZE / size) * size;
    int r = write ? fp_lane_write (lane, buf, size, at)
                  : fp_lane_read (lane, buf, size, at);

    if (r < 0) {
      fprintf (stderr, "sealed-lat: %s\n", strerror (-r));
      return -1;
    }
    now = fp_now_ns ();
    took[n++] = (double) (now - before) / 1e3;
    before = now;
  } while (n < MAX_OPS && now - start < TURN_NS);
  return median (took, n);
}

static int
measure (struct fp_volume **v, uint64_t deadline)
{
  struct fp_lane *lanes[WAYS];
  unsigned n;

  for (unsigned w = 0; w < WAYS; w++)
    lanes[w] = fp_volume_lane_get (v[w]);
  for (n = 0; n < MAX_TURNS && !fp_deadline_passed (deadline); n++)
    for (unsigned j = 0; j < JOBS; j++) {
      for (unsigned k = 0; k < WAYS; k++) {
        unsigned w = (n + k) % WAYS; /* the first one changes with each turn */

        turns[j][w][n] = turn (lanes[w], jobs[j].write, jobs[j].size);
        if (turns[j][w][n] < 0)
          return -1;
      }
      for (unsigned w = 0; w < WAYS; w++)
        more[j][w][n] = turns[j][w][n] - turns[j][0][n];
    }
  for (unsigned j = 0; n > 0 && j < JOBS; j++)
    for (unsigned w = 0; w < WAYS; w++)
      printf ("%-8s %-10s %8.2f us, %+8.2f\n", jobs[j].name, ways[w].name,
              median (turns[j][w], n), median (more[j][w], n));
  for (unsigned w = 0; w < WAYS; w++)
    fp_volume_lane_put (lanes[w]);
  return 0;
}

int
main (int argc, char *argv[])
{
  struct fp_volume *v[WAYS] = { NULL };
  struct fp_volume_params p;
  const char *why;
  int r = 0;

  fp_volume_params_init (&p);
  p.nr_servers = 1;
  p.size = SIZE;
  if (argc != 4 || fp_addr_parse (&p.servers[0], argv[3], &why) < 0) {
    fprintf (stderr, "usage: sealed-lat shm|tcp|rdma SECONDS ADDR\n");
    return 2;
  }
  p.transports = strcmp (argv[1], "shm") == 0   ? FP_TRANSPORT_SHM
                 : strcmp (argv[1], "tcp") == 0 ? FP_TRANSPORT_TCP
                                                : FP_TRANSPORT_RDMA;
  for (size_t i = 0; i < sizeof buf; i++)
    buf[i] = (unsigned char) rnd ();
  for (unsigned w = 0; r == 0 && w < WAYS; w++)
    r = open_one (&v[w], p, w);
  if (r == 0)
    r = measure (v, fp_deadline_in_ms (1000 * (unsigned) atoi (argv[2])));
  for (unsigned w = 0; w < WAYS; w++)
    fp_volume_stop (v[w], true);
  return r < 0;
}
