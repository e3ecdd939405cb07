/* SPDX-License-Identifier: BSD-3-Clause */
/* say.c - see say.h. */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>

#include "memserver/say.h"

void
say (const char *fmt, ...)
{
  va_list args;

  fprintf (stderr, "farpage-memserver: ");
  va_start (args, fmt);
  vfprintf (stderr, fmt, args);
  va_end (args);
  fputc ('\n', stderr);
}
