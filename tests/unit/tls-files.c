/* SPDX-License-Identifier: BSD-3-Clause */
/* tls-files.c - see tls-files.h. */

#include "unit.h"

#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "tls-files.h"

#define DAY 86400

char tls_dir[] = "/tmp/farpage-tls-XXXXXX";

static const char *const directories[] = { "good", "other",    "expired",
                                           "bare", "san",      "mail",
                                           "uri",  "purposes", "swapped" };
#define NR_DIRECTORIES (sizeof directories / sizeof directories[0])

static void
put (const char *name, const void *text, size_t n)
{
  char path[128];
  int fd;

  snprintf (path, sizeof path, "%s/%s", tls_dir, name);
  fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true (fd >= 0);
  assert_int_equal (write (fd, text, n), n);
  close (fd);
}

static void
put_pem (const char *dir, const char *who, const char *what, gnutls_datum_t *d)
{
  char name[64];

  snprintf (name, sizeof name, "%s/%s-%s.pem", dir, who, what);
  put (name, d->data, d->size);
  gnutls_free (d->data);
}

struct identity {
  gnutls_x509_privkey_t key;
  gnutls_x509_crt_t crt;
};

static const char *purpose; /* purpose in the next certificates, or NULL */
/* URI before the next certificates' SAN, or NULL */
static const char *uri;

/* Make a certificate, signed by ca or by itself.  name: its CN, or NULL for
 * none.  san: a DNS name or a mail address; NULL = this host.
 */
static void
make (struct identity *id, const char *name, const char *san,
      const struct identity *ca, time_t end)
{
  static const uint8_t loopback[] = { 127, 0, 0, 1 };
  static uint8_t serial;

  serial++;
  assert_int_equal (gnutls_x509_privkey_init (&id->key), 0);
  assert_int_equal (gnutls_x509_privkey_generate (
                        id->key, GNUTLS_PK_ECDSA,
                        GNUTLS_CURVE_TO_BITS (GNUTLS_ECC_CURVE_SECP256R1), 0),
                    0);
  assert_int_equal (gnutls_x509_crt_init (&id->crt), 0);
  gnutls_x509_crt_set_version (id->crt, 3);
  gnutls_x509_crt_set_serial (id->crt, &serial, 1);
  gnutls_x509_crt_set_key (id->crt, id->key);
  if (name != NULL)
    gnutls_x509_crt_set_dn_by_oid (id->crt, GNUTLS_OID_X520_COMMON_NAME, 0,
                                   name, (unsigned) strlen (name));
  gnutls_x509_crt_set_activation_time (id->crt, time (NULL) - 10 * DAY);
  gnutls_x509_crt_set_expiration_time (id->crt, end);
  gnutls_x509_crt_set_ca_status (id->crt, ca == NULL);
  if (purpose != NULL)
    gnutls_x509_crt_set_key_purpose_oid (id->crt, purpose, 0);
  if (ca == NULL)
    gnutls_x509_crt_set_key_usage (id->crt, GNUTLS_KEY_KEY_CERT_SIGN);
  else if (san != NULL) {
    if (uri != NULL)
      gnutls_x509_crt_set_subject_alt_name (id->crt, GNUTLS_SAN_URI, uri,
                                            (unsigned) strlen (uri),
                                            GNUTLS_FSAN_APPEND);
    gnutls_x509_crt_set_subject_alt_name (
        id->crt,
        strchr (san, '@') != NULL ? GNUTLS_SAN_RFC822NAME : GNUTLS_SAN_DNSNAME,
        san, (unsigned) strlen (san), GNUTLS_FSAN_APPEND);
  }
  else {
    gnutls_x509_crt_set_subject_alt_name (id->crt, GNUTLS_SAN_DNSNAME,
                                          "localhost", 9, GNUTLS_FSAN_APPEND);
    gnutls_x509_crt_set_subject_alt_name (id->crt, GNUTLS_SAN_IPADDRESS,
                                          loopback, sizeof loopback,
                                          GNUTLS_FSAN_APPEND);
  }
  assert_int_equal (gnutls_x509_crt_sign2 (id->crt, ca ? ca->crt : id->crt,
                                           ca ? ca->key : id->key,
                                           GNUTLS_DIG_SHA256, 0),
                    0);
}

static void
end (struct identity *id)
{
  gnutls_x509_crt_deinit (id->crt);
  gnutls_x509_privkey_deinit (id->key);
}

static void
save (const char *dir, const char *who, const struct identity *id, bool key)
{
  gnutls_datum_t d;

  assert_int_equal (gnutls_x509_crt_export2 (id->crt, GNUTLS_X509_FMT_PEM, &d),
                    0);
  put_pem (dir, who, "cert", &d);
  if (!key)
    return;
  assert_int_equal (
      gnutls_x509_privkey_export2 (id->key, GNUTLS_X509_FMT_PEM, &d), 0);
  put_pem (dir, who, "key", &d);
}

