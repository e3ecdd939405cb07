/* SPDX-License-Identifier: BSD-3-Clause */
/* tokens.h - what the data connections of a session prove with that they are
 * its: random numbers, each told once on the control connection (TOKEN), for
 * one lane, and taken once.
 *
 * What a data connection shows goes over the network in clear where there is
 * no TLS, and over RDMA always.  Who sees it has seen something that was used
 * up by the connection it came with; so no window of counters is needed
 * against replay (RFC 4303, 3.4.3), and no key from which proofs are made.
 * What was told and never shown here, as the connection did not arrive, is
 * worth nothing once the client asks for that lane again, as it does before
 * its next attempt, or after TOKENS_MS.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 * Memory:   of fixed size, in the session.
 */

#ifndef MEMSERVER_TOKENS_H
#define MEMSERVER_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "memserver/server.h"
#include "proto/messages.h"

/* Longer than a client waits for a connection, unless its timeout= is more
 * (600 s is allowed): whose connection takes that long is refused, and asks
 * for another token with its next attempt.
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

/* One for the next data connection of this lane; an earlier one that was not
 * shown yet is void.  -EBUSY: that many lanes have one; -errno: no random
 * bytes.
 */
int tokens_make (struct tokens *t, uint32_t lane, uint64_t now_ns,
                 uint8_t out[FP_TOKEN_SIZE]);

/* Is it the one of this lane?  If so, it is none any more.  In the same time
 * wherever it differs.
 */
bool tokens_take (struct tokens *t, uint32_t lane, uint64_t now_ns,
                  const uint8_t token[FP_TOKEN_SIZE]);

#endif /* MEMSERVER_TOKENS_H */
