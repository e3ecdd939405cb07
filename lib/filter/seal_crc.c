/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_crc.c - CRC32C by ISA-L, which uses the processor's instructions
 * (pclmulqdq and crc32; crc32c of ARMv8).
 */

#include <config.h>

#include <isa-l/crc.h>

#include "filter/seal_cipher.h"

/* crc32_iscsi leaves both inversions to its caller.  It does not write to p.
 */
uint32_t
fp_crc32c (const void *p, size_t n)
{
  return ~crc32_iscsi ((unsigned char *) (uintptr_t) p, (int) n, ~0u);
}
