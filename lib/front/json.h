/* SPDX-License-Identifier: BSD-3-Clause */
/* json.h - the answers of the status socket, as text.
 *
 * Threads:  any.
 * Memory:   allocates.
 */

#ifndef FP_JSON_H
#define FP_JSON_H

#include "volume/status_fields.h"

/* Return the status document, with a newline at its end, or NULL if out of
 * memory.  The caller frees it.
 */
char *fp_json_status (const struct fp_status_doc *s);

/* Return the answer to a request that returned r, or NULL if out of memory. If
 * r >= 0, reason is a note, or "".  Else reason is the error, or "" for that
 * of strerror(3).  The caller frees the answer.
 */
char *fp_json_result (int r, const char *reason);

#endif /* FP_JSON_H */
