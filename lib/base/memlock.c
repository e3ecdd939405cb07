/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <sys/resource.h>

#include "base/memlock.h"

void
fp_raise_memlock (void)
{
  struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

  if (setrlimit (RLIMIT_MEMLOCK, &limit) == 0 ||
      getrlimit (RLIMIT_MEMLOCK, &limit) == -1)
    return;
  limit.rlim_cur = limit.rlim_max;
  /* Raising the one to the other is always allowed. */
  (void) setrlimit (RLIMIT_MEMLOCK, &limit);
}
