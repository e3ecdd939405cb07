/* SPDX-License-Identifier: BSD-3-Clause */
/* json.h - the status document.  Names in it are stable: `farpage status`
 * and other people's scripts read them; new ones may be added.
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

/* What somebody has asked for, and is not done yet. */
struct fp_change {
  const char *what;           /* as in the request */
  char addr[FP_ADDR_MAX + 1]; /* or "" */
  uint64_t ns;                /* since then */
};

/* The document, with a newline at its end; free() it.  NULL: no memory. */
char *fp_json_status (const struct fp_volume_status *v,
                      const struct fp_server_status *servers,
                      const struct fp_change *changes, unsigned nr_changes,
                      uint64_t locked_bytes, bool io_flusher);

/* The answer to a request: {"ok":true}, or what went wrong.  Likewise. */
char *fp_json_result (int r, const char *why);

#endif /* FP_JSON_H */
