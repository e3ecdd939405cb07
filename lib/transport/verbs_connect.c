/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_connect.c - see verbs_connect.h. */

#include <config.h>

#include <assert.h>
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "transport/control/resolve.h"
#include "transport/transport.h"
#include "transport/verbs_cm.h"
#include "transport/verbs_connect.h"
#include "transport/verbs_err.h"

#define ACK_TIMEOUT_UNIT_NS UINT64_C (4096)
#define ACK_TIMEOUT_MIN 14
#define ACK_TIMEOUT_MAX 24 /* 69 s per try */

static_assert ((FP_VERBS_RETRIES + 1) *
                       (ACK_TIMEOUT_UNIT_NS << ACK_TIMEOUT_MIN) * 2 <=
                   FP_RDMA_TIMEOUT_MIN_MS * UINT64_C (1000000),
               "a shorter timeout does not nest");

uint8_t
fp_verbs_ack_timeout (unsigned timeout_ms)
{
  const uint64_t limit = (uint64_t) timeout_ms * 1000000 / 2;
  uint8_t n = ACK_TIMEOUT_MIN;

  while (n < ACK_TIMEOUT_MAX &&
         (FP_VERBS_RETRIES + 1) * (ACK_TIMEOUT_UNIT_NS << (n + 1)) <= limit)
    n++;
  return n;
}

/* Wait for one event, which must be wanted. */
static int
wait_for (struct rdma_event_channel *channel, enum rdma_cm_event_type wanted,
          uint64_t deadline_ns)
{
  struct fp_cm_event e;
  int err;

  do {
    err = fp_cm_wait (channel, &e, deadline_ns);
    if (err != 0)
      return err;
  } while (fp_cm_meaning (e.type) == FP_CM_NOTHING);
  if (e.type == wanted)
    return 0;
  return fp_cm_meaning (e.type) == FP_CM_DEAD ? fp_cm_errno (&e) : -EPROTO;
}

static void
destroy_idp (struct rdma_cm_id **idp)
{
  if (*idp != NULL)
    rdma_destroy_id (*idp);
}

static int
resolve_one (struct rdma_cm_id **out, struct rdma_event_channel *channel,
             struct sockaddr *sa, uint64_t deadline_ns)
{
  FP_CLEANUP (destroy_idp) struct rdma_cm_id *id = NULL;
  int err;

  err = fp_rdma_ret (rdma_create_id (channel, &id, NULL, RDMA_PS_TCP));
  if (err == 0)
    err = fp_rdma_ret (
        rdma_resolve_addr (id, NULL, sa, fp_deadline_left_ms (deadline_ns)));
  if (err == 0)
    err = wait_for (channel, RDMA_CM_EVENT_ADDR_RESOLVED, deadline_ns);
  if (err == 0)
    *out = FP_STEAL (id);
  return err;
}

int
fp_verbs_resolve (struct rdma_cm_id **out, struct rdma_event_channel *channel,
                  const struct fp_addr *addr, unsigned timeout_ms,
                  uint64_t deadline_ns)
{
  FP_CLEANUP (destroy_idp) struct rdma_cm_id *id = NULL;
  struct fp_sockaddrs names;
  uint8_t ack_timeout = fp_verbs_ack_timeout (timeout_ms);
  unsigned i;
  int err;

  if (addr->is_unix)
    return -EAFNOSUPPORT;
  err = fp_addr_find (addr, &names, deadline_ns, NULL);
  if (err != 0)
    return err;
  err = -EHOSTUNREACH;
  for (i = 0; id == NULL && i < names.nr; i++)
    err = resolve_one (&id, channel, (struct sockaddr *) &names.list[i].addr,
                       deadline_ns);
  if (id == NULL) {
    (void) fp_addr_doubt (addr); /* let the next attempt look it up again */
    return err;
  }

  /* iWARP has no ACK timeout: TCP decides when a server is lost. */
  err = fp_rdma_ret (rdma_set_option (id, RDMA_OPTION_ID,
                                      RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
                                      sizeof ack_timeout));
  if (err != 0 && id->verbs->device->transport_type != IBV_TRANSPORT_IWARP)
    return err;

  err =
      fp_rdma_ret (rdma_resolve_route (id, fp_deadline_left_ms (deadline_ns)));
  if (err == 0)
    err = wait_for (channel, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline_ns);
  if (err != 0)
    return err;

  *out = FP_STEAL (id);
  return 0;
}

int
fp_verbs_establish (struct rdma_cm_id *id,
                    const struct fp_verbs_device *device,
                    const struct fp_data_hello *hello, uint64_t deadline_ns)
{
  uint8_t private_data[FP_CM_PRIVATE_SIZE];
  struct rdma_conn_param p = {
    .private_data = private_data,
    .private_data_len = sizeof private_data,
    /* The server replies with its own limit, and the kernel's CM gives the
     * queue pair the smaller one.
     */
    .initiator_depth = device->max_initiator_depth,
    .responder_resources = 1,
    .retry_count = FP_VERBS_RETRIES,
    .rnr_retry_count = FP_VERBS_RETRIES,
  };
  int err;

  fp_cm_private_encode (private_data, hello);
  err = fp_rdma_ret (rdma_connect (id, &p));
  if (err == 0)
    err = wait_for (id->channel, RDMA_CM_EVENT_ESTABLISHED, deadline_ns);
  return err;
}
