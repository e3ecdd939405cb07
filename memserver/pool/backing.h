/* SPDX-License-Identifier: BSD-3-Clause */
/* backing.h - the memory of one slab: a memfd of its own, mapped; or a file of
 * a store, which another server finds again (persist.h).
 *
 * One memfd for each slab, so that a client that gets one over a Unix socket
 * gets no more than that.  Its size is sealed: a client cannot cut it off
 * under us.  But a client may punch holes into it; from the moment it was
 * handed out our mapping may miss pages that no memory is left for, so it is
 * only touched by calls that return an error then (backing_zero does), never
 * by loads and stores: of huge pages, or where the system does not overcommit,
 * those end in SIGBUS.
 *
 * The tail is there where a page is small: a huge one for a few hundred bytes
 * would be too many.
 *
 * Units:    bytes.
 * Errors:   0 or a negative errno value.
 * Threads:  one at a time.
 */

#ifndef MEMSERVER_BACKING_H
#define MEMSERVER_BACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "memserver/store/store.h"

/* Work on a slab is done so many bytes at a time, or a page if that is more:
 * milliseconds, after which something else may go first.
 */
#define BACKING_STEP (2u << 20)

enum hugepages { HUGEPAGES_AUTO, HUGEPAGES_2M, HUGEPAGES_1G, HUGEPAGES_OFF };

struct backing_params {
  uint64_t size;
  bool tail; /* a page more, for the client's use: proto/messages.h */
  enum hugepages hugepages;
  int numa;            /* node, or -1: any */
  struct store *store; /* for files, see backing_name; NULL: memfds */
  uint32_t index, serial;
};

struct backing {
  int fd; /* -1: none */
  uint8_t *addr;
  uint64_t size; /* with its tail, if it has one */
  uint64_t page_size;
  uint32_t serial;
};

/* These pages were set aside for nobody else: the rest of this host has no
 * more memory without them.
 */
static inline bool
backing_is_huge (const struct backing *b)
{
  return b->page_size > 65536;
}

/* Nothing is populated yet.  With HUGEPAGES_AUTO, the largest pages that
 * there are enough of; -ENOMEM: not enough of the pages that were asked for.
 */
int backing_new (struct backing *out, const struct backing_params *p);

/* What the last server had in its file of this serial, as it is.  -ENOENT,
 * -EINVAL: that is not there, or not as large.
 */
int backing_again (struct backing *out, const struct backing_params *p);

/* A file of so many bytes may be the memory of a slab of that size. */
static inline bool
backing_fits (uint64_t bytes, uint64_t size)
{
  return bytes >= size && bytes - size <= STORE_SMALL_PAGE;
}

/* Give up what is in its file, if anything; a new one has another file. */
int backing_remove (const struct backing_params *p);

/* The file of a slab.  Where memory is sealed each memory that it ever has is
 * another serial, from 1 on: two of them may be there at the same time.
 */
void backing_name (uint32_t slab, uint32_t serial, char out[STORE_NAME_MAX]);

/* Make [offset, offset + length) present, and lock it; zeros if it was not
 * there before.  *locked is cleared if locking failed.
 */
int backing_populate (struct backing *b, uint64_t offset, uint64_t length,
                      bool *locked);

/* Make memory that another server left present, and lock it.  Store nothing,
 * as clients may use it.  Return false if part of it is not locked.
 */
bool backing_pin (struct backing *b, uint64_t offset, uint64_t length);

/* Also where a client has the memfd; any alignment. */
int backing_zero (struct backing *b, uint64_t offset, uint64_t length);

/* The same bytes; both are populated, and have so many.  -errno also where a
 * client punched holes and no memory is left to fill them.
 */
int backing_copy (struct backing *to, const struct backing *from,
                  uint64_t offset, uint64_t length);

/* All bytes of its tail, if it has one, are this. */
int backing_fill_tail (struct backing *b, uint64_t size, uint8_t byte);

/* Let go of it: the system has the memory back when nobody has the memfd open
 * or mapped.  The file of a store stays.
 */
void backing_drop (struct backing *b);

/* Give [offset, offset + length), whole pages, back to the system at once.
 * Where it is still mapped there are zeros: only for clients that have done
 * with it.  -errno: the bytes are what they were; drop it.
 */
int backing_take_back (struct backing *b, uint64_t offset, uint64_t length);

#endif /* MEMSERVER_BACKING_H */
