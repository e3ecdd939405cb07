/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_stream.h - requests and replies of the tcp transport, active side, on
 * one socket.  Many are in flight and are answered in order.  tcp_client.c
 * assigns ops to streams and handles broken connections.
 *
 *   to_send -> sendmsg (send) -> to_answer -> recvmsg (receive) -> done
 *
 * Many requests go into one sendmsg, with payloads straight from op->local.
 * Replies to small READs come through a buffer, as many as fit in one call.  A
 * large READ is received straight into op->local, together with at most the
 * header of the next reply.
 *
 * Errors:   0 or a negative errno value.  After any error but -EAGAIN the
 *           stream must not be used any more.
 * Threads:  one at a time.
 * Memory:   nothing is allocated, except by TLS (tls.h).  Streams of one
 *           thread share a buffer: between two calls a stream keeps only a
 *           partial header, in memory of its own.
 */

#ifndef FP_TCP_STREAM_H
#define FP_TCP_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"
#include "transport/op_queue.h"
#include "transport/tls/tls.h"

#define FP_TCP_STREAM_BUFFER 65536

struct fp_tcp_stream {
  int fd;                     /* the caller's */
  struct fp_tls_session *tls; /* on fd, the caller's; NULL: no encryption */

  struct fp_op_list to_send; /* the caller adds ops with cookie set */
  size_t sent;               /* bytes sent of to_send.head's frame */
  struct fp_op_list to_answer;
  bool in_payload; /* true: payload of to_answer.head; else header */
  size_t received; /* bytes received of that payload */

  uint8_t *buf;    /* FP_TCP_STREAM_BUFFER bytes, the caller's */
  size_t pos, end; /* received and not yet handled: buf[pos, end) */
  uint8_t rest[FP_DATA_REPLY_SIZE]; /* partial header kept between calls */
};

/* Initialize s, which must be all zeros. */
void fp_tcp_stream_init (struct fp_tcp_stream *s, int fd, uint8_t *buf);

/* Send as much of to_send as the socket takes.  -EAGAIN: it is full. */
int fp_tcp_stream_send (struct fp_tcp_stream *s);

/* Receive what has arrived.  Each answered op goes to done with op->status
 * set, and is counted in *nr, also if the call then fails.  -ECONNRESET: the
 * server hung up.  -EPROTO: a reply does not match its request.
 */
int fp_tcp_stream_receive (struct fp_tcp_stream *s, struct fp_op_list *done,
                           unsigned *nr);

#endif /* FP_TCP_STREAM_H */
