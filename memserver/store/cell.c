/* SPDX-License-Identifier: BSD-3-Clause */
/* cell.c - see cell.h. */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "memserver/store/cell.h"

/* The first turn is far from 0: no flipped bit makes one of the other. */
#define FIRST UINT64_C (0x4661727061676501)

/* Return a checksum, FNV-1a.  It protects from accidents, not from attacks. */
static uint64_t
sum_of (uint64_t turn, const uint8_t *bytes, size_t length)
{
  const uint64_t prime = UINT64_C (0x100000001b3);
  uint64_t h = UINT64_C (0xcbf29ce484222325);

  for (unsigned i = 0; i < 8; i++)
    h = (h ^ (turn >> (8 * i) & 0xff)) * prime;
  for (size_t i = 0; i < length; i++)
    h = (h ^ bytes[i]) * prime;
  return h;
}

void
cell_write (struct cell *c, const void *value, size_t length)
{
  uint64_t turn = atomic_load_explicit (&c->turn, memory_order_relaxed);
  uint8_t *copy;

  turn = turn == 0 ? FIRST : turn + 1;
  copy = c->copies + turn % 2 * length;
  memcpy (copy, value, length);
  c->sum[turn % 2] = sum_of (turn, copy, length);
  /* Release: what the turn refers to must be there before it. */
  atomic_store_explicit (&c->turn, turn, memory_order_release);
}

int
cell_read (const struct cell *c, void *value, size_t length)
{
  uint64_t turn = atomic_load_explicit (&c->turn, memory_order_acquire);
  const uint8_t *copy = c->copies + turn % 2 * length;

  memset (value, 0, length);
  if (turn == 0)
    return -ENOENT;
  if (c->sum[turn % 2] != sum_of (turn, copy, length))
    return -EBADMSG;
  memcpy (value, copy, length);
  return 0;
}
