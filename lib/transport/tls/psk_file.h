/* SPDX-License-Identifier: BSD-3-Clause */
/* psk_file.h - a file of pre-shared keys, as GnuTLS's psktool writes it and
 * nbdkit and libnbd read it.  Each line is USER:KEY, with KEY in hexadecimal.
 * The line @all:KEY is the master key.  The key of each user without a line is
 * derived from it, so it has at least FP_PSK_DERIVED bytes (RFC 5869, 2.3).
 *
 * Errors:   0, or a negative errno value and the sentence in error, which
 *           begins with the file's name and reveals none of its contents.
 * Threads:  several threads may query the same fp_psk_file.
 * Memory:   the contents are in locked memory (base/memlock.h).
 */

#ifndef FP_PSK_FILE_H
#define FP_PSK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/messages.h"

#define FP_PSK_KEY_MIN FP_JOIN_KEY_MIN /* bytes */
#define FP_PSK_KEY_MAX FP_JOIN_KEY_MAX
#define FP_PSK_DERIVED 32     /* bytes of a key derived from the master key */
#define FP_PSK_FILE_MAX 65536 /* several hundred users */

struct fp_psk_file;

/* Read and check the file at path.  Fail if any line is wrong, if there is no
 * user, or if everybody may read or write the file (-EACCES).
 */
int fp_psk_file_read (struct fp_psk_file **out, const char *path,
                      struct fp_error *error);
/* Make a key file with one line, in memory only.  user must be valid. */
int fp_psk_file_new (struct fp_psk_file **out, const char *user,
                     const uint8_t *key, size_t n);
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

/* Name before the master key in a key file.  No TLS user may have it. */
#define FP_PSK_ALL "@all"

/* Beginning of the names that are reserved for join tokens (join_token.h). */
#define FP_PSK_JOIN "join."
bool fp_psk_user_joins (const char *user);

/* Return true if a line of a key file may have this user: a name (fp_name_ok)
 * without ':', not beginning with '#' or "join.".
 */
bool fp_psk_user_ok (const char *user);

/* Copy the key in the line of user to key.  Return its length in bytes, or
 * -ENOENT.
 */
int fp_psk_file_key (const struct fp_psk_file *f, const char *user,
                     uint8_t key[FP_PSK_KEY_MAX]);

/* Derive n bytes for user from the master key.  -ENOENT: the file has none, or
 * user is longer than FP_NAME_MAX.
 */
int fp_psk_file_derive (const struct fp_psk_file *f, const char *user,
                        uint8_t *out, size_t n);

/* Copy user's key to key: the one in its own line, else the derived one.
 * Return its length in bytes, or -ENOENT.
 */
int fp_psk_file_user (const struct fp_psk_file *f, const char *user,
                      uint8_t key[FP_PSK_KEY_MAX]);

/* Copy the name of the file's only user.  -EINVAL: there are several. */
int fp_psk_file_only_user (const struct fp_psk_file *f,
                           char user[FP_NAME_MAX + 1]);

#endif /* FP_PSK_FILE_H */