static void
save_both (const char *dir, const struct identity *ca, time_t when)
{
  struct identity id;

  save (dir, "ca", ca, false);
  make (&id, "localhost", NULL, ca, when);
  save (dir, "server", &id, true);
  end (&id);
  make (&id, "alice", NULL, ca, when);
  save (dir, "client", &id, true);
  end (&id);
}

/* The server's CN is localhost, but does not count beside another SAN. */
static void
save_san (const char *dir, const struct identity *ca, const char *server,
          const char *client)
{
  const time_t when = time (NULL) + 10 * DAY;
  struct identity id;

  save (dir, "ca", ca, false);
  make (&id, "localhost", server, ca, when);
  save (dir, "server", &id, true);
  end (&id);
  make (&id, NULL, client, ca, when);
  save (dir, "client", &id, true);
  end (&id);
}

static void
save_purposes (const char *dir, const struct identity *ca, const char *server,
               const char *client)
{
  const time_t when = time (NULL) + 10 * DAY;
  struct identity id;

  save (dir, "ca", ca, false);
  purpose = server;
  make (&id, "localhost", NULL, ca, when);
  save (dir, "server", &id, true);
  end (&id);
  purpose = client;
  make (&id, "alice", NULL, ca, when);
  save (dir, "client", &id, true);
  end (&id);
  purpose = NULL;
}

int
tls_files_setup (void **state)
{
  static const char keys[] = "alice:00112233445566778899aabbccddeeff\n"
                             "bob:ff112233445566778899aabbccddee00\n";
  static const char other[] = "alice:99112233445566778899aabbccddee99\n";
  static const char all[] = "@all:00112233445566778899aabbccddeeff"
                            "00112233445566778899aabbccddeeff\n";
  static const char volumes[] = "encrypt:99112233445566778899aabbccddee99\n";
  const time_t now = time (NULL);
  struct identity ca, other_ca;
  char path[64], longer[1024] = "";

  (void) state;
  if (mkdtemp (tls_dir) == NULL)
    return -1;
  for (unsigned i = 0; i < NR_DIRECTORIES; i++) {
    snprintf (path, sizeof path, "%s/%s", tls_dir, directories[i]);
    assert_int_equal (mkdir (path, 0700), 0);
  }
  put ("psk", keys, sizeof keys - 1);
  put ("psk-alice", keys, 39);
  put ("psk-other", other, sizeof other - 1);
  put ("psk-volumes", volumes, sizeof volumes - 1);
  put ("psk-all", all, sizeof all - 1);
  make (&ca, "one authority", NULL, NULL, now + 10 * DAY);
  make (&other_ca, "another authority", NULL, NULL, now + 10 * DAY);
  save_both ("good", &ca, now + 10 * DAY);
  save_both ("other", &other_ca, now + 10 * DAY);
  save_both ("expired", &ca, now - DAY);
  save ("bare", "ca", &ca, false);
  save_san ("san", &ca, "elsewhere.example", "carol");
  save_san ("mail", &ca, "elsewhere.example", "dave@example.com");
  memset (longer, 'x', sizeof longer - 1);
  memcpy (longer, "spiffe://", 9);
  uri = longer;
  save_san ("uri", &ca, "elsewhere.example", "erin");
  uri = NULL;
  save_purposes ("purposes", &ca, GNUTLS_KP_TLS_WWW_SERVER,
                 GNUTLS_KP_TLS_WWW_CLIENT);
  save_purposes ("swapped", &ca, GNUTLS_KP_TLS_WWW_CLIENT,
                 GNUTLS_KP_TLS_WWW_SERVER);
  end (&ca);
  end (&other_ca);
  return 0;
}

int
tls_files_teardown (void **state)
{
  static const char *const files[] = {
    "ca-cert.pem",     "server-cert.pem", "server-key.pem",
    "client-cert.pem", "client-key.pem",  "",
  };
  static const char *const keys[] = { "psk", "psk-alice", "psk-other",
                                      "psk-volumes", "psk-all" };
  char path[128];

  (void) state;
  for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    snprintf (path, sizeof path, "%s/%s", tls_dir, keys[i]);
    unlink (path);
  }
  for (unsigned i = 0; i < NR_DIRECTORIES; i++)
    for (unsigned j = 0; j < sizeof files / sizeof files[0]; j++) {
      snprintf (path, sizeof path, "%s/%s/%s", tls_dir, directories[i],
                files[j]);
      (void) remove (path);
    }
  return rmdir (tls_dir);
}

struct fp_tls *
tls_of (bool server, const char *what, const char *user, bool verify_peer)
{
  struct fp_tls_params p = { .verify_peer = verify_peer };
  struct fp_error error = { .text = "" };
  struct fp_tls *t = NULL;

  snprintf (strncmp (what, "psk", 3) == 0 ? p.psk : p.certificates,
            FP_TLS_PATH_MAX, "%s/%s", tls_dir, what);
  if (user != NULL)
    snprintf (p.username, sizeof p.username, "%s", user);
  if (fp_tls_params_complete (&p, server, &error) < 0 ||
      fp_tls_new (&t, &p, server, &error) < 0)
    fail_msg ("%s", error.text);
  return t;
}
