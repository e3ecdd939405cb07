/* SPDX-License-Identifier: BSD-3-Clause */
/* keys.h - what opens a slab to a session, for each transport: a registration
 * (rdma), a key that data threads look up (tcp), a file descriptor (shm).
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_KEYS_H
#define MEMSERVER_KEYS_H

#include "base/clock.h"

/* Registering pins a slab page by page, and undoing that takes as long: tens
 * of milliseconds for a large one, on the loop.  After so much of it others
 * get their turn.
 */
#define KEYS_NS (50 * FP_NS_PER_MS)

struct session;
struct slab;

/* May keys be made now?  -EINVAL: rdma, and no data connection yet: the
 * device to register on is the one that it comes in on.
 */
int keys_ready (const struct session *s);

/* Make the key, if it has none.  The slab is not abandoned (slab.h). */
int keys_open (struct session *s, struct slab *slab);

/* The key opens nothing any more; but data threads may hold the slab.
 * -errno: it could not be revoked, and the memory must be lost.
 */
int keys_close (struct slab *slab);

#endif /* MEMSERVER_KEYS_H */
