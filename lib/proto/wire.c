/* SPDX-License-Identifier: BSD-3-Clause */
/* wire.c - every field that is read from or written to a message goes
 * through fp_get_bytes or fp_put_bytes, which hold the only bounds check.
 */

#include <config.h>

#include <endian.h>
#include <string.h>

#include "proto/wire.h"

void
fp_reader_init (struct fp_reader *r, const void *data, size_t length)
{
  *r = (struct fp_reader) { .p = data, .left = length };
}

void
fp_writer_init (struct fp_writer *w, void *data, size_t length)
{
  *w = (struct fp_writer) { .p = data, .left = length };
}

void
fp_get_bytes (struct fp_reader *r, void *dest, size_t n)
{
  if (r->bad || n > r->left) {
    r->bad = true;
    memset (dest, 0, n);
    return;
  }
  if (n == 0)
    return; /* p may be NULL in an empty reader */
  memcpy (dest, r->p, n);
  r->p += n;
  r->left -= n;
}

uint8_t
fp_get_u8 (struct fp_reader *r)
{
  uint8_t v;

  fp_get_bytes (r, &v, sizeof v);
  return v;
}

uint16_t
fp_get_u16 (struct fp_reader *r)
{
  uint16_t v;

  fp_get_bytes (r, &v, sizeof v);
  return be16toh (v);
}

uint32_t
fp_get_u32 (struct fp_reader *r)
{
  uint32_t v;

  fp_get_bytes (r, &v, sizeof v);
  return be32toh (v);
}

uint64_t
fp_get_u64 (struct fp_reader *r)
{
  uint64_t v;

  fp_get_bytes (r, &v, sizeof v);
  return be64toh (v);
}

bool
fp_get_bool (struct fp_reader *r)
{
  uint8_t v = fp_get_u8 (r);

  if (v > 1)
    r->bad = true;
  return v == 1;
}

void
fp_get_string (struct fp_reader *r, char *out, size_t max)
{
  size_t n = fp_get_u16 (r);

  if (n > max || n > r->left) {
    r->bad = true;
    n = 0;
  }
  fp_get_bytes (r, out, n);
  if (memchr (out, 0, n) != NULL) {
    r->bad = true;
    n = 0;
  }
  out[n] = '\0';
}

bool
fp_reader_done (const struct fp_reader *r)
{
  return !r->bad && r->left == 0;
}

void
fp_put_bytes (struct fp_writer *w, const void *src, size_t n)
{
  if (w->bad || n > w->left) {
    w->bad = true;
    return;
  }
  if (n == 0)
    return;
  memcpy (w->p, src, n);
  w->p += n;
  w->left -= n;
}

void
fp_put_u8 (struct fp_writer *w, uint8_t v)
{
  fp_put_bytes (w, &v, sizeof v);
}

void
fp_put_u16 (struct fp_writer *w, uint16_t v)
{
  v = htobe16 (v);
  fp_put_bytes (w, &v, sizeof v);
}

void
fp_put_u32 (struct fp_writer *w, uint32_t v)
{
  v = htobe32 (v);
  fp_put_bytes (w, &v, sizeof v);
}

void
fp_put_u64 (struct fp_writer *w, uint64_t v)
{
  v = htobe64 (v);
  fp_put_bytes (w, &v, sizeof v);
}

void
fp_put_bool (struct fp_writer *w, bool v)
{
  fp_put_u8 (w, v ? 1 : 0);
}

void
fp_put_string (struct fp_writer *w, const char *s, size_t max)
{
  size_t n = strnlen (s, max + 1);

  if (n > max || n > UINT16_MAX) {
    w->bad = true;
    return;
  }
  fp_put_u16 (w, (uint16_t) n);
  fp_put_bytes (w, s, n);
}

bool
fp_writer_ok (const struct fp_writer *w)
{
  return !w->bad;
}
