/* SPDX-License-Identifier: BSD-3-Clause */
/* silence.c - see silence.h. */

#include <config.h>

#include "base/checked.h"
#include "tools/attach/silence.h"

int64_t
silence_look (struct silence *s, int64_t now_ms, int64_t most_ms,
              uint64_t answered, bool waits)
{
  if (s->waits && waits && answered == s->answered)
    s->waited_ms += FP_MIN (now_ms - s->at_ms, most_ms);
  else
    s->waited_ms = 0;
  s->answered = answered;
  s->at_ms = now_ms;
  s->waits = waits;
  return s->waited_ms;
}

void
silence_end (struct silence *s)
{
  s->waits = false;
}
