/* SPDX-License-Identifier: BSD-3-Clause */
/* memlock.h - the limit on locked memory, which memory that a device may
 * reach counts against.
 *
 * Threads:  it is the process's; call this early.
 */

#ifndef FP_MEMLOCK_H
#define FP_MEMLOCK_H

/* Raise it: to none where this process may do so (CAP_SYS_RESOURCE), else as
 * far as the hard limit.  That a privileged process is not held to it is true
 * of mlock and of most RDMA devices, and not of soft-iWARP.  If it cannot be
 * raised, what needs it fails and says so.
 */
void fp_raise_memlock (void);

#endif /* FP_MEMLOCK_H */
