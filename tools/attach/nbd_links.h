/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd_links.h - does each connection of an attached /dev/nbdX answer?
 *
 * nbd.ko receives on each connection by an item of work that does not end
 * (recv_work, drivers/block/nbd.c), on a queue that has a rescuer
 * (WQ_MEM_RECLAIM).  If the kernel does not get a worker made within 10 ms
 * (MAYDAY_INITIAL_TIMEOUT, kernel/workqueue.c, Linux 6.1), because it is short
 * of processors or memory, the rescuer takes all items that wait, and does the
 * first of them, which does not end.  For the others nobody receives: what is
 * sent there is answered, and that is not seen, until the requests time out
 * and the kernel sends them on another connection.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  no shared state; forks.
 */

#ifndef FARPAGE_NBD_LINKS_H
#define FARPAGE_NBD_LINKS_H

#include "tools/common/deadline.h"

#include <stdint.h>

/* How many connections have not answered a read by the deadline, of those that
 * a processor of this machine uses; bit i of *answered: connection i has.
 */
int nbd_links_silent (int index, const struct deadline *d, uint64_t *answered);

#endif /* FARPAGE_NBD_LINKS_H */
