/* SPDX-License-Identifier: BSD-3-Clause */
/* why.h - an error as one sentence for people.
 *
 * Functions of the farpage command return 0 or a negative errno value and
 * leave the sentence in the caller's struct why; only commands print it.
 */

#ifndef FARPAGE_WHY_H
#define FARPAGE_WHY_H

struct why {
  char text[2048];
};

/* Set the text, or replace it by "PREFIX: TEXT". Both return err, so that
 * 'return why_set (...)' ends a function.
 */
int why_set (struct why *w, int err, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));
int why_prefix (struct why *w, int err, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));

#endif /* FARPAGE_WHY_H */
