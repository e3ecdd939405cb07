/* SPDX-License-Identifier: BSD-3-Clause */
/* store.h - memory that outlives this process, as files with names:
 *
 *   DIR        files of a directory on a tmpfs or hugetlbfs: store_dir.c
 *   fdstore:   memfds that systemd keeps for its service while that is started
 *              again (FileDescriptorStoreMax=): store_fds.c.  Nobody can cut
 *              them off, as they are sealed: clients may map them.
 *
 * Errors:   0 or a negative errno value; why says more, for people.
 * Threads:  opened and closed by one; between that any.
 */

#ifndef MEMSERVER_STORE_H
#define MEMSERVER_STORE_H

#include <stdbool.h>
#include <stdint.h>

#define STORE_WHY_MAX 512
#define STORE_NAME_MAX 64 /* of a file, with its NUL */
#define STORE_FDS "fdstore:"
#define STORE_FDS_SLABS 4096u /* so many are known to fit */

/* The pages of a hugetlbfs are larger. */
#define STORE_SMALL_PAGE 65536u

struct store;

/* where is DIR, or STORE_FDS; it stays the caller's.  -EBUSY: another server
 * has it.  Changes nothing but that DIR is made.
 */
int store_open (struct store **out, const char *where,
                char why[STORE_WHY_MAX]);
/* What is in it stays. */
void store_close (struct store *s);

const char *store_where (const struct store *s);
/* In bytes; of memfds, the smallest that one may have. */
uint64_t store_page (const struct store *s);
bool store_is_sealed (const struct store *s);
/* So many bytes are left, and so many in huge pages; UINT64_MAX: no limit but
 * the host's.
 */
int store_room (const struct store *s, uint64_t *room);

/* Before it is opened.  store_page_at 0: no such place. */
bool store_will_seal (const char *where);
uint64_t store_page_at (const char *where);
/* Bytes of memory that files have whose names begin with this. */
uint64_t store_holds (const char *where, const char *prefix);

/* A descriptor of it, now the caller's.  -ENOENT: it is not there. */
int store_get (struct store *s, const char *name);
/* Likewise, of a new file, which is empty; it is not there yet, and what is
 * there by that name stays.
 */
int store_make (struct store *s, const char *name);
/* It never will be. */
void store_unmake (struct store *s, const char *name);
/* It is there, by this name, from here on; fd, of store_make or a memfd, stays
 * the caller's.
 */
int store_keep (struct store *s, const char *name, int fd);
/* It is not there any more, if it was. */
int store_remove (struct store *s, const char *name);

/* Call each with the name of every file, in no order.  One that fails ends it.
 * It may remove files.
 */
typedef int store_each_fn (void *ctx, const char *name,
                           char why[STORE_WHY_MAX]);
int store_each (struct store *s, store_each_fn *each, void *ctx,
                char why[STORE_WHY_MAX]);

/* Set why, return err. */
int store_why (char why[STORE_WHY_MAX], int err, const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 3, 4)));

#endif /* MEMSERVER_STORE_H */
