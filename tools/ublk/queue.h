/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - one queue of a ublk device: a thread with a ring and a lane.
 *
 * A request comes out of the ring, goes to the lane (fp_lane_submit, or
 * later.h), and its result goes into the ring.
 *
 * The kernel copies the data of a write into the buffer of the request's tag,
 * and the data of a read out of it.  The buffers are the lane's, so no other
 * copy is made, unless the volume is sealed or reads are hedged.
 *
 * Sources: see tools/attach/ublk_control.h.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  one thread owns the struct.  The queue's own thread does the I/O.
 * Memory:   only new allocates.
 */

#ifndef FARPAGE_UBLK_QUEUE_H
#define FARPAGE_UBLK_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "volume/volume.h"

struct ublk_queue;

struct ublk_queue_params {
  int device; /* /dev/ublkcN */
  unsigned index, depth;
  uint32_t max_io; /* bytes of a request */
  struct fp_volume *volume;
  bool sealed;      /* fp_lane_submit returns -EOPNOTSUPP */
  unsigned poll_us; /* longest time to poll before sleeping */
};

/* Get all that the queue needs, without telling the kernel.  After an error
 * this process must end.
 */
int ublk_queue_new (struct ublk_queue **out,
                    const struct ublk_queue_params *p);
/* Take all tags of all queues from the kernel, and serve.  After an error this
 * process must end.
 */
int ublk_queues_start (struct ublk_queue *queues[], unsigned n);
/* Wait until the kernel has returned all tags, as it does when the device is
 * stopped.  Then free q.
 */
void ublk_queue_free (struct ublk_queue *q);

#endif /* FARPAGE_UBLK_QUEUE_H */
