/* SPDX-License-Identifier: BSD-3-Clause */
/* memlock.h - resident memory: the limit on locked memory, memory whose pages
 * have all been touched, and locked memory for keys.
 *
 * Errors:   0 or -errno.
 * Threads:  any.  The limit belongs to the process, so raise it early.
 * Memory:   whole pages, from the kernel.
 */

#ifndef FP_MEMLOCK_H
#define FP_MEMLOCK_H

#include <stddef.h>

/* Raise the limit: to infinity if this process may do so (CAP_SYS_RESOURCE),
 * else to the hard limit.  Privileged processes need this too.  mlock and most
 * RDMA devices exempt them from the limit, but soft-iWARP does not.  If the
 * limit stays too low, the call that needs the memory fails and reports it.
 */
void fp_raise_memlock (void);

/* Map size bytes of zeroed memory, and touch every page so that all of it is
 * resident.  MAP_POPULATE does not suffice: it silently does nothing in a
 * process that locks its memory as it is touched (MCL_ONFAULT;
 * populate_vma_page_range in the kernel's mm/gup.c).  Free the memory with
 * munmap(2).  Return 0 or -errno of mmap(2).
 */
int fp_map_filled (void **out, size_t size);

/* Map zeroed memory for keys.  It is never swapped out, and core dumps leave
 * it out.  After a fork, the child's copy is not locked until fp_secret_lock.
 * Return -ENOMEM also if the memory may not be locked (RLIMIT_MEMLOCK).
 */
int fp_secret_new (void **out, size_t size);

/* Lock the memory again, in a child process after a fork. */
int fp_secret_lock (void *p, size_t size);

/* Wipe and free the memory.  p may be NULL. */
void fp_secret_free (void *p, size_t size);

#endif /* FP_MEMLOCK_H */
