/* SPDX-License-Identifier: BSD-3-Clause */
/* key_file.h - the key file of encrypted volumes (encrypt=FILE).  It has one
 * line "encrypt:KEY", KEY in hexadecimal, as `farpage keygen --encrypt` writes
 * it.  The format is that of a TLS key file.  The key must not be a TLS key,
 * because the servers know those.
 *
 * Errors:   0, or -errno and the sentence in error, which contains nothing of
 *           the key.
 */

#ifndef FP_KEY_FILE_H
#define FP_KEY_FILE_H

#include "base/error.h"
#include "filter/seal_key.h"

/* Read the key from the file at path. */
int fp_seal_key_read (struct fp_seal_key **out, const char *path,
                      struct fp_error *error);

#endif /* FP_KEY_FILE_H */
