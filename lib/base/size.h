/* SPDX-License-Identifier: BSD-3-Clause */
/* size.h - sizes as people write them.
 *
 * Units:    bytes.
 * Errors:   -EINVAL if the text is no size, -ERANGE if it is over INT64_MAX
 *           (the most that nbdkit can serve).
 * Threads:  any.  No allocation.
 */

#ifndef FP_SIZE_H
#define FP_SIZE_H

#include <stdint.h>

/* Read s as nbdkit_parse_size does, so that a size means the same to
 * farpage-memserver and to the plugin.  After decimal digits at most one
 * letter follows: b k m g t p e (either case, powers of 1024) or s (sectors of
 * 512).  On an error *why, if why is not NULL, is a static string.
 */
int fp_parse_size (const char *s, uint64_t *out, const char **why);

#define FP_SIZE_STR_MAX 24 /* with the final NUL */

/* Write size in the largest unit that leaves at least 1, with at most one
 * digit after the point, rounded down: "512B", "8G", "1.5G".
 */
void fp_format_size (uint64_t size, char out[FP_SIZE_STR_MAX]);

/* Write size so that fp_parse_size reads it back, in the largest unit that
 * divides it: "1536M", "8G".
 */
void fp_format_size_exact (uint64_t size, char out[FP_SIZE_STR_MAX]);

#endif /* FP_SIZE_H */
