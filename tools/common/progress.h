/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h - how far something is that takes longer than two seconds, on
 * standard error: on a terminal a bar in its last line, elsewhere a line of
 * text now and then.
 *
 *   struct progress_bar p = progress_begin ("drain");
 *   while (...) progress_show (&p, done, all, "%s", text);
 *   progress_end (&p);
 */

#ifndef FARPAGE_PROGRESS_H
#define FARPAGE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress_bar {
  const char *command;
  bool terminal, shown;
  int64_t next; /* when it may be shown again: now_ms */
};

struct progress_bar progress_begin (const char *command);

/* Shown if it is time for that; all may be 0: it is not known. */
void progress_show (struct progress_bar *p, uint64_t done, uint64_t all,
                    const char *fmt, ...)
    __attribute__ ((format (printf, 4, 5)));

/* Nothing is left of it on a terminal. What is printed afterwards, as a result
 * or an error, stands in a line of its own.
 */
void progress_end (struct progress_bar *p);

#endif /* FARPAGE_PROGRESS_H */
