/* SPDX-License-Identifier: BSD-3-Clause */
/* copies-lat.c - measure what a second copy costs the engine, without NBD.
 * Random reads and writes of 4 KiB and depth 1 go to two volumes on the same
 * servers.  One has 1 copy, the other 2, and they take turns of some
 * milliseconds.
 *
 *   copies-lat shm|tcp|rdma SECONDS ADDR ADDR [ADDR PID]
 *
 * For reads and for writes, print in us the median of the turns' medians with
 * 1 copy and with 2.  Then print the median of the turns' ratios.  With the
 * address and the process of a third server, that server is killed.  Then a
 * volume of 2 copies, on the first server and on that one, is measured, too.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "volume/volume.h"

#define SIZE (64u << 20)
#define IO 4096u
#define FILL (1u << 20)
#define TURN_NS (20 * FP_NS_PER_MS)
#define MAX_TURNS 100000u
#define MAX_OPS 100000u
#define VOLUMES 3 /* 1 copy, 2 copies, 2 with one gone */

static double took[MAX_OPS];
static double turns[2][VOLUMES][MAX_TURNS], ratios[2][MAX_TURNS];
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
fill (struct fp_volume *v)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r = 0;

  for (uint64_t at = 0; r == 0 && at < SIZE; at += FILL)
    r = fp_lane_write (lane, buf, FILL, at);
  fp_volume_lane_put (lane);
  return r;
}

static int
open_one (struct fp_volume **v, const struct fp_volume_params *base,
          unsigned copies, const char *name)
{
  struct fp_volume_params p = *base;
  struct fp_error error = { .text = "" };
  int r;

  p.copies = copies;
  snprintf (p.name, sizeof p.name, "copies-lat-%s", name);
  r = fp_volume_probe (&p, &error);
  if (r == 0)
    r = fp_volume_start (v, &p, &error);
  if (r < 0) {
    fprintf (stderr, "copies-lat: %s\n", error.text);
    return r;
  }
  /* Reads of extents that were never written need no copy. */
  return fill (*v);
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

/* Return the median time of a request in us, or < 0 on an error.  A median is
 * not affected by other users of the CPU.
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
measure (struct fp_volume **v, unsigned nr, uint64_t deadline)
{
  static const char *const names[] = { "randread", "randwrite" };
  struct fp_lane *lanes[VOLUMES];
  unsigned n = 0;
  int r = 0;

  for (unsigned c = 0; c < nr; c++)
    lanes[c] = fp_volume_lane_get (v[c]);
  for (; r == 0 && n < MAX_TURNS && !fp_deadline_passed (deadline); n++)
    for (unsigned w = 0; r == 0 && w < 2; w++) {
      for (unsigned k = 0; k < nr; k++) {
        unsigned c = (n + k) % nr; /* the first one changes with each turn */

        turns[w][c][n] = turn (lanes[c], w == 1);
        if (turns[w][c][n] < 0)
          r = -1;
      }
      ratios[w][n] = turns[w][1][n] / turns[w][0][n];
    }
  for (unsigned w = 0; r == 0 && n > 0 && w < 2; w++) {
    printf ("%s %.2f %.2f %.2f", names[w], median (turns[w][0], n),
            median (turns[w][1], n), median (ratios[w], n));
    if (nr > 2)
      printf (" %.2f", median (turns[w][2], n));
    putchar ('\n');
  }
  for (unsigned c = 0; c < nr; c++)
    fp_volume_lane_put (lanes[c]);
  return r;
}

/* Open a volume with two copies, and kill its second server. */
static int
open_degraded (struct fp_volume **v, const struct fp_volume_params *base,
               const char *addr, const char *pid)
{
  struct fp_volume_params p = *base;
  uint64_t end = fp_deadline_in_ms (20000);
  struct fp_volume_status s;
  const char *why;
  int r;

  if (fp_addr_parse (&p.servers[1], addr, &why) < 0 || atoi (pid) <= 1) {
    fprintf (stderr, "copies-lat: no address, or no process\n");
    return -1;
  }
  r = open_one (v, &p, 2, pid); /* a name of its own */
  if (r == 0)
    r = kill (atoi (pid), SIGKILL);
  /* Extents become degraded one by one. */
  while (r == 0 && !fp_deadline_passed (end)) {
    r = fill (*v);
    fp_volume_status (*v, &s);
    if (r == 0 && s.extents_degraded == s.extents)
      return 0;
  }
  if (r < 0)
    return r;
  fprintf (stderr, "copies-lat: it has two copies still\n");
  return -1;
}

int
main (int argc, char *argv[])
{
  struct fp_volume_params p;
  struct fp_volume *v[VOLUMES] = { NULL };
  const char *why;
  unsigned nr = 2;
  int r;

  fp_volume_params_init (&p);
  p.nr_servers = 2;
  p.size = SIZE;
  if (argc < 5 || fp_addr_parse (&p.servers[0], argv[3], &why) < 0 ||
      fp_addr_parse (&p.servers[1], argv[4], &why) < 0) {
    fprintf (stderr, "usage: copies-lat shm|tcp|rdma SECONDS ADDR ADDR "
                     "[ADDR PID]\n");
    return 2;
  }
  p.transports = strcmp (argv[1], "shm") == 0   ? FP_TRANSPORT_SHM
                 : strcmp (argv[1], "tcp") == 0 ? FP_TRANSPORT_TCP
                                                : FP_TRANSPORT_RDMA;
  memset (buf, 0x5a, sizeof buf);
  r = open_one (&v[0], &p, 1, "1");
  if (r == 0)
    r = open_one (&v[1], &p, 2, "2");
  if (r == 0 && argc > 6) {
    nr = VOLUMES;
    r = open_degraded (&v[2], &p, argv[5], argv[6]);
  }
  if (r == 0)
    r = measure (v, nr, fp_deadline_in_ms ((unsigned) atoi (argv[2]) * 1000));
  for (unsigned c = 0; c < nr; c++)
    if (v[c] != NULL)
      fp_volume_stop (v[c], true);
  return r < 0;
}
