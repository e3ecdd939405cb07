/* SPDX-License-Identifier: BSD-3-Clause */
/* test-tls.c - TLS between the two ends of a socketpair: which end trusts
 * which, and data that arrives intact however little the socket takes.
 */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "tls-files.h"
#include "transport/tls/join_token.h"
#include "transport/tls/psk_file.h"

/* Both ends, and the result of the handshake on each. */
struct pair {
  int fd[2]; /* client, server */
  struct fp_tls *tls[2];
  struct fp_tls_session *s[2];
  int result[2];
};

static void
connect_pair (struct pair *p, struct fp_tls *client, struct fp_tls *server,
              const char *host)
{
  *p = (struct pair) { .tls = { client, server },
                       .result = { -EAGAIN, -EAGAIN } };
  assert_int_equal (
      socketpair (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fd), 0);
  assert_int_equal (fp_tls_begin (&p->s[0], client, p->fd[0], host), 0);
  assert_int_equal (fp_tls_begin (&p->s[1], server, p->fd[1], NULL), 0);
}

/* Run the handshake.  The server checks a client's certificate after the
 * client's part is done.  The client hears of a refusal at its first read.
 */
static void
shake (struct pair *p)
{
  for (unsigned n = 0; n < 20; n++)
    for (unsigned i = 0; i < 2; i++)
      if (p->result[i] == -EAGAIN) {
        p->result[i] = fp_tls_handshake (p->s[i]);
        if (p->result[i] < 0 && p->result[i] != -EAGAIN)
          shutdown (p->fd[i], SHUT_WR);
      }
}

static void
end_pair (struct pair *p)
{
  for (unsigned i = 0; i < 2; i++) {
    fp_tls_end (p->s[i]);
    fp_tls_free (p->tls[i]);
    close (p->fd[i]);
  }
}

/* Connect the two and compare their errors, "" = none. */
static void
meet (struct fp_tls *client, struct fp_tls *server, const char *host,
      const char *client_says, const char *server_says, const char *user)
{
  char c;
  const struct iovec iov = { &c, 1 };
  struct pair p;

  connect_pair (&p, client, server, host);
  shake (&p);
  if (p.result[0] == 0 && client_says[0] != '\0')
    p.result[0] = (int) fp_tls_recv (p.s[0], &iov, 1);
  assert_int_equal (p.result[0], client_says[0] != '\0' ? -EACCES : 0);
  assert_int_equal (p.result[1], server_says[0] != '\0' ? -EACCES : 0);
  assert_non_null (strstr (fp_tls_why (p.s[0]), client_says));
  assert_non_null (strstr (fp_tls_why (p.s[1]), server_says));
  assert_string_equal (fp_tls_user (p.s[1]), user);
  assert_false (fp_tls_is_stranger (p.s[1]));
  end_pair (&p);
}

static struct fp_tls *
client (const char *what, const char *user)
{
  return tls_of (false, what, user, false);
}

static struct fp_tls *
server (const char *what)
{
  return tls_of (true, what, NULL, false);
}

static struct fp_tls *
strict (const char *what)
{
  return tls_of (true, what, NULL, true);
}

static void
test_keys (void **state)
{
  (void) state;
  meet (client ("psk", "alice"), server ("psk"), NULL, "", "", "alice");
  meet (client ("psk", "bob"), server ("psk"), NULL, "", "", "bob");
  meet (client ("psk-alice", NULL), server ("psk"), NULL, "", "", "alice");
  /* A wrong key and an unknown user give the same error. */
  meet (client ("psk-other", NULL), server ("psk"), NULL, "not know the user",
        "its key differs from ours", "");
  meet (client ("psk", "bob"), server ("psk-alice"), NULL, "not know the user",
        "its key differs from ours", "");
  /* One end has keys, the other one certificates. */
  meet (client ("psk-alice", NULL), server ("good"), NULL,
        "certificates, and this end uses keys", "refuses TLS", "");
  meet (client ("good", NULL), server ("psk"), "localhost", "refuses TLS",
        "certificates, and this end uses keys", "");
}

