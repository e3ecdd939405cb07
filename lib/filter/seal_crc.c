/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_crc.c - CRC32C by ISA-L, which takes what the processor has for it
 * (pclmulqdq and crc32; crc32c of ARMv8).
 */

#include <config.h>

#include <isa-l/crc.h>

#include "filter/seal_cipher.h"

int
fp_crc32c_supported (void)
{
  return 0;
}

/* It leaves the inversions to its caller, and writes nothing. */
uint32_t
fp_crc32c (const void *p, size_t n)
{
  return ~crc32_iscsi ((unsigned char *) (uintptr_t) p, (int) n, ~0u);
}
