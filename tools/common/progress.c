/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/checked.h"
#include "tools/common/deadline.h"
#include "tools/common/progress.h"

#define QUIET_MS 2000 /* nothing is shown before that */
#define BAR_EVERY_MS 100
#define TEXT_EVERY_MS 2000 /* doubles with each line */
#define TEXT_EVERY_MAX_MS 60000
#define BAR 30 /* characters */

struct progress_bar
progress_begin (const char *command)
{
  return (struct progress_bar) { .command = command,
                                 .terminal = isatty (STDERR_FILENO) == 1,
                                 .next = now_ms () + QUIET_MS,
                                 .every_ms = TEXT_EVERY_MS };
}

/* Return the width of the terminal.  A line that is wrapped could not be
 * erased.
 */
static int
columns (void)
{
  struct winsize size;

  return ioctl (STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
             ? size.ws_col
             : 80;
}

static void
draw (uint64_t done, uint64_t all, const char *text)
{
  char bar[BAR + 4] = "";
  int room = columns () - 1, used = 0;

  if (all > 0 && room > BAR + 16) {
    for (int i = 0; i < BAR; i++)
      bar[i + 1] = (double) i / BAR < (double) done / (double) all ? '#' : '.';
    bar[0] = '[';
    bar[BAR + 1] = ']';
    bar[BAR + 2] = ' ';
    used = BAR + 3;
  }
  fprintf (stderr, "\r\033[K%s%.*s", bar, room - used, text);
  fflush (stderr);
}

void
progress_show (struct progress_bar *p, uint64_t done, uint64_t all,
               const char *fmt, ...)
{
  char text[512];
  va_list ap;

  if (now_ms () < p->next)
    return;
  va_start (ap, fmt);
  vsnprintf (text, sizeof text, fmt, ap);
  va_end (ap);
  if (p->terminal)
    draw (done, all, text);
  else
    fprintf (stderr, "farpage: %s: %s\n", p->command, text);
  p->shown = true;
  p->next = now_ms () + (p->terminal ? BAR_EVERY_MS : p->every_ms);
  p->every_ms = FP_MIN (2 * p->every_ms, TEXT_EVERY_MAX_MS);
}

void
progress_end (struct progress_bar *p)
{
  if (p->terminal && p->shown)
    fputs ("\r\033[K", stderr);
  p->shown = false;
}
