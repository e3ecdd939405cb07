/* SPDX-License-Identifier: BSD-3-Clause */
/* join.h - fetch a key from a server with a join token.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  call while no other thread connects, because this replaces the
 *           TLS identity of the process for a while (fp_tls_set_client).
 */

#ifndef FP_JOIN_H
#define FP_JOIN_H

#include "base/addr.h"
#include "base/error.h"
#include "proto/messages.h"
#include "transport/tls/join_token.h"

/* Parse the join token in text.  If text is NULL, parse the first line of the
 * file at path; "-" is standard input.
 */
int fp_join_read (struct fp_join_token *out, const char *text,
                  const char *path, struct fp_error *error);

/* Fetch the key of the join token's user from the server at addr.  Wipe *out
 * after use.
 */
int fp_join (struct fp_join_reply *out, const struct fp_addr *addr,
             const struct fp_join_token *token, uint64_t deadline_ns,
             struct fp_error *error);

#endif /* FP_JOIN_H */
