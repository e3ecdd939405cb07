/* SPDX-License-Identifier: BSD-3-Clause */
/* card.h - transport "sim": a simulated RDMA card, to measure the software
 * around a card on a machine that has none.
 *
 * A transfer moves no byte: a READ leaves its buffer as it is.  So a volume
 * over this transport has no contents.  Only the timing of its requests means
 * something.  The transport costs a look at the clock for each kick and poll,
 * and a system call to sleep.
 *
 * The card is that of one process.  It has one link, which is full duplex.  A
 * connection is a queue pair: its transfers start and end in the order of
 * posts.
 *
 *   A transfer starts when it has been kicked, the one before it has started,
 *   and the link of its direction is free.  A READ also waits until fewer than
 *   16 READs of its queue pair are in flight.  A transfer holds the link for
 *   length / 12 GB/s, and ends 3 us after that.
 *
 * The figures are those of a card of 100 Gb/s: 3 us for a small transfer, and
 * max_rd_atomic 16, as mlx5 has it.  A kick reserves the link.  So the link
 * stays unused while a READ waits for others, and for the time of a transfer
 * whose connection broke.
 *
 * Programs of the product cannot choose it.  A benchmark is linked with
 * use_card.c, which puts it in the place of shm: sessions and grants are those
 * of shm.  Any memory server on this machine will do, and nothing is mapped.
 *
 * Errors:   as fp_transport_ops.  Like a device it refuses what lies outside
 *           the queue's memory, with -EINVAL.
 * Threads:  as fp_transport_ops.
 * Memory:   only queue_new and conn_open allocate.
 */

#ifndef SIM_CARD_H
#define SIM_CARD_H

#include "transport/transport.h"

#define SIM_CARD_LATENCY_NS 3000u
#define SIM_CARD_BYTES_PER_NS 12u /* GB/s */
#define SIM_CARD_READS 16u        /* in flight, of a queue pair */

extern const struct fp_transport_ops sim_card;

#endif /* SIM_CARD_H */
