/* SPDX-License-Identifier: BSD-3-Clause */
/* tls.h - TLS 1.3 on a stream socket: who this end is (struct fp_tls, with
 * keys or certificates), and one connection (struct fp_tls_session).  GnuTLS
 * is in tls_gnutls.c alone; a build without it has tls_none.c, whose
 * fp_tls_new says so.
 *
 * Nothing here waits: the caller polls the socket, and has the deadline.
 *
 * Errors:   0 or a negative errno value.  -EAGAIN: poll for fp_tls_wants.
 * Threads:  a struct fp_tls may be used by several at a time; a session is
 *           one thread's at a time.
 * Memory:   GnuTLS allocates a record's buffer for each record that is sent or
 *           received, and frees it: see docs/PROTOCOL.md.  Pre-shared keys are
 *           in locked memory but for the time of a handshake.
 */

#ifndef FP_TLS_H
#define FP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/addr.h"
#include "proto/messages.h"

#define FP_TLS_WHY_MAX 512
#define FP_TLS_PATH_MAX 256

/* The first byte of what a client of TLS says: a record of type handshake.
 * Ours begins with the first byte of FP_MAGIC.
 */
#define FP_TLS_FIRST_BYTE 0x16

enum fp_tls_mode {
  FP_TLS_OFF,     /* in clear */
  FP_TLS_ON,      /* TLS with whoever can, in clear with the others */
  FP_TLS_REQUIRE, /* TLS */
};

/* ---- what people say ---- */

struct fp_tls_params {
  bool mode_given;
  enum fp_tls_mode mode;
  char psk[FP_TLS_PATH_MAX];          /* "": none */
  char username[FP_NAME_MAX + 1];     /* of that; "": the only one */
  char certificates[FP_TLS_PATH_MAX]; /* likewise: a directory */
  bool verify_peer; /* of a server: clients need certificates too */
};

/* tls, tls-psk, tls-username and tls-certificates.  -EINVAL: a bad value, and
 * why; -ENOENT: key is none of these.
 */
int fp_tls_params_set (struct fp_tls_params *p, const char *key,
                       const char *value, char why[FP_TLS_WHY_MAX]);

/* After the last one: where tls was not said it is require if there are keys
 * or certificates, else off.  -EINVAL: something contradicts.
 */
int fp_tls_params_complete (struct fp_tls_params *p, bool server,
                            char why[FP_TLS_WHY_MAX]);

/* ---- who this end is ---- */

struct fp_tls;

/* Read the keys or certificates.  Mode off: *out is NULL. */
int fp_tls_new (struct fp_tls **out, const struct fp_tls_params *p,
                bool server, char why[FP_TLS_WHY_MAX]);
void fp_tls_free (struct fp_tls *t); /* no session of it is left */
/* A server's: read the file of keys again, for handshakes from now on. -errno:
 * all is as it was, and why.  No handshake may be running in another thread.
 */
int fp_tls_reload (struct fp_tls *t, const struct fp_tls_params *p,
                   char why[FP_TLS_WHY_MAX]);
enum fp_tls_mode fp_tls_mode (const struct fp_tls *t); /* NULL: off */

/* All control and data connections over TCP that this process makes from now
 * on are made like that; NULL, as at the start: in clear.  Set it before the
 * first one, and once: a process is one client.
 */
void fp_tls_set_client (struct fp_tls *t);
struct fp_tls *fp_tls_client (void);

/* May it be used though only a list of servers names it?  A Unix socket has no
 * TLS (ctl_tls.c): a malicious server could list a path to make this client
 * talk in clear, where the user requires TLS.
 */
bool fp_tls_may_ask (const struct fp_addr *addr);

/* ---- one connection ---- */

struct fp_tls_session;

/* fd stays the caller's.  host: whom a client expects at the other end, a name
 * or an address, in the certificate of that.
 */
int fp_tls_begin (struct fp_tls_session **out, struct fp_tls *t, int fd,
                  const char *host);
/* Frees it, and says nothing to the peer. */
void fp_tls_end (struct fp_tls_session *s);

/* Until it returns 0.  -EACCES: one of the two does not believe the other, or
 * they have nothing in common; -ECONNRESET; -EPROTO.
 */
int fp_tls_handshake (struct fp_tls_session *s);
/* The peer has said nothing that looks like TLS: it may not speak it. */
bool fp_tls_is_stranger (const struct fp_tls_session *s);
/* Of the last error, for people. */
const char *fp_tls_why (const struct fp_tls_session *s);
/* POLLIN or POLLOUT. */
short fp_tls_wants (const struct fp_tls_session *s);

/* As sendmsg: how many bytes were taken, one at least.  After -EAGAIN the next
 * call must begin with the same bytes; more may follow them.
 */
ssize_t fp_tls_send (struct fp_tls_session *s, const struct iovec *iov,
                     size_t nr);
/* As recvmsg: as many as there are; 0: the end. */
ssize_t fp_tls_recv (struct fp_tls_session *s, const struct iovec *iov,
                     size_t nr);
/* Something was received that fp_tls_recv has not returned yet, of which
 * poll(2) knows nothing.
 */
bool fp_tls_pending (const struct fp_tls_session *s);

/* Of a server: who the client proved to be: the user of a key, the name in a
 * certificate, or "".
 */
const char *fp_tls_user (const struct fp_tls_session *s);

#endif /* FP_TLS_H */
