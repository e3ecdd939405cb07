/* SPDX-License-Identifier: BSD-3-Clause */
/* privileges.h - what nbdkit does not need it cannot have, whatever becomes of
 * it: it talks to other machines.
 *
 * It locks memory, also for RDMA (IPC_LOCK), raises limits and its standing in
 * the I/O path (SYS_RESOURCE), and what a user other than root has made for it
 * is opened: keys, and sockets of memory servers (DAC_OVERRIDE).  Its threads
 * keep their priority (SYS_NICE).
 *
 * Errors:   0 or -errno, of the first that failed; the rest is done.
 * Threads:  for a child between fork and exec, which has one.
 * Memory:   none.
 */

#ifndef FARPAGE_PRIVILEGES_H
#define FARPAGE_PRIVILEGES_H

/* From now on, and over exec, this process has these four capabilities at
 * most, of those that it had; and no file gives it any.
 */
int privileges_drop (void);

#endif /* FARPAGE_PRIVILEGES_H */
