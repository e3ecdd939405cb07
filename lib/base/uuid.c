/* SPDX-License-Identifier: BSD-3-Clause */
/* uuid.c - UUIDs of volumes, clients and servers. */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/random.h"
#include "base/uuid.h"

/* Return true if there is a dash before byte i. */
static bool
dash_before (unsigned i)
{
  return i == 4 || i == 6 || i == 8 || i == 10;
}

static int
hex_value (char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

int
fp_uuid_generate (struct fp_uuid *out)
{
  int r = fp_random (out->bytes, sizeof out->bytes);

  if (r < 0)
    return r;
  out->bytes[6] = (out->bytes[6] & 0x0f) | 0x40; /* version 4 */
  out->bytes[8] = (out->bytes[8] & 0x3f) | 0x80; /* RFC 4122 */
  return 0;
}

int
fp_uuid_parse (struct fp_uuid *out, const char *s)
{
  struct fp_uuid uuid;

  for (unsigned i = 0; i < sizeof uuid.bytes; i++) {
    int hi, lo;

    if (dash_before (i) && *s++ != '-')
      return -EINVAL;
    /* This order prevents a read after the end of s. */
    if ((hi = hex_value (s[0])) < 0 || (lo = hex_value (s[1])) < 0)
      return -EINVAL;
    uuid.bytes[i] = (uint8_t) (hi << 4 | lo);
    s += 2;
  }
  if (*s)
    return -EINVAL;
  *out = uuid;
  return 0;
}

void
fp_uuid_format (const struct fp_uuid *uuid, char out[FP_UUID_STR_MAX])
{
  static const char digits[] = "0123456789abcdef";

  for (unsigned i = 0; i < sizeof uuid->bytes; i++) {
    if (dash_before (i))
      *out++ = '-';
    *out++ = digits[uuid->bytes[i] >> 4];
    *out++ = digits[uuid->bytes[i] & 15];
  }
  *out = '\0';
}

bool
fp_uuid_eq (const struct fp_uuid *a, const struct fp_uuid *b)
{
  return memcmp (a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool
fp_uuid_is_nil (const struct fp_uuid *uuid)
{
  static const struct fp_uuid nil;

  return fp_uuid_eq (uuid, &nil);
}