/* Make the identity of a client with a join token from the file psk-all. */
static struct fp_tls *
joining (const char *user, uint32_t expiry)
{
  struct fp_join_token token;
  struct fp_psk_file *f;
  struct fp_error error;
  struct fp_tls *t;
  char path[64];

  snprintf (path, sizeof path, "%s/psk-all", tls_dir);
  assert_int_equal (fp_psk_file_read_tls (&f, path, &error), 0);
  assert_int_equal (fp_join_make (&token, user, expiry), 0);
  assert_int_equal (
      fp_psk_file_derive (f, token.identity, token.key, sizeof token.key), 0);
  fp_psk_file_free (f);
  assert_int_equal (
      fp_tls_new_key (&t, token.identity, token.key, sizeof token.key, &error),
      0);
  return t;
}

/* With the master key a server accepts each user, and each join token that has
 * not expired.  No client can be user @all.
 */
static void
test_all_users (void **state)
{
  struct fp_tls_params p = { .mode = FP_TLS_REQUIRE };
  uint8_t key[FP_PSK_KEY_MAX] = { 0 };
  struct fp_error error;
  struct fp_tls *t;
  int n;

  (void) state;
  meet (client ("psk-all", "zoe"), server ("psk-all"), NULL, "", "", "zoe");
  meet (client ("psk-alice", NULL), server ("psk-all"), NULL, "not know",
        "its key differs", "");
  snprintf (p.psk, sizeof p.psk, "%s/psk-all", tls_dir);
  assert_int_equal (fp_tls_new (&t, &p, false, &error), -EINVAL);
  assert_non_null (strstr (error.text, "tls-username=NAME"));

  meet (joining ("zoe", UINT32_MAX), server ("psk-all"), NULL, "", "",
        "join.zoe.ffffffff");
  meet (joining ("zoe", 1), server ("psk-all"), NULL, "not know",
        "its key differs", "");
  meet (joining ("zoe", UINT32_MAX), server ("psk"), NULL, "not know",
        "its key differs", "");
  /* The server accepts the key that it hands out. */
  t = server ("psk-all");
  n = fp_tls_user_key (t, "zoe", key);
  assert_int_equal (n, FP_PSK_DERIVED);
  fp_tls_free (t);
  assert_int_equal (fp_tls_new_key (&t, "zoe", key, (size_t) n, &error), 0);
  meet (t, server ("psk-all"), NULL, "", "", "zoe");
}

static void
test_certificates (void **state)
{
  (void) state;
  meet (client ("good", NULL), server ("good"), "localhost", "", "", "");
  meet (client ("bare", NULL), server ("good"), "127.0.0.1", "", "", "");
  meet (client ("good", NULL), server ("good"), "127.0.0.2", "does not match",
        "refuses TLS", "");
  meet (client ("good", NULL), server ("good"), "example.com",
        "does not match", "refuses TLS", "");
  meet (client ("other", NULL), server ("good"), "localhost",
        "issuer is unknown", "refuses TLS", "");
  meet (client ("good", NULL), server ("expired"), "localhost", "expired",
        "refuses TLS", "");

  meet (client ("good", NULL), strict ("good"), "localhost", "", "", "alice");
  meet (client ("bare", NULL), strict ("good"), "localhost", "refuses TLS",
        "it has no certificate", "");
  meet (client ("expired", NULL), strict ("good"), "localhost", "refuses TLS",
        "expired", "");
}

/* Names in a certificate besides its CN. */
static void
test_other_names (void **state)
{
  (void) state;
  meet (client ("good", NULL), server ("san"), "elsewhere.example", "", "",
        "");
  meet (client ("good", NULL), server ("san"), "localhost", "does not match",
        "refuses TLS", "");
  meet (client ("good", NULL), server ("san"), "127.0.0.1", "does not match",
        "refuses TLS", "");
  meet (client ("san", NULL), strict ("good"), "localhost", "", "", "carol");
  meet (client ("mail", NULL), strict ("good"), "localhost", "", "",
        "dave@example.com");
  meet (client ("uri", NULL), strict ("good"), "localhost", "", "", "erin");
  /* Without a check of certificates, the client has no user name. */
  meet (client ("san", NULL), server ("good"), "localhost", "", "", "");
}

