/* SPDX-License-Identifier: BSD-3-Clause */
/* psk_write.h - add keys to a key file (psk_file.h).
 *
 * Errors:   0 or a negative errno value.
 * Memory:   the line is built in locked memory.
 */

#ifndef FP_PSK_WRITE_H
#define FP_PSK_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define FP_PSK_NEW 32 /* bytes of a key that fp_psk_append_new makes */

/* Append the line USER:KEY to the file fd, and sync it.  After an error the
 * file is as before.
 */
int fp_psk_append (int fd, const char *user, const uint8_t *key, size_t n);

/* Append a line with a random key of FP_PSK_NEW bytes. */
int fp_psk_append_new (int fd, const char *user);

/* Make a key file with one line and mode 0600.  -EEXIST: path exists.  After
 * any other error no file is left.
 */
int fp_psk_create (const char *path, const char *user, const uint8_t *key,
                   size_t n);

/* Make a key file at path with a random key for user.  If add is true and the
 * file exists, add the user to it.
 *
 * -EEXIST: the file exists and add is false, or user has a key in it.  After
 * an error an existing file is as before, and no new file is left.
 */
int fp_psk_new (const char *path, const char *user, bool add,
                struct fp_error *error);

#endif /* FP_PSK_WRITE_H */
