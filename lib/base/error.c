/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c - an error as one sentence for people. */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

int
fp_fail (struct fp_error *error, int r, const char *fmt, ...)
{
  struct fp_error new;
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (new.text, sizeof new.text, fmt, ap);
  va_end (ap);
  strcpy (error->text, new.text);
  return r;
}

int
fp_fail_in (struct fp_error *error, int r, const char *fmt, ...)
{
  struct fp_error prefix;
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (prefix.text, sizeof prefix.text, fmt, ap);
  va_end (ap);
  return fp_fail (error, r, "%s: %s", prefix.text, error->text);
}
