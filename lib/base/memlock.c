/* SPDX-License-Identifier: BSD-3-Clause */
/* memlock.c - resident memory. */

#include <config.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memlock.h"

void
fp_raise_memlock (void)
{
  struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

  if (setrlimit (RLIMIT_MEMLOCK, &limit) == 0 ||
      getrlimit (RLIMIT_MEMLOCK, &limit) == -1)
    return;
  limit.rlim_cur = limit.rlim_max;
  /* Raising the soft limit to the hard limit is always allowed. */
  (void) setrlimit (RLIMIT_MEMLOCK, &limit);
}

int
fp_map_filled (void **out, size_t size)
{
  size_t page = (size_t) sysconf (_SC_PAGESIZE);
  void *m = mmap (NULL, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (m == MAP_FAILED)
    return -errno;
  for (size_t at = 0; at < size; at += page)
    ((volatile char *) m)[at] = 0;
  *out = m;
  return 0;
}

int
fp_secret_lock (void *p, size_t size)
{
  return mlock (p, size) < 0 ? -ENOMEM : 0;
}

int
fp_secret_new (void **out, size_t size)
{
  void *p = mmap (NULL, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int r;

  if (p == MAP_FAILED)
    return -errno;
  r = fp_secret_lock (p, size);
  if (r == 0 && madvise (p, size, MADV_DONTDUMP) < 0)
    r = -errno;
  if (r < 0) {
    munmap (p, size);
    return r;
  }
  *out = p;
  return 0;
}

void
fp_secret_free (void *p, size_t size)
{
  if (p == NULL)
    return;
  explicit_bzero (p, size);
  munmap (p, size);
}
