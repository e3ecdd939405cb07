/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_cipher.h - encryption and checksums of blocks, by libraries.
 *
 *   gcm  AES-256-GCM, authenticated: a nonce that is never used twice (the
 *        number, a counter), and a tag of 16 bytes
 *   xts  AES-256-XTS (IEEE 1619): the block number is the tweak, and nothing
 *        is added; a block that was changed decrypts to other plain text
 *
 * Units:    bytes; a block has at least 16, and for xts a multiple of 16.
 * Errors:   0 or -errno.
 * Threads:  one thread at a time may use a cipher.
 * Memory:   only fp_cipher_new allocates.
 */

#ifndef FP_SEAL_CIPHER_H
#define FP_SEAL_CIPHER_H

#include <stddef.h>
#include <stdint.h>

enum fp_cipher_kind { FP_CIPHER_GCM, FP_CIPHER_XTS };

#define FP_CIPHER_KEY_MAX 64

struct fp_cipher;

/* Return the number of bytes of the key that are used: 32 (gcm), 64 (xts). */
size_t fp_cipher_key_size (enum fp_cipher_kind kind);

/* Create a cipher.  Return -EINVAL if the library refuses the key, or -ENOMEM.
 */
int fp_cipher_new (struct fp_cipher **out, enum fp_cipher_kind kind,
                   const uint8_t *key);
void fp_cipher_free (struct fp_cipher *c);

/* Encrypt n bytes.  out and in must be equal or not overlap.  Only gcm sets
 * tag.
 */
int fp_cipher_encrypt (struct fp_cipher *c, void *out, const void *in,
                       size_t n, uint64_t number, uint64_t tag[2]);
/* Decrypt n bytes.  Return -EBADMSG if in is not what was sealed with that
 * number and tag; then out must not be used.
 */
int fp_cipher_decrypt (struct fp_cipher *c, void *out, const void *in,
                       size_t n, uint64_t number, const uint64_t tag[2]);

/* Derive a key of size bytes for one purpose, from a key and a public salt.
 * Return -EINVAL if the library refuses.
 */
int fp_derive_key (uint8_t *out, size_t size, const uint8_t *key,
                   size_t key_size, const void *salt, size_t salt_size,
                   const char *purpose);

/* Return the CRC32C of p (Castagnoli's, as in iSCSI, RFC 3720). */
uint32_t fp_crc32c (const void *p, size_t n);

#endif /* FP_SEAL_CIPHER_H */
