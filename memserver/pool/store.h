/* SPDX-License-Identifier: BSD-3-Clause */
/* store.h - memory that outlives this process, as files with names:
 *
 *   DIR        files in a directory on a tmpfs or hugetlbfs (store_dir.c).
 *   fdstore:   memfds that systemd keeps while its service restarts, see
 *              FileDescriptorStoreMax= (store_fds.c).  They are sealed, so no
 *              process can truncate them, and clients may map them.
 *
 * Errors:   0 or a negative errno value.  error, if there is one, then has the
 *           sentence, or is unchanged if memory has run out.
 * Threads:  one opens and closes a store; between that any may use it.
 */

#ifndef MEMSERVER_STORE_H
#define MEMSERVER_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define STORE_NAME_MAX 64 /* bytes of a file name, with its NUL */
#define STORE_FDS "fdstore:"
#define STORE_FDS_SLABS 4096u /* most slabs that are known to fit */

/* Largest page that is not of a hugetlbfs, bytes. */
#define STORE_SMALL_PAGE 65536u

struct store;

/* Open a store.  where is DIR or STORE_FDS, and stays the caller's.  -EBUSY:
 * another server has it.  This changes nothing, except that it makes DIR and
 * its lock file.
 */
int store_open (struct store **out, const char *where, struct fp_error *error);
/* Close the store; its files stay. */
void store_close (struct store *s);

const char *store_where (const struct store *s);
/* Return the page size in bytes; of memfds, the smallest possible one. */
uint64_t store_page (const struct store *s);
bool store_is_sealed (const struct store *s);
/* Set *room to the bytes left, of huge pages if files are in those.
 * UINT64_MAX: there is no limit but the host's.
 */
int store_room (const struct store *s, uint64_t *room);

/* Ask about a store before it is opened.  store_page_at returns 0 if there is
 * no such place.
 */
bool store_will_seal (const char *where);
uint64_t store_page_at (const char *where);
/* Return how many bytes of memory the files have whose names begin with
 * prefix.
 */
uint64_t store_holds (const char *where, const char *prefix);

/* Return a descriptor of a file, which is the caller's then.  -ENOENT: there
 * is no such file.
 */
int store_get (struct store *s, const char *name);
/* Return a descriptor of a new, empty file.  Until store_keep the file is not
 * there, and an old one of that name stays.
 */
int store_make (struct store *s, const char *name);
/* Give up a file of store_make that was not kept. */
void store_unmake (struct store *s, const char *name);
/* Make fd the file of this name.  fd, from store_make or a memfd, stays the
 * caller's.
 */
int store_keep (struct store *s, const char *name, int fd);
/* Remove a file, if it is there. */
int store_remove (struct store *s, const char *name);

/* Call each with the name of every file, in any order.  An error ends that.
 * each may remove the file that it is given.
 */
typedef int store_each_fn (void *ctx, const char *name,
                           struct fp_error *error);
int store_each (struct store *s, store_each_fn *each, void *ctx,
                struct fp_error *error);

#endif /* MEMSERVER_STORE_H */
