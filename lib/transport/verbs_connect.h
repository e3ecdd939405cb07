/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_connect.h - the steps of rdma_cm that make a connection on the active
 * side: resolve, (the caller makes a queue pair), establish.  Each step ends
 * by a deadline.
 *
 * Errors:   0 or a negative errno value.  -ETIMEDOUT, -ECONNREFUSED,
 *           -EHOSTUNREACH.  -EACCES, -EBUSY and others: rejected by the server
 *           (verbs_cm.h).  -ENODEV: no RDMA device leads there.
 * Limits:   soft-iWARP connects its TCP socket inside rdma_connect, in the
 *           kernel.  If a host answers ARP but drops SYNs, that call blocks
 *           past the deadline.
 *
 *           soft-iWARP may also leave the first transfer on the socket until
 *           another one follows.  Its siw_accept (siw_cm.c, Linux 6.1) replies
 *           to the client before it sets siw_qp_llp_data_ready on the socket.
 *           Data that arrives in between stays there.  That looks like a
 *           silent server: the transfer's timeout breaks the connection, and
 *           the next connection may have better luck.
 * Threads:  an id belongs to one thread at a time.
 */

#ifndef FP_VERBS_CONNECT_H
#define FP_VERBS_CONNECT_H

#include <stdint.h>

#include <rdma/rdma_cma.h>

#include "base/addr.h"
#include "proto/messages.h"
#include "transport/verbs_device.h"

/* Retry count.  The field has three bits, and soft-RoCE takes 7 as unlimited.
 * With 0 a queue pair fails by itself under load.
 */
#define FP_VERBS_RETRIES 6

/* Return the ACK timeout exponent n for timeout_ms: a try takes 4.096 us * 2^n
 * (IBA 9.7.6.1.3).  All FP_VERBS_RETRIES + 1 tries together take at most half
 * of timeout_ms; the other half is for later steps.  n is at least 14 (67 ms a
 * try, 0.47 s together), because with less a busy software device fails by
 * itself.  A card may take up to four times as long (same section).
 */
uint8_t fp_verbs_ack_timeout (unsigned timeout_ms);

/* Resolve addr.  On success (*out)->verbs is the device, and a queue pair can
 * be made.
 */
int fp_verbs_resolve (struct rdma_cm_id **out,
                      struct rdma_event_channel *channel,
                      const struct fp_addr *addr, unsigned timeout_ms,
                      uint64_t deadline_ns);

/* Connect id.  On success its queue pair is ready to send. */
int fp_verbs_establish (struct rdma_cm_id *id,
                        const struct fp_verbs_device *device,
                        const struct fp_data_hello *hello,
                        uint64_t deadline_ns);

#endif /* FP_VERBS_CONNECT_H */
