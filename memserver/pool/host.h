/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h - what this machine can spare, and what it lets us do.
 *
 * Units:    bytes.
 * Errors:   0 or a negative errno value.
 */

#ifndef MEMSERVER_HOST_H
#define MEMSERVER_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct host_memory {
  uint64_t total;
  uint64_t available;
};

/* Of the machine, or of one NUMA node, the same one in each call.  Allocates
 * nothing, and opens files only in the first call.  Of a node, what is
 * available is reckoned as the kernel does for the machine: half of the page
 * cache counts, for it would be had back if it were needed.
 */
int host_memory (struct host_memory *out, int numa);

/* Is so much available and the reserve too?  True also if nobody knows. */
bool host_spares (uint64_t bytes, uint64_t reserve, int numa,
                  uint64_t *available);

/* For how many microseconds, since the machine started, some task waited for
 * memory (PSI, Documentation/accounting/psi.rst).  -errno: this kernel does
 * not say.
 */
int host_stalled_us (uint64_t *total);

/* A descriptor with POLLPRI set, once, whenever some task waited for memory
 * for more than stall_us of window_us.  -errno: no such thing here; without
 * CAP_SYS_RESOURCE it takes Linux 6.5, and a window of whole 2 s.
 */
int host_stall_trigger (unsigned stall_us, unsigned window_us);

/* Free bytes in huge pages of page_size; 0 where there are none. */
uint64_t host_huge_free (uint64_t page_size);

/* Let this process have so many file descriptors; *limit is what it has. */
int host_raise_nofile (uint64_t wanted, uint64_t *limit);

/* May this process lock so much memory?  *limit is what it may. */
bool host_may_lock (uint64_t wanted, uint64_t *limit);

#endif /* MEMSERVER_HOST_H */
