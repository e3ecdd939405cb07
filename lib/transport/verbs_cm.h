/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_cm.h - read events of the RDMA connection manager one at a time.  Each
 * event is copied, acknowledged, then returned, so that no pending event makes
 * rdma_destroy_id wait.  Also encodes why a server rejects a connection.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  a channel belongs to one thread at a time.
 * Memory:   only channel_new allocates.
 */

#ifndef FP_VERBS_CM_H
#define FP_VERBS_CM_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

struct fp_cm_event {
  enum rdma_cm_event_type type;
  int status; /* the event's: an errno value, or a CM reject reason */
  struct rdma_cm_id *id;
  /* only for CONNECT_REQUEST and REJECTED */
  uint8_t private_data[56];
  size_t private_length;
  /* requested by a client; only for CONNECT_REQUEST */
  uint8_t responder_resources;
  uint8_t initiator_depth;
};

/* An event's meaning for a connection, on either side. */
enum fp_cm_meaning {
  FP_CM_PROGRESS, /* a step of connecting succeeded */
  FP_CM_REQUEST,  /* a client asks to connect */
  FP_CM_DEAD,     /* the connection failed or ended */
  FP_CM_NOTHING,  /* no consequence */
};
enum fp_cm_meaning fp_cm_meaning (enum rdma_cm_event_type type);

/* Create a channel whose fd does not block. */
int fp_cm_channel_new (struct rdma_event_channel **out);
void fp_cm_channel_freep (struct rdma_event_channel **cp);

/* Get the next event.  Return -EAGAIN if none is waiting. */
int fp_cm_next (struct rdma_event_channel *channel, struct fp_cm_event *out);

/* Wait for an event.  Return -ETIMEDOUT if none arrives by the deadline. */
int fp_cm_wait (struct rdma_event_channel *channel, struct fp_cm_event *out,
                uint64_t deadline_ns);

/* Return the errno for an event whose meaning is FP_CM_DEAD. */
int fp_cm_errno (const struct fp_cm_event *e);

/* Reason for a reject, and the client's errno; sent as private data. */
enum fp_cm_reject {
  FP_CM_REJECT_TOKEN = 1,  /* -EACCES: unknown token */
  FP_CM_REJECT_PROTO = 2,  /* -EPROTO: not a farpage request */
  FP_CM_REJECT_BUSY = 3,   /* -EBUSY: too many connections */
  FP_CM_REJECT_DEVICE = 4, /* -ENXIO: the session is on another device */
  FP_CM_REJECT_MEMORY = 5, /* -ENOMEM: out of memory or objects */
};
int fp_cm_reject (struct rdma_cm_id *id, enum fp_cm_reject why);

#endif /* FP_VERBS_CM_H */
