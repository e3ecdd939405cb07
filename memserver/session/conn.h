/* SPDX-License-Identifier: BSD-3-Clause */
/* conn.h - one socket that control messages come in on: reads one message,
 * hands it over, writes one reply, reads the next.  It knows no message but
 * by its header.
 *
 * Nothing is read while a request is being answered, so that a client never
 * has more than one in this server, and no byte beyond a message is read, so
 * that the socket can be given away after one.
 *
 * A connection lives until its owner calls conn_free.  What it must do by a
 * certain time (say HELLO, send another message, take its reply) it has one
 * deadline for, that conn_set_deadline sets.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 * Memory:   one allocation each, of fixed size.
 */

#ifndef MEMSERVER_CONN_H
#define MEMSERVER_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "proto/messages.h"

struct conn;
struct event_base;
struct fp_tls;
struct fp_tls_session;

struct conn_events {
  /* A whole message: conn_message has it until the reply.  Answer it with
   * conn_reply, now or later.
   */
  void (*message) (struct conn *c);
  /* It hung up, sent what is no message, or its deadline passed; why is
   * for people.  Only conn_free is left to do.
   */
  void (*ended) (struct conn *c, const char *why);
  /* The reply of a conn_reply with CONN_GIVE_AWAY is written. */
  void (*give_away) (struct conn *c);
};

enum conn_after { CONN_NEXT, CONN_CLOSE, CONN_GIVE_AWAY };

/* Takes fd, which does not block, also when it fails.  tls: a peer over TCP
 * whose first byte is TLS's gets a handshake, which is in the time of the
 * first deadline; NULL: it is not spoken here.
 */
int conn_new (struct conn **out, struct event_base *base, int fd,
              struct fp_tls *tls, const struct conn_events *events,
              void *owner);
void conn_free (struct conn *c);

void *conn_owner (const struct conn *c);
bool conn_is_unix (const struct conn *c);
const char *conn_peer (const struct conn *c); /* its address, for people */
bool conn_is_tls (const struct conn *c);
const char *conn_user (const struct conn *c); /* that it proved to be; or "" */
bool conn_hung_up (const struct conn *c);     /* it is the peer who ended it */
/* And knows that, as it has closed its end. */
bool conn_closed_by_peer (const struct conn *c);

/* Call ended in so many milliseconds; replaces the last deadline, which cannot
 * fail.
 */
int conn_set_deadline (struct conn *c, unsigned ms, const char *why);

const struct fp_header *conn_header (const struct conn *c);
const uint8_t *conn_body (const struct conn *c);

/* Room for the body of the reply, FP_BODY_MAX bytes. */
uint8_t *conn_reply_body (struct conn *c);

/* Send it, with nr_fds file descriptors that stay the caller's and stay open
 * until the next message.
 */
void conn_reply (struct conn *c, uint32_t status, uint32_t length,
                 const int *fds, unsigned nr_fds, enum conn_after after);

/* Nothing is answered any more, and the peer sees the end of the stream: ended
 * is called when it has hung up, or after so many milliseconds, with this why;
 * or at once, by this call, if that cannot be done.
 */
void conn_dismiss (struct conn *c, unsigned ms, const char *why);

/* Its socket, now the caller's, with the TLS on it; NULL: there is none. */
int conn_take_fd (struct conn *c, struct fp_tls_session **tls);

#endif /* MEMSERVER_CONN_H */
