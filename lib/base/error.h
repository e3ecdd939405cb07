/* SPDX-License-Identifier: BSD-3-Clause */
/* error.h - an error as one sentence for people.
 *
 * A function that can fail for a reason that a user must read takes a struct
 * fp_error *error as its last parameter.  It returns 0, or -errno and the
 * sentence.  Only a front end prints or logs the sentence.
 *
 * On success the text is left as it was, or is "", unless the comment of the
 * function says otherwise.
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
 * The arguments may point into error->text.
 */
int fp_fail (struct fp_error *error, int r, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));

/* Put "PREFIX: " before the text and return r. */
int fp_fail_in (struct fp_error *error, int r, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));

#endif /* FP_ERROR_H */
