/* SPDX-License-Identifier: BSD-3-Clause */
/* cell.h - a value in memory that outlives this process (persist.h).  A kill
 * at any instruction leaves the old value or the new one.
 *
 * A cell has two copies of the value, and one word that says which counts.  A
 * write fills the other copy, and then changes the word.  A checksum over the
 * copy and the word reveals what some other program spoiled.  Nothing that a
 * cell does by itself makes it wrong.
 *
 * Threads:  one that writes.
 * Memory:   the caller's, mapped and populated, so that no store fails.
 */

#ifndef MEMSERVER_CELL_H
#define MEMSERVER_CELL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct cell {
  _Atomic uint64_t turn; /* copy turn % 2 counts; 0: never written */
  uint64_t sum[2];
  uint64_t zero;
  uint8_t copies[];
};

/* Size of a cell for a value of so many bytes, a multiple of 8. */
#define CELL_SIZE(length) (sizeof (struct cell) + 2 * (size_t) (length))

void cell_write (struct cell *c, const void *value, size_t length);

/* Read the value.  -ENOENT: nothing was written yet, and value is all zeros.
 * -EBADMSG: the cell was spoiled.
 */
int cell_read (const struct cell *c, void *value, size_t length);

#endif /* MEMSERVER_CELL_H */
