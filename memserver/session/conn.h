/* SPDX-License-Identifier: BSD-3-Clause */
/* conn.h - one control socket: reads one message, hands it over, writes one
 * reply, reads the next.  It looks only at the header of a message.
 *
 * While a request is being answered nothing is read.  So a client never has
 * more than one request in this server.  No byte beyond a message is read, so
 * that the socket can be given away after one.
 *
 * A connection lives until its owner calls conn_free.  It has one deadline
 * (conn_set_deadline) for the client's next step: HELLO, another message, or
 * taking its reply.
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
  /* Handle a whole message; conn_header and conn_body have it until the reply.
   * Answer it with conn_reply, now or later.
   */
  void (*message) (struct conn *c);
  /* Handle the end: the client hung up, sent no valid message, or its deadline
   * passed.  why is for people.  Only conn_free may follow.
   */
  void (*ended) (struct conn *c, const char *why);
  /* Take the socket (conn_take_fd): the CONN_GIVE_AWAY reply is written. */
  void (*give_away) (struct conn *c);
};

enum conn_after { CONN_NEXT, CONN_CLOSE, CONN_GIVE_AWAY };

/* Make a connection.  Takes fd, which does not block, also on failure.  With
 * tls, a client over TCP whose first byte is TLS's gets a handshake, within
 * the first deadline.  tls may be NULL: no TLS.
 */
int conn_new (struct conn **out, struct event_base *base, int fd,
              struct fp_tls *tls, const struct conn_events *events,
              void *owner);
void conn_free (struct conn *c);

void *conn_owner (const struct conn *c);
bool conn_is_unix (const struct conn *c);
const char *conn_address (const struct conn *c); /* for people */
bool conn_is_tls (const struct conn *c);
const char *conn_user (const struct conn *c); /* proved by TLS, or "" */
bool conn_is_joining (const struct conn *c);  /* by TLS with a join token */
bool conn_hung_up (const struct conn *c);     /* the client ended it */
/* Return true if the client also knows of the end: it has closed its own. */
bool conn_closed_by_client (const struct conn *c);

/* Set the deadline to ms milliseconds from now; then ended is called.  This
 * replaces the last deadline, which cannot fail.
 */
int conn_set_deadline (struct conn *c, unsigned ms, const char *why);

const struct fp_header *conn_header (const struct conn *c);
const uint8_t *conn_body (const struct conn *c);

/* Return the buffer for the body of the reply, FP_BODY_MAX bytes. */
uint8_t *conn_reply_body (struct conn *c);

/* Send the reply, with nr_fds file descriptors.  They stay the caller's, and
 * must stay open until the next message.
 */
void conn_reply (struct conn *c, uint32_t status, uint32_t length,
                 const int *fds, unsigned nr_fds, enum conn_after after);

/* Answer nothing any more, and show the client the end of the stream.  ended
 * is called with this why when the client has hung up, or after ms
 * milliseconds.  If shutting down fails, conn_dismiss itself calls it.
 */
void conn_dismiss (struct conn *c, unsigned ms, const char *why);

/* Return the socket, now the caller's, and its TLS in *tls (NULL: none). */
int conn_take_fd (struct conn *c, struct fp_tls_session **tls);

#endif /* MEMSERVER_CONN_H */
