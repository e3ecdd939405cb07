/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_cipher.h - what blocks are sealed and checked with; the algorithms are
 * those of libraries.
 *
 *   gcm  AES-256-GCM, authenticated: a nonce that is never used twice (the
 *        number, a counter), and a tag of 16 bytes
 *   xts  AES-256-XTS (IEEE 1619): the number of the block is the tweak, and
 *        nothing is added; a block that was changed is other plain text
 *
 * Units:    bytes; a block has 16 at least, and for xts a multiple of 16.
 * Errors:   0 or -errno.
 * Threads:  a cipher is used by one at a time.
 * Memory:   only new allocates.
 */

#ifndef FP_SEAL_CIPHER_H
#define FP_SEAL_CIPHER_H

#include <stddef.h>
#include <stdint.h>

enum fp_cipher_kind { FP_CIPHER_GCM, FP_CIPHER_XTS };

#define FP_CIPHER_KEY_MAX 64

struct fp_cipher;

/* Of the key so many bytes are used: 32 (gcm), 64 (xts). */
size_t fp_cipher_key_size (enum fp_cipher_kind kind);

/* -EOPNOTSUPP: built without the library.  -EINVAL: such a key is refused. */
int fp_cipher_new (struct fp_cipher **out, enum fp_cipher_kind kind,
                   const uint8_t *key);
void fp_cipher_free (struct fp_cipher *c);

/* out and in are the same, or do not overlap.  tag: of gcm. */
int fp_cipher_encrypt (struct fp_cipher *c, void *out, const void *in,
                       size_t n, uint64_t number, uint64_t tag[2]);
/* -EBADMSG: it is not what was sealed with that number and tag; what is in out
 * then is not to be used.
 */
int fp_cipher_decrypt (struct fp_cipher *c, void *out, const void *in,
                       size_t n, uint64_t number, const uint64_t tag[2]);

/* Bytes of a key for one purpose, from a key and what is not secret.
 * -EOPNOTSUPP
 */
int fp_derive_key (uint8_t *out, size_t size, const uint8_t *key,
                   size_t key_size, const void *salt, size_t salt_size,
                   const char *purpose);

/* -EOPNOTSUPP: built without what they need; or 0. */
int fp_cipher_supported (void);
int fp_crc32c_supported (void);

/* Castagnoli's, as of iSCSI, RFC 3720. */
uint32_t fp_crc32c (const void *p, size_t n);

#endif /* FP_SEAL_CIPHER_H */
