/* SPDX-License-Identifier: BSD-3-Clause */
/* memories.h - memfds of slabs, played: what is mapped is memory of this
 * process, and once it is not any more, nobody is to touch it.
 */

#ifndef FUZZ_MEMORIES_H
#define FUZZ_MEMORIES_H

#include <stdbool.h>

#define MEMORY_ROOM (68u << 10) /* bytes of one */

/* All that it takes is wrapped. */
bool memories_work (void);

/* fd is one.  (For close: and now it is closed.) */
bool memories_fcntl (int fd);
bool memories_close (int fd);

/* So many there are. */
unsigned memories_count (void);

#endif /* FUZZ_MEMORIES_H */
