/* SPDX-License-Identifier: BSD-3-Clause */
/* encoding.h - fields of messages that are more than a number, and their
 * checks, shared by the encoders and decoders.
 */

#ifndef FP_ENCODING_H
#define FP_ENCODING_H

#include <errno.h>

#include "proto/messages.h"

#define SLAB_MIN 4096

static inline bool
name_ok_or_empty (const char *name)
{
  return name[0] == '\0' || fp_name_ok (name);
}

static inline bool
slab_size_ok (uint64_t size)
{
  return size >= SLAB_MIN && (size & (size - 1)) == 0;
}

static inline bool
is_one_transport (uint32_t t)
{
  return t != 0 && (t & ~FP_TRANSPORT_WIRE_MASK) == 0 && (t & (t - 1)) == 0;
}

static inline int
verdict (const struct fp_reader *r, bool ok)
{
  return fp_reader_done (r) && ok ? 0 : -EPROTO;
}

/* Encode count and return it.  If it exceeds max, mark w bad and return 0, so
 * that the caller's loop stays inside its array.
 */
static inline uint32_t
put_count (struct fp_writer *w, uint32_t count, uint32_t max)
{
  if (count > max) {
    w->bad = true;
    return 0;
  }
  fp_put_u32 (w, count);
  return count;
}

static inline uint32_t
get_count (struct fp_reader *r, uint32_t min, uint32_t max)
{
  uint32_t count = fp_get_u32 (r);

  if (count < min || count > max) {
    r->bad = true;
    return 0;
  }
  return count;
}

static inline void
put_uuid (struct fp_writer *w, const struct fp_uuid *u)
{
  _Static_assert(sizeof *u == 16, "a UUID is 16 bytes on the wire");
  fp_put_bytes (w, u, sizeof *u);
}

static inline void
get_uuid (struct fp_reader *r, struct fp_uuid *u)
{
  fp_get_bytes (r, u, sizeof *u);
}

static inline void
put_stripe (struct fp_writer *w, const struct fp_stripe *s)
{
  fp_put_u32 (w, s->width);
  fp_put_u64 (w, s->size);
}

static inline void
get_stripe (struct fp_reader *r, struct fp_stripe *s)
{
  s->width = fp_get_u32 (r);
  s->size = fp_get_u64 (r);
}

#endif /* FP_ENCODING_H */
