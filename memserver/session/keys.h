/* SPDX-License-Identifier: BSD-3-Clause */
/* keys.h - what opens a slab to a session, by transport: a registration
 * (rdma), a key that data threads look up (tcp), a file descriptor (shm).
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_KEYS_H
#define MEMSERVER_KEYS_H

#include "base/clock.h"

/* Longest time for keys, ns, before other events have their turn.  Registering
 * pins a slab page by page, and undoing it takes as long: tens of milliseconds
 * for a large one, on the event loop.
 */
#define KEYS_NS (50 * FP_NS_PER_MS)

struct session;
struct slab;

/* Return 0 if keys can be made now.  -EINVAL: an rdma session has no data
 * connection yet, which says on which device to register.
 */
int keys_ready (const struct session *s);

/* Make the slab's key, if it has none.  The slab must not be abandoned
 * (slab.h).
 */
int keys_open (struct session *s, struct slab *slab);

/* Close the key: it opens nothing any more, but data threads may still hold
 * the slab.  -errno: it could not be revoked, so the memory must be lost.
 */
int keys_close (struct slab *slab);

#endif /* MEMSERVER_KEYS_H */
