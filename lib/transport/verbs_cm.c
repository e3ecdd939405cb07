/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_cm.c - see verbs_cm.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "transport/verbs_cm.h"
#include "transport/verbs_err.h"

/* Reject reasons of the InfiniBand CM (IBA 12.6.7.2, include/rdma/ib_cm.h).
 * iWARP reports a negative errno value instead.
 */
#define IB_CM_REJ_INVALID_SERVICE_ID 8 /* no listener there */
#define IB_CM_REJ_STALE_CONN 10        /* old connection still known */
#define IB_CM_REJ_CONSUMER_DEFINED 28  /* by rdma_reject */

static const uint8_t reject_magic[3] = { 'F', 'P', 'g' };
#define REJECT_SIZE 4

enum fp_cm_meaning
fp_cm_meaning (enum rdma_cm_event_type type)
{
  switch (type) {
  case RDMA_CM_EVENT_ADDR_RESOLVED:
  case RDMA_CM_EVENT_ROUTE_RESOLVED:
  case RDMA_CM_EVENT_CONNECT_RESPONSE:
  case RDMA_CM_EVENT_ESTABLISHED:
    return FP_CM_PROGRESS;
  case RDMA_CM_EVENT_CONNECT_REQUEST:
    return FP_CM_REQUEST;
  case RDMA_CM_EVENT_ADDR_ERROR:
  case RDMA_CM_EVENT_ROUTE_ERROR:
  case RDMA_CM_EVENT_CONNECT_ERROR:
  case RDMA_CM_EVENT_UNREACHABLE:
  case RDMA_CM_EVENT_REJECTED:
  case RDMA_CM_EVENT_DISCONNECTED:
  case RDMA_CM_EVENT_DEVICE_REMOVAL:
    return FP_CM_DEAD;
  case RDMA_CM_EVENT_ADDR_CHANGE: /* a bond failed over; no harm */
  case RDMA_CM_EVENT_TIMEWAIT_EXIT:
  case RDMA_CM_EVENT_MULTICAST_JOIN:
  case RDMA_CM_EVENT_MULTICAST_ERROR:
    return FP_CM_NOTHING;
  }
  return FP_CM_NOTHING;
}

int
fp_cm_channel_new (struct rdma_event_channel **out)
{
  FP_CLEANUP (fp_cm_channel_freep) struct rdma_event_channel *c = NULL;
  int flags;

  c = rdma_create_event_channel ();
  if (c == NULL)
    return fp_verbs_null ();
  flags = fcntl (c->fd, F_GETFL);
  if (flags == -1 || fcntl (c->fd, F_SETFL, flags | O_NONBLOCK) == -1)
    return -errno;
  *out = FP_STEAL (c);
  return 0;
}

void
fp_cm_channel_freep (struct rdma_event_channel **cp)
{
  if (*cp != NULL)
    rdma_destroy_event_channel (*cp);
}

int
fp_cm_next (struct rdma_event_channel *channel, struct fp_cm_event *out)
{
  struct rdma_cm_event *e;
  const struct rdma_conn_param *p;
  bool copy;
  int err;

  do
    err = fp_rdma_ret (rdma_get_cm_event (channel, &e));
  while (err == -EINTR);
  if (err != 0)
    return err;

  memset (out, 0, sizeof *out);
  out->type = e->event;
  out->status = e->status;
  out->id = e->id;
  copy = e->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
         e->event == RDMA_CM_EVENT_REJECTED;
  p = &e->param.conn;
  if (copy && p->private_data != NULL) {
    out->private_length = p->private_data_len;
    if (out->private_length > sizeof out->private_data)
      out->private_length = sizeof out->private_data;
    memcpy (out->private_data, p->private_data, out->private_length);
  }
  if (copy) {
    out->responder_resources = p->responder_resources;
    out->initiator_depth = p->initiator_depth;
  }
  return fp_rdma_ret (rdma_ack_cm_event (e));
}

int
fp_cm_wait (struct rdma_event_channel *channel, struct fp_cm_event *out,
            uint64_t deadline_ns)
{
  struct pollfd p = { .fd = channel->fd, .events = POLLIN };
  int err;

  for (;;) {
    err = fp_cm_next (channel, out);
    if (err != -EAGAIN)
      return err;
    if (fp_deadline_passed (deadline_ns))
      return -ETIMEDOUT;
    if (poll (&p, 1, fp_deadline_left_ms (deadline_ns)) == -1 &&
        errno != EINTR)
      return -errno;
  }
}

static int
rejected_errno (const struct fp_cm_event *e)
{
  const uint8_t *d = e->private_data;

  /* InfiniBand pads private data with zeros, so this may be longer. */
  if (e->private_length >= REJECT_SIZE &&
      memcmp (d, reject_magic, sizeof reject_magic) == 0) {
    switch (d[REJECT_SIZE - 1]) {
    case FP_CM_REJECT_TOKEN:
      return -EACCES;
    case FP_CM_REJECT_PROTO:
      return -EPROTO;
    case FP_CM_REJECT_BUSY:
      return -EBUSY;
    case FP_CM_REJECT_DEVICE:
      return -ENXIO;
    case FP_CM_REJECT_MEMORY:
      return -ENOMEM;
    default:
      return -EACCES;
    }
  }
  switch (e->status) {
  case IB_CM_REJ_STALE_CONN: /* the next try gets another number */
    return -EAGAIN;
  case IB_CM_REJ_INVALID_SERVICE_ID:
  case IB_CM_REJ_CONSUMER_DEFINED:
  default:
    return -ECONNREFUSED;
  }
}

int
fp_cm_errno (const struct fp_cm_event *e)
{
  switch (e->type) {
  case RDMA_CM_EVENT_REJECTED:
    return rejected_errno (e);
  case RDMA_CM_EVENT_DISCONNECTED:
    return -ECONNRESET;
  case RDMA_CM_EVENT_DEVICE_REMOVAL:
    return -ENODEV;
  default:
    /* Errors of resolving and connecting carry a negative errno value. */
    return e->status < 0 ? e->status : -EHOSTUNREACH;
  }
}

int
fp_cm_reject (struct rdma_cm_id *id, enum fp_cm_reject why)
{
  uint8_t data[REJECT_SIZE];

  memcpy (data, reject_magic, sizeof reject_magic);
  data[REJECT_SIZE - 1] = (uint8_t) why;
  return fp_rdma_ret (rdma_reject (id, data, sizeof data));
}
