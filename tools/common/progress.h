/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h - show on standard error how far a step is that takes longer than
 * two seconds. On a terminal this is a bar in the last line. Elsewhere it is
 * lines of text, at intervals that double, so that a journal does not fill up.
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
  int64_t next; /* earliest time of the next output: now_ms */
  int every_ms; /* between two lines of text */
};

struct progress_bar progress_begin (const char *command);

/* Show the progress if it is time for that. all: 0 if it is not known. */
void progress_show (struct progress_bar *p, uint64_t done, uint64_t all,
                    const char *fmt, ...)
    __attribute__ ((format (printf, 4, 5)));

/* Erase the bar from a terminal, so that a result or an error printed later
 * stands in a line of its own.
 */
void progress_end (struct progress_bar *p);

#endif /* FARPAGE_PROGRESS_H */
