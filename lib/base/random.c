/* SPDX-License-Identifier: BSD-3-Clause */
/* random.c - unpredictable bytes. */

#include <config.h>

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

#include "base/random.h"

int
fp_random (void *buf, size_t len)
{
  char *p = buf;

  while (len > 0) {
    ssize_t n = getrandom (p, len, 0);

    if (n < 0) {
      if (errno == EINTR)
        continue;
      return -errno;
    }
    p += n;
    len -= (size_t) n;
  }
  return 0;
}
