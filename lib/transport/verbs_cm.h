/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_cm.h - events of the RDMA connection manager, one at a time: each
 * is copied, then acknowledged, then handed out, so that none can make
 * rdma_destroy_id wait.  Also how the two sides talk of a refusal.
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
  int status; /* the event's own: an errno, or a reason of the CM */
  struct rdma_cm_id *id;
  /* CONNECT_REQUEST and REJECTED */
  uint8_t private_data[56];
  size_t private_length;
  /* CONNECT_REQUEST: what the peer asks of this side */
  uint8_t responder_resources;
  uint8_t initiator_depth;
};

/* What an event means to a connection, whichever side it is on. */
enum fp_cm_meaning {
  FP_CM_PROGRESS, /* a step of making it went well */
  FP_CM_REQUEST,  /* somebody wants to connect */
  FP_CM_DEAD,     /* it failed, or is over */
  FP_CM_NOTHING,  /* no consequence */
};
enum fp_cm_meaning fp_cm_meaning (enum rdma_cm_event_type type);

/* Non-blocking. */
int fp_cm_channel_new (struct rdma_event_channel **out);
void fp_cm_channel_freep (struct rdma_event_channel **cp);

/* -EAGAIN: none is waiting. */
int fp_cm_next (struct rdma_event_channel *channel, struct fp_cm_event *out);

/* Wait for it.  -ETIMEDOUT: none by then. */
int fp_cm_wait (struct rdma_event_channel *channel, struct fp_cm_event *out,
                uint64_t deadline_ns);

/* The errno that stands for an event that means FP_CM_DEAD. */
int fp_cm_errno (const struct fp_cm_event *e);

/* Why a server rejects; travels as private data of the rejection. */
enum fp_cm_reject {
  FP_CM_REJECT_TOKEN = 1,  /* -EACCES: no session has this token */
  FP_CM_REJECT_PROTO = 2,  /* -EPROTO: not one of our requests */
  FP_CM_REJECT_BUSY = 3,   /* -EBUSY: too many connections */
  FP_CM_REJECT_DEVICE = 4, /* -ENXIO: the session is on another device */
  FP_CM_REJECT_MEMORY = 5, /* -ENOMEM: it cannot make what it needs */
};
int fp_cm_reject (struct rdma_cm_id *id, enum fp_cm_reject why);

#endif /* FP_VERBS_CM_H */
