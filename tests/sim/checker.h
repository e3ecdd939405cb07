/* SPDX-License-Identifier: BSD-3-Clause */
/* checker.h - check what a volume returns.  Each block of 512 bytes is a
 * register that several threads read and write.
 *
 * For each block a read may return one of these:
 *
 * - The last write that was acknowledged before the read began.
 * - A write that was under way at any time during the read.
 * - A write that failed, or whose client died, until one that began after its
 *   end is acknowledged.
 *
 * If two acknowledged writes overlapped, reads may return either, until one
 * read has returned one of them.  Later reads return that one.  The same is
 * true for all that former clients wrote, once a read of the next client has
 * returned one of those values.  If several writes of zeros were possible, a
 * read of zeros settles nothing.
 *
 * Of two clients the later one has the higher host.
 *
 * Anything else is an error: an older write, zeros that were never written,
 * half a block, another block.
 *
 * Writes are told apart by their numbers: a block is full of the number of
 * the block and that of the write.  Zeroing is write 0.
 *
 * Threads:  the one that has the turn.  No call gives it up.
 */

#ifndef SIM_CHECKER_H
#define SIM_CHECKER_H

#include <stdbool.h>
#include <stdint.h>

#define CHECKER_BLOCK 512u

/* A request, from its begin to its end. */
struct checked {
  uint64_t first, nr; /* blocks */
  uint64_t number;    /* number of the write; 0: zeros */
  uint64_t began;     /* order */
  unsigned host;      /* that began it */
  bool is_read, is_zero;
  struct checked *next, **at; /* those that are under way */
};

/* Forget everything, for a volume of nr blocks that reads as zeros. */
void checker_new (uint64_t nr);

void checker_begin_read (struct checked *c, uint64_t first, uint64_t nr);
/* Fill buf with what the write writes. */
void checker_begin_write (struct checked *c, uint64_t first, uint64_t nr,
                          void *buf);
void checker_begin_zero (struct checked *c, uint64_t first, uint64_t nr);

/* End a request with 0 or -errno.  Return NULL if all is right, else what is
 * wrong, in a static buffer.
 */
const char *checker_end (struct checked *c, const void *buf, int status);

/* A client has attached.  Writes of former clients that are under way count as
 * failed: they cannot land any more.
 */
void checker_attached (unsigned host);

/* End all requests of this host, which was killed.  Return their number. */
unsigned checker_abandon (unsigned host);

#endif /* SIM_CHECKER_H */