/* Run both sides of the handshake with a client of GnuTLS. */
static void
meet_foreign (gnutls_session_t session, struct fp_tls_session *s, int *r,
              int *ours)
{
  for (unsigned n = 0; n < 20; n++) {
    if (*r == GNUTLS_E_AGAIN)
      *r = gnutls_handshake (session);
    if (*ours == -EAGAIN)
      *ours = fp_tls_handshake (s);
  }
}

/* Connect a client of GnuTLS with this priority string. */
static void
foreign (const char *priority, const char *server_says)
{
  gnutls_certificate_credentials_t none;
  gnutls_session_t session;
  struct fp_tls_session *s;
  struct fp_tls *t = server ("good");
  int fd[2], r = GNUTLS_E_AGAIN, ours = -EAGAIN;

  assert_int_equal (socketpair (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd),
                    0);
  assert_int_equal (fp_tls_begin (&s, t, fd[1], NULL), 0);
  gnutls_init (&session, GNUTLS_CLIENT | GNUTLS_NONBLOCK);
  gnutls_certificate_allocate_credentials (&none);
  gnutls_credentials_set (session, GNUTLS_CRD_CERTIFICATE, none);
  assert_int_equal (gnutls_priority_set_direct (session, priority, NULL), 0);
  gnutls_transport_set_int (session, fd[0]);
  meet_foreign (session, s, &r, &ours);
  if (server_says == NULL) {
    assert_int_equal (r, 0);
    assert_int_equal (ours, 0);
    assert_int_equal (gnutls_protocol_get_version (session), GNUTLS_TLS1_3);
  }
  else {
    assert_int_equal (r, GNUTLS_E_FATAL_ALERT_RECEIVED);
    assert_int_equal (ours, -EACCES);
    assert_non_null (strstr (fp_tls_why (s), server_says));
  }
  gnutls_deinit (session);
  gnutls_certificate_free_credentials (none);
  fp_tls_end (s);
  fp_tls_free (t);
  close (fd[0]);
  close (fd[1]);
}

/* Return whether psk-all accepts a client of GnuTLS whose user name has these
 * bytes, and the key of `user`.
 */
static bool
accepts (const void *name, unsigned length, const char *user)
{
  uint8_t bytes[FP_PSK_KEY_MAX];
  const gnutls_datum_t who = { (unsigned char *) (uintptr_t) name, length };
  gnutls_datum_t key = { bytes, 0 };
  gnutls_psk_client_credentials_t psk;
  gnutls_session_t session;
  struct fp_tls_session *s;
  struct fp_tls *t = server ("psk-all");
  int fd[2], r = GNUTLS_E_AGAIN, ours = -EAGAIN;

  key.size = (unsigned) fp_tls_user_key (t, user, bytes);
  assert_int_equal (socketpair (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd),
                    0);
  assert_int_equal (fp_tls_begin (&s, t, fd[1], NULL), 0);
  gnutls_init (&session, GNUTLS_CLIENT | GNUTLS_NONBLOCK);
  gnutls_psk_allocate_client_credentials (&psk);
  assert_int_equal (
      gnutls_psk_set_client_credentials2 (psk, &who, &key, GNUTLS_PSK_KEY_RAW),
      0);
  gnutls_credentials_set (session, GNUTLS_CRD_PSK, psk);
  assert_int_equal (
      gnutls_priority_set_direct (
          session, "NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+ECDHE-PSK", NULL),
      0);
  gnutls_transport_set_int (session, fd[0]);
  meet_foreign (session, s, &r, &ours);
  if (ours == 0)
    assert_string_equal (fp_tls_user (s), user);
  gnutls_deinit (session);
  gnutls_psk_free_client_credentials (psk);
  fp_tls_end (s);
  fp_tls_free (t);
  close (fd[0]);
  close (fd[1]);
  return ours == 0;
}

/* A user name is any bytes, but only one that a key file may have is a user.
 */
