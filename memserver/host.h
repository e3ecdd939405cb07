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

/* Of the machine, or of one NUMA node.  Allocates nothing. */
int host_memory (struct host_memory *out, int numa);

/* Is so much available and the reserve too?  True also if nobody knows. */
bool host_spares (uint64_t bytes, uint64_t reserve, int numa,
                  uint64_t *available);

/* Free bytes in huge pages of page_size; 0 where there are none. */
uint64_t host_huge_free (uint64_t page_size);

/* Let this process have so many file descriptors; *limit is what it has. */
int host_raise_nofile (uint64_t wanted, uint64_t *limit);

/* May this process lock so much memory?  *limit is what it may. */
bool host_may_lock (uint64_t wanted, uint64_t *limit);

#endif /* MEMSERVER_HOST_H */
