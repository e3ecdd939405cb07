/* SPDX-License-Identifier: BSD-3-Clause */
/* copies-lat.c - what a second copy costs the engine, without NBD: 4 KiB
 * random reads and writes of depth 1 on two volumes with a name on the same
 * servers, of 1 and of 2 copies, in turns of some milliseconds.
 *
 *   copies-lat shm|tcp|rdma SECONDS ADDR ADDR
 *
 * Prints for reads and for writes the medians of the turns' medians, in us:
 * what one took with 1 copy, with 2, and the median of the turns' ratios.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "volume/volume.h"

#define SIZE (64u << 20)
#define IO 4096u
#define FILL (1u << 20)
#define TURN_NS (20 * FP_NS_PER_MS)
#define MAX_TURNS 100000u
#define MAX_OPS 100000u

static double took[MAX_OPS];
static double turns[2][2][MAX_TURNS], ratios[2][MAX_TURNS];
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
open_one (struct fp_volume **v, const struct fp_volume_params *base,
          unsigned copies)
{
  struct fp_volume_params p = *base;
  char why[FP_WHY_MAX] = "";
  struct fp_lane *lane;
  int r;

  p.copies = copies;
  snprintf (p.name, sizeof p.name, "copies-lat-%u", copies);
  r = fp_volume_probe (&p, why);
  if (r == 0)
    r = fp_volume_start (v, &p, why);
  if (r < 0) {
    fprintf (stderr, "copies-lat: %s\n", why);
    return r;
  }
  /* What was never written is read without any copy. */
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

/* The median of what each took, in microseconds, which does not tell who else
 * used the processor; < 0: it failed.
 */
static double
turn (struct fp_lane *lane, bool write)
{
  uint64_t start = fp_now_ns (), before = start, now;
  unsigned n = 0;

  do {
    uint64_t at = rnd () % (SIZE / IO) * IO;
    int r = write ? fp_lane_write (lane, buf, IO, at)
                  : fp_lane_read (lane, buf, IO, at);

    if (r < 0) {
      fprintf (stderr, "copies-lat: %s\n", strerror (-r));
      return -1;
    }
    now = fp_now_ns ();
    took[n++] = (double) (now - before) / 1e3;
    before = now;
  } while (n < MAX_OPS && now - start < TURN_NS);
  return median (took, n);
}

static int
measure (struct fp_volume *v[2], uint64_t deadline)
{
  static const char *const names[] = { "randread", "randwrite" };
  struct fp_lane *lanes[2] = { fp_volume_lane_get (v[0]),
                               fp_volume_lane_get (v[1]) };
  unsigned n = 0;
  int r = 0;

  for (; r == 0 && n < MAX_TURNS && !fp_deadline_passed (deadline); n++)
    for (unsigned w = 0; r == 0 && w < 2; w++) {
      for (unsigned k = 0; k < 2; k++) {
        unsigned c = (n + k) % 2; /* who goes first takes turns */

        turns[w][c][n] = turn (lanes[c], w == 1);
        if (turns[w][c][n] < 0)
          r = -1;
      }
      ratios[w][n] = turns[w][1][n] / turns[w][0][n];
    }
  for (unsigned w = 0; r == 0 && n > 0 && w < 2; w++)
    printf ("%s %.2f %.2f %.2f\n", names[w], median (turns[w][0], n),
            median (turns[w][1], n), median (ratios[w], n));
  for (unsigned c = 0; c < 2; c++)
    fp_volume_lane_put (lanes[c]);
  return r;
}

int
main (int argc, char *argv[])
{
  struct fp_volume_params p;
  struct fp_volume *v[2] = { NULL, NULL };
  const char *why;
  int r;

  fp_volume_params_init (&p);
  p.nr_servers = 2;
  p.size = SIZE;
  if (argc < 5 || fp_addr_parse (&p.servers[0], argv[3], &why) < 0 ||
      fp_addr_parse (&p.servers[1], argv[4], &why) < 0) {
    fprintf (stderr, "usage: copies-lat shm|tcp|rdma SECONDS ADDR ADDR\n");
    return 2;
  }
  p.transports = strcmp (argv[1], "shm") == 0   ? FP_TRANSPORT_SHM
                 : strcmp (argv[1], "tcp") == 0 ? FP_TRANSPORT_TCP
                                                : FP_TRANSPORT_RDMA;
  memset (buf, 0x5a, sizeof buf);
  r = open_one (&v[0], &p, 1);
  if (r == 0)
    r = open_one (&v[1], &p, 2);
  if (r == 0)
    r = measure (v, fp_deadline_in_ms ((unsigned) atoi (argv[2]) * 1000));
  for (unsigned c = 0; c < 2; c++)
    if (v[c] != NULL)
      fp_volume_stop (v[c], true);
  return r < 0;
}
