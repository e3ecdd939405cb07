/* SPDX-License-Identifier: BSD-3-Clause */
/* uuid.h - UUIDs of volumes, clients and servers.
 *
 * Errors:   as each function says.
 * Threads:  any.  No allocation.
 */

#ifndef FP_UUID_H
#define FP_UUID_H

#include <stdbool.h>
#include <stdint.h>

struct fp_uuid {
  uint8_t bytes[16];
};

#define FP_UUID_STR_MAX 37 /* with the final NUL */

/* Generate a random UUID (version 4).  Return -errno if there are no random
 * bytes.
 */
int fp_uuid_generate (struct fp_uuid *out);

/* Parse exactly the form that fp_uuid_format prints, in either case.  Return 0
 * or -EINVAL.
 */
int fp_uuid_parse (struct fp_uuid *out, const char *s);

/* Print 01234567-89ab-cdef-0123-456789abcdef. */
void fp_uuid_format (const struct fp_uuid *uuid, char out[FP_UUID_STR_MAX]);

bool fp_uuid_eq (const struct fp_uuid *a, const struct fp_uuid *b);

/* Return true if uuid is all zero, which means none. */
bool fp_uuid_is_nil (const struct fp_uuid *uuid);

#endif /* FP_UUID_H */
