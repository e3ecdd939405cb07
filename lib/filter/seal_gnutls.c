/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_gnutls.c - the ciphers, by GnuTLS.
 *
 * Microseconds for 4 KiB, with AES instructions, on one thread of a shared
 * machine (AMD EPYC, Debian 12; the best of some runs):
 *
 *                            GCM    XTS
 *   GnuTLS 3.7.9             1.0    0.7
 *   libcrypto 3.0.19         1.1    1.1
 *   nettle 3.8.1             1.8   10.7, because its XTS goes by 16 bytes
 *
 * None of them allocates for that.  GnuTLS's own interface for AEAD takes
 * about as long, but wants the tag right behind the cipher text.
 */

#include <config.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "filter/seal_cipher.h"

#define NONCE 12 /* bytes; RFC 5116, 5.3 */
#define TAG 16

struct fp_cipher {
  gnutls_cipher_hd_t handle;
  bool gcm;
};

size_t
fp_cipher_key_size (enum fp_cipher_kind kind)
{
  return kind == FP_CIPHER_GCM ? 32 : 64;
}

int
fp_cipher_new (struct fp_cipher **out, enum fp_cipher_kind kind,
               const uint8_t *key)
{
  gnutls_datum_t k = { .data = (unsigned char *) (uintptr_t) key,
                       .size = (unsigned) fp_cipher_key_size (kind) };
  struct fp_cipher *c = calloc (1, sizeof *c);
  int r;

  if (c == NULL)
    return -ENOMEM;
  c->gcm = kind == FP_CIPHER_GCM;
  r = gnutls_cipher_init (&c->handle,
                          c->gcm ? GNUTLS_CIPHER_AES_256_GCM
                                 : GNUTLS_CIPHER_AES_256_XTS,
                          &k, NULL);
  if (r < 0) {
    free (c);
    return r == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EINVAL;
  }
  *out = c;
  return 0;
}

void
fp_cipher_free (struct fp_cipher *c)
{
  if (c == NULL)
    return;
  gnutls_cipher_deinit (c->handle);
  free (c);
}

/* Set the nonce or tweak: number in 8 bytes, little-endian.  A nonce has 4
 * zeros before the number, a tweak has 8 behind it.
 */
static void
set_number (struct fp_cipher *c, uint64_t number)
{
  unsigned char iv[16] = { 0 }, *at = iv + (c->gcm ? NONCE - 8 : 0);

  for (unsigned i = 0; i < 8; i++)
    at[i] = (unsigned char) (number >> 8 * i);
  gnutls_cipher_set_iv (c->handle, iv, c->gcm ? NONCE : sizeof iv);
}

int
fp_cipher_encrypt (struct fp_cipher *c, void *out, const void *in, size_t n,
                   uint64_t number, uint64_t tag[2])
{
  set_number (c, number);
  if (gnutls_cipher_encrypt2 (c->handle, in, n, out, n) < 0)
    return -EIO;
  return c->gcm && gnutls_cipher_tag (c->handle, tag, TAG) < 0 ? -EIO : 0;
}

int
fp_cipher_decrypt (struct fp_cipher *c, void *out, const void *in, size_t n,
                   uint64_t number, const uint64_t tag[2])
{
  uint64_t is[2];

  set_number (c, number);
  if (gnutls_cipher_decrypt2 (c->handle, in, n, out, n) < 0)
    return -EIO;
  if (!c->gcm)
    return 0;
  if (gnutls_cipher_tag (c->handle, is, TAG) < 0)
    return -EIO;
  return gnutls_memcmp (is, tag, TAG) == 0 ? 0 : -EBADMSG;
}

int
fp_derive_key (uint8_t *out, size_t size, const uint8_t *key, size_t key_size,
               const void *salt, size_t salt_size, const char *purpose)
{
  const gnutls_datum_t k = { .data = (unsigned char *) (uintptr_t) key,
                             .size = (unsigned) key_size };
  const gnutls_datum_t s = { .data = (unsigned char *) (uintptr_t) salt,
                             .size = (unsigned) salt_size };
  const gnutls_datum_t info = { .data = (unsigned char *) (uintptr_t) purpose,
                                .size = (unsigned) strlen (purpose) };
  unsigned char first[32]; /* HKDF: RFC 5869 */
  const gnutls_datum_t prk = { .data = first, .size = sizeof first };
  int r = gnutls_hkdf_extract (GNUTLS_MAC_SHA256, &k, &s, first);

  if (r == 0)
    r = gnutls_hkdf_expand (GNUTLS_MAC_SHA256, &prk, &info, out, size);
  explicit_bzero (first, sizeof first);
  return r < 0 ? -EINVAL : 0;
}
