/* SPDX-License-Identifier: BSD-3-Clause */
/* duration.c - see duration.h. */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "conf/duration.h"

/* The largest unit is first. */
static const struct {
  const char *name;
  uint64_t us;
} units[] = {
  { "d", 24 * 3600 * FP_S }, { "h", 3600 * FP_S },
  { "min", 60 * FP_S },      { "s", FP_S },
  { "ms", FP_MS },           { "us", FP_US },
};
#define NR_UNITS (sizeof units / sizeof units[0])

int
fp_parse_duration (const char *s, uint64_t unit, uint64_t *us)
{
  uint64_t v = 0;
  size_t i = 0;

  if (*s < '0' || *s > '9')
    return -EINVAL;
  for (; *s >= '0' && *s <= '9'; s++)
    if (fp_mul_u64 (v, 10, &v) < 0 || fp_add_u64 (v, *s - '0', &v) < 0)
      return -ERANGE;
  if (*s != '\0') {
    while (i < NR_UNITS && strcmp (units[i].name, s) != 0)
      i++;
    if (i == NR_UNITS)
      return -EINVAL;
    unit = units[i].us;
  }
  return fp_mul_u64 (v, unit, us) < 0 ? -ERANGE : 0;
}

void
fp_format_duration (uint64_t us, char out[FP_DURATION_STR_MAX])
{
  size_t i = 0;

  while (us % units[i].us != 0)
    i++;
  if (us == 0)
    i = 3; /* seconds */
  snprintf (out, FP_DURATION_STR_MAX, "%" PRIu64 "%s", us / units[i].us,
            units[i].name);
}
