/* SPDX-License-Identifier: BSD-3-Clause */
/* control.h - what is asked of the plugin on its status socket.  A request is
 * one line:
 *
 *   status                      the status document
 *   drain ADDR [BYTES]          move all that the server holds to the others,
 *                               at most so many bytes a second
 *   drain-cancel ADDR           not any more: it may be used again
 *   add ADDR[,domain=NAME]      one more server
 *   remove ADDR                 one less: it holds nothing
 *   check [repair] [BYTES]      compare all copies, and mend them, at most so
 *                               many bytes of each a second
 *   check-cancel                end that
 *
 * Who sends none, and waits, gets the status document, too: that is what the
 * socket did before there were requests.  The others are answered by one line
 * of JSON, {"ok":true}, perhaps with a "note":"...", or
 * {"ok":false,"error":"..."}.
 *
 * Errors:   0 or a negative errno value; why then has one sentence.
 * Threads:  any.
 */

#ifndef FP_CONTROL_H
#define FP_CONTROL_H

#include "volume/volume.h"

#define FP_REQUEST_MAX (FP_ADDR_MAX + FP_NAME_MAX + 64) /* bytes of a line */

enum fp_request_kind {
  FP_REQUEST_STATUS,
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
  uint64_t rate;                /* DRAIN, CHECK; 0: not said */
  bool repair;                  /* CHECK */
};

/* line has no newline, and who sent it may be in another directory: a path is
 * absolute.  -EINVAL.
 */
int fp_request_parse (struct fp_request *q, const char *line,
                      char why[FP_WHY_MAX]);

/* Its word. */
const char *fp_request_name (enum fp_request_kind kind);
/* Is it about one server, addr? */
bool fp_request_has_server (enum fp_request_kind kind);

/* Do it; not of STATUS.  One at a time. */
int fp_request_run (const struct fp_request *q, struct fp_volume *v,
                    char why[FP_WHY_MAX]);

#endif /* FP_CONTROL_H */