static void
test_names (void **state)
{
  char longest[FP_NAME_MAX + 2];

  (void) state;
  assert_true (accepts ("zoe", 3, "zoe"));
  assert_false (accepts ("zoe", 3, "eve"));
  /* A NUL must not make a client one without a name, or with a shorter one. */
  assert_false (accepts ("zoe\0", 4, "zoe"));
  assert_false (accepts ("zoe\0x", 5, "zoe"));
  assert_false (accepts ("\0zoe", 4, "zoe"));
  assert_false (accepts ("@all", 4, "@all"));
  assert_false (accepts ("a b", 3, "a b"));
  assert_false (accepts ("#zoe", 4, "#zoe"));
  memset (longest, 'x', sizeof longest);
  longest[FP_NAME_MAX] = '\0';
  assert_true (accepts (longest, FP_NAME_MAX, longest));
  longest[FP_NAME_MAX] = 'x';
  assert_false (accepts (longest, FP_NAME_MAX + 1, "zoe"));
}

static void
test_versions (void **state)
{
  (void) state;
  foreign ("NORMAL", NULL);
  foreign ("NORMAL:-VERS-ALL:+VERS-TLS1.2", "TLS: ");
  foreign ("NORMAL:-VERS-ALL:+VERS-TLS1.1:+VERS-TLS1.0", "TLS: ");
}

/* Slow groups are refused. */
static void
test_groups (void **state)
{
  (void) state;
  foreign ("NORMAL:-GROUP-ALL:+GROUP-X25519", NULL);
  foreign ("NORMAL:-GROUP-ALL:+GROUP-SECP256R1", NULL);
  foreign ("NORMAL:-GROUP-ALL:+GROUP-FFDHE8192", "TLS: ");
  foreign ("NORMAL:-GROUP-ALL:+GROUP-FFDHE2048", "TLS: ");
}

/* A certificate for one role is refused in the other. */
static void
test_purposes (void **state)
{
  (void) state;
  meet (client ("purposes", NULL), strict ("purposes"), "localhost", "", "",
        "alice");
  meet (client ("swapped", NULL), strict ("purposes"), "localhost",
        "refuses TLS", "intended purpose", "");
  meet (client ("purposes", NULL), server ("swapped"), "localhost",
        "intended purpose", "refuses TLS", "");
}

/* Bytes that are not TLS, and TLS that is cut off. */
static void
test_garbage (void **state)
{
  static const char http[] = "GET / HTTP/1.1\r\nHost: somewhere.else\r\n\r\n";
  static const uint8_t large[] = { 0x16, 3, 1, 0x40, 1, 1, 0, 0x3f, 0xfd };
  struct pair p;
  uint8_t hello[4096];
  ssize_t n;

  (void) state;
  connect_pair (&p, client ("psk-alice", NULL), server ("psk"), NULL);
  assert_int_equal (send (p.fd[0], http, sizeof http, 0), sizeof http);
  assert_int_equal (fp_tls_handshake (p.s[1]), -EPROTO);
  assert_true (fp_tls_is_stranger (p.s[1]));
  end_pair (&p);

  connect_pair (&p, client ("psk-alice", NULL), server ("psk"), NULL);
  assert_int_equal (send (p.fd[1], http, sizeof http, 0), sizeof http);
  assert_int_equal (fp_tls_handshake (p.s[0]), -EPROTO);
  assert_true (fp_tls_is_stranger (p.s[0]));
  end_pair (&p);

  /* A record that is too large. */
  connect_pair (&p, client ("psk-alice", NULL), server ("psk"), NULL);
  assert_int_equal (send (p.fd[0], large, sizeof large, 0), sizeof large);
  for (unsigned i = 0; i < 8; i++) {
    memset (hello, 0, sizeof hello);
    assert_true (send (p.fd[0], hello, sizeof hello, 0) > 0);
  }
  assert_int_equal (fp_tls_handshake (p.s[1]), -EACCES);
  end_pair (&p);

  /* After half a handshake the server waits for the rest, until the client
   * hangs up.
   */
  connect_pair (&p, client ("psk-alice", NULL), server ("psk"), NULL);
  assert_int_equal (fp_tls_handshake (p.s[0]), -EAGAIN);
  n = recv (p.fd[1], hello, sizeof hello, MSG_PEEK);
  assert_true (n > 20 && hello[0] == FP_TLS_FIRST_BYTE);
  assert_int_equal (recv (p.fd[1], hello, sizeof hello, 0), n);
  assert_int_equal (send (p.fd[0], hello, (size_t) n - 1, 0), n - 1);
  assert_int_equal (fp_tls_handshake (p.s[1]), -EAGAIN);
  assert_int_equal (fp_tls_wants (p.s[1]), POLLIN);
  assert_int_equal (fp_tls_handshake (p.s[1]), -EAGAIN);
  shutdown (p.fd[0], SHUT_WR);
  assert_int_equal (fp_tls_handshake (p.s[1]), -ECONNRESET);
  end_pair (&p);

  /* The server hangs up without a word. */
  connect_pair (&p, client ("psk-alice", NULL), server ("psk"), NULL);
  assert_int_equal (fp_tls_handshake (p.s[0]), -EAGAIN);
  shutdown (p.fd[1], SHUT_WR);
  assert_int_equal (fp_tls_handshake (p.s[0]), -ECONNRESET);
  assert_true (fp_tls_is_stranger (p.s[0]));
  end_pair (&p);
}

