/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd_links.h - check that each connection of an attached /dev/nbdX answers.
 *
 * nbd.ko receives on each connection in a work item that does not end
 * (recv_work, drivers/block/nbd.c).  Its workqueue has a rescuer
 * (WQ_MEM_RECLAIM).  If the kernel is short of processors or memory, it may
 * not get a worker made within 10 ms (MAYDAY_INITIAL_TIMEOUT,
 * kernel/workqueue.c, Linux 6.1).  Then the rescuer takes all waiting items
 * and runs the first of them, which does not end.  On the other connections
 * nothing receives.  Replies there go unseen until the requests time out and
 * the kernel sends them on another connection.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  no shared state; forks.
 */

#ifndef FARPAGE_NBD_LINKS_H
#define FARPAGE_NBD_LINKS_H

#include "tools/common/deadline.h"

#include <stdint.h>

/* Return how many connections have not answered a read by the deadline, of
 * those that a processor of this machine uses.  Bit i of *answered: connection
 * i has answered.
 */
int nbd_links_silent (int index, const struct deadline *d, uint64_t *answered);

#endif /* FARPAGE_NBD_LINKS_H */
