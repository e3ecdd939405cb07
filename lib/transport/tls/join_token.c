/* SPDX-License-Identifier: BSD-3-Clause */
/* join_token.c - see join_token.h. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "transport/tls/hex.h"
#include "transport/tls/join_token.h"
#include "transport/tls/psk_file.h"

#define PREFIX_LENGTH (sizeof FP_PSK_JOIN - 1)
#define EXPIRY_LENGTH 8
/* "join.", a user of at least one character, '.', and the expiry */
#define IDENTITY_MIN (PREFIX_LENGTH + 1 + 1 + EXPIRY_LENGTH)

int
fp_join_make (struct fp_join_token *t, const char *user, uint32_t expiry)
{
  if (strlen (user) > FP_JOIN_USER_MAX || !fp_psk_user_ok (user))
    return -EINVAL;
  *t = (struct fp_join_token) { .expiry = expiry };
  memcpy (t->user, user, strlen (user));
  snprintf (t->identity, sizeof t->identity, FP_PSK_JOIN "%.*s.%08x",
            FP_JOIN_USER_MAX, user, expiry);
  return 0;
}

int
fp_join_parse_identity (struct fp_join_token *t, const char *identity)
{
  size_t n = strlen (identity), length;
  char user[FP_NAME_MAX + 1] = "";
  uint8_t at[4];

  if (n < IDENTITY_MIN || n > FP_NAME_MAX || !fp_psk_user_joins (identity) ||
      identity[n - EXPIRY_LENGTH - 1] != '.' ||
      fp_unhex (at, identity + n - EXPIRY_LENGTH, sizeof at) < 0)
    return -EINVAL;
  length = n - IDENTITY_MIN + 1;
  memcpy (user, identity + PREFIX_LENGTH, length);
  return fp_join_make (t, user,
                       (uint32_t) at[0] << 24 | (uint32_t) at[1] << 16 |
                           (uint32_t) at[2] << 8 | at[3]);
}

int
fp_join_parse (struct fp_join_token *t, const char *text)
{
  const char *dot = strrchr (text, '.');
  char identity[FP_NAME_MAX + 1] = "";
  size_t length = strcspn (text, "\r\n");

  if (dot == NULL || (size_t) (dot - text) > FP_NAME_MAX ||
      text[length + strspn (text + length, "\r\n")] != '\0' ||
      length != (size_t) (dot - text) + 1 + 2 * FP_JOIN_KEY_SIZE)
    return -EINVAL;
  memcpy (identity, text, (size_t) (dot - text));
  if (fp_join_parse_identity (t, identity) < 0 ||
      fp_unhex (t->key, dot + 1, sizeof t->key) < 0)
    return -EINVAL;
  return 0;
}

int
fp_join_format (const struct fp_join_token *t, char out[FP_JOIN_TOKEN_MAX])
{
  int n = snprintf (out, FP_JOIN_TOKEN_MAX, "%s.", t->identity);

  return fp_hex (out + n, t->key, sizeof t->key);
}
