/* SPDX-License-Identifier: BSD-3-Clause */
/* silence.h - for how long the requests of a device have waited for an answer.
 *
 * A program looks now and then.  Time counts only between two looks that both
 * found requests waiting.  So a request that came just before a look has not
 * waited since the last one.
 *
 * Units:    milliseconds of any clock that does not go back.
 * Threads:  one at a time.
 * Memory:   none; {0} is a start.
 */

#ifndef FARPAGE_SILENCE_H
#define FARPAGE_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

struct silence {
  uint64_t answered; /* requests, at the last look */
  int64_t at_ms;     /* when the last look was */
  int64_t waited_ms;
  bool waits; /* something waited at the last look */
};

/* Look: so many requests were answered until now, and some wait or not. Return
 * for how long nothing was answered.  If this process was stopped, at most
 * most_ms of the time since the last look count.
 */
int64_t silence_look (struct silence *s, int64_t now_ms, int64_t most_ms,
                      uint64_t answered, bool waits);

/* Forget what was: the next look is the first. */
void silence_end (struct silence *s);

#endif /* FARPAGE_SILENCE_H */
