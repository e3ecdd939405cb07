/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_util.c - functions that all layers of the benchmark use. */

#include <config.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/bench/bench.h"

volatile sig_atomic_t bench_stop;

const struct bench_row bench_rows[] = {
  { BENCH_READ, 4096, 1 },       { BENCH_WRITE, 4096, 1 },
  { BENCH_READ, 4096, 32 },      { BENCH_WRITE, 4096, 32 },
  { BENCH_READ, 128u << 10, 8 }, { BENCH_WRITE, 128u << 10, 8 },
};
_Static_assert(sizeof bench_rows / sizeof bench_rows[0] == BENCH_NR_ROWS,
               "rows");

const char *
bench_op_name (enum bench_op op)
{
  switch (op) {
  case BENCH_READ:
    return "read";
  case BENCH_WRITE:
    return "write";
  case BENCH_CAS:
    break;
  }
  return "cas";
}

int
bench_map (void **out, size_t size)
{
  void *p = mmap (NULL, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (p == MAP_FAILED)
    return -errno;
  /* Untouched pages are all one page of zeros, which fits any cache. */
  memset (p, 0x5a, size);
  *out = p;
  return 0;
}

void
bench_unmap (void *p, size_t size)
{
  if (p != NULL)
    munmap (p, size);
}

uint64_t
bench_stolen_ns (void)
{
  unsigned long long ran, waited = 0;
  FILE *fp = fopen ("/proc/thread-self/schedstat", "re");

  if (fp == NULL)
    return 0;
  if (fscanf (fp, "%llu %llu", &ran, &waited) != 2)
    waited = 0;
  fclose (fp);
  return waited;
}

void
bench_size_name (uint32_t size, char out[16])
{
  if (size % 1024 == 0)
    snprintf (out, 16, "%uk", size / 1024);
  else
    snprintf (out, 16, "%u", size);
}

void
bench_progress (const char *fmt, ...)
{
  static uint64_t last;
  bool tty = isatty (STDERR_FILENO) == 1;
  uint64_t now = fp_now_ns ();
  va_list ap;

  if (!tty && now - last < 2 * FP_NS_PER_S)
    return;
  last = now;
  if (tty)
    fputs ("\r\033[K", stderr);
  va_start (ap, fmt);
  vfprintf (stderr, fmt, ap);
  va_end (ap);
  if (!tty)
    fputc ('\n', stderr);
}

void
bench_progress_end (void)
{
  if (isatty (STDERR_FILENO) == 1)
    fputs ("\r\033[K", stderr);
}