#define TOTAL 400000

/* Describe a part of [from, TOTAL) in up to three buffers. */
static size_t
cut (struct iovec iov[3], uint8_t *base, size_t from)
{
  size_t n = 0;

  while (n < 3 && from < TOTAL) {
    size_t length = (size_t) rand () % 40000;

    if (length > TOTAL - from)
      length = TOTAL - from;
    if (length == 0)
      length = 1;
    iov[n++] = (struct iovec) { base + from, length };
    from += length;
  }
  return n;
}

static void
test_data (void **state)
{
  static uint8_t out[TOTAL], in[TOTAL];
  const int small = 4096;
  struct iovec iov[3];
  unsigned full = 0;
  struct pair p;

  (void) state;
  connect_pair (&p, client ("psk-alice", NULL), server ("psk"), NULL);
  shake (&p);
  for (unsigned i = 0; i < 2; i++) {
    size_t sent = 0, got = 0;

    assert_int_equal (
        setsockopt (p.fd[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    for (size_t b = 0; b < TOTAL; b++)
      out[b] = (uint8_t) rand ();
    while (got < TOTAL) {
      ssize_t r;

      if (sent < TOTAL) {
        r = fp_tls_send (p.s[i], iov, cut (iov, out, sent));
        if (r == -EAGAIN) {
          assert_int_equal (fp_tls_wants (p.s[i]), POLLOUT);
          full++;
          r = 0;
        }
        assert_true (r >= 0);
        sent += (size_t) r;
      }
      r = fp_tls_recv (p.s[1 - i], iov, cut (iov, in, got));
      if (r == -EAGAIN)
        r = 0;
      assert_true (r >= 0);
      got += (size_t) r;
    }
    assert_int_equal (sent, TOTAL);
    assert_memory_equal (in, out, TOTAL);
    iov[0] = (struct iovec) { in, 1 };
    assert_int_equal (fp_tls_recv (p.s[1 - i], iov, 1), -EAGAIN);
  }
  assert_true (full > 0);

  /* Decrypted bytes that poll(2) cannot see. */
  iov[0] = (struct iovec) { out, 10 };
  assert_int_equal (fp_tls_send (p.s[0], iov, 1), 10);
  iov[0].iov_len = 4;
  assert_int_equal (fp_tls_recv (p.s[1], iov, 1), 4);
  assert_true (fp_tls_pending (p.s[1]));
  iov[0].iov_len = 20;
  assert_int_equal (fp_tls_recv (p.s[1], iov, 1), 6);
  assert_false (fp_tls_pending (p.s[1]));

  /* The network flips one bit: the session ends. */
  iov[0].iov_len = 10;
  assert_int_equal (fp_tls_send (p.s[1], iov, 1), 10);
  assert_true (recv (p.fd[0], in, sizeof in, 0) > 10);
  in[7] ^= 1;
  assert_int_equal (send (p.fd[1], in, 32, 0), 32);
  assert_int_equal (fp_tls_recv (p.s[0], iov, 1), -EACCES);
  shutdown (p.fd[0], SHUT_WR);
  iov[0].iov_len = 10;
  assert_true (fp_tls_recv (p.s[1], iov, 1) <= 0);
  end_pair (&p);
}

static void
refused (const char *key, const char *value, const char *says)
{
  struct fp_tls_params p = { 0 };
  struct fp_error error = { .text = "" };

  assert_int_equal (fp_tls_params_set (&p, key, value, &error), -EINVAL);
  assert_non_null (strstr (error.text, says));
}

static void
test_params (void **state)
{
  struct fp_tls_params p = { 0 };
  struct fp_error error = { .text = "" };
  struct fp_tls *t;

  (void) state;
  refused ("tls", "yes", "not one of off, on, require");
  refused ("tls-psk", "", "name is missing");
  refused ("tls-username", "a b", "a name is");
  assert_int_equal (fp_tls_params_set (&p, "server", "x", &error), -ENOENT);

  assert_int_equal (fp_tls_params_complete (&p, false, &error), 0);
  assert_int_equal (p.mode, FP_TLS_OFF);
  assert_int_equal (fp_tls_new (&t, &p, false, &error), 0);
  assert_null (t);
  assert_int_equal (fp_tls_params_set (&p, "tls", "on", &error), 0);
  assert_int_equal (fp_tls_params_complete (&p, false, &error), -EINVAL);
  assert_non_null (strstr (error.text, "tls needs tls-psk"));
  assert_int_equal (fp_tls_params_set (&p, "tls-certificates", "/x", &error),
                    0);
  assert_int_equal (fp_tls_params_complete (&p, false, &error), 0);
  assert_int_equal (p.mode, FP_TLS_ON);
  assert_int_equal (fp_tls_new (&t, &p, false, &error), -EINVAL);
  assert_non_null (strstr (error.text, "/x/ca-cert.pem"));
  assert_int_equal (fp_tls_params_set (&p, "tls-psk", "/y", &error), 0);
  assert_int_equal (fp_tls_params_complete (&p, false, &error), -EINVAL);

  /* If keys or certificates are given, TLS is required. */
  p = (struct fp_tls_params) { 0 };
  assert_int_equal (fp_tls_params_set (&p, "tls-psk", "/y", &error), 0);
  assert_int_equal (fp_tls_params_complete (&p, true, &error), 0);
  assert_int_equal (p.mode, FP_TLS_REQUIRE);
  assert_int_equal (fp_tls_new (&t, &p, true, &error), -ENOENT);
  assert_non_null (strstr (error.text, "/y: "));

  snprintf (p.psk, sizeof p.psk, "%s/psk", tls_dir);
  assert_int_equal (fp_tls_new (&t, &p, false, &error), -EINVAL);
  assert_non_null (strstr (error.text, "choose one with tls-username=NAME"));
  snprintf (p.username, sizeof p.username, "carol");
  assert_int_equal (fp_tls_new (&t, &p, false, &error), -EINVAL);
  assert_non_null (strstr (error.text, "no key for user carol"));
  snprintf (p.psk, sizeof p.psk, "%s/psk-volumes", tls_dir);
  for (unsigned i = 0; i < 2; i++) {
    assert_int_equal (fp_tls_new (&t, &p, i == 1, &error), -EINVAL);
    assert_non_null (strstr (error.text, "holds a key for volumes"));
  }
  p = (struct fp_tls_params) { .mode = FP_TLS_REQUIRE };
  snprintf (p.certificates, sizeof p.certificates, "%s/bare", tls_dir);
  assert_int_equal (fp_tls_new (&t, &p, true, &error), -EINVAL);
  assert_non_null (strstr (error.text, "server-cert.pem"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_params),       cmocka_unit_test (test_keys),
    cmocka_unit_test (test_certificates), cmocka_unit_test (test_other_names),
    cmocka_unit_test (test_versions),     cmocka_unit_test (test_garbage),
    cmocka_unit_test (test_data),         cmocka_unit_test (test_groups),
    cmocka_unit_test (test_purposes),     cmocka_unit_test (test_all_users),
    cmocka_unit_test (test_names),
  };

  return cmocka_run_group_tests (tests, tls_files_setup, tls_files_teardown);
}
