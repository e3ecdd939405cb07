/* SPDX-License-Identifier: BSD-3-Clause */
/* tls.c - TLS 1.3 with GnuTLS.
 *
 * push and pull do the socket I/O.  They never block, even on a blocking
 * socket, and note whether the other end ever sent bytes that look like TLS.
 *
 * There are no session tickets, because a client never resumes.  So after the
 * handshake every record carries our own data.  If a control connection is
 * readable between two calls, that means the same as without TLS.
 */

#include <config.h>

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/checked.h"
#include "base/error.h"
#include "transport/tls/join_token.h"
#include "transport/tls/psk_file.h"
#include "transport/tls/tls.h"
#include "transport/tls/tls_name.h"

/* Elliptic curves only: with FFDHE8192 (RFC 7919) an unauthenticated client
 * costs the server a third of a second of CPU.
 */
#define BASIS "NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-DH-ALL"
#define PSK_PRIORITY BASIS ":-KX-ALL:+ECDHE-PSK"
#define X509_PRIORITY BASIS
#define RECORD 16384
#define REASON_MAX 512
/* Most bytes of a handshake message: a chain of certificates fits. */
#define HANDSHAKE_MAX 65536

struct fp_tls {
  enum fp_tls_mode mode;
  bool server, verify_peer, has_keys;
  gnutls_priority_t priority;
  /* Either keys or certificates.  Only handshakes use keys, so fp_tls_reload
   * may replace them while sessions are in use.
   */
  struct fp_psk_file *keys;
  gnutls_certificate_credentials_t certificates;
  union {
    gnutls_psk_server_credentials_t server;
    gnutls_psk_client_credentials_t client;
  } psk;
  char username[FP_NAME_MAX + 1]; /* client only */
};

struct fp_tls_session {
  struct fp_tls *tls;
  gnutls_session_t session;
  int fd;
  bool heard, like_tls; /* bytes came; and they were TLS */
  bool ended;           /* end of stream was read */
  size_t queued;        /* bytes that GnuTLS took and has not sent yet */
  char user[FP_NAME_MAX + 1];
  char why[REASON_MAX];
  gnutls_typed_vdata_st expected[2]; /* in the other end's certificate */
  uint8_t record[RECORD];            /* data of the record being sent */
};

/* ---- the socket ---- */

