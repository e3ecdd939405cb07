/* SPDX-License-Identifier: BSD-3-Clause */
/* psk_file.h - a file of pre-shared keys as GnuTLS's psktool writes it, and
 * nbdkit and libnbd read it: lines of USER:KEY, the key in hexadecimal.
 *
 * Errors:   0 or a negative errno value, and why: a sentence that begins with
 *           the file's name and has nothing of what is in it.
 * Threads:  a file that was read may be asked by several at a time.
 * Memory:   what was read is in locked memory (base/secret.h).
 */

#ifndef FP_PSK_FILE_H
#define FP_PSK_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/messages.h"

#define FP_PSK_KEY_MIN 16 /* bytes */
#define FP_PSK_KEY_MAX 64
#define FP_PSK_FILE_MAX 65536 /* several hundred users */
#define FP_PSK_WHY_MAX 512

struct fp_psk_file;

/* All lines are looked at: one that is wrong is an error, so is a file without
 * a user, and one that everybody may read (-EACCES).
 */
int fp_psk_file_read (struct fp_psk_file **out, const char *path,
                      char why[FP_PSK_WHY_MAX]);
void fp_psk_file_free (struct fp_psk_file *f);

/* In a child process: lock it again. */
int fp_psk_file_lock (struct fp_psk_file *f);

/* No user, but what stands there for the key of volumes (encrypt=FILE): who
 * gives that to a server has given all away.
 */
#define FP_PSK_VOLUMES "encrypt"
/* As fp_psk_file_read; -EINVAL, too: it has that one. */
int fp_psk_file_read_tls (struct fp_psk_file **out, const char *path,
                          char why[FP_PSK_WHY_MAX]);

/* The key of a user; its length, or -ENOENT. */
int fp_psk_file_key (const struct fp_psk_file *f, const char *user,
                     uint8_t key[FP_PSK_KEY_MAX]);

/* The only user that there is; -EINVAL: there are more. */
int fp_psk_file_only_user (const struct fp_psk_file *f,
                           char user[FP_NAME_MAX + 1]);

#endif /* FP_PSK_FILE_H */
