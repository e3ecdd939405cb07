/* SPDX-License-Identifier: BSD-3-Clause */
/* pages.h - ask the processes of several devices for their pages of metrics,
 * at the same time.  A process that hangs delays the others by ms at most.
 *
 * Units:    milliseconds.
 * Errors:   a negative errno value and the sentence in each page's error.
 * Memory:   allocates the texts; pages_free frees them.
 */

#ifndef FARPAGE_PAGES_H
#define FARPAGE_PAGES_H

#include <stddef.h>

#include "base/error.h"

struct page {
  const char *path; /* status socket; the caller's string */
  char *text;       /* NULL: see error */
  size_t used;
  int fd; /* socket, while the page is read; else -1 */
  struct fp_error error;
};

/* Get the text of each page whose path is set, within ms in all. */
void pages_ask (struct page *pages, unsigned nr, int ms);
void pages_free (struct page *pages, unsigned nr);

#endif /* FARPAGE_PAGES_H */
