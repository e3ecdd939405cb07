/* SPDX-License-Identifier: BSD-3-Clause */
/* colour.h - escape codes for colour on a terminal.  They are "" elsewhere,
 * and where NO_COLOR is set (no-color.org).
 */

#ifndef FARPAGE_COLOUR_H
#define FARPAGE_COLOUR_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum colour { COLOUR_NONE, COLOUR_RED, COLOUR_GREEN, COLOUR_YELLOW };

static inline bool
colour_wanted (FILE *fp)
{
  const char *no = getenv ("NO_COLOR"), *term = getenv ("TERM");

  return isatty (fileno (fp)) && !(no && *no) &&
         !(term && strcmp (term, "dumb") == 0);
}

static inline const char *
colour_on (FILE *fp, enum colour c)
{
  static const char *const codes[] = { "", "\033[31m", "\033[32m",
                                       "\033[33m" };

  return colour_wanted (fp) ? codes[c] : "";
}

static inline const char *
colour_off (FILE *fp, enum colour c)
{
  return c != COLOUR_NONE && colour_wanted (fp) ? "\033[0m" : "";
}

#endif /* FARPAGE_COLOUR_H */
