/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_server.h - the passive side of the tcp data transport: answer the READ
 * and WRITE frames of one connection until it ends.
 *
 * Threads:  fp_tcp_serve runs in a thread of its own.  To end it, call
 *           shutdown(2) on the socket from any thread.
 * Memory:   nothing is allocated, except by TLS (tls.h).
 */

#ifndef FP_TCP_SERVER_H
#define FP_TCP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/tls/tls.h"

struct fp_tcp_memory {
  /* Return the address of [raddr, raddr + length) under rkey, or NULL if it is
   * not granted.  Until put, the memory is held: it is neither scrubbed nor
   * lent.  Called for each frame, so it must be quick.
   */
  void *(*get) (void *ctx, uint64_t rkey, uint64_t raddr, uint32_t length,
                bool write, void **hold);
  void (*put) (void *ctx, void *hold);
  void *ctx;
};

/* Serve fd until the client hangs up, sends a malformed frame, or is silent
 * for stall_ms in the middle of a frame.  A frame that is refused is answered
 * with its status, and serving goes on.  Return 0 after an orderly end, else
 * -errno.  Does not close fd.  tls is the TLS session on fd, which stays the
 * caller's; NULL: no encryption.
 */
int fp_tcp_serve (int fd, struct fp_tls_session *tls,
                  const struct fp_tcp_memory *memory, unsigned stall_ms);

#endif /* FP_TCP_SERVER_H */
