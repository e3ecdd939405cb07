/* SPDX-License-Identifier: BSD-3-Clause */
/* duration.h - times with units: 500ms, 2s, 10min.
 *
 * Units:    microseconds.
 * Errors:   -EINVAL if the text is no time, -ERANGE if it does not fit.
 * Threads:  any.  No allocation.
 */

#ifndef FP_DURATION_H
#define FP_DURATION_H

#include <stdint.h>

#define FP_US UINT64_C (1)
#define FP_MS UINT64_C (1000)
#define FP_S UINT64_C (1000000)

/* Parse decimal digits and a unit, without a blank between them: us, ms, s,
 * min, h or d, a part of systemd.time(7).  A number alone counts multiples of
 * `unit` microseconds, for files from before there were units.
 */
int fp_parse_duration (const char *s, uint64_t unit, uint64_t *us);

#define FP_DURATION_STR_MAX 24 /* with the final NUL */

/* Format us in the largest unit that gives a whole number: "1500ms", "2s",
 * "0s".
 */
void fp_format_duration (uint64_t us, char out[FP_DURATION_STR_MAX]);

#endif /* FP_DURATION_H */
