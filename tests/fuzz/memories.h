/* SPDX-License-Identifier: BSD-3-Clause */
/* memories.h - fake memfds of slabs: a mapping is memory of this process, and
 * must not be touched once it is unmapped.
 */

#ifndef FUZZ_MEMORIES_H
#define FUZZ_MEMORIES_H

#include <stdbool.h>

#define MEMORY_ROOM (68u << 10) /* maximum bytes of one */

/* Return true if all calls that this needs are wrapped. */
bool memories_work (void);

/* Return true if fd is a fake memfd.  memories_close also closes it. */
bool memories_fcntl (int fd);
bool memories_close (int fd);

/* Return the number of memories. */
unsigned memories_count (void);

#endif /* FUZZ_MEMORIES_H */
