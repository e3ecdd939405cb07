/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h - the memory and the limits of this machine.
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

/* Read the memory of the machine (numa < 0) or of a NUMA node, the same one in
 * each call.  This allocates nothing, and opens files only in the first call.
 * The memory available on a node is estimated as the kernel does for the
 * machine.  Half of the page cache counts, because it can be had back.
 */
int host_memory (struct host_memory *out, int numa);

/* Return true if bytes are available besides the reserve, or if that cannot be
 * found out.
 */
bool host_spares (uint64_t bytes, uint64_t reserve, int numa,
                  uint64_t *available);

/* Set *total to how many microseconds some task has waited for memory, since
 * the machine started (PSI, Documentation/accounting/psi.rst).  -errno: this
 * kernel does not say.
 */
int host_stalled_us (uint64_t *total);

/* Return a descriptor that has POLLPRI set, once, whenever some task waited
 * for memory for more than stall_us of window_us.  -errno: not available.
 * Without CAP_SYS_RESOURCE it takes Linux 6.5, and a window of whole 2 s.
 */
int host_stall_trigger (unsigned stall_us, unsigned window_us);

/* Return the free bytes in huge pages of page_size; 0 if there are none. */
uint64_t host_huge_free (uint64_t page_size);

/* Allow this process so many file descriptors.  *limit is its limit. */
int host_raise_nofile (uint64_t wanted, uint64_t *limit);

/* Return true if this process may lock so much memory; *limit: its limit. */
bool host_may_lock (uint64_t wanted, uint64_t *limit);

#endif /* MEMSERVER_HOST_H */
