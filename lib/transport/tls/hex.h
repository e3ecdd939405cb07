/* SPDX-License-Identifier: BSD-3-Clause */
/* hex.h - bytes in hexadecimal, with GnuTLS.
 *
 * Memory:   nothing allocates.
 */

#ifndef FP_HEX_H
#define FP_HEX_H

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stddef.h>
#include <stdint.h>

/* Decode the 2 * n characters at text.  -EINVAL: another character. */
static inline int
fp_unhex (uint8_t *out, const char *text, size_t n)
{
  const gnutls_datum_t in = { (unsigned char *) (uintptr_t) text,
                              (unsigned) (2 * n) };
  size_t room = n;

  return gnutls_hex_decode (&in, out, &room) < 0 || room != n ? -EINVAL : 0;
}

/* Write 2 * n lower-case digits and a NUL to out. */
static inline int
fp_hex (char *out, const uint8_t *in, size_t n)
{
  const gnutls_datum_t data = { (unsigned char *) (uintptr_t) in,
                                (unsigned) n };
  size_t room = 2 * n + 1;

  return gnutls_hex_encode (&data, out, &room) < 0 ? -EINVAL : 0;
}

#endif /* FP_HEX_H */
