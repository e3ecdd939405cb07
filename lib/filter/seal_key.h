/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_key.h - the key of encrypted volumes (encrypt=FILE).  key_file.c reads
 * it from a file.
 *
 * Each volume is encrypted with a key of its own, derived from the file's key
 * and the volume's UUID.  The servers of a volume with a name know its UUID.
 * That UUID also tells that the volume is encrypted, and with which key
 * (version 8 of RFC 9562, for private formats):
 *
 *     48 random bits | 8, 12 random | variant, 14 random | 48 of HMAC
 *
 * So a wrong key, or none, is never taken for the right one.
 *
 * Errors:   0 or -errno.  The sentence in error contains nothing of the key.
 * Threads:  the thread that starts a volume.
 * Memory:   the key that was read is in locked memory.
 */

#ifndef FP_SEAL_KEY_H
#define FP_SEAL_KEY_H

#include "base/error.h"
#include "extent/volume_params.h"

#define FP_SEAL_KEY_MAX 64 /* bytes */

/* Copy a key to locked memory.  -EINVAL: it is too long. */
int fp_seal_key_new (struct fp_seal_key **out, const uint8_t *bytes,
                     size_t size);
/* Lock the key again, in a child process.  key may be NULL. */
int fp_seal_key_lock (struct fp_seal_key *key);
/* Wipe and free the key.  key may be NULL. */
void fp_seal_key_free (struct fp_seal_key *key);

/* Check encrypt= and the key before anything is started.  For a volume with a
 * name, the servers must have been asked for its UUID before (p->uuid).  If
 * the volume is new and has a key file, draw a UUID that identifies the key.
 * -EKEYREJECTED: the volume has another key, or no key.
 */
int fp_seal_key_check (struct fp_volume_params *p, struct fp_error *error);

/* Derive the key of this volume's blocks: FP_CIPHER_KEY_MAX bytes. */
int fp_seal_key_derive (const struct fp_seal_key *key,
                        const struct fp_uuid *uuid, uint8_t *out);

#endif /* FP_SEAL_KEY_H */
