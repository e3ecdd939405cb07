/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_stream.h - requests and replies of the tcp transport, active side, on
 * one socket: many in flight, answered in order.  Which op is whose, and what
 * becomes of a broken connection, is for tcp_client.c.
 *
 *   to_send -> send: sendmsg -> to_answer -> receive: recvmsg -> done
 *
 * Many requests go into one sendmsg, payloads straight from op->local.
 * Replies to small READs come through a buffer, as many as fit in one call;
 * a large READ is received straight into op->local, together with no more
 * than the header of the next reply.
 *
 * Errors:   0 or a negative errno value.  After any but -EAGAIN the stream is
 *           of no use any more.
 * Threads:  one at a time.
 * Memory:   none is allocated, but by TLS (tls.h).  Streams of one thread
 * share a buffer: between two calls a stream keeps at most a part of a header,
 * of its own.
 */

#ifndef FP_TCP_STREAM_H
#define FP_TCP_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"
#include "transport/op_queue.h"
#include "transport/tls.h"

#define FP_TCP_STREAM_BUFFER 65536

struct fp_tcp_stream {
  int fd;                     /* the caller's */
  struct fp_tls_session *tls; /* on it, likewise; NULL: in clear */

  struct fp_op_list to_send; /* the caller adds, with op->cookie set */
  size_t sent;               /* bytes of to_send.head's frame */
  struct fp_op_list to_answer;
  bool in_payload; /* of to_answer.head; else in a header */
  size_t received; /* bytes of that payload */

  uint8_t *buf;    /* FP_TCP_STREAM_BUFFER bytes, the caller's */
  size_t pos, end; /* received and not yet handled: buf[pos, end) */
  uint8_t rest[FP_DATA_REPLY_SIZE]; /* between two calls: end bytes of it */
};

/* s is zeros. */
void fp_tcp_stream_init (struct fp_tcp_stream *s, int fd, uint8_t *buf);

/* As much of to_send as the socket takes.  -EAGAIN: it is full. */
int fp_tcp_stream_send (struct fp_tcp_stream *s);

/* What has come.  Ops that were answered go to done, with op->status set, and
 * are counted in *nr, also if it fails then: -ECONNRESET; -EPROTO: the server
 * does not answer what it was asked.
 */
int fp_tcp_stream_receive (struct fp_tcp_stream *s, struct fp_op_list *done,
                           unsigned *nr);

#endif /* FP_TCP_STREAM_H */
