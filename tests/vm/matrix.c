/* SPDX-License-Identifier: BSD-3-Clause */
/* Multiply a matrix of this many MiB with a vector, again and again.  By rows
 * it sweeps through memory; transposed, by columns in strips, it jumps.
 * Integers are modulo 2^32, so that the sum printed is the same, whatever
 * memory they came back from.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define STRIP 1024 /* columns; 4 KiB of each row */

static void
by_rows (const uint32_t *a, const uint32_t *x, uint32_t *y, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    uint32_t sum = 0;

    for (size_t j = 0; j < n; j++)
      sum += a[i * n + j] * x[j];
    y[i] = sum;
  }
}

static void
by_columns (const uint32_t *a, const uint32_t *x, uint32_t *y, size_t n)
{
  for (size_t from = 0; from < n; from += STRIP) {
    size_t to = from + STRIP < n ? from + STRIP : n;

    for (size_t j = from; j < to; j++)
      y[j] = 0;
    for (size_t i = 0; i < n; i++)
      for (size_t j = from; j < to; j++)
        y[j] += a[i * n + j] * x[i];
  }
}

int
main (int argc, char **argv)
{
  unsigned long mib = argc == 3 ? strtoul (argv[1], NULL, 10) : 0;
  unsigned long rounds = argc == 3 ? strtoul (argv[2], NULL, 10) : 0;
  uint32_t *a, *x, *y, state = 1, sum = 0;
  size_t n = 0;

  if (mib < 1 || mib > 65536 || rounds < 1 || rounds > 1000) {
    fprintf (stderr, "Usage: matrix MIB ROUNDS\n");
    return 2;
  }
  while ((n + 1) * (n + 1) * sizeof *a <= (size_t) mib << 20)
    n++;
  a = malloc (n * n * sizeof *a);
  x = malloc (n * sizeof *x);
  y = malloc (n * sizeof *y);
  if (a == NULL || x == NULL || y == NULL) {
    fprintf (stderr, "matrix: no memory\n");
    return 1;
  }
  /* xorshift: numbers that do not compress. */
  for (size_t i = 0; i < n * n; i++) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    a[i] = state;
  }
  for (size_t i = 0; i < n; i++)
    x[i] = (uint32_t) i + 1;
  for (unsigned long r = 0; r < rounds; r++) {
    by_rows (a, x, y, n);
    by_columns (a, y, x, n);
  }
  for (size_t i = 0; i < n; i++)
    sum = sum * 31 + x[i];
  printf ("matrix of %zu x %zu, %lu rounds: %08x\n", n, n, rounds,
          (unsigned) sum);
  free (a);
  free (x);
  free (y);
  return 0;
}