static ssize_t
push (gnutls_transport_ptr_t arg, const giovec_t *iov, int nr)
{
  struct fp_tls_session *s = arg;
  struct msghdr msg = { .msg_iov = (struct iovec *) (uintptr_t) iov,
                        .msg_iovlen = (size_t) nr };
  ssize_t r = sendmsg (s->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

  if (r < 0)
    gnutls_transport_set_errno (s->session, errno);
  return r;
}

static ssize_t
pull (gnutls_transport_ptr_t arg, void *buf, size_t n)
{
  struct fp_tls_session *s = arg;
  ssize_t r = recv (s->fd, buf, n, MSG_DONTWAIT);

  if (r < 0)
    gnutls_transport_set_errno (s->session, errno);
  s->ended = s->ended || r == 0;
  if (r > 0 && !s->heard) {
    const uint8_t type = *(const uint8_t *) buf;

    s->heard = true;
    s->like_tls = type >= 0x14 && type <= 0x17; /* all record types */
  }
  return r;
}

/* ---- keys ---- */

/* Copy user's key to key.  Return its length in bytes, or -ENOENT.  A server
 * also finds the keys of join tokens that have not expired.
 */
static int
find_key (const struct fp_tls *t, const char *user,
          uint8_t key[FP_PSK_KEY_MAX])
{
  struct fp_join_token token;
  int r;

  if (strcmp (user, FP_PSK_ALL) == 0)
    return -ENOENT; /* the master key is no user's key */
  if (!t->server)
    return fp_psk_file_user (t->keys, user, key);
  if (!fp_psk_user_joins (user))
    return fp_psk_user_ok (user) ? fp_psk_file_user (t->keys, user, key)
                                 : -ENOENT;
  if (fp_join_parse_identity (&token, user) < 0 ||
      time (NULL) >= (time_t) token.expiry)
    return -ENOENT;
  /* A line of its own revokes what a user can fetch. */
  if (strcmp (token.user, FP_PSK_ALL) != 0) {
    r = fp_psk_file_key (t->keys, token.user, key);
    if (r != -ENOENT)
      return -ENOENT;
  }
  r = fp_psk_file_derive (t->keys, user, key, FP_JOIN_KEY_SIZE);
  return r < 0 ? r : FP_JOIN_KEY_SIZE;
}

/* Copy user's key to memory that GnuTLS wipes and frees. */
static int
give_key (const struct fp_tls *t, const char *user, gnutls_datum_t *key)
{
  int n;

  key->data = gnutls_malloc (FP_PSK_KEY_MAX);
  if (key->data == NULL)
    return GNUTLS_E_MEMORY_ERROR;
  n = find_key (t, user, key->data);
  if (n >= 0) {
    key->size = (unsigned) n;
    return 0;
  }
  gnutls_free (key->data);
  key->data = NULL;
  return 1; /* no such user: GnuTLS goes on with a random key */
}

/* The name is from the network: any bytes, of any length.  It must be one that
 * note_user gets as it is.  With a NUL inside note_user would get none, and
 * the client would be no user.
 */
static int
server_key (gnutls_session_t session, const gnutls_datum_t *name,
            gnutls_datum_t *key)
{
  const struct fp_tls_session *s = gnutls_session_get_ptr (session);
  char user[FP_NAME_MAX + 1] = "";

  if (name->size == 0 || name->size > FP_NAME_MAX ||
      memchr (name->data, '\0', name->size))
    return 1; /* no such user */
  memcpy (user, name->data, name->size);
  return give_key (s->tls, user, key);
}

static int
client_key (gnutls_session_t session, char **user, gnutls_datum_t *key)
{
  const struct fp_tls_session *s = gnutls_session_get_ptr (session);

  *user = gnutls_strdup (s->tls->username);
  if (*user == NULL || give_key (s->tls, s->tls->username, key) != 0) {
    gnutls_free (*user);
    *user = NULL;
    return -1;
  }
  return 0;
}

/* Let the sessions of a client use t->keys. */
static int
use_keys (struct fp_tls *t)
{
  t->has_keys = true;
  if (gnutls_psk_allocate_client_credentials (&t->psk.client) < 0)
    return -ENOMEM;
  gnutls_psk_set_client_credentials_function (t->psk.client, client_key);
  return 0;
}

static int
load_psk (struct fp_tls *t, const struct fp_tls_params *p,
          struct fp_error *error)
{
  uint8_t key[FP_PSK_KEY_MAX];
  int r = fp_psk_file_read_tls (&t->keys, p->psk, error);

  if (r < 0)
    return r;
  if (t->server) {
    t->has_keys = true;
    if (gnutls_psk_allocate_server_credentials (&t->psk.server) < 0)
      return -ENOMEM;
    gnutls_psk_set_server_credentials_function2 (t->psk.server, server_key);
    return 0;
  }
  r = use_keys (t);
  if (r < 0)
    return r;
  snprintf (t->username, sizeof t->username, "%s", p->username);
  if (p->username[0] == '\0' &&
      fp_psk_file_only_user (t->keys, t->username) < 0)
    return fp_fail (
        error, -EINVAL,
        "%s has keys of several users: choose one with tls-username=NAME",
        p->psk);
  if (strcmp (t->username, FP_PSK_ALL) == 0)
    return fp_fail (
        error, -EINVAL,
        "%s has the master key: choose a user with tls-username=NAME", p->psk);
  r = find_key (t, t->username, key);
  explicit_bzero (key, sizeof key);
  if (r < 0)
    return fp_fail (error, -EINVAL, "%s has no key for user %s", p->psk,
                    t->username);
  return 0;
}

/* ---- certificates ---- */

static int
load_files (struct fp_tls *t, const char *dir, const char *who, bool needed,
            struct fp_error *error)
{
  char cert[FP_TLS_PATH_MAX + 32], key[FP_TLS_PATH_MAX + 32];
  int r;

  snprintf (cert, sizeof cert, "%s/%s-cert.pem", dir, who);
  snprintf (key, sizeof key, "%s/%s-key.pem", dir, who);
  r = gnutls_certificate_set_x509_key_file (t->certificates, cert, key,
                                            GNUTLS_X509_FMT_PEM);
  if (r >= 0 || (r == GNUTLS_E_FILE_ERROR && !needed))
    return 0;
  return fp_fail (error, -EINVAL, "tls-certificates: %s, %s-key.pem: %s", cert,
                  who, gnutls_strerror (r));
}

static int
load_certificates (struct fp_tls *t, const struct fp_tls_params *p,
                   struct fp_error *error)
{
  char path[FP_TLS_PATH_MAX + 32];
  int r;

  if (gnutls_certificate_allocate_credentials (&t->certificates) < 0)
    return -ENOMEM;
  snprintf (path, sizeof path, "%s/ca-cert.pem", p->certificates);
  r = gnutls_certificate_set_x509_trust_file (t->certificates, path,
                                              GNUTLS_X509_FMT_PEM);
  if (r <= 0)
    return fp_fail (error, -EINVAL, "tls-certificates: %s: %s", path,
                    r == 0 ? "contains no certificate" : gnutls_strerror (r));
  snprintf (path, sizeof path, "%s/ca-crl.pem", p->certificates);
  r = gnutls_certificate_set_x509_crl_file (t->certificates, path,
                                            GNUTLS_X509_FMT_PEM);
  if (r < 0 && r != GNUTLS_E_FILE_ERROR) { /* the file is optional */
    return fp_fail (error, -EINVAL, "tls-certificates: %s: %s", path,
                    gnutls_strerror (r));
  }
  return load_files (t, p->certificates, t->server ? "server" : "client",
                     t->server, error);
}

int
fp_tls_new (struct fp_tls **out, const struct fp_tls_params *p, bool server,
            struct fp_error *error)
{
  struct fp_tls *t;
  int r;

  *out = NULL;
  error->text[0] = '\0';
  if (p->mode == FP_TLS_OFF)
    return 0;
  t = calloc (1, sizeof *t);
  r = t == NULL ? -ENOMEM : 0;
  if (r == 0) {
    t->mode = p->mode;
    t->server = server;
    t->verify_peer = p->verify_peer;
    if (gnutls_priority_init (&t->priority,
                              p->psk[0] != '\0' ? PSK_PRIORITY : X509_PRIORITY,
                              NULL) < 0)
      r = fp_fail (error, -EOPNOTSUPP,
                   "tls: the configuration of GnuTLS disables TLS 1.3: see "
                   "/etc/gnutls/config");
    else
      r = p->psk[0] != '\0' ? load_psk (t, p, error)
                            : load_certificates (t, p, error);
  }
  if (r < 0) {
    if (error->text[0] == '\0')
      fp_fail (error, r, "tls: %s", strerror (-r));
    fp_tls_free (t);
    return r;
  }
  *out = t;
  return 0;
}

int
fp_tls_new_key (struct fp_tls **out, const char *user, const uint8_t *key,
                size_t n, struct fp_error *error)
{
  struct fp_tls *t = calloc (1, sizeof *t);
  int r = t == NULL ? -ENOMEM : 0;

  *out = NULL;
  if (r == 0) {
    t->mode = FP_TLS_REQUIRE;
    snprintf (t->username, sizeof t->username, "%s", user);
    if (gnutls_priority_init (&t->priority, PSK_PRIORITY, NULL) < 0)
      r = -EOPNOTSUPP;
  }
  if (r == 0)
    r = fp_psk_file_new (&t->keys, user, key, n);
  if (r == 0)
    r = use_keys (t);
  if (r < 0) {
    fp_tls_free (t);
    return fp_fail (error, r, "tls: %s", strerror (-r));
  }
  *out = t;
  return 0;
}

int
fp_tls_user_key (const struct fp_tls *t, const char *user,
                 uint8_t key[FP_JOIN_KEY_MAX])
{
  return t == NULL || !t->has_keys ? -ENOENT
                                   : fp_psk_file_user (t->keys, user, key);
}

void
fp_tls_free (struct fp_tls *t)
{
  if (t == NULL)
    return;
  if (t->server && t->psk.server != NULL)
    gnutls_psk_free_server_credentials (t->psk.server);
  if (!t->server && t->psk.client != NULL)
    gnutls_psk_free_client_credentials (t->psk.client);
  if (t->certificates != NULL)
    gnutls_certificate_free_credentials (t->certificates);
  if (t->priority != NULL)
    gnutls_priority_deinit (t->priority);
  fp_psk_file_free (t->keys);
  free (t);
}

int
fp_tls_reload (struct fp_tls *t, const struct fp_tls_params *p,
               struct fp_error *error)
{
  struct fp_psk_file *keys;
  int r;

  if (!t->has_keys)
    return fp_fail (
        error, -EOPNOTSUPP,
        "certificates are read only at startup: restart to read new "
        "ones");
  r = fp_psk_file_read_tls (&keys, p->psk, error);
  if (r < 0)
    return r;
  fp_psk_file_free (t->keys);
  t->keys = keys;
  return 0;
}

enum fp_tls_mode
fp_tls_mode (const struct fp_tls *t)
{
  return t == NULL ? FP_TLS_OFF : t->mode;
}

/* ---- one connection ---- */

/* Check the other end's certificate.  If it lists purposes (RFC 5280,
 * 4.2.1.12), they must include that end's role: a server's certificate does
 * not make a client.
 */
static void
verify (struct fp_tls_session *s, const char *purpose, const char *host)
{
  s->expected[0].type = GNUTLS_DT_KEY_PURPOSE_OID;
  s->expected[0].data = (unsigned char *) (uintptr_t) purpose;
  s->expected[1].type = GNUTLS_DT_DNS_HOSTNAME;
  s->expected[1].data = (unsigned char *) (uintptr_t) host;
  gnutls_session_set_verify_cert2 (s->session, s->expected,
                                   host != NULL ? 2 : 1, 0);
}

static int
set_up (struct fp_tls_session *s, struct fp_tls *t, const char *host)
{
  unsigned flags = GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS;
  int r = gnutls_init (&s->session,
                       flags | (t->server ? GNUTLS_SERVER : GNUTLS_CLIENT));

  if (r < 0) {
    s->session = NULL;
    return r;
  }
  gnutls_session_set_ptr (s->session, s);
  gnutls_transport_set_ptr (s->session, s);
  gnutls_transport_set_vec_push_function (s->session, push);
  gnutls_transport_set_pull_function (s->session, pull);
  /* The caller keeps the deadline. */
  gnutls_handshake_set_timeout (s->session, GNUTLS_INDEFINITE_TIMEOUT);
  gnutls_handshake_set_max_packet_length (s->session, HANDSHAKE_MAX);
  r = gnutls_priority_set (s->session, t->priority);
  if (r < 0)
    return r;
  if (t->has_keys)
    return gnutls_credentials_set (s->session, GNUTLS_CRD_PSK,
                                   t->server ? (void *) t->psk.server
                                             : (void *) t->psk.client);
  r = gnutls_credentials_set (s->session, GNUTLS_CRD_CERTIFICATE,
                              t->certificates);
  if (r == 0 && !t->server)
    verify (s, GNUTLS_KP_TLS_WWW_SERVER, host);
  if (r == 0 && t->server && t->verify_peer) {
    gnutls_certificate_server_set_request (s->session, GNUTLS_CERT_REQUIRE);
    verify (s, GNUTLS_KP_TLS_WWW_CLIENT, NULL);
  }
  return r;
}

int
fp_tls_begin (struct fp_tls_session **out, struct fp_tls *t, int fd,
              const char *host)
{
  struct fp_tls_session *s = calloc (1, sizeof *s);

  if (s == NULL)
    return -ENOMEM;
  s->tls = t;
  s->fd = fd;
  /* A child process must lock its copy of the keys again.  If that is not
   * permitted, go on without.
   */
  if (t->has_keys)
    (void) fp_psk_file_lock (t->keys);
  if (set_up (s, t, host) < 0) {
    fp_tls_end (s);
    return -ENOMEM;
  }
  *out = s;
  return 0;
}

void
fp_tls_end (struct fp_tls_session *s)
{
  if (s == NULL)
    return;
  if (s->session != NULL)
    gnutls_deinit (s->session);
  explicit_bzero (s, sizeof *s); /* record held data that was sent */
  free (s);
}

static int __attribute__ ((__format__ (__printf__, 3, 4)))
failed (struct fp_tls_session *s, int err, const char *fmt, ...)
{
  va_list args;

  va_start (args, fmt);
  vsnprintf (s->why, sizeof s->why, fmt, args);
  va_end (args);
  return err;
}

static int
not_believed (struct fp_tls_session *s)
{
  unsigned status = gnutls_session_get_verify_cert_status (s->session);
  gnutls_datum_t text = { NULL, 0 };
  int r;

  if (gnutls_certificate_verification_status_print (status, GNUTLS_CRT_X509,
                                                    &text, 0) < 0)
    text.data = NULL;
  r = failed (s, -EACCES, "its certificate is not accepted: %s",
              text.data != NULL ? (const char *) text.data : "it is invalid");
  gnutls_free (text.data);
  for (size_t n = strlen (s->why); n > 0 && s->why[n - 1] == ' ';)
    s->why[--n] = '\0';
  return r;
}

/* Turn a GnuTLS error into -errno, and set s->why. */
static int
translate (struct fp_tls_session *s, int r)
{
  switch (r) {
  case GNUTLS_E_AGAIN:
  case GNUTLS_E_INTERRUPTED:
    return -EAGAIN;
  case GNUTLS_E_PUSH_ERROR:
  case GNUTLS_E_PULL_ERROR:
  case GNUTLS_E_PREMATURE_TERMINATION:
  case GNUTLS_E_SESSION_EOF:
    return failed (s, -ECONNRESET, "hung up");
  case GNUTLS_E_MEMORY_ERROR:
    return failed (s, -ENOMEM, "%s", strerror (ENOMEM));
  case GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR:
    return not_believed (s);
  case GNUTLS_E_NO_CERTIFICATE_FOUND:
  case GNUTLS_E_CERTIFICATE_REQUIRED:
    return failed (s, -EACCES, "it has no certificate");
  case GNUTLS_E_INSUFFICIENT_CREDENTIALS:
    return failed (s, -EACCES, "TLS: the other end uses %s",
                   s->tls->has_keys ? "certificates, and this end uses keys"
                                    : "keys, and this end uses certificates");
  case GNUTLS_E_FATAL_ALERT_RECEIVED:
  case GNUTLS_E_WARNING_ALERT_RECEIVED:
    return failed (s, -EACCES, "the other end refuses TLS: %s%s",
                   gnutls_alert_get_name (gnutls_alert_get (s->session)),
                   s->tls->has_keys && !s->tls->server
                       ? " (it may have another key, or not know the user)"
                       : "");
  case GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER:
    if (s->tls->has_keys && s->tls->server)
      return failed (s, -EACCES,
                     "TLS: its key differs from ours, or its user is "
                     "unknown here");
    /* fall through */
  default:
    if (s->ended)
      return failed (s, -ECONNRESET, "hung up");
    return failed (s, s->like_tls ? -EACCES : -EPROTO, "TLS: %s",
                   gnutls_strerror (r));
  }
}

static void
note_user (struct fp_tls_session *s)
{
  const struct fp_tls *t = s->tls;
  const gnutls_datum_t *list;
  gnutls_x509_crt_t crt;
  const char *name;
  unsigned nr;

  if (t->has_keys) {
    name = gnutls_psk_server_get_username (s->session);
    snprintf (s->user, sizeof s->user, "%s", name != NULL ? name : "");
    return;
  }
  list = gnutls_certificate_get_peers (s->session, &nr);
  if (!t->verify_peer || list == NULL || nr == 0 ||
      gnutls_x509_crt_init (&crt) < 0)
    return;
  if (gnutls_x509_crt_import (crt, &list[0], GNUTLS_X509_FMT_DER) < 0 ||
      !fp_tls_name_in (crt, s->user, sizeof s->user))
    s->user[0] = '\0'; /* valid, but has no usable name */
  gnutls_x509_crt_deinit (crt);
}

int
fp_tls_handshake (struct fp_tls_session *s)
{
  int r;

  do
    r = gnutls_handshake (s->session);
  while (r == GNUTLS_E_INTERRUPTED);
  if (r == 0) {
    if (s->tls->server)
      note_user (s);
    return 0;
  }
  if (r == GNUTLS_E_AGAIN)
    return -EAGAIN;
  if (s->like_tls)
    /* Tell the other end the reason, but do not wait until that is sent. */
    (void) gnutls_alert_send_appropriate (s->session, r);
  return translate (s, r);
}

bool
fp_tls_is_stranger (const struct fp_tls_session *s)
{
  return !s->like_tls;
}

bool
fp_tls_is_joining (const struct fp_tls_session *s)
{
  return s->tls->server && s->tls->has_keys && fp_psk_user_joins (s->user);
}

const char *
fp_tls_why (const struct fp_tls_session *s)
{
  return s->why;
}

short
fp_tls_wants (const struct fp_tls_session *s)
{
  return gnutls_record_get_direction (s->session) ? POLLOUT : POLLIN;
}

/* Copy up to one record of data, beginning at byte skip of iov. */
static size_t
gather (struct fp_tls_session *s, const struct iovec *iov, size_t nr,
        size_t skip)
{
  size_t n = 0;

  for (size_t i = 0; i < nr && n < RECORD; i++) {
    size_t length = iov[i].iov_len, part;

    if (skip >= length) {
      skip -= length;
      continue;
    }
    part = FP_MIN (length - skip, RECORD - n);
    memcpy (s->record + n, (const uint8_t *) iov[i].iov_base + skip, part);
    n += part;
    skip = 0;
  }
  return n;
}

ssize_t
fp_tls_send (struct fp_tls_session *s, const struct iovec *iov, size_t nr)
{
  size_t done = 0;

  for (;;) {
    ssize_t r;

    if (s->queued == 0) {
      s->queued = gather (s, iov, nr, done);
      if (s->queued == 0)
        return (ssize_t) done;
      r = gnutls_record_send (s->session, s->record, s->queued);
    }
    else
      r = gnutls_record_send (s->session, NULL, 0); /* continue the record */
    if (r == GNUTLS_E_INTERRUPTED)
      continue;
    if (r == GNUTLS_E_AGAIN)
      return done > 0 ? (ssize_t) done : -EAGAIN;
    if (r < 0)
      return translate (s, (int) r);
    done += s->queued;
    s->queued = 0;
  }
}

ssize_t
fp_tls_recv (struct fp_tls_session *s, const struct iovec *iov, size_t nr)
{
  size_t done = 0;

  for (size_t i = 0; i < nr; i++) {
    for (size_t at = 0; at < iov[i].iov_len;) {
      ssize_t r = gnutls_record_recv (
          s->session, (uint8_t *) iov[i].iov_base + at, iov[i].iov_len - at);

      if (r > 0) {
        at += (size_t) r;
        done += (size_t) r;
        continue;
      }
      if (r == GNUTLS_E_INTERRUPTED)
        continue;
      /* Return what was received; the next call reports this. */
      if (done > 0)
        return (ssize_t) done;
      /* A missing close_notify is harmless: each message carries its length,
       * so the caller notices a truncated one.
       */
      if (r == 0 || r == GNUTLS_E_PREMATURE_TERMINATION)
        return 0;
      return translate (s, (int) r);
    }
  }
  return (ssize_t) done;
}

bool
fp_tls_pending (const struct fp_tls_session *s)
{
  return gnutls_record_check_pending (s->session) > 0;
}

const char *
fp_tls_user (const struct fp_tls_session *s)
{
  return s->user;
}
