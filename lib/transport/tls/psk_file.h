/* SPDX-License-Identifier: BSD-3-Clause */
/* psk_file.h - a file of pre-shared keys, as GnuTLS's psktool writes it and
 * nbdkit and libnbd read it.  Each line is USER:KEY, with KEY in hexadecimal.
 *
 * Errors:   0, or a negative errno value and the sentence in error, which
 *           begins with the file's name and reveals none of its contents.
 * Threads:  several threads may query the same fp_psk_file.
 * Memory:   the contents are in locked memory (base/memlock.h).
 */

#ifndef FP_PSK_FILE_H
#define FP_PSK_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/messages.h"

#define FP_PSK_KEY_MIN 16 /* bytes */
#define FP_PSK_KEY_MAX 64
#define FP_PSK_FILE_MAX 65536 /* several hundred users */

struct fp_psk_file;

/* Read and check the file at path.  Fail if any line is wrong, if there is no
 * user, or if everybody may read or write the file (-EACCES).
 */
int fp_psk_file_read (struct fp_psk_file **out, const char *path,
                      struct fp_error *error);
void fp_psk_file_free (struct fp_psk_file *f);

/* Lock the memory again, in a child process. */
int fp_psk_file_lock (struct fp_psk_file *f);

/* Name reserved for the key of volumes (encrypt=FILE), which is not a TLS
 * user.  A server that is given this key can decrypt everything.
 */
#define FP_PSK_VOLUMES "encrypt"
/* Read a file of TLS keys.  -EINVAL also if it has the key of volumes. */
int fp_psk_file_read_tls (struct fp_psk_file **out, const char *path,
                          struct fp_error *error);

/* Copy user's key to key.  Return its length in bytes, or -ENOENT. */
int fp_psk_file_key (const struct fp_psk_file *f, const char *user,
                     uint8_t key[FP_PSK_KEY_MAX]);

/* Copy the name of the file's only user.  -EINVAL: there are several. */
int fp_psk_file_only_user (const struct fp_psk_file *f,
                           char user[FP_NAME_MAX + 1]);

#endif /* FP_PSK_FILE_H */
