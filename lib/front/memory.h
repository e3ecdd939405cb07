/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - keep this process in memory, and keep it small.
 *
 * Units:    bytes.
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  call from the process's only thread.  Later threads inherit the
 *           settings.
 */

#ifndef FP_MEMORY_H
#define FP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Check that this process may lock the memory it has and `more` bytes.
 * Changes nothing; call before the fork.  -EPERM, -ENOMEM.
 */
int fp_memory_check (size_t more, struct fp_error *error);

/* Lock all present and future memory.  Call in .after_fork, because memory
 * locks are not inherited over fork.  (nbdkit --swap takes its own too early.)
 */
int fp_memory_lock (struct fp_error *error);

/* Return the most that is allocated after the start: by nbdkit for each
 * connection, and by the plugin when it reconnects to a server.
 */
size_t fp_memory_later (unsigned connections);

/* Make malloc able to hand out `bytes` more, in blocks of less than 32 MiB,
 * without asking the kernel.  Freed memory is kept.  -ENOMEM, -EINVAL, or an
 * error of reading /proc/self/maps.
 */
int fp_memory_fill_heap (size_t bytes);

/* Ask the kernel never to wait for block I/O when it allocates for this thread
 * and those that it starts.  Return false if that is not allowed
 * (CAP_SYS_RESOURCE).
 */
bool fp_memory_io_flusher (void);

/* Disable core dumps, and tracing by anyone but root.  The process has keys in
 * its memory, also in that of libraries, and the data that they protect.
 * -errno.
 */
int fp_memory_no_dumps (void);

/* Return the bytes that the kernel counts as locked. */
uint64_t fp_memory_locked (void);

#endif /* FP_MEMORY_H */
