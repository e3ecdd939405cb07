/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - keep this process in memory, and keep it small.
 *
 * Units:    bytes.
 * Errors:   0 or a negative errno value; why then has one sentence.
 * Threads:  call from the process's only thread: what it sets is inherited
 *           by those that come later.
 */

#ifndef FP_MEMORY_H
#define FP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "volume/volume.h"

/* May this process lock what it has, and so much more?  Changes nothing;
 * meant for before the fork.  -EPERM, -ENOMEM.
 */
int fp_memory_check (size_t more, char why[FP_WHY_MAX]);

/* Lock what is there now and all that will be.  Memory locks are not
 * inherited over fork, and nbdkit --swap takes its own before it forks: so
 * this is for .after_fork.
 */
int fp_memory_lock (char why[FP_WHY_MAX]);

/* What will be allocated after the start, at most: by nbdkit for each of its
 * connections, and by us when a server is connected to again.
 */
size_t fp_memory_later (unsigned connections);

/* From now on so much more can be allocated than is now, in pieces of less
 * than 32 MiB, without that the kernel is asked for anything; and what is
 * freed is kept.  -ENOMEM, -EINVAL, or an error of reading
 * /proc/self/maps.
 */
int fp_memory_fill_heap (size_t bytes);

/* Ask the kernel to never wait for block I/O when it allocates for this
 * thread and those that it starts.  False: not allowed to (CAP_SYS_RESOURCE).
 */
bool fp_memory_io_flusher (void);

/* There are keys in this process, also in memory of libraries, and what they
 * protect: no core is dumped, and nobody traces it but root.  -errno
 */
int fp_memory_no_dumps (void);

/* What the kernel counts as locked. */
uint64_t fp_memory_locked (void);

#endif /* FP_MEMORY_H */
