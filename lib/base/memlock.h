/* SPDX-License-Identifier: BSD-3-Clause */
/* memlock.h - the limit on locked memory, and memory that is resident.  Memory
 * that a device may access counts against the limit.
 *
 * Threads:  the limit belongs to the process, so raise it early.
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

#endif /* FP_MEMLOCK_H */
