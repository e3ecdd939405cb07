/* SPDX-License-Identifier: BSD-3-Clause */
/* tokens.h - tokens, with which data connections prove that they belong to a
 * session.  A token is a random number.  It is sent once on the control
 * connection (TOKEN), for one lane, and accepted once.
 *
 * A data connection shows its token in clear without TLS, and always over
 * RDMA.  An eavesdropper sees only a token that this connection has used up.
 * So no window of counters is needed against replay (RFC 4303, 3.4.3), and no
 * key to make proofs from.  A token whose connection did not arrive is void
 * after TOKENS_MS.  It is void earlier if the client asks for that lane again,
 * as it does before its next attempt.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 * Memory:   of fixed size, in the session.
 */

#ifndef MEMSERVER_TOKENS_H
#define MEMSERVER_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"

#define MAX_DATA 128 /* data connections of one session */

/* Lifetime of a token, ms.  A client waits less for a connection, unless its
 * timeout= is longer (600 s is allowed).  A later connection is refused, and
 * the client asks for another token with its next attempt.
 */
#define TOKENS_MS 60000

struct tokens {
  unsigned nr;
  struct {
    uint64_t until_ns;
    uint32_t lane;
    uint8_t token[FP_TOKEN_SIZE];
  } at[MAX_DATA];
};

/* Make a token for the next data connection of this lane; an earlier one
 * becomes void.  -EBUSY: too many lanes have one.  -errno: no random bytes.
 */
int tokens_make (struct tokens *t, uint32_t lane, uint64_t now_ns,
                 uint8_t out[FP_TOKEN_SIZE]);

/* Return true if this is the token of the lane, and use it up.  The time does
 * not depend on where it differs.
 */
bool tokens_take (struct tokens *t, uint32_t lane, uint64_t now_ns,
                  const uint8_t token[FP_TOKEN_SIZE]);

#endif /* MEMSERVER_TOKENS_H */
