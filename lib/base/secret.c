/* SPDX-License-Identifier: BSD-3-Clause */
/* secret.c - memory for keys. */

#include <config.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/secret.h"

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
