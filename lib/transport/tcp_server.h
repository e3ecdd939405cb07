/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_server.h - the passive side of the tcp data transport: answer the
 * READ and WRITE frames of one connection until it ends.
 *
 * Threads:  fp_tcp_serve runs in a thread of its own; shutdown(2) of the
 *           socket from any thread ends it.
 * Memory:   it does not allocate, but for TLS (tls.h).
 */

#ifndef FP_TCP_SERVER_H
#define FP_TCP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/tls.h"

struct fp_tcp_memory {
  /* The address of [raddr, raddr + length) under rkey, held until put, so
   * that nobody scrubs or lends it meanwhile; NULL: not granted.  Called
   * for each frame, so it must be quick.
   */
  void *(*get) (void *ctx, uint64_t rkey, uint64_t raddr, uint32_t length,
                bool write, void **hold);
  void (*put) (void *ctx, void *hold);
  void *ctx;
};

/* Serve fd until the peer hangs up, errs, or stays silent in the middle of a
 * frame for stall_ms.  A frame that is refused is answered with its
 * status and ends nothing; one that is malformed ends the connection.
 * Returns 0 at an orderly end, else -errno.  Does not close fd.  tls: what it
 * is in, that stays the caller's; NULL: in clear.
 */
int fp_tcp_serve (int fd, struct fp_tls_session *tls,
                  const struct fp_tcp_memory *memory, unsigned stall_ms);

#endif /* FP_TCP_SERVER_H */
