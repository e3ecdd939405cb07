/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_key.h - the key of a file, for volumes that are encrypted with it
 * (encrypt=FILE): a line of "encrypt:KEY", KEY in hexadecimal, as `farpage
 * keygen --encrypt` writes it.  It looks like one of a key for TLS and is none
 * of these: those the servers have, too.
 *
 * Each volume is encrypted with a key of its own, which is derived from that
 * one and the volume's UUID.  The UUID of a volume with a name, which its
 * servers know, also says that it is encrypted, and with what (version 8 of
 * RFC 9562, for what is of one's own):
 *
 *     48 bits of chance | 8, 12 of chance | variant, 14 of chance | 48 of HMAC
 *
 * so neither another key nor none at all is taken for the right one.
 *
 * Errors:   0 or -errno, and why, which has nothing of the key.
 * Threads:  who starts a volume.
 * Memory:   what was read is in locked memory.
 */

#ifndef FP_SEAL_KEY_H
#define FP_SEAL_KEY_H

#include "volume/volume.h"

/* p->uuid is what the servers say; see fp_sealed_check. */
int fp_seal_key_check (struct fp_volume_params *p, char why[FP_WHY_MAX]);

/* Derive the key of this volume's blocks: FP_CIPHER_KEY_MAX bytes. */
int fp_seal_key_derive (const struct fp_seal_key *key,
                        const struct fp_uuid *uuid, uint8_t *out);

#endif /* FP_SEAL_KEY_H */
