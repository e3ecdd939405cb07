/* SPDX-License-Identifier: BSD-3-Clause */
/* privileges.h - drop the privileges that nbdkit does not need.  It talks to
 * other machines, so it may be taken over.
 *
 * nbdkit locks memory, also for RDMA (IPC_LOCK).  It raises limits and sets
 * PR_SET_IO_FLUSHER (SYS_RESOURCE).  It opens keys, and sockets of memory
 * servers, that a user other than root has made (DAC_OVERRIDE).  Its threads
 * keep their priority (SYS_NICE).
 *
 * Errors:   0 or -errno of the first step that failed; the rest is done.
 * Threads:  for a child between fork and exec, which has one.
 * Memory:   none.
 */

#ifndef FARPAGE_PRIVILEGES_H
#define FARPAGE_PRIVILEGES_H

/* Keep at most these four capabilities, of those that the process has, now and
 * over exec.  No file can give it others.
 */
int privileges_drop (void);

#endif /* FARPAGE_PRIVILEGES_H */
