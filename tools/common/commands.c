/* SPDX-License-Identifier: BSD-3-Clause */
/* commands.c - functions that all commands share: print errors, parse common
 * options and numbers.
 */

#include <config.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "conf/duration.h"
#include "tools/common/commands.h"

int
say_error (const char *fmt, ...)
{
  va_list ap;

  fputs ("farpage: ", stderr);
  va_start (ap, fmt);
  vfprintf (stderr, fmt, ap);
  va_end (ap);
  fputc ('\n', stderr);
  return EXIT_FAILURE;
}

int
say_usage (const char *command, const char *fmt, ...)
{
  va_list ap;

  fprintf (stderr, "farpage: %s: ", command);
  va_start (ap, fmt);
  vfprintf (stderr, fmt, ap);
  va_end (ap);
  fprintf (stderr, "\nTry 'farpage %s --help'.\n", command);
  return EXIT_USAGE;
}

void
say_version (void)
{
  printf ("farpage %s\n", PACKAGE_VERSION);
}

bool
common_option (int c, const char *command, const char *help, int *status)
{
  switch (c) {
  case 'h':
    fputs (help, stdout);
    *status = EXIT_SUCCESS;
    return true;
  case 'V':
    say_version ();
    *status = EXIT_SUCCESS;
    return true;
  case '?':
    fprintf (stderr, "Try 'farpage %s --help'.\n", command);
    *status = EXIT_USAGE;
    return true;
  }
  return false;
}

bool
parse_seconds (const char *s, long min, long max, long *out)
{
  uint64_t us;

  if (fp_parse_duration (s, FP_S, &us) < 0 || us % FP_S != 0 ||
      us / FP_S < (uint64_t) min || us / FP_S > (uint64_t) max)
    return false;
  *out = (long) (us / FP_S);
  return true;
}

bool
parse_number (const char *s, long min, long max, long *out)
{
  char *end;

  errno = 0;
  *out = strtol (s, &end, 10);
  return errno == 0 && end != s && *end == '\0' && *out >= min && *out <= max;
}
