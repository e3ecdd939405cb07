/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_connect.h - the steps of rdma_cm that make a connection on the
 * active side: resolve, (the caller makes a queue pair), establish.  Each
 * step ends by a deadline.
 *
 * Errors:   0 or a negative errno value: -ETIMEDOUT; -ECONNREFUSED; -EACCES,
 *           -EBUSY, ... as the server rejected (verbs_cm.h); -EHOSTUNREACH;
 *           -ENODEV: no RDMA device leads there.
 * Limits:   soft-iWARP connects its TCP socket inside rdma_connect, in the
 *           kernel: a host that answers ARP but drops SYNs blocks that call
 *           past the deadline.  And it may not notice the first transfer
 *           before another one follows: its siw_accept (siw_cm.c, Linux 6.1)
 *           answers the client first and only then hangs siw_qp_llp_data_ready
 *           on the socket; what comes in between stays in the socket.  That
 *           looks like a silent server, and is treated like one: the
 *           transfer's timeout breaks the connection, and the next one is
 *           another throw of the dice.
 * Threads:  an id belongs to one thread at a time.
 */

#ifndef FP_VERBS_CONNECT_H
#define FP_VERBS_CONNECT_H

#include <stdint.h>

#include <rdma/rdma_cma.h>

#include "base/addr.h"
#include "proto/messages.h"
#include "transport/verbs_device.h"

/* Retry counts have three bits, and soft-RoCE takes 7 as for ever; with 0
 * a queue pair fails by itself under load.
 */
#define FP_VERBS_RETRIES 6

/* The exponent n of the ACK timeout (4.096 us * 2^n, IBA 9.7.6.1.3) so that
 * all tries together, (FP_VERBS_RETRIES + 1) * 4.096 us * 2^n, take at most
 * half of timeout_ms: the other half is for what comes after.  Never less
 * than 14 (67 ms a try, 0.47 s together): below that a busy software device
 * gives up by itself.  A card may take up to four times as long (same
 * place).
 */
uint8_t fp_verbs_ack_timeout (unsigned timeout_ms);

/* On success (*out)->verbs is the device, and a queue pair can be made. */
int fp_verbs_resolve (struct rdma_cm_id **out,
                      struct rdma_event_channel *channel,
                      const struct fp_addr *addr, unsigned timeout_ms,
                      uint64_t deadline_ns);

/* The queue pair of id is ready to send when this returned 0. */
int fp_verbs_establish (struct rdma_cm_id *id,
                        const struct fp_verbs_device *device,
                        const struct fp_data_hello *hello,
                        uint64_t deadline_ns);

#endif /* FP_VERBS_CONNECT_H */
