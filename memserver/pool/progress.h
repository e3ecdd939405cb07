/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h - one line on stderr that says how far populating has come.  On a
 * terminal the line is rewritten; else there is a new one every few seconds.
 *
 * Threads:  one; it writes to stderr and may wait there.
 */

#ifndef MEMSERVER_PROGRESS_H
#define MEMSERVER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
  uint64_t total; /* bytes */
  uint64_t done;
  uint64_t start_ns;
  uint64_t next_ns;
  bool tty;
  bool shown;
};

void progress_start (struct progress *p, uint64_t total);
void progress_add (struct progress *p, uint64_t bytes);
void progress_end (struct progress *p);

#endif /* MEMSERVER_PROGRESS_H */
