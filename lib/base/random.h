/* SPDX-License-Identifier: BSD-3-Clause */
/* random.h - unpredictable bytes.
 *
 * Errors:   -errno of getrandom(2).
 * Threads:  any.  No allocation.
 */

#ifndef FP_RANDOM_H
#define FP_RANDOM_H

#include <stddef.h>

/* Fill all of buf.  After an error, its content must not be used. */
int fp_random (void *buf, size_t len);

#endif /* FP_RANDOM_H */
