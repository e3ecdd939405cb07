/* SPDX-License-Identifier: BSD-3-Clause */
/* top_screen.c - the lines of top_lines.c, live on a terminal. The terminal is
 * always restored at the end.
 */

#include <config.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <curses.h>

#include "tools/common/colour.h"
#include "tools/common/commands.h"
#include "tools/common/deadline.h"
#include "tools/top/top.h"

#define KEY_WAIT_MS 100 /* delay until a signal is seen */

static volatile sig_atomic_t ended;

static void
on_signal (int sig)
{
  ended = sig;
}

enum { PAIR_ALERT = 1 };

static const char keys[] = "q: quit   s: sort   arrows: scroll";

static void
draw (const struct top_lines *lines, unsigned first)
{
  unsigned rows = LINES > 1 ? (unsigned) LINES - 1 : 1;
  char where[64] = "", foot[128];

  erase ();
  for (unsigned i = first; i < lines->nr && i - first < rows; i++) {
    const struct top_line *l = &lines->line[i];
    chtype how = l->kind == TOP_HEADING ? A_REVERSE
                 : l->kind == TOP_ALERT ? A_BOLD | COLOR_PAIR (PAIR_ALERT)
                                        : A_NORMAL;

    attrset ((attr_t) how);
    (void) mvprintw ((int) (i - first), 0, "%-*.*s",
                     l->kind == TOP_HEADING ? COLS : 0, COLS, l->text);
    attrset (A_NORMAL);
  }
  if (lines->nr > rows)
    snprintf (where, sizeof where, "lines %u to %u of %u   ", first + 1,
              first + rows < lines->nr ? first + rows : lines->nr, lines->nr);
  snprintf (foot, sizeof foot, "%s%s", where, keys);
  /* Leave out the last corner: writing there would scroll. */
  (void) mvprintw (LINES - 1, 0, "%.*s", COLS - 1, foot);
  refresh ();
}

/* Return true if the terminal is gone. */
static bool
hung_up (void)
{
  struct pollfd pfd = { .fd = STDIN_FILENO, .events = 0 };

  return poll (&pfd, 1, 0) == 1 &&
         pfd.revents & (POLLHUP | POLLERR | POLLNVAL);
}

struct view {
  enum top_sort sort;
  unsigned first;
};

/* Handle a key. Return false at the end. */
static bool
key (struct view *v, int c, unsigned nr)
{
  unsigned page = LINES > 2 ? (unsigned) LINES - 2 : 1;

  switch (c) {
  case 'q':
  case 'Q':
    return false;
  case 's':
  case KEY_RIGHT:
    v->sort = (v->sort + 1) % TOP_SORTS;
    break;
  case KEY_LEFT:
    v->sort = (v->sort + TOP_SORTS - 1) % TOP_SORTS;
    break;
  case KEY_DOWN:
    v->first++;
    break;
  case KEY_UP:
    v->first -= v->first > 0;
    break;
  case KEY_NPAGE:
    v->first += page;
    break;
  case KEY_PPAGE:
    v->first -= v->first < page ? v->first : page;
    break;
  case KEY_HOME:
    v->first = 0;
    break;
  }
  /* Scroll until the last line is visible, and no further. */
  if (nr <= page + 1)
    v->first = 0;
  else if (v->first > nr - page - 1)
    v->first = nr - page - 1;
  return true;
}

static int
loop (struct top *t, int (*renew) (struct top *t), unsigned count)
{
  static struct top_lines lines;
  struct view v = { TOP_BY_NAME, 0 };
  unsigned looks = 0;
  int64_t next = 0;
  int r, c;

  for (;;) {
    if (now_ms () >= next) {
      if (count > 0 && looks++ == count)
        return 0;
      r = renew (t);
      if (r < 0)
        return r;
      next = now_ms () + t->interval_ms;
      c = KEY_RESIZE;
    }
    else
      c = getch ();
    if (ended || hung_up ())
      return 0;
    if (c == ERR)
      continue;
    if (!key (&v, c, lines.nr))
      return 0;
    r = top_lines (t, v.sort, &lines);
    if (r < 0)
      return r;
    draw (&lines, v.first);
  }
}

int
top_screen (struct top *t, int (*renew) (struct top *t), unsigned count)
{
  struct sigaction sa = { .sa_handler = on_signal };
  SCREEN *screen;
  int r;

  sigaction (SIGINT, &sa, NULL);
  sigaction (SIGTERM, &sa, NULL);
  sigaction (SIGHUP, &sa, NULL);
  sigaction (SIGQUIT, &sa, NULL);
  /* initscr would end the program on an error. */
  screen = newterm (NULL, stdout, stdin);
  if (!screen)
    return say_error ("top: cannot use this terminal (TERM=%s): use --batch",
                      getenv ("TERM") ? getenv ("TERM") : "");
  cbreak ();
  noecho ();
  keypad (stdscr, TRUE);
  curs_set (0);
  timeout (KEY_WAIT_MS);
  if (has_colors () && colour_wanted (stdout)) {
    start_color ();
    use_default_colors ();
    init_pair (PAIR_ALERT, COLOR_RED, -1);
  }
  r = loop (t, renew, count);
  endwin ();
  delscreen (screen);
  if (r < 0)
    return say_error ("top: out of memory or threads");
  /* Die of these signals, so that the sender sees it. */
  if (ended == SIGTERM || ended == SIGHUP) {
    signal (ended, SIG_DFL);
    raise (ended);
  }
  return EXIT_SUCCESS;
}
