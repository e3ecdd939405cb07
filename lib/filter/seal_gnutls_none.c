/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_gnutls_none.c - for a build without GnuTLS.  Nothing is encrypted
 * there, so only the functions that report this are ever called.
 */

#include <config.h>

#include <errno.h>

#include "filter/seal_cipher.h"

int
fp_cipher_supported (void)
{
  return -EOPNOTSUPP;
}

size_t
fp_cipher_key_size (enum fp_cipher_kind kind)
{
  return kind == FP_CIPHER_GCM ? 32 : 64;
}

int
fp_cipher_new (struct fp_cipher **out, enum fp_cipher_kind kind,
               const uint8_t *key)
{
  (void) out;
  (void) kind;
  (void) key;
  return -EOPNOTSUPP;
}

void
fp_cipher_free (struct fp_cipher *c)
{
  (void) c;
}

int
fp_cipher_encrypt (struct fp_cipher *c, void *out, const void *in, size_t n,
                   uint64_t number, uint64_t tag[2])
{
  (void) c;
  (void) out;
  (void) in;
  (void) n;
  (void) number;
  (void) tag;
  return -EOPNOTSUPP;
}

int
fp_cipher_decrypt (struct fp_cipher *c, void *out, const void *in, size_t n,
                   uint64_t number, const uint64_t tag[2])
{
  (void) c;
  (void) out;
  (void) in;
  (void) n;
  (void) number;
  (void) tag;
  return -EOPNOTSUPP;
}

int
fp_derive_key (uint8_t *out, size_t size, const uint8_t *key, size_t key_size,
               const void *salt, size_t salt_size, const char *purpose)
{
  (void) out;
  (void) size;
  (void) key;
  (void) key_size;
  (void) salt;
  (void) salt_size;
  (void) purpose;
  return -EOPNOTSUPP;
}
