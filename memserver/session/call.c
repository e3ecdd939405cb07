/* SPDX-License-Identifier: BSD-3-Clause */
/* call.c - a control message that is being answered. */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>

#include "memserver/session/call.h"

int
ctl_fail (struct call *call, int err, const char *fmt, ...)
{
  va_list args;

  va_start (args, fmt);
  vsnprintf (call->why, sizeof call->why, fmt, args);
  va_end (args);
  return err;
}
