/* SPDX-License-Identifier: BSD-3-Clause */
/* why.c - an error as one sentence for people. */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>

#include "tools/common/why.h"

int
why_set (struct why *w, int err, const char *fmt, ...)
{
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (w->text, sizeof w->text, fmt, ap);
  va_end (ap);
  return err;
}

int
why_prefix (struct why *w, int err, const char *fmt, ...)
{
  struct why old = *w;
  va_list ap;
  size_t used;

  va_start (ap, fmt);
  vsnprintf (w->text, sizeof w->text, fmt, ap);
  va_end (ap);
  for (used = 0; w->text[used]; used++)
    ;
  snprintf (w->text + used, sizeof w->text - used, ": %s", old.text);
  return err;
}
