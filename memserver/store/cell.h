/* SPDX-License-Identifier: BSD-3-Clause */
/* cell.h - a value in memory that outlives this process (persist.h), changed
 * in a way that a kill at any instruction leaves the old value or the new one.
 *
 * There are two copies of it, and one word that says which counts: the other
 * one is written, then the word.  A sum over the copy and the word tells what
 * somebody else spoiled; nothing that a cell does by itself makes it wrong.
 *
 * Threads:  one that writes.
 * Memory:   the caller's, mapped, and there: a store does not fail.
 */

#ifndef MEMSERVER_CELL_H
#define MEMSERVER_CELL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct cell {
  _Atomic uint64_t
      turn; /* copy turn % 2 counts; 0: nothing was ever written */
  uint64_t sum[2];
  uint64_t zero;
  uint8_t copies[];
};

/* Of a value of so many bytes, a multiple of 8. */
#define CELL_SIZE(length) (sizeof (struct cell) + 2 * (size_t) (length))

void cell_write (struct cell *c, const void *value, size_t length);

/* -ENOENT: nothing was written yet, and value is all zeros.  -EBADMSG: it was
 * spoiled.
 */
int cell_read (const struct cell *c, void *value, size_t length);

#endif /* MEMSERVER_CELL_H */
