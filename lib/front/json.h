/* SPDX-License-Identifier: BSD-3-Clause */
/* json.h - the status document.  Its field names are stable, because `farpage
 * status` and users' scripts read them; new ones may be added.
 *
 * Threads:  any.
 * Memory:   allocates.
 */

#ifndef FP_JSON_H
#define FP_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "volume/volume.h"

/* A change that was requested and is not done yet. */
struct fp_change {
  const char *what;           /* word of the request */
  char addr[FP_ADDR_MAX + 1]; /* or "" */
  uint64_t ns;                /* time since the request */
};

/* Return the document, with a newline at its end, or NULL if out of memory.
 * The caller frees it.
 */
char *fp_json_status (const struct fp_volume_status *v,
                      const struct fp_server_status *servers,
                      const struct fp_change *changes, unsigned nr_changes,
                      uint64_t locked_bytes, bool io_flusher);

/* Return the answer to a request: {"ok":true}, with the reason as "note"
 * unless it is "", or the error.  NULL: out of memory.  The caller frees it.
 */
char *fp_json_result (int r, const char *reason);

#endif /* FP_JSON_H */
