/* SPDX-License-Identifier: BSD-3-Clause */
/* random.h - bytes that nobody can guess.
 *
 * Errors:   -errno of getrandom(2).
 * Threads:  any.  No allocation.
 */

#ifndef FP_RANDOM_H
#define FP_RANDOM_H

#include <stddef.h>

/* Fill all of buf.  On an error what is in it is not to be used. */
int fp_random (void *buf, size_t len);

#endif /* FP_RANDOM_H */
