/* SPDX-License-Identifier: BSD-3-Clause */
/* wire.h - bounded big-endian reader and writer for control messages.
 *
 * Both are sticky: after the first field that does not fit, every later
 * call does nothing, gets return 0, and the object stays bad.  So a
 * decoder reads all its fields in a row and checks once, at the end.
 *
 * Threads:  none shared; a reader or writer belongs to one caller.
 * Errors:   none returned; see fp_reader_done and fp_writer_ok.
 * Memory:   nothing allocates; the buffers are the caller's.
 */

#ifndef FP_WIRE_H
#define FP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fp_reader {
  const uint8_t *p; /* next byte to read */
  size_t left;      /* bytes not yet read */
  bool bad;         /* some field did not fit, or was not allowed */
};

struct fp_writer {
  uint8_t *p;  /* next byte to write */
  size_t left; /* bytes still free */
  bool bad;    /* some field did not fit */
};

void fp_reader_init (struct fp_reader *r, const void *data, size_t length);
void fp_writer_init (struct fp_writer *w, void *data, size_t length);

uint8_t fp_get_u8 (struct fp_reader *r);
uint16_t fp_get_u16 (struct fp_reader *r);
uint32_t fp_get_u32 (struct fp_reader *r);
uint64_t fp_get_u64 (struct fp_reader *r);
bool fp_get_bool (struct fp_reader *r); /* a byte, 0 or 1; else bad */
void fp_get_bytes (struct fp_reader *r, void *dest, size_t n);

/* Read a u16 length and that many bytes into out, which holds max + 1 and gets
 * a NUL at its end.  If the string is longer than max or has a NUL inside,
 * mark r bad and set out to "".
 */
void fp_get_string (struct fp_reader *r, char *out, size_t max);

/* Return true if every field fitted and no byte is left over. */
bool fp_reader_done (const struct fp_reader *r);

void fp_put_u8 (struct fp_writer *w, uint8_t v);
void fp_put_u16 (struct fp_writer *w, uint16_t v);
void fp_put_u32 (struct fp_writer *w, uint32_t v);
void fp_put_u64 (struct fp_writer *w, uint64_t v);
void fp_put_bool (struct fp_writer *w, bool v);
void fp_put_bytes (struct fp_writer *w, const void *src, size_t n);
void fp_put_string (struct fp_writer *w, const char *s, size_t max);

/* Return true if every field fitted. */
bool fp_writer_ok (const struct fp_writer *w);

#endif /* FP_WIRE_H */
