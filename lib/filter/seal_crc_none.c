/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_crc_none.c - for a build without ISA-L: see seal_gnutls_none.c. */

#include <config.h>

#include <errno.h>

#include "filter/seal_cipher.h"

int
fp_crc32c_supported (void)
{
  return -EOPNOTSUPP;
}

uint32_t
fp_crc32c (const void *p, size_t n)
{
  (void) p;
  (void) n;
  return 0;
}
