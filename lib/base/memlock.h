/* SPDX-License-Identifier: BSD-3-Clause */
/* memlock.h - the limit on locked memory, which memory that a device may
 * reach counts against; and memory that is there.
 *
 * Threads:  the limit is the process's: call that early.
 */

#ifndef FP_MEMLOCK_H
#define FP_MEMLOCK_H

#include <stddef.h>

/* Raise it: to none where this process may do so (CAP_SYS_RESOURCE), else as
 * far as the hard limit.  That a privileged process is not held to it is true
 * of mlock and of most RDMA devices, and not of soft-iWARP.  If it cannot be
 * raised, what needs it fails and says so.
 */
void fp_raise_memlock (void);

/* So much memory, zeroed, and in memory: every page of it was touched.
 * MAP_POPULATE does nothing, and says nothing, in a process that locks its
 * memory as it is touched (MCL_ONFAULT; populate_vma_page_range in the
 * kernel's mm/gup.c).  munmap(2) ends it.  -errno of mmap(2).
 */
int fp_map_filled (void **out, size_t size);

#endif /* FP_MEMLOCK_H */
