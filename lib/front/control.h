/* SPDX-License-Identifier: BSD-3-Clause */
/* control.h - requests to the plugin on its status socket.  A request is one
 * line:
 *
 *   status                      Send the status document.
 *   metrics                     Send a page for Prometheus (metrics.h).
 *   drain ADDR [BYTES]          Move everything that the server holds to the
 *                               others, at most BYTES per second.
 *   drain-cancel ADDR           Stop that; the server may be used again.
 *   add ADDR[,domain=NAME]      Add a server.
 *   remove ADDR                 Remove a server that holds nothing.
 *   check [repair] [BYTES]      Compare all copies, at most BYTES per second
 *                               of each; repair those that differ.
 *   check-cancel                Stop the check.
 *
 * A client that connects and sends nothing gets the status document, too:
 * early versions of the socket had no requests.  The answer to all requests
 * but status and metrics is one line of JSON: {"ok":true}, perhaps with a
 * "note":"...", or
 * {"ok":false,"error":"..."}.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  any.
 */

#ifndef FP_CONTROL_H
#define FP_CONTROL_H

#include "base/error.h"
#include "volume/volume.h"

#define FP_REQUEST_MAX (FP_ADDR_MAX + FP_NAME_MAX + 64) /* bytes of a line */

enum fp_request_kind {
  FP_REQUEST_STATUS,
  FP_REQUEST_METRICS,
  FP_REQUEST_DRAIN,
  FP_REQUEST_DRAIN_CANCEL,
  FP_REQUEST_ADD,
  FP_REQUEST_REMOVE,
  FP_REQUEST_CHECK,
  FP_REQUEST_CHECK_CANCEL,
};

struct fp_request {
  enum fp_request_kind kind;
  struct fp_addr addr;
  char domain[FP_NAME_MAX + 1]; /* ADD */
  uint64_t rate; /* bytes per second; DRAIN, CHECK; 0: not given */
  bool repair;   /* CHECK */
};

/* Parse a line without its newline.  A path in it must be absolute, because
 * the sender may be in another directory.  -EINVAL.
 */
int fp_request_parse (struct fp_request *q, const char *line,
                      struct fp_error *error);

/* Return the word of this kind of request. */
const char *fp_request_name (enum fp_request_kind kind);
/* Return true if the request names a server (addr). */
bool fp_request_has_server (enum fp_request_kind kind);

/* Carry out any request but STATUS and METRICS.  Set error->text to "" before.
 * If it is not "" after success, it is a note for the user.  One call at a
 * time.
 */
int fp_request_run (const struct fp_request *q, struct fp_volume *v,
                    struct fp_error *error);

#endif /* FP_CONTROL_H */
