/* SPDX-License-Identifier: BSD-3-Clause */
/* tls.h - TLS 1.3 on a stream socket.  struct fp_tls is this end's identity
 * (keys or certificates); struct fp_tls_session is one connection.
 *
 * Nothing here waits: the caller polls the socket and keeps the deadline.
 *
 * Errors:   0 or a negative errno value.  After -EAGAIN poll for fp_tls_wants.
 * Threads:  several threads may share a struct fp_tls; a session belongs to
 *           one thread at a time.
 * Memory:   GnuTLS allocates and frees a buffer for each record sent or
 *           received (docs/PROTOCOL.md).  Pre-shared keys are in locked
 *           memory, except during a handshake.
 */

#ifndef FP_TLS_H
#define FP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/addr.h"
#include "base/error.h"
#include "proto/messages.h"

#define FP_TLS_PATH_MAX 256

/* First byte from a TLS client: a record of type handshake.  A farpage client
 * without TLS sends the first byte of FP_MAGIC.
 */
#define FP_TLS_FIRST_BYTE 0x16

enum fp_tls_mode {
  FP_TLS_OFF,     /* no encryption */
  FP_TLS_ON,      /* TLS if the other end speaks it, else no encryption */
  FP_TLS_REQUIRE, /* TLS only */
};

/* ---- parameters ---- */

struct fp_tls_params {
  bool mode_given;
  enum fp_tls_mode mode;
  char psk[FP_TLS_PATH_MAX];          /* path of a file; "": none */
  char username[FP_NAME_MAX + 1];     /* user in psk; "": its only user */
  char certificates[FP_TLS_PATH_MAX]; /* path of a directory; "": none */
  bool verify_peer; /* server only: clients need certificates too */
};

/* Set the parameter tls, tls-psk, tls-username or tls-certificates.  If the
 * value is bad, set error and return -EINVAL.  -ENOENT: key is none of these.
 */
int fp_tls_params_set (struct fp_tls_params *p, const char *key,
                       const char *value, struct fp_error *error);

/* Check the parameters after the last one was set.  If tls was not given, the
 * mode is require with keys or certificates, else off.  Return -EINVAL if
 * parameters contradict each other.
 */
int fp_tls_params_complete (struct fp_tls_params *p, bool server,
                            struct fp_error *error);

/* ---- identity of this end ---- */

struct fp_tls;

/* Read the keys or certificates.  If the mode is off, set *out to NULL. */
int fp_tls_new (struct fp_tls **out, const struct fp_tls_params *p,
                bool server, struct fp_error *error);
void fp_tls_free (struct fp_tls *t); /* no sessions left */
/* Make a client's identity from a key in memory.  Its mode is require. */
int fp_tls_new_key (struct fp_tls **out, const char *user, const uint8_t *key,
                    size_t n, struct fp_error *error);
/* Copy the key that the server t has for user.  Return its length in bytes, or
 * -ENOENT.
 */
int fp_tls_user_key (const struct fp_tls *t, const char *user,
                     uint8_t key[FP_JOIN_KEY_MAX]);
/* Read a server's file of keys again, for handshakes from now on.  On failure
 * return -errno, set error, and keep the old keys.  No handshake may be
 * running in another thread.
 */
int fp_tls_reload (struct fp_tls *t, const struct fp_tls_params *p,
                   struct fp_error *error);
enum fp_tls_mode fp_tls_mode (const struct fp_tls *t); /* NULL: off */

/* Set the TLS identity of all control and data connections that this process
 * opens over TCP from now on; NULL (initial): no encryption.  Call this while
 * no connection is open: a process is one client.
 */
void fp_tls_set_client (struct fp_tls *t);
struct fp_tls *fp_tls_client (void);

/* Return true if addr may be used although only a server's list names it, not
 * the user.  A Unix socket has no TLS (ctl_tls.c).  So with tls=require it is
 * refused: a malicious server could list a path to make this client use no
 * encryption.
 */
bool fp_tls_may_ask (const struct fp_addr *addr);

/* ---- one connection ---- */

struct fp_tls_session;

/* Create a session on fd, which stays the caller's.  host is the name or
 * address that a client expects in the server's certificate.
 */
int fp_tls_begin (struct fp_tls_session **out, struct fp_tls *t, int fd,
                  const char *host);
/* Free s.  Sends nothing to the other end. */
void fp_tls_end (struct fp_tls_session *s);

/* Go on with the handshake; call until it returns 0.  -EACCES: one end does
 * not trust the other, or they have no common method.  -ECONNRESET: the other
 * end hung up.  -EPROTO: it does not speak TLS.
 */
int fp_tls_handshake (struct fp_tls_session *s);
/* Return true if the other end sent nothing like TLS: it may not speak it. */
bool fp_tls_is_stranger (const struct fp_tls_session *s);
/* Return a sentence for people about the last error. */
const char *fp_tls_why (const struct fp_tls_session *s);
/* Return the event to poll for: POLLIN or POLLOUT. */
short fp_tls_wants (const struct fp_tls_session *s);

/* Send as sendmsg does: return the number of bytes taken, at least one.  After
 * -EAGAIN the next call must begin with the same bytes; more may follow them.
 */
ssize_t fp_tls_send (struct fp_tls_session *s, const struct iovec *iov,
                     size_t nr);
/* Receive as recvmsg does: return the number of bytes; 0 at the end. */
ssize_t fp_tls_recv (struct fp_tls_session *s, const struct iovec *iov,
                     size_t nr);
/* Return true if bytes were received that fp_tls_recv has not returned yet.
 * poll(2) does not report them.
 */
bool fp_tls_pending (const struct fp_tls_session *s);

/* Return the name that the client proved to a server: the user of its key, or
 * the name in its certificate; else "".
 */
const char *fp_tls_user (const struct fp_tls_session *s);
/* Return true if the client proved to a server that it has a join token. */
bool fp_tls_is_joining (const struct fp_tls_session *s);

#endif /* FP_TLS_H */
