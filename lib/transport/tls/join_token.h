/* SPDX-License-Identifier: BSD-3-Clause */
/* join_token.h - a join token lets a machine fetch its key from a server until
 * it expires.  Its text is join.USER.EXPIRY.KEY:
 *
 *   USER    the user whose key is fetched; FP_PSK_ALL: the master key
 *   EXPIRY  seconds since 1970, 8 hexadecimal digits
 *   KEY     16 bytes in hexadecimal
 *
 * join.USER.EXPIRY is a TLS user name.  KEY is the key of 16 bytes that
 * psk_file.h derives for that name.  So a server stores no join tokens, and
 * each server with the same master key accepts them.  A connection of that TLS
 * user may only send JOIN (docs/PROTOCOL.md).
 *
 * Errors:   0 or a negative errno value.
 * Threads:  no shared state.
 * Memory:   nothing allocates.
 */

#ifndef FP_JOIN_TOKEN_H
#define FP_JOIN_TOKEN_H

#include <stdint.h>

#include "proto/messages.h"

#define FP_JOIN_KEY_SIZE 16                 /* bytes */
#define FP_JOIN_TOKEN_MAX 128               /* characters */
#define FP_JOIN_TTL_MAX 604800u             /* seconds: a week */
#define FP_JOIN_USER_MAX (FP_NAME_MAX - 14) /* "join." and ".EXPIRY" */

struct fp_join_token {
  char identity[FP_NAME_MAX + 1]; /* join.USER.EXPIRY */
  char user[FP_NAME_MAX + 1];
  uint32_t expiry; /* seconds since 1970 */
  uint8_t key[FP_JOIN_KEY_SIZE];
};

/* Parse the TLS user name join.USER.EXPIRY into t, without a key.  -EINVAL:
 * malformed.
 */
int fp_join_parse_identity (struct fp_join_token *t, const char *identity);

/* Fill in t for user, without a key.  -EINVAL: user is not valid
 * (fp_psk_user_ok), or is longer than FP_JOIN_USER_MAX.
 */
int fp_join_make (struct fp_join_token *t, const char *user, uint32_t expiry);

/* Parse the text of a join token, key included.  A line end may follow it.
 * -EINVAL: malformed.
 */
int fp_join_parse (struct fp_join_token *t, const char *text);

/* Write the text of t to out. */
int fp_join_format (const struct fp_join_token *t,
                    char out[FP_JOIN_TOKEN_MAX]);

#endif /* FP_JOIN_TOKEN_H */
