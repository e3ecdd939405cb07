/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.c - one line on stderr that says how far populating has come. */

#include <config.h>

#include <stdio.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "memserver/pool/progress.h"

#define GIB ((double) (1u << 30))

void
progress_start (struct progress *p, uint64_t total)
{
  *p = (struct progress) { .total = total, .start_ns = fp_now_ns () };
  p->tty = isatty (STDERR_FILENO) == 1;
  /* Quick work needs no line. */
  p->next_ns = p->start_ns + FP_NS_PER_S;
}

static void
show (struct progress *p, uint64_t now)
{
  double seconds = (double) (now - p->start_ns) / (double) FP_NS_PER_S;
  double rate = (double) p->done / seconds; /* at least 1 s has passed */
  uint64_t left = (uint64_t) ((double) (p->total - p->done) / (rate + 1));

  fprintf (stderr,
           "%sfarpage-memserver: populating: %3u %%, %.1f of %.1f GiB, "
           "%.2f GiB/s, %llu s left%s",
           p->tty ? "\r" : "", (unsigned) (p->done * 100 / p->total),
           (double) p->done / GIB, (double) p->total / GIB, rate / GIB,
           (unsigned long long) left, p->tty ? "\033[K" : "\n");
  fflush (stderr);
  p->shown = true;
  p->next_ns = now + (p->tty ? FP_NS_PER_S / 4 : 5 * FP_NS_PER_S);
}

void
progress_add (struct progress *p, uint64_t bytes)
{
  uint64_t now = fp_now_ns ();

  /* The tails of the slabs are not in the total. */
  p->done = FP_MIN (p->done + bytes, p->total);
  if (now >= p->next_ns)
    show (p, now);
}

void
progress_end (struct progress *p)
{
  if (!p->shown)
    return;
  show (p, fp_now_ns ());
  if (p->tty)
    fputc ('\n', stderr);
}
