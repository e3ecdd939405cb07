/* SPDX-License-Identifier: BSD-3-Clause */
/* backing.h - the memory of one slab, mapped: a memfd of its own, or a file of
 * a store, which another server finds again (persist.h).
 *
 * Each slab has its own memfd, so that a client that gets one over a Unix
 * socket gets no more than that.  The size is sealed: a client cannot truncate
 * it under us.  But a client may punch holes into it.  Once it was handed out,
 * our mapping may miss pages that no memory is left for.  With huge pages, or
 * where the system does not overcommit, loads and stores there end in SIGBUS.
 * So touch that memory only with calls that return an error instead, as
 * backing_zero does.
 *
 * A slab has a tail only if its pages are small.  A huge page for a few
 * hundred bytes would be too much.
 *
 * Units:    bytes.
 * Errors:   0 or a negative errno value.
 * Threads:  one at a time.
 */

#ifndef MEMSERVER_BACKING_H
#define MEMSERVER_BACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "memserver/pool/store.h"

/* Bytes in one step of work on a slab, or one page if that is more.  A step
 * takes milliseconds; after it other work may go first.
 */
#define BACKING_STEP (2u << 20)

enum hugepages { HUGEPAGES_AUTO, HUGEPAGES_2M, HUGEPAGES_1G, HUGEPAGES_OFF };

struct backing_params {
  uint64_t size;
  bool tail; /* one page more for the client: proto/messages.h */
  enum hugepages hugepages;
  int numa;            /* node, or -1: any */
  struct store *store; /* for files, see backing_name; NULL: memfds */
  uint32_t index, serial;
};

struct backing {
  int fd; /* -1: none */
  uint8_t *addr;
  uint64_t size; /* with the tail, if there is one */
  uint64_t page_size;
  uint32_t serial;
};

/* Return true if b is in huge pages.  They were set aside: without them the
 * rest of this host has no more memory.
 */
static inline bool
backing_is_huge (const struct backing *b)
{
  return b->page_size > 65536;
}

/* Make the memory of a slab; nothing is populated yet.  HUGEPAGES_AUTO takes
 * the largest pages that there are enough of.  -ENOMEM: there are not enough
 * of the pages that were asked for.
 */
int backing_new (struct backing *out, const struct backing_params *p);

/* Map the memory that the last server had in the file of this serial,
 * unchanged.  -ENOENT: there is no file.  -EINVAL: its size is wrong.
 */
int backing_again (struct backing *out, const struct backing_params *p);

/* Return true if a file of so many bytes can be the memory of a slab of that
 * size.
 */
static inline bool
backing_fits (uint64_t bytes, uint64_t size)
{
  return bytes >= size && bytes - size <= STORE_SMALL_PAGE;
}

/* Remove the slab's file, if there is one.  A new one is another file. */
int backing_remove (const struct backing_params *p);

/* Write the name of a slab's file to out.  In a sealed store each new memory
 * of a slab gets the next serial, from 1.  So two of them can exist at the
 * same time.
 */
void backing_name (uint32_t slab, uint32_t serial, char out[STORE_NAME_MAX]);

/* Make [offset, offset + length) present, and lock it.  Missing pages become
 * zeros.  Clear *locked if locking failed.
 */
int backing_populate (struct backing *b, uint64_t offset, uint64_t length,
                      bool *locked);

/* Make memory that another server left present, and lock it.  Store nothing,
 * as clients may use it.  Return false if part of it is not locked.
 */
bool backing_pin (struct backing *b, uint64_t offset, uint64_t length);

/* Zero a range of any alignment; safe also if a client has the memfd. */
int backing_zero (struct backing *b, uint64_t offset, uint64_t length);

/* Copy a range to the same offset; both memories are long enough, and the
 * target is populated.  -errno also if a client punched holes that no memory
 * is left for.
 */
int backing_copy (struct backing *to, const struct backing *from,
                  uint64_t offset, uint64_t length);

/* Fill the tail with byte, if there is one; size is the slab's without it. */
int backing_fill_tail (struct backing *b, uint64_t size, uint8_t byte);

/* Unmap and close it.  The system has the memory back when no process has the
 * memfd open or mapped any more.  The file of a store stays.
 */
void backing_drop (struct backing *b);

/* Give [offset, offset + length), whole pages, back to the system at once.
 * Where it is still mapped it reads as zeros, so clients must be done with it.
 * -errno: the bytes are unchanged, so call backing_drop instead.
 */
int backing_take_back (struct backing *b, uint64_t offset, uint64_t length);

#endif /* MEMSERVER_BACKING_H */
