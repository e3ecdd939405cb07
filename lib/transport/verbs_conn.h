/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_conn.h - a lane's connection to one server: its queue pair, and the
 * table of ops in flight.  Opened and ended here; verbs_client.c moves the
 * data.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  as in transport.h.  break: any thread.  open: beside the thread
 *           that posts and polls.  All else: that thread only.
 * Memory:   only open allocates.
 */

#ifndef FP_VERBS_CONN_H
#define FP_VERBS_CONN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

#include "transport/transport.h"
#include "transport/verbs_queue.h"

/* Time for a queue pair in the error state to flush; soft-RoCE takes 1 ms. */
#define FP_VERBS_FLUSH_MS 200

struct fp_verbs_conn {
  struct fp_conn base;
  unsigned index; /* in the queue's table */
  struct rdma_event_channel *channel;
  struct rdma_cm_id *id;
  uint32_t lkey;
  unsigned max_inline;

  /* Used only by the thread that posts and polls. */
  unsigned depth;
  unsigned nr_free;
  uint32_t *free;            /* stack of the free slots */
  struct fp_op **ops;        /* slot -> op in flight, or NULL */
  uint32_t *passes;          /* number of each slot's last request */
  struct ibv_send_wr *wrs;   /* one per slot; behind them, the fences */
  struct ibv_sge *sges;      /* one per entry of wrs */
  bool fenced;               /* iWARP: a READ confirms each WRITE */
  struct ibv_sge fence;      /* target of that READ's one byte */
  struct ibv_send_wr *chain; /* posted, not yet kicked */
  struct ibv_send_wr **chain_tail;
  bool is_dirty;
  struct fp_verbs_conn *next_dirty;

  /* Held to break and to destroy the queue pair.  Never held together with
   * queue->lock.
   */
  pthread_mutex_t lock;
  struct ibv_qp *qp; /* NULL once destroyed */
  atomic_bool broken;
  _Atomic uint64_t flush_by_ns;
};

static inline struct fp_verbs_queue *
fp_verbs_to_queue (struct fp_queue *q)
{
  return (struct fp_verbs_queue *) q;
}

static inline struct fp_verbs_conn *
fp_verbs_to_conn (struct fp_conn *c)
{
  return (struct fp_verbs_conn *) c;
}

/* Implementations of the calls of fp_transport_ops. */
int fp_verbs_conn_open (struct fp_conn **out, struct fp_queue *base,
                        const struct fp_conn_params *p, uint64_t deadline_ns);
void fp_verbs_conn_break (struct fp_conn *base);
unsigned fp_verbs_conn_inflight (const struct fp_conn *base);
bool fp_verbs_conn_broken (const struct fp_conn *base);
void fp_verbs_conn_free (struct fp_conn *base);
int fp_verbs_conn_event_fd (const struct fp_conn *base);
void fp_verbs_conn_event (struct fp_conn *base);

/* Destroy the queue pair.  After 0 it accesses no memory any more.  The
 * connection must be broken, or not yet returned by open.
 */
int fp_verbs_conn_destroy_qp (struct fp_verbs_conn *c);

#endif /* FP_VERBS_CONN_H */
