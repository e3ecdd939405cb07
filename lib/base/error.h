/* SPDX-License-Identifier: BSD-3-Clause */
/* error.h - an error as one sentence for people.
 *
 * If a function can fail for a reason that a user must read, its last
 * parameter is a struct fp_error *error.  On failure it returns -errno, and
 * error->text is one sentence.  The text may be left as it was if strerror(3)
 * says enough, so callers that print it set it to "" first.  Functions of lib/
 * neither print nor log it: their callers do.
 *
 * After success the text means nothing, unless the comment of the function
 * says what it is.
 *
 * A function whose sentences are all constants may return one in a
 * const char **why instead.
 *
 * Threads:  one thread at a time for each struct fp_error.
 * Memory:   no allocation.  A longer text is cut to FP_ERROR_MAX - 1 bytes.
 */

#ifndef FP_ERROR_H
#define FP_ERROR_H

#define FP_ERROR_MAX 1024

struct fp_error {
  char text[FP_ERROR_MAX];
};

/* Set the text and return r, so that 'return fp_fail (...)' ends a function.
 * If r is 0, the text is a note.  The arguments may point into error->text.
 */
int fp_fail (struct fp_error *error, int r, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));

/* Put the formatted text and ": " before the present text, and return r.  The
 * arguments may point into error->text.
 */
int fp_fail_in (struct fp_error *error, int r, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));

#endif /* FP_ERROR_H */
