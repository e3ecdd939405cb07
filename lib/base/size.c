/* SPDX-License-Identifier: BSD-3-Clause */
/* size.c - sizes as people write them. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/size.h"

static int
refuse (int err, const char *reason, const char **why)
{
  if (why)
    *why = reason;
  return -err;
}

/* Return the unit of a suffix in bytes, or 0 if there is no such suffix. */
static uint64_t
unit_of (char c)
{
  static const char suffixes[] = "bkmgtpe";
  const char *p;

  if (c == 's' || c == 'S')
    return 512;
  if (c >= 'A' && c <= 'Z')
    c = (char) (c - 'A' + 'a');
  p = strchr (suffixes, c);
  return p ? UINT64_C (1) << (10 * (p - suffixes)) : 0;
}

int
fp_parse_size (const char *s, uint64_t *out, const char **why)
{
  static const char too_large[] = "larger than the largest size, 2^63 - 1";
  uint64_t v = 0, unit = 1;

  /* Skip blanks like nbdkit, which reads with strtoimax. */
  while (*s == ' ' || (*s >= '\t' && *s <= '\r'))
    s++;
  if (*s == '-')
    return refuse (EINVAL, "a size cannot be negative", why);
  if (*s == '+')
    s++;
  if (*s < '0' || *s > '9')
    return refuse (EINVAL, "a size must start with a digit", why);
  for (; *s >= '0' && *s <= '9'; s++) {
    if (fp_mul_u64 (v, 10, &v) < 0 || fp_add_u64 (v, *s - '0', &v) < 0)
      return refuse (ERANGE, too_large, why);
  }
  if (*s) {
    unit = unit_of (*s);
    if (unit == 0 || s[1])
      return refuse (EINVAL,
                     "a size must end in a digit, one of K M G T P E, "
                     "or s (sectors of 512 bytes)",
                     why);
  }
  if (fp_mul_u64 (v, unit, &v) < 0 || v > INT64_MAX)
    return refuse (ERANGE, too_large, why);
  *out = v;
  return 0;
}

void
fp_format_size (uint64_t size, char out[FP_SIZE_STR_MAX])
{
  unsigned i = size < 1024 ? 0 : fp_log2 (size) / 10;
  uint64_t unit = UINT64_C (1) << (10 * i);
  /* size % unit is below 2^60, so ten times that fits.  The last % shows gcc
   * that this is one digit.
   */
  unsigned tenths = (unsigned) (size % unit * 10 / unit) % 10;

  if (i == 0)
    snprintf (out, FP_SIZE_STR_MAX, "%" PRIu64 "B", size);
  else if (tenths == 0)
    snprintf (out, FP_SIZE_STR_MAX, "%" PRIu64 "%c", size / unit,
              "-KMGTPE"[i]);
  else
    snprintf (out, FP_SIZE_STR_MAX, "%" PRIu64 ".%u%c", size / unit, tenths,
              "-KMGTPE"[i]);
}

void
fp_format_size_exact (uint64_t size, char out[FP_SIZE_STR_MAX])
{
  unsigned i = 0;

  while (size != 0 && i < 6 && size % 1024 == 0) {
    size /= 1024;
    i++;
  }
  snprintf (out, FP_SIZE_STR_MAX, "%" PRIu64 "%c", size, "BKMGTPE"[i]);
}
